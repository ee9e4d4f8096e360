"""A package that is not let in, or not let go: which gates say so, each with file, reason and mend."""

from __future__ import annotations

from collections.abc import Sequence

from hobus.config.gates.finding import Finding, lines
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.console.output import counted


class PackageRefused(CommandError):
    """Nothing was changed; exit code 3."""

    exit_code = exit_codes.INTEGRITY

    def __init__(self, what: str, findings: Sequence[Finding]) -> None:
        told = "\n".join(f"- {line}" for line in lines(findings))
        message = f"{what}: {counted(len(findings), 'gate failure')}, and nothing was changed\n{told}"
        super().__init__(message, code="gate_failed")
        self.findings = tuple(findings)
