"""Each monitor can fail: for every invariant a planted violation that it names, beside the same story without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from bench import builders
from hobus.bus.broker.tap_record import Tap
from hobus.bus.codec import pack_header
from hobus.bus.envelope import Kind, make_header
from hobus.bus.messages.base import pack
from hobus.bus.messages.gateway import ScopeBudget
from hobus.bus.messages.ids import RunId, StepId, TurnId, format_iso
from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.messages.memory import ReadSignals
from hobus.bus.messages.work_order import WorkOrder
from hobus.bus.record.entry import WriteEntry, encode_stored, to_entry, to_stored
from hobus.bus.record.journal import pack_event
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.memory import OverlayWritten
from hobus.bus.record.payloads.orders import ContextAssembled
from hobus.bus.record.payloads.prompts import BudgetAllocated, PromptFailed, PromptReceived, PromptSent
from hobus.bus.record.session_facts import OrderDispatched, SessionEvent
from hobus.bus.sim.disk import SimDisk, SimMedium
from hobus.launch.lab.simulation.budgets import BudgetMonitor
from hobus.launch.lab.simulation.record import Broken, Numbers, RecordMonitor
from hobus.launch.lab.simulation.watch import FrameMonitor, RecordTail
from hobus.ledger_service.frame import GENESIS, build_frame, store_at
from hobus.ledger_service.mask import MASK_BYTES
from hobus.ledger_service.segment import DIRECTORY, name_segment

SESSION = "6e8ddbdb-2a3e-5a6f-b6ac-0f966ad7f28a"
STREAM = f"session/{SESSION}"
STEP = StepId(turn_id=TurnId(run_id=RunId(session_id=SESSION, run_seq=1), turn_seq=2), step_seq=1)
ORDER = f"WO-{STEP}"


CALL = {"call_id": "001", "tool_id": "t", "arguments": {}}


class Record:
    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, event: str, about: str, *, payload: Any = None, order: str = "", **fields: Any) -> None:
        body = pack_payload(payload) if isinstance(payload, tuple) else payload
        body = body if isinstance(body, bytes) else pack(body or {})
        self.entries.append(self._blank(event, about, order)._replace(bodies=[body], **fields))

    def note_dispatched(self, order: str, **form: Any) -> None:
        self.owned("WO_DISPATCHED", order, order=order)
        entry = self.entries[-1]
        sent = WorkOrder.model_validate(builders.order(wo_id=order).model_dump() | form)
        event = OrderDispatched(wo_id=order, wo_type="synthesize", step_id=STEP, order=sent, at=format_iso(0))
        enveloped = SessionEvent(SESSION, 0, 0, event, STEP.turn_id.run_id)
        self.entries[-1] = entry._replace(bodies=[pack_event(enveloped, entry.submission_id, entry.at_us)])

    def _blank(self, event: str, about: str, order: str) -> Entry:
        provenance = Provenance(session_id=SESSION, run_seq=1, work_order_id=order)
        written = WriteEntry(f"{event}:{about}", "prompts", event, 0, provenance=provenance)
        return to_entry(to_stored(written, "ho2/1@s1", 0, (), ()), len(self.entries), b"", [])

    def owned(self, event: str, about: str, *, tenure: int = 1, **fields: Any) -> None:
        self.add(event, about, stream=STREAM, tenure=tenure, **fields)


def turn(record: Record) -> None:
    """One whole turn: taken over, asked, dispatched, the model called, a tool run, answered, consolidated."""
    record.owned("TookOver", f"{SESSION}/1")
    record.owned("RunRequested", f"{SESSION}/in-0")
    record.owned("INTENT_DECLARED", f"{SESSION}/001")
    record.owned("INTENT_SUPERSEDED", f"{SESSION}/001")
    record.owned("INTENT_DECLARED", f"{SESSION}/002")
    record.add("PROJECTION_COMPUTED", "p1")
    record.owned("CONTEXT_ASSEMBLED", "c1", payload=ContextAssembled("", 1, 1, 1, 1, ("ART-1",)))
    record.note_dispatched(ORDER, input_context=[{"artifact_id": "ART-1"}], exchanges=[])
    record.add("PROMPT_SENT", f"{ORDER}#1/1", order=ORDER, payload=sent(100))
    record.add("PROMPT_RECEIVED", f"{ORDER}#1/1", order=ORDER, payload=received(60))
    record.add("TOOL_STARTED", f"{ORDER}/ho1", order=ORDER, stream="ho1m")
    record.add("WO_COMPLETED", f"{ORDER}/ho1", order=ORDER, stream="ho1m")
    record.owned("OrderEnded", ORDER, order=ORDER)
    record.owned("RunCompleted", f"{SESSION}/1", once=f"turn:{SESSION}/in-0")
    record.add("HO3_SIGNAL", "S/EVT-1", stream="signals", origin="ho3/1@s1")
    record.add("HO3_OVERLAY", "ART-1", stream="overlays", origin="ho3/1@s1", payload=overlay("EVT-1"))
    record.add("WO_DISPATCHED", "WO-CONS-1", order="WO-CONS-1", stream="ho2m", parents=[f"RunCompleted:{SESSION}/1"])


def answered_early(record: Record) -> None:
    record.owned("RunRequested", f"{SESSION}/in-0")
    record.note_dispatched(f"{ORDER}.000")
    record.owned("RunCompleted", f"{SESSION}/1", once=f"turn:{SESSION}/in-0")


def test_no_run_is_asked_for_while_the_one_before_has_something_to_come() -> None:
    """Its order is said to be open until it has an end; then the next may be asked for."""
    record, monitor = Record(), RecordMonitor()
    record.owned("TookOver", f"{SESSION}/1")
    answered_early(record)
    step_all(monitor, record.entries)
    assert monitor.list_unended() == [f"order {ORDER}.000"]
    early = Record()
    early.owned("RunRequested", f"{SESSION}/in-1")
    with pytest.raises(Broken, match="asked for before"):
        monitor.step(early.entries[0])
    record.owned("OrderEnded", f"{ORDER}.000", order=f"{ORDER}.000")
    monitor.step(record.entries[-1])
    assert monitor.list_unended() == [f"RunRequested:{SESSION}/in-1"]


def sent(
    tokens: int, mode: Literal["enforce", "warn", "off"] = "enforce", *, of_order: int | None = None
) -> PromptSent:
    return PromptSent("p", "m", "PRC-X-001", "PRM-X-001", "", tokens, 0.0, mode, tokens, 0, of_order)


def overlay(event_id: str) -> OverlayWritten:
    return OverlayWritten(
        "ART", "local", "PREFERENCE_BIAS", (), (), 1.0, 1.0, "agent", None, True, "", None, ("s:x",), (event_id,), None, "", "", "", "", "",  # noqa: FBT003
    )  # fmt: skip


def received(tokens: int) -> PromptReceived:
    return PromptReceived("p", "m", tokens, 0, 0.0, None, 1, "stop")


def failed(tokens: int) -> PromptFailed:
    return PromptFailed("p", "m", "broken", False, tokens, None, True, True)  # noqa: FBT003 - its fields


def step_all(monitor: RecordMonitor, entries: list[Entry]) -> None:
    for entry in entries:
        monitor.step(entry)


def test_a_whole_turn_breaks_nothing() -> None:
    record = Record()
    turn(record)
    monitor = RecordMonitor(Numbers().step, BudgetMonitor().step)
    for entry in record.entries:
        monitor.step(entry)
    monitor.finish()
    assert monitor.list_unended() == []


def _twice(record: Record) -> None:
    record.add("PROMPT_RECEIVED", f"{ORDER}#1/1", order=ORDER, payload=received(1))


PLANTED: dict[str, Callable[[Record], None]] = {
    "has two entries": _twice,
    "once key": lambda r: r.owned("RunCompleted", "other", once=f"turn:{SESSION}/in-0"),
    "entry 99 follows": lambda r: r.add("X", "x", sequence=99),
    "has two ends": lambda r: r.add("PROMPT_FAILED", f"{ORDER}#1/1", payload=failed(1)),
    "ends before its PROMPT_SENT": lambda r: r.add("PROMPT_FAILED", f"{ORDER}#2/1", payload=failed(1)),
    "ended twice in its journal": lambda r: r.owned("OrderEnded", f"{ORDER}/again", order=ORDER),
    "was ended twice": lambda r: r.add("WO_FAILED", f"{ORDER}/ho1/2", order=ORDER, stream="ho1m"),
    "before the dispatch was durable": lambda r: r.add("TOOL_STARTED", "WO-9/ho1", order="WO-9", stream="ho1m"),
    "a call without its result": lambda r: r.note_dispatched("WO-9", exchanges=[{"tool_calls": [CALL, CALL], "results": [{}]}]),
    "a fenced owner wrote": lambda r: r.owned("StepStarted", "s", origin="ho2/9@s9"),
    "tenure 3 of": lambda r: r.owned("TookOver", f"{SESSION}/3", tenure=3),
    "stands behind the host's answer": lambda r: (
        r.owned("RunRequested", f"{SESSION}/in-1", provenance=Provenance(session_id=SESSION, run_seq=2)),
        r.add("TurnDegraded", "d", stream=STREAM, once=f"turn:{SESSION}/in-1", provenance=Provenance(session_id=SESSION)),
        r.owned("StepStarted", "late", provenance=Provenance(session_id=SESSION, run_seq=2)),
    ),
    "memory wrote elsewhere": lambda r: r.add("HO3_SIGNAL", "S/EVT-2", stream="prompts", origin="ho3/1@s1"),
    "rests on what was never logged": lambda r: r.add(
        "HO3_OVERLAY", "ART-2", stream="overlays", origin="ho3/1@s1", payload=overlay("EVT-7")
    ),
    "a memory line that no record names": lambda r: r.note_dispatched("WO-9", input_context=[{"artifact_id": "ART-9"}]),
    "ended what was not active": lambda r: r.owned("INTENT_CLOSED", f"{SESSION}/001"),
    "left 6e8ddbdb-2a3e-5a6f-b6ac-0f966ad7f28a/002 active": lambda r: r.owned("SESSION_END", f"{SESSION}/1.9"),
    "is projected twice": lambda r: r.add("PROJECTION_COMPUTED", "p2"),
    "consolidated before the answer stood": lambda r: r.add(
        "WO_DISPATCHED", "WO-CONS-2", stream="ho2m", parents=["RunCompleted:never"]
    ),
    "ends twice": lambda r: r.owned("RunFailed", f"{SESSION}/1"),
    "is settled and was not held": lambda r: (
        r.add("PROMPT_SENT", f"{ORDER}#5/1", order=ORDER, payload=sent(1)),
        r.add("PROMPT_FAILED", f"{ORDER}#5/1", payload=failed(-1)),
    ),
    "in mode enforce": lambda r: (
        r.add("BUDGET_ALLOCATED", "x", payload=BudgetAllocated(f"session:{SESSION}", 120)),
        r.add("PROMPT_SENT", f"{ORDER}#6/1", order=ORDER, payload=sent(61)),
    ),
}  # fmt: skip
PLANTED["tokens back that it never had"] = PLANTED.pop("is settled and was not held")


@pytest.mark.parametrize("names", PLANTED)
def test_a_planted_violation_of_the_record_is_named(names: str) -> None:
    """The story holds, and breaks at the planted entry, in these words."""
    record = Record()
    turn(record)
    monitor = RecordMonitor(Numbers().step, BudgetMonitor().step)
    step_all(monitor, record.entries)
    whole = len(record.entries)
    PLANTED[names](record)
    with pytest.raises(Broken, match=names):
        step_all(monitor, record.entries[whole:])


def test_a_provider_call_or_a_run_without_an_end_is_named_at_the_end() -> None:
    record, monitor = Record(), RecordMonitor()
    record.owned("TookOver", f"{SESSION}/1")
    record.owned("RunRequested", f"{SESSION}/in-0")
    record.note_dispatched(ORDER)
    record.add("PROMPT_SENT", f"{ORDER}#1/1", order=ORDER, payload=sent(1))
    for entry in record.entries:
        monitor.step(entry)
    assert monitor.list_unended() == [f"provider call {ORDER}#1/1", f"RunRequested:{SESSION}/in-0"]
    with pytest.raises(Broken, match="without an end"):
        monitor.finish()


@pytest.mark.parametrize("key", ["turn", "delivered"])
def test_an_answer_of_the_hosts_ends_the_run_of_its_input_and_no_other(key: str) -> None:
    """Whether it took the turn's key, or was delivered while the ledger was away."""
    record, monitor = Record(), RecordMonitor()
    record.owned("TookOver", f"{SESSION}/1")
    for number in (1, 2):
        run = Provenance(session_id=SESSION, run_seq=number)
        record.owned("RunRequested", f"{SESSION}/in-{number}", provenance=run)
    by_host = Provenance(session_id=SESSION)
    record.add("TurnDegraded", "d", stream=STREAM, once=f"{key}:{SESSION}/in-1", provenance=by_host, origin="host/1@s1")
    step_all(monitor, record.entries)
    assert monitor.list_unended() == [f"RunRequested:{SESSION}/in-2"]


def test_the_gateways_own_figures_are_held_against_the_record() -> None:
    """Nothing may be held at rest, nothing spent be forgotten, nothing be added."""
    record, budgets = Record(), BudgetMonitor()
    turn(record)
    for entry in record.entries:
        budgets.step(entry)

    def rows(used: int, reserved: int = 0) -> list[ScopeBudget]:
        return [
            ScopeBudget(
                scope=scope, limit=None, used=used, reserved=reserved, remaining=None, calls=1, cost_usd=None,
                unknown_calls=0,
            )
            for scope in (f"session:{SESSION}", "agent:", "provider:p")
        ]  # fmt: skip

    budgets.compare(rows(60))
    for told, said in ((rows(60, 5), "still reserved"), (rows(59), "the record 60"), (rows(60)[1:], "forgotten")):
        with pytest.raises(Broken, match=said):
            budgets.compare(told)


# --- frames -----------------------------------------------------------------------------------------------------------


def _frame(kind: Kind, message_id: str, **fields: Any) -> bytes:
    return pack_header(make_header(kind, message_id, **fields))


def _ask(sender: str = "ho2/1@s1") -> bytes:
    return _frame(Kind.REQUEST, "m1", type=ReadSignals.TYPE, destination="ho3", sender=sender)


def _answered() -> FrameMonitor:
    monitor = FrameMonitor()
    monitor.step("ho2/1@s1", "broker", _ask(), is_copy=False)
    monitor.step("broker", "ho3/1@s1", _ask(), is_copy=False)
    monitor.step("ho3/1@s1", "broker", _frame(Kind.REPLY, "r1", correlation_id="m1"), is_copy=False)
    monitor.step("broker", "ho2/1@s1", _frame(Kind.REPLY, "r2", correlation_id="m1"), is_copy=False)
    return monitor


def test_a_second_answer_to_one_asking_is_named() -> None:
    """A copy that the network made is none; a second one of the broker's is."""
    monitor = _answered()
    again = _frame(Kind.REPLY, "r3", correlation_id="m1")
    monitor.step("broker", "ho2/1@s1", again, is_copy=True)
    with pytest.raises(Broken, match="answered once more"):
        monitor.step("broker", "ho2/1@s1", again, is_copy=False)


@pytest.mark.parametrize(
    ("source", "target", "frame", "said"),
    [
        ("broker", "ho3/1@s1", _ask("ho2/7@s7"), "who did not send it"),
        ("broker", "ho3/1@s1", _ask("ho1/1@s1"), "is asked for"),
        ("broker", "ho3/1@s1", _frame(Kind.REQUEST, "m1", type="ledger.read", sender="ho2/1@s1"), "is asked for"),
        ("ho3/1@s1", "broker", _frame(Kind.REQUEST, "m2", type="gateway.prompt"), "HO3 asks broker"),
    ],
)
def test_a_request_that_nobody_may_send_is_named(source: str, target: str, frame: bytes, said: str) -> None:
    """In a name that did not send it, by a role that may not, for what HO3 is never asked, or by HO3 itself."""
    with pytest.raises(Broken, match=said):
        _answered().step(source, target, frame, is_copy=False)


def test_a_gap_in_the_taps_numbers_is_named() -> None:
    """Numbers of one broker follow each other; another broker begins anew."""

    def tap(sequence: int) -> Tap:
        return Tap(sequence, 0.0, "delivered", make_header(Kind.REPLY, "m1"), "", "", b"", "")

    monitor = FrameMonitor()
    monitor.tapped("sim1", tap(1))
    monitor.tapped("sim1", tap(2))
    monitor.tapped("sim2", tap(1))
    with pytest.raises(Broken, match="goes from 1 to 3"):
        monitor.tapped("sim2", tap(3))


# --- the record on its device -----------------------------------------------------------------------------------------


def _batch(sequence: int, chain: bytes, at: int) -> tuple[bytes, bytes]:
    entry = to_stored(WriteEntry(f"X:{sequence}", "ho2m", "X", 0), "ho2/1@s1", 0, (), ())
    mask = b"\x5a" * MASK_BYTES
    built = build_frame(sequence, chain, [encode_stored(entry)], [], mask)
    return bytes(store_at(built, at, mask)), built.chains[-1]


def test_what_was_durable_and_is_gone_or_changed_is_named() -> None:
    """Entries come as soon as they are synced; afterwards not one of their bytes may differ."""
    medium, seen = SimMedium(1 << 20), list[Entry]()
    tail = RecordTail(medium, seen.append)
    medium.on_sync = tail.synced
    disk = SimDisk(medium)
    disk.make_dir(DIRECTORY)
    file = disk.open(f"{DIRECTORY}/{name_segment(0)}", create=True)
    disk.sync_dir(DIRECTORY)
    first, chain = _batch(0, GENESIS, 0)
    file.append(first)
    assert seen == []
    file.sync()
    second, _ = _batch(1, chain, len(first))
    file.append(second)
    assert [entry.submission_id for entry in seen] == ["X:0"]
    medium.crash()
    tail.check_kept()
    file.write_at(len(first) - 20, b"?")
    with pytest.raises(Broken, match="lost what was durable"):
        tail.check_kept()


def test_an_order_over_its_budget_is_named() -> None:
    """In mode enforce what an order holds and has used stays within what its prompts say that it may."""
    record = Record()
    record.add("PROMPT_SENT", "WO-x#1/1", order="WO-x", payload=sent(101, of_order=100))
    with pytest.raises(Broken, match="takes work_order:WO-x to 101 tokens"):
        BudgetMonitor().step(record.entries[-1])
