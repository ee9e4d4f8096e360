"""What happened when the demo killed a process, told from the record and from the broker's tap. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.messages.ids import shown_session
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import ExecuteWorkOrder
from hobus.bus.record.ends import ENDS

_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Kill:
    """Who got SIGKILL, when (seconds since 1970), and what it was doing."""

    actor: str
    instance: str
    pid: int
    at: float
    wo_id: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was written down about one turn."""

    entries: Sequence[Entry]
    """Of this run, from every stream, in the order of the record."""
    deliveries: Sequence[TapRecord]
    """Frames in which the broker gave the killed process's order to somebody."""


class Unproved(Exception):
    """The record does not show what the demo promises."""


def deliveries_of(wo_id: str, records: Sequence[TapRecord]) -> list[TapRecord]:
    """The frames in which the broker handed this order to an executor."""
    return [
        one
        for one in records
        if one.type == ExecuteWorkOrder.TYPE and one.message_id.startswith(wo_id) and one.verdict == "delivered"
        and one.kind == "request"
    ]  # fmt: skip


def timeline(kill: Kill, evidence: Evidence) -> list[tuple[int, str]]:
    """(milliseconds since the question, what happened then), in order. Raises Unproved."""
    asked = _first(evidence, "RunRequested")
    dispatched, ended = _of_order(evidence, kill, "WO_DISPATCHED"), _of_order(evidence, kill, "WO_COMPLETED")
    sent, received = _of_order(evidence, kill, "PROMPT_SENT"), _of_order(evidence, kill, "PROMPT_RECEIVED")
    answered = _first(evidence, "RunCompleted")
    order = short(kill.wo_id)
    told = [
        (_at(asked), f"your question stands in the record (entry #{asked.sequence})"),
        (_at(dispatched), f"{_who(dispatched)} records work order {order} (#{dispatched.sequence}), then sends it out"),
        (_at(sent), f"{_who(sent)} records the prompt (#{sent.sequence}), then calls the model"),
        (kill.at, f"{kill.instance} is killed: SIGKILL to pid {kill.pid}, no word of farewell"),
        (_at(received), f"the model's answer is recorded (#{received.sequence})"),
        (_at(ended), f"{ended.origin} ends order {order} (#{ended.sequence})"),
        (_at(answered), f"the answer to you is recorded (#{answered.sequence}), and only then shown"),
    ]
    for number, one in enumerate(evidence.deliveries, 1):
        whom = f"the broker gives order {order} to {one.worker}"
        told.append((one.at, whom if number == 1 else f"{whom}: the same order again, attempt {one.attempt}"))
    begin = _at(asked)
    return [(round((at - begin) * 1000), text) for at, text in sorted(told, key=lambda item: item[0])]


def verdicts(kill: Kill, evidence: Evidence) -> list[str]:
    """What follows from it, each a fact that was counted. Raises Unproved when one of them is not so."""
    ends = [one for one in _all(evidence, kill, "WO_COMPLETED") + _all(evidence, kill, "WO_FAILED") if not one.reason]
    calls = _all(evidence, kill, "PROMPT_SENT")
    answers = [one for one in evidence.entries if one.event_type in ENDS]
    order = short(kill.wo_id)
    if len(ends) != 1 or ends[0].origin == kill.instance:
        raise Unproved(f"order {order} has {len(ends)} ends")
    if [one.event_type for one in answers] != ["RunCompleted"]:
        raise Unproved(f"the question has {len(answers)} answers")
    if len(evidence.deliveries) < 2:  # noqa: PLR2004 - to the killed one, and to its successor
        raise Unproved(f"order {order} was delivered {len(evidence.deliveries)} times")
    times = "once" if len(calls) == 1 else f"{len(calls)} times"
    return [
        f"order {order} was delivered {len(evidence.deliveries)} times and ended once, by {ends[0].origin}",
        f"the model was called {times} for it: a call under way is joined, a recorded answer is used again",
        "your question has one answer, and it is a full one: nothing was lost that somebody had written down",
    ]


def short(wo_id: str) -> str:
    """`3.1.1` of the session's long id: run, round, step."""
    return wo_id.removeprefix("WO-")[37:]


def session_name(evidence: Evidence) -> str:
    """The session as people see it."""
    return shown_session(evidence.entries[0].provenance.session_id)


def _who(entry: Entry) -> str:
    return entry.origin.partition("@")[0]


def _at(entry: Entry) -> float:
    return entry.ledger_at_us / _US


def _first(evidence: Evidence, event_type: str) -> Entry:
    found = [one for one in evidence.entries if one.event_type == event_type]
    if not found:
        raise Unproved(f"there is no {event_type} in the record")
    return found[0]


def _all(evidence: Evidence, kill: Kill, event_type: str) -> list[Entry]:
    return [
        one for one in evidence.entries if one.event_type == event_type and one.provenance.work_order_id == kill.wo_id
    ]


def _of_order(evidence: Evidence, kill: Kill, event_type: str) -> Entry:
    found = _all(evidence, kill, event_type)
    if not found:
        raise Unproved(f"there is no {event_type} of {kill.wo_id} in the record")
    return found[0]
