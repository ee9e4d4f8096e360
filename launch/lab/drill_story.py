"""What a crash drill showed: moment by moment from the record and the broker's tap, then counted, then judged. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import ExecuteWorkOrder
from hobus.bus.record.payload import payload_in
from hobus.bus.record.payloads.orders import ToolStarted
from hobus.launch.lab.demo_story import short
from hobus.launch.lab.simulation.record import answer_text, answers_of

_US = 1_000_000
_PROMPT_ENDS = ("PROMPT_RECEIVED", "PROMPT_FAILED")
_ORDER_ENDS = ("WO_COMPLETED", "WO_FAILED")

TOLD = {
    "RunRequested": "the question stands in the record",
    "TookOver": "{who} becomes the owner of the session",
    "WO_DISPATCHED": "{who} records order {order}, then sends it out",
    "PROMPT_SENT": "{who} records a prompt for {order}, then calls the model",
    "PROMPT_RECEIVED": "the model's answer for {order} is recorded",
    "PROMPT_FAILED": "a prompt of {order} is closed without an answer: {reason}",
    "TOOL_STARTED": "{who} records that the tool of {order} starts, then runs it",
    "WO_COMPLETED": "{who} ends order {order}",
    "WO_FAILED": "{who} ends order {order} as failed: {reason}",
    "DEGRADATION": "{who} answers without the supervisor: {reason}",
    "RunCompleted": "the answer is recorded, and only then told",
    "RunFailed": "the run is recorded as failed",
    "TurnDegraded": "the answer is recorded as a degraded one",
}
"""Event type -> its sentence; other entries are not told."""


@dataclass(frozen=True, slots=True)
class Strike:
    """The kill: who, when (seconds since 1970), and at whom the turn stood still meanwhile."""

    actor: str
    instance: str
    pid: int
    at: float
    holder: str


@dataclass(frozen=True, slots=True)
class Restart:
    """A process that was started again."""

    actor: str
    instance: str
    started_at: float
    ready_after_ms: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was written down about the drill, and how its turn was answered."""

    entries: Sequence[Entry]
    """The whole record, in its order, with its bodies."""
    deliveries: Sequence[TapRecord]
    """Orders that the broker handed to executors."""
    restarts: Sequence[Restart]
    result: TurnResult
    again: TurnResult | None
    """The answer to the same input afterwards; None if nobody could be asked."""
    answered_at: float


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted."""

    model_calls: int
    model_calls_unknown: int
    """Of these closed as UNKNOWN_OUTCOME: their answers, if any, are lost."""
    tool_calls: int
    tool_runs: int
    """Times that a tool was begun; more than calls where one that may run twice did."""
    redelivered: int
    answers: int
    entries: int


def orders_in(records: Iterable[TapRecord]) -> list[TapRecord]:
    """Frames in which the broker handed an order to an executor, each once, in the order of time."""
    found = {
        (one.epoch, one.sequence): one
        for one in records
        if one.type == ExecuteWorkOrder.TYPE and one.kind == "request" and one.verdict == "delivered"
    }
    return sorted(found.values(), key=lambda one: one.at)


def timeline(strike: Strike, evidence: Evidence) -> list[tuple[int, str]]:
    """(milliseconds since the question was recorded, what happened then), in order."""
    begin = next((one.ledger_at_us / _US for one in evidence.entries if one.event_type == "RunRequested"), strike.at)
    told = [(one.ledger_at_us / _US, _sentence(one)) for one in evidence.entries if one.event_type in TOLD]
    told.append(
        (strike.at, f"SIGKILL to {strike.instance} (pid {strike.pid}), at the frame where {strike.holder} stands")
    )
    told += [(one.at, _delivery(one)) for one in evidence.deliveries]
    told += [(one.started_at, f"{one.actor} is started again as {one.instance}") for one in evidence.restarts]
    told += [
        (
            one.started_at + one.ready_after_ms / 1000,
            f"{one.instance} is ready, {one.ready_after_ms} ms after its start",
        )
        for one in evidence.restarts
        if one.ready_after_ms
    ]
    told.append((evidence.answered_at, f"the client has its answer: {evidence.result.outcome}"))
    return [(round((at - begin) * 1000), text) for at, text in sorted(told, key=lambda item: item[0])]


def counts_of(evidence: Evidence) -> Counts:
    """Counted over the whole record of a cluster that was asked this one thing."""
    entries = evidence.entries
    calls = {one.provenance.work_order_id for one in entries if one.event_type == "TOOL_STARTED"}
    handed = Counter(one.message_id for one in evidence.deliveries)
    return Counts(
        model_calls=sum(one.event_type == "PROMPT_SENT" for one in entries),
        model_calls_unknown=sum(
            one.event_type == "PROMPT_FAILED" and one.reason == "UNKNOWN_OUTCOME" for one in entries
        ),
        tool_calls=len(calls),
        tool_runs=sum(one.event_type == "TOOL_STARTED" for one in entries),
        redelivered=sum(count - 1 for count in handed.values()),
        answers=len(answers_of(entries, evidence.result.input_id)),
        entries=len(entries),
    )


def judged(evidence: Evidence, *, record_fault: str, left: Sequence[str]) -> list[tuple[str, bool]]:
    """What the guarantees demand, each with whether it held."""
    sent = Counter(_about(one) for one in evidence.entries if one.event_type == "PROMPT_SENT")
    ended = Counter(_about(one) for one in evidence.entries if one.event_type in _PROMPT_ENDS)
    orders = Counter(one.provenance.work_order_id for one in evidence.entries if one.event_type in _ORDER_ENDS)
    entries, told, again = evidence.entries, evidence.result, evidence.again
    return [
        ("the turn was answered, in full or marked as degraded", told.outcome in ("success", "degraded")),
        ("it has exactly one answer in the record", len(answers_of(entries, told.input_id)) == 1),
        ("the same question under the same id gets the same answer", again is not None and _same(again, told)),
        ("the client was told what stands in the record", answer_text(entries, told.input_id) == told.response),
        ("every model call has exactly one end", sent == ended and all(count == 1 for count in ended.values())),
        ("no model was called again for an answer that was recorded", not _asked_again(entries)),
        ("no order ended twice", all(count == 1 for count in orders.values())),
        ("no tool began again that may run only once, or after its order had ended", not _run_again(entries)),
        (f"the record verifies{f': {record_fault}' if record_fault else ''}", not record_fault),
        (f"nothing is left running{': ' + ', '.join(left) if left else ''}", not left),
    ]


def _asked_again(entries: Iterable[Entry]) -> set[str]:
    """Keys of model calls that were sent once more although an earlier attempt's answer was recorded by then."""
    received: set[str] = set()
    again: set[str] = set()
    for one in entries:
        key = _about(one).rpartition("/")[0]
        if one.event_type == "PROMPT_RECEIVED":
            received.add(key)
        elif one.event_type == "PROMPT_SENT" and key in received:
            again.add(key)
    return again


def _run_again(entries: Iterable[Entry]) -> set[str]:
    """Orders whose tool was begun once more than it may."""
    begun: set[str] = set()
    ended: set[str] = set()
    again: set[str] = set()
    for one in entries:
        wo_id = one.provenance.work_order_id
        if one.event_type in _ORDER_ENDS:
            ended.add(wo_id)
        elif one.event_type == "TOOL_STARTED":
            started = payload_in(ToolStarted, one)
            may_again = started is not None and started.idempotent
            if wo_id in ended or (wo_id in begun and not may_again):
                again.add(wo_id)
            begun.add(wo_id)
    return again


def _same(one: TurnResult, other: TurnResult) -> bool:
    return (one.outcome, one.response, one.session_id) == (other.outcome, other.response, other.session_id)


def _about(entry: Entry) -> str:
    return entry.submission_id.partition(":")[2]


def _sentence(entry: Entry) -> str:
    wo_id = entry.provenance.work_order_id or ""
    order = short(wo_id) if wo_id.startswith("WO-") else wo_id
    text = TOLD[entry.event_type].format(
        who=entry.origin.partition("@")[0], order=order or "the turn", reason=entry.reason or "no reason given"
    )
    return f"{text} (#{entry.sequence})"


def _delivery(one: TapRecord) -> str:
    handed = f"the broker gives order {short(one.message_id.partition('#')[0])} to {one.worker}"
    return handed if one.attempt <= 1 else f"{handed}: the same order again, attempt {one.attempt}"
