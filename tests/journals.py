"""Reading a record in tests: a journal with everything that differs between two runs masked.

What must always hold of a record is shipped: `launch.simulation.record`; tests take it from here with the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bench.builders import SESSION
from hobus.bus.messages.base import name_fields, unpack
from hobus.bus.messages.ids import is_call
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import Receipt
from hobus.bus.record.journal import read_event, unpack_result
from hobus.bus.record.text_parts import read_parts
from hobus.launch.lab.simulation.record import ENDS, answer_text, check_record, list_answers, must

_TIMES_AND_DURATIONS = re.compile(r"^(at|.*_at|elapsed_ms|latency_ms)$")
_INSTANCE = re.compile(r"\b(?:(ho1|ho2|gateway|host|door|operator)/\d+@[0-9a-z]+|(client)/\d+)\b")
"""Peers, and the client, which is named after its process."""
ANSWERS = ("RunCompleted", "TurnDegraded")


def receipt(wo_id: str = f"WO-{SESSION}-1.1.1", **form: Any) -> Receipt:
    """The receipt of an order, completed unless it says otherwise, from JSON-like fields."""
    fence = {"run_id": {"session_id": SESSION, "run_seq": 1}, "session_epoch": 0, "step_epoch": 0}
    given = {"wo_id": wo_id, "fence": fence, "state": "completed", "cost": {}, "executed_by": "ho1/1@a"}
    return Receipt.model_validate({**given, "completed_at": "2026-01-01T00:00:00.000000Z", **form})


def decoded(body: bytes | None) -> Any:
    """A body as its value: the parts of a composed text, a map or list, else text."""
    must(body is not None, "a body is erased, and nothing erases here")
    assert body is not None
    if (parts := read_parts(body)) is not None:
        return [list(part) for part in parts]
    try:
        value = unpack(body)
    except ValueError:
        return body.decode()
    return value if isinstance(value, (dict, list)) else body.decode()


def masked_journal(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The journals in these entries, one value per entry, without times, durations, salts and instance names."""
    return [_masked(entry) for entry in entries if entry.stream.startswith("session/")]


def _masked(entry: Entry) -> dict[str, Any]:
    return {
        "submission_id": entry.submission_id,
        "origin": _mask(entry.origin),
        "stream": entry.stream,
        "event_type": entry.event_type,
        "decision": entry.decision,
        "reason": entry.reason,
        "provenance": entry.provenance._asdict(),
        "parents": entry.parents,
        "trace": _mask(entry.trace),
        "prev": entry.prev,
        "tenure": entry.tenure,
        "once": entry.once,
        "bodies": [_mask(name_fields(read_event(entry))), *(_mask(_named(body)) for body in entry.bodies[1:])],
    }


def _named(body: bytes | None) -> Any:
    """An answer by the names of its fields, anything else as it is."""
    found = decoded(body)
    is_answer = isinstance(found, list) and len(found) == len(TurnResult.__struct_fields__)
    return name_fields(unpack_result(body)) if body and is_answer else found


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        # Left out, not starred: a duration of nothing is its field's default, and a compact record leaves that out.
        return {key: _mask(part) for key, part in value.items() if not _TIMES_AND_DURATIONS.match(key)}
    if isinstance(value, list):
        return [_mask(part) for part in value]
    return _INSTANCE.sub(r"\1/*", value) if isinstance(value, str) else value


def count_of(entries: Sequence[Entry], event_type: str) -> int:
    """How many entries of a type there are."""
    return sum(entry.event_type == event_type for entry in entries)


def tool_runs(entries: Sequence[Entry]) -> int:
    """How many calls of tools brought something."""
    ends = [read_event(one).event for one in entries if one.event_type == "OrderEnded"]
    return sum(is_call(end.wo_id) and end.receipt.state == "completed" for end in ends)


__all__ = [
    "ANSWERS",
    "ENDS",
    "answer_text",
    "check_record",
    "count_of",
    "list_answers",
    "masked_journal",
    "receipt",
    "tool_runs",
]
