"""What a gate found: one rule that does not hold, where, why, and what mends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from hobus.config.assets import GateId

Severity = Literal["fail", "warn", "note"]
"""fail: nothing starts; warn: it is said at each start; note: it is said to whoever asks."""

TITLES: dict[GateId, str] = {
    "G0": "each governed file has one owner and its owner's hash",
    "G1": "packages, specs and frameworks fit together",
    "G2": "the configuration is valid and complete",
    "G3": "contracts, prompt packs and templates load, render and keep their budgets",
    "G4": "each invariant has its check",
    "G5": "packages are signed as the policy wants it",
    "G6": "the record verifies",
}
"""Gate -> what passes it."""


class Finding(NamedTuple):
    """One line of a gate's report."""

    gate: GateId
    file: str
    """Path of the file that is to be mended, or what it is called where it is in no file."""
    reason: str
    mend: str
    """What is to be done; empty for a note."""
    severity: Severity = "fail"

    @property
    def line(self) -> str:
        """Return the finding in one line, also where it repeats a text with line ends."""
        said = f"{self.gate}  {self.file}: {self.reason}" + (f"; {self.mend}" if self.mend else "")
        return said.replace("\r", "\\r").replace("\n", "\\n")


SHOWN_MAX = 100
"""So many findings are told to a person; documents for programs have all."""


def list_lines(findings: Sequence[Finding]) -> list[str]:
    """Return the first of these, one in a line, and how many more there are."""
    return [*(one.line for one in findings[:SHOWN_MAX]), *describe_more(findings)]


def describe_more(findings: Sequence[Finding]) -> list[str]:
    """Return what is said in place of those that are not shown; nothing where all are."""
    left = len(findings) - SHOWN_MAX
    return [f"and {left} more; mend these first"] if left > 0 else []


def list_failed(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == "fail"]
