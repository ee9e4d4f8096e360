"""What a kill in the middle of a turn showed: told from the record and the broker's tap, counted, judged. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import ExecuteWorkOrder
from hobus.bus.record.ends import ENDS, read_order_receipt
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.orders import ToolStarted
from hobus.launch.cluster.run_file import ChildRow
from hobus.launch.lab.simulation.record import ENDS as PROMPT_ENDS
from hobus.launch.lab.simulation.record import answer_text, call_of, list_answers
from hobus.launch.sessions.evidence import seen_in, short
from hobus.launch.sessions.moments import moments_in
from hobus.launch.sessions.steps import Totals, totals_of

_US = 1_000_000
_ORDER_ENDS = ("WO_COMPLETED", "WO_FAILED")

Checks = list[tuple[str, bool]]
"""What is demanded, each with whether it held."""


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL: to whom, when (seconds since 1970), and at whom the turn stood still meanwhile, if it did."""

    actor: str
    instance: str
    pid: int
    at: float
    holder: str = ""


@dataclass(slots=True, kw_only=True)
class TurnEvidence:
    """Everything that was written down about the turn, and how it was answered; gathered while it goes on."""

    kill: Kill
    entries: Sequence[Entry] = ()
    """In the order of the record: of a drill the whole one, with its bodies."""
    deliveries: Sequence[TapRecord] = ()
    """Orders that the broker handed to executors."""
    restarts: list[ChildRow] = field(default_factory=list[ChildRow])
    """Processes that were started again."""
    result: TurnResult
    again: TurnResult | None = None
    """The answer to the same input afterwards; None if nobody could be asked."""
    answered_at: float

    @property
    def answered_after_ms(self) -> int:
        return round((self.answered_at - self.kill.at) * 1000)


class Unproved(Exception):
    """Say that the record does not show what is promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Totals):
    """What was counted in all that a drill has seen."""

    redelivered: int
    answers: int
    entries: int


def list_orders(records: Iterable[TapRecord]) -> list[TapRecord]:
    """Return frames in which the broker handed an order to an executor, each once, in the order of time."""
    found = {
        (one.epoch, one.sequence): one
        for one in records
        if one.type == ExecuteWorkOrder.TYPE and one.kind == "request" and one.verdict == "delivered"
    }
    return sorted(found.values(), key=lambda one: one.at)


def make_timeline(evidence: TurnEvidence) -> list[tuple[int, str]]:
    """Return (milliseconds since the question was recorded, what happened then), in order."""
    kill = evidence.kill
    begin = next((one.ledger_at_us / _US for one in evidence.entries if one.event_type == "RunRequested"), kill.at)
    told = [(one.at_us / _US, one.what) for one in moments_in(seen_in(evidence.entries))]
    where = f", while {kill.holder} is held at its frame" if kill.holder else ""
    told.append((kill.at, f"SIGKILL to {kill.instance} (pid {kill.pid}){where}"))
    told += [(one.at, _describe_delivery(one)) for one in evidence.deliveries]
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


def list_outcome(wo_id: str, evidence: TurnEvidence) -> list[str]:
    """Return what became of the order whose executor was killed, each a fact that was counted.

    Raises Unproved unless it was delivered again, ended once by its second executor, and its turn fully answered once.
    """
    of_order = [one for one in evidence.entries if one.provenance.work_order_id == wo_id]
    ends = [
        receipt
        for one in of_order
        if one.event_type == "OrderEnded" and (receipt := read_order_receipt(one)) is not None
    ]
    calls = sum(one.event_type == "PROMPT_SENT" for one in of_order)
    answers = [one.event_type for one in evidence.entries if one.event_type in ENDS]
    deliveries = sum(one.message_id.startswith(wo_id) for one in evidence.deliveries)
    order = short(wo_id)
    if len(ends) != 1 or ends[0].executed_by == evidence.kill.instance:
        raise Unproved(f"order {order} has {len(ends)} ends")
    if answers != ["RunCompleted"]:
        raise Unproved(f"the question has {len(answers)} answers")
    if deliveries < 2:  # noqa: PLR2004 - to the killed one, and to its successor
        raise Unproved(f"order {order} was delivered {deliveries} times")
    times = "once" if calls == 1 else f"{calls} times"
    return [
        f"order {order} was delivered {deliveries} times and ended once, by {ends[0].executed_by}",
        f"the model was called {times} for it: a call under way is joined, a recorded answer is used again",
        "your question has one answer, and it is a full one: nothing was lost that somebody had written down",
    ]


def count_evidence(evidence: TurnEvidence) -> Counts:
    """Count over the whole record of a cluster that was asked this one thing."""
    entries = evidence.entries
    handed = Counter(one.message_id for one in evidence.deliveries)
    return Counts(
        **asdict(totals_of(seen_in(entries))),
        redelivered=sum(count - 1 for count in handed.values()),
        answers=len(list_answers(entries, evidence.result.input_id)),
        entries=len(entries),
    )


def judge(evidence: TurnEvidence, *, record_fault: str, left: Sequence[str]) -> Checks:
    sent = Counter(call_of(one) for one in evidence.entries if one.event_type == "PROMPT_SENT")
    ended = Counter(call_of(one) for one in evidence.entries if one.event_type in PROMPT_ENDS)
    orders = Counter(one.provenance.work_order_id for one in evidence.entries if one.event_type in _ORDER_ENDS)
    entries, told, again = evidence.entries, evidence.result, evidence.again
    return [
        ("the turn was answered, in full or marked as degraded", told.outcome in ("success", "degraded")),
        ("it has exactly one answer in the record", len(list_answers(entries, told.input_id)) == 1),
        ("the same question under the same id gets the same answer", again is not None and _same(again, told)),
        ("the client got the answer that is in the record", answer_text(entries, told.input_id) == told.response),
        ("every model call has exactly one end", sent == ended and all(count == 1 for count in ended.values())),
        ("no model was called again for an answer that was recorded", not _find_asked_again(entries)),
        ("no order ended twice", all(count == 1 for count in orders.values())),
        ("no tool began again that may run only once, or after its order had ended", not _run_again(entries)),
        (f"the record verifies{f': {record_fault}' if record_fault else ''}", not record_fault),
        (f"nothing is left running{': ' + ', '.join(left) if left else ''}", not left),
    ]


def _find_asked_again(entries: Iterable[Entry]) -> set[str]:
    """Return keys of model calls that were sent once more although an earlier answer was recorded by then."""
    received: set[str] = set()
    again: set[str] = set()
    for one in entries:
        key = call_of(one).rpartition("/")[0]
        if one.event_type == "PROMPT_RECEIVED":
            received.add(key)
        elif one.event_type == "PROMPT_SENT" and key in received:
            again.add(key)
    return again


def _run_again(entries: Iterable[Entry]) -> set[str]:
    """Return orders whose tool was begun once more than it may."""
    begun: set[str] = set()
    ended: set[str] = set()
    again: set[str] = set()
    for one in entries:
        wo_id = one.provenance.work_order_id
        if one.event_type in _ORDER_ENDS:
            ended.add(wo_id)
        elif one.event_type == "TOOL_STARTED":
            started = read_payload(ToolStarted, one)
            may_again = started is not None and started.idempotent
            if wo_id in ended or (wo_id in begun and not may_again):
                again.add(wo_id)
            begun.add(wo_id)
    return again


def _same(one: TurnResult, other: TurnResult) -> bool:
    return (one.outcome, one.response, one.session_id) == (other.outcome, other.response, other.session_id)


def _describe_delivery(one: TapRecord) -> str:
    handed = f"the broker gives order {short(one.message_id.partition('#')[0])} to {one.worker}"
    return handed if one.attempt <= 1 else f"{handed}: the same order again, attempt {one.attempt}"
