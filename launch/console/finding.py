"""What was looked at, what was found, and what mends it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.messages.base import Record

Verdict = Literal["ok", "warn", "fail"]


class Finding(Record):
    """One line of `hobus doctor`; the shape of `--json` is stable."""

    check: str = Field(description="what was looked at")
    verdict: Verdict
    said: str = Field(description="what was found")
    mend: str = Field(default="", description="what to do about it; empty when nothing is to be done")
