"""What `hobus` says to the shell."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
INTEGRITY = 3
UNREACHABLE = 4
REFUSED = 5

MEANINGS = {FAILED: "failed", USAGE: "usage", INTEGRITY: "integrity", UNREACHABLE: "unreachable", REFUSED: "refused"}
"""In a word, as `--json` has it."""
