"""Faults that came over the bus or out of a file, as the sentence and exit code that a command ends with."""

from __future__ import annotations

from hobus.bus.errors import VERDICT_CODES, ConfigError, RuntimeFault
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UnreachableFault, UsageFault, next_here

UNREACHABLE_CODES = frozenset({"no_route", "peer_lost", "expired", "unavailable", "busy"})


def as_command_error(error: BaseException) -> CommandError | None:
    """The same fault for a person at a terminal; None for anything that is not an expected fault."""
    if not isinstance(error, RuntimeFault):
        return None
    if isinstance(error, ConfigError):
        return UsageFault(error.detail, hint=f"fix it, then: {next_here('config check')}", code=error.code)
    if error.code == "other_format":
        return CommandError(error.detail, exit_code=exit_codes.INTEGRITY, code=error.code)  # it says what to do
    if error.code == "damaged":
        hint = next_here("ledger verify")
        return CommandError(error.detail, hint=hint, exit_code=exit_codes.INTEGRITY, code=error.code)
    if error.code == "unknown_artifact":
        return UsageFault(error.detail, hint=next_here("memory overlays --all"), code=error.code)
    if error.code in UNREACHABLE_CODES:
        return UnreachableFault(str(error), hint=next_here("ps"), code=error.code)
    refused = error.code in VERDICT_CODES
    return CommandError(str(error), exit_code=exit_codes.REFUSED if refused else exit_codes.FAILED, code=error.code)
