"""What was looked at, what was found, and what fixes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from hobus.bus.messages.base import Record
from hobus.launch.console import exit_codes
from hobus.launch.console.output import join_styled, say, say_prose, style

Verdict = Literal["ok", "warn", "fail"]
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


class DoctorFinding(Record):
    """One line of `hobus doctor`; the shape of `--json` is stable."""

    check: Annotated[str, Meta(description="what was looked at")]
    verdict: Verdict
    detail: Annotated[str, Meta(description="what was found")]
    fix: Annotated[str, Meta(description="what to do about it; empty when nothing is to be done")] = ""


def make_ok(check: str, said: str) -> DoctorFinding:
    return DoctorFinding(check=check, verdict="ok", detail=said)


def warn(check: str, said: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding(check=check, verdict="warn", detail=said, fix=fix)


def fail(check: str, said: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding(check=check, verdict="fail", detail=said, fix=fix)


def choose_code(findings: Iterable[DoctorFinding]) -> int:
    """Return the exit code: 0 unless something fails."""
    return exit_codes.FAILED if any(one.verdict == "fail" for one in findings) else exit_codes.OK


def show(findings: Sequence[DoctorFinding]) -> None:
    """Print each with its verdict and its fix, one below the other."""
    width = max(len(one.check) for one in findings)
    for one in findings:
        first, *more = one.detail.splitlines()
        begin = join_styled(style(one.verdict.ljust(4), _COLOURS[one.verdict]), f"  {one.check.ljust(width)}  ")
        say_prose(begin, first)
        for line in more:
            say_prose(f"      {' ' * width}  ", line)
        if one.fix:
            say(f"      {' ' * width}  next: {one.fix}")
