"""A page of the documentation that is made from code: written, or held against what the code says now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def redraw(page: Path, text: str, arguments: Sequence[str], module: str) -> int:
    """Writes the page's new text; with `--check` says whether it is current, by the exit code and to stderr."""
    if "--check" not in arguments:
        page.write_text(text, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{page} is stale: run python -m {module} --write\n")
        return 1
    return 0
