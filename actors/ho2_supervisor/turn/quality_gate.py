"""Is this answer acceptable? Every acceptance criterion that exists is enforced; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hobus.bus.messages.work_order import OutputResult
from hobus.config.schema import AdminConfig


def list_criteria(config: AdminConfig) -> dict[str, Any]:
    """Return what each answer must meet: name of the criterion -> what is wanted."""
    gate = config.quality_gate
    return {"requires_response_text": gate.requires_response_text, "min_response_length": gate.min_response_length}


def find_faults(criteria: Mapping[str, Any], output: OutputResult, *, is_handed_out: bool = False) -> list[str]:
    """Say in words what is wrong with the answer, one fault per criterion that is not met; none: it is accepted.

    A criterion that nobody knows how to enforce is a fault, never skipped. `is_handed_out`: the answer asks its caller
    for calls. That is an end that needs no text; the criteria are for the answer that their results lead to.
    """
    judged = {} if is_handed_out else criteria
    return [fault for name, wanted in judged.items() if (fault := _find_fault(name, wanted, output))]


def _find_fault(name: str, wanted: Any, output: OutputResult) -> str:
    text = output.text.text
    match name:
        case "requires_response_text":
            return "it has no text" if wanted and not text.strip() else ""
        case "min_response_length":
            length = len(text.strip())
            return f"it has {length} characters, at least {wanted} are needed" if length < int(wanted) else ""
        case _:
            return f"criterion {name} is not known and cannot be met"


def rank(output: OutputResult, faults: Sequence[str]) -> tuple[bool, int]:
    """Return a key that is larger the better an answer with these faults is: some text, then few faults."""
    return (bool(output.text.text.strip()), -len(faults))
