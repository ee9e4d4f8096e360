"""Is this answer acceptable? Every acceptance criterion that exists is enforced; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hobus.bus.messages.work_order import OutputResult


class Judgement(Struct, frozen=True):
    """`faults` say in words what is wrong, one per criterion that is not met; none: accepted."""

    faults: tuple[str, ...]

    @property
    def is_accepted(self) -> bool:
        return not self.faults

    def note(self) -> str:
        """What the model is told when it is asked again."""
        return f"The answer above was not sent, since {'; '.join(self.faults)}. Answer again."


def judge(criteria: Mapping[str, Any], output: OutputResult, *, is_handed_out: bool = False) -> Judgement:
    """The answer against its criteria. A criterion that nobody knows how to enforce is a fault, never skipped.

    `is_handed_out`: it asks its caller for calls. That is an end that needs no text; the criteria are for the answer
    that their results lead to.
    """
    if is_handed_out:
        return Judgement(())
    faults = [fault for name, wanted in criteria.items() if (fault := _fault(name, wanted, output))]
    return Judgement(tuple(faults))


def _fault(name: str, wanted: Any, output: OutputResult) -> str:
    text = output.text.text
    match name:
        case "requires_response_text":
            return "it has no text" if wanted and not text.strip() else ""
        case "min_response_length":
            length = len(text.strip())
            return f"it has {length} characters, at least {wanted} are needed" if length < int(wanted) else ""
        case _:
            return f"criterion {name} is not known and cannot be met"


def better(left: tuple[OutputResult, Judgement], right: tuple[OutputResult, Judgement]) -> bool:
    """Whether `right` is at least as good as `left`: fewer faults, then some text; the later one of equals."""
    return _rank(right) >= _rank(left)


def _rank(candidate: tuple[OutputResult, Judgement]) -> tuple[bool, int]:
    output, judgement = candidate
    return (bool(output.text.text.strip()), -len(judgement.faults))
