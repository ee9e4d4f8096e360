"""What a turn may cost, in figures that no busy machine changes; and that they are counted honestly."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from bench.counts import _Calls, counted
from bench.turn import ROWS
from hobus.bus.codec import decode, encode
from hobus.bus.messages.gateway import PromptMessage, ReadBudget
from hobus.bus.messages.work_order import Segment, ToolCall

BOUNDS: dict[str, tuple[int, int]] = {  # of a turn: like for like with the peer of bench.turn, and as shipped
    "frames_received": (6, 10),
    "frames_sent": (4, 8),
    "ledger_writes": (7, 11),
    "commits": (4, 6),
    "entries": (13, 23),
    "record_bytes": (9_960, 15_664),
    "wire_bytes": (41_093, 64_387),
    "validations": (19, 28),
    "model_copies": (30, 36),
}
"""Each is what a turn costs today: the median of three behind a history of ten (bytes grow with that).

Whoever makes a turn dearer is stopped; whoever makes it cheaper lowers the bound.
"""
SLACK = 50
"""A fiftieth below its bound a figure may be: a shorter word in a prompt is no reason to come here."""


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1], ids=["like for like", "as shipped"])
def test_a_turn_costs_what_it_may_and_no_bound_is_out_of_date(row):
    """Every figure of a turn in the simulated cluster is at its bound, or a little below."""
    found = counted(ROWS[row][1], turns=3).bounded
    assert set(found) == set(BOUNDS)
    faults = []
    for name, value in found.items():
        bound = BOUNDS[name][row]
        if value > bound:
            faults.append(f"{name}: {value} exceeds {bound}: a turn costs more than before")
        elif value < bound - bound // SLACK:
            faults.append(f"{name}: {value} is less than {bound}: lower the bound to {value}")
    assert not faults, "\n".join(faults)


def test_validations_are_counted_however_they_are_begun():
    """Of records and of models, from bytes, of what people wrote; what is inside is part of it."""
    body = encode(ReadBudget(session_id="s"), 1000)
    adapter = TypeAdapter(int)
    calls = _Calls()
    with calls.counting():
        Segment(name="user_input", text="a").checked()
        Segment.model_validate({"name": "user_input", "text": "a"})
        adapter.validate_python(3)
        decode(ReadBudget, body, 1000)
    assert calls.validations == 4
    with calls.counting():
        PromptMessage.model_validate({"role": "user", "segments": [{"name": "user_input", "text": "a"}]})
    assert calls.validations == 1


def test_copies_are_counted_and_what_is_built_without_checks_is_neither():
    """`model_copy` is a copy and no validation, a constructor is nothing."""
    call = ToolCall(call_id="1", tool_id="list_tools", arguments={})
    calls = _Calls()
    with calls.counting():
        call.model_copy(update={"call_id": "2"})
        ToolCall(call_id="3", tool_id="list_tools", arguments={})
    assert (calls.model_copies, calls.validations) == (1, 0)
    assert calls.function_calls > 1
