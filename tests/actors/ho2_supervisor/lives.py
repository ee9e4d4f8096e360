"""Lives of sessions: events of every kind, legal or not, drawn one after the other; what the reducer takes is journaled.

`pick` chooses: Hypothesis, or a seeded generator. After each event every invariant of
the state is checked; a journal is then folded again, whole and from each of its snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import builders
from hobus.actors.ho2_supervisor.session import journal
from hobus.actors.ho2_supervisor.session import snapshot as snapshots
from hobus.actors.ho2_supervisor.session.commands import FIRST_LEASE
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import Reduced, SessionState, pack_state
from hobus.actors.ho2_supervisor.turn.history import HistoryLimits
from hobus.bus.messages import session as messages
from hobus.bus.messages.base import pack
from hobus.bus.messages.ids import (
    RunId,
    StepId,
    ToolBatchId,
    TurnId,
    derive_body_ref,
    derive_intent_id,
    derive_lease_id,
    format_iso,
    parse_iso,
    work_order_id,
)
from hobus.bus.messages.ledger import Provenance, WriteEntry
from hobus.bus.messages.session import TurnResult
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import Recorded, pack_event, read_recorded
from hobus.bus.record.session_facts import SessionEvent, SessionFact
from tests.journals import receipt

SESSION = "11111111-2222-5333-8444-555555555555"
CONFIG = messages.SessionConfig(provider="offline", model="rules")
LIMITS = HistoryLimits(budget_tokens=100, turns_max=2, digest_chars=60, chars_per_token=4, known_max=3)
TERMS = events.LeaseTerms(ttl_secs=20, heartbeat_timeout_secs=9)
CALLS = ["001", "002", "003"]

Pick = Callable[[Sequence[Any]], Any]
Move = tuple[SessionFact, list[bytes]]


def at(second: int = 0) -> str:
    """A time, seconds after the tests' epoch."""
    return format_iso(1_767_225_600.0 + second)


@dataclass
class Life:
    """One session, its journal so far, and the choices that come next."""

    pick: Pick
    record: SessionRecord = field(default_factory=lambda: SessionRecord(SESSION, LIMITS))
    entries: list[WriteEntry] = field(default_factory=list)
    second: int = 0
    numbers: int = 0  # of inputs and commands
    issued: list[str] = field(default_factory=list)  # every step, batch and order, in order
    rejections: int = 0

    @property
    def state(self) -> SessionState:
        return self.record.state

    @property
    def now(self) -> str:
        return at(self.second)

    def number(self, kind: str) -> str:
        """A name that nothing had before."""
        self.numbers += 1
        return f"{kind}{self.numbers}"

    def move(self, name: str, *, astray: bool = False) -> list[str]:
        """One event of this kind; the invariants that do not hold afterwards. `astray`: of another moment."""
        self.second += self.pick([0, 1, 1, 2, 12])
        event, bodies = MOVES[name](self)
        before, enveloped = self.state, journal.make_envelope(self.state, event)
        if astray:
            enveloped = enveloped._replace(step_epoch=before.step_epoch + 1, run_id=None)
        frozen = pack_state(before)
        outcome = reduce(before, enveloped)
        wrong = faults(before, enveloped, outcome)
        if pack_state(before) != frozen:
            wrong.append("the state before is left as it was")
        if outcome.rejection is not None:
            self.rejections += 1
        else:
            self._journal(enveloped, bodies)
            if self.state != outcome.state:
                wrong.append("the fold of what was recorded is what the reducer said")
            self._note(event)
        return wrong

    def doubled(self) -> list[str]:
        """Ids that were given twice."""
        ids = [*self.issued, *(entry.submission_id for entry in self.entries)]
        return sorted({one for one in ids if ids.count(one) > 1})

    def _journal(self, enveloped: SessionEvent, bodies: list[bytes]) -> None:
        event, record = enveloped.event, self.record
        tenure = event.tenure if event.kind == "TookOver" else self.state.tenure
        is_hosts = event.kind == "TurnDegraded"
        derived = journal.derive_event_id(SESSION, event, enveloped.run_id)
        submission_id = derived or journal.derive_counted_id(event.kind, SESSION, tenure, record.appended + 1)
        entry = WriteEntry(
            submission_id=submission_id,
            stream=f"session/{SESSION}",
            event_type=enveloped.event.entry_name,
            provenance=Provenance(agent_id="ADMIN", session_id=SESSION),
            at_us=1,
            bodies=[pack_event(enveloped, submission_id, 1), *bodies],
            prev=None if is_hosts else record.head,
            tenure=None if is_hosts else tenure,
        )
        self.entries.append(entry)
        record.take(_recorded(entry))

    def _note(self, event: SessionFact) -> None:
        match event:
            case events.StepStarted(step_id=step_id):
                self.issued.append(f"step {step_id}")
            case events.OrderDispatched(wo_id=wo_id):
                self.issued.append(wo_id)
            case events.ToolBatchIssued(tool_batch_id=batch_id):
                self.issued.append(f"batch {batch_id}")
            case _:
                pass

    # --- what the moves are about -----------------------------------------------------------------------------------

    def run(self) -> RunId:
        return self.state.run_id or RunId(session_id=SESSION, run_seq=self.state.next_run_seq)

    def step(self) -> StepId:
        turn_id = TurnId(run_id=self.run(), turn_seq=1)
        return (self.state.run and self.state.run.step_id) or StepId(turn_id=turn_id, step_seq=1)

    def batch(self) -> ToolBatchId:
        active = self.state.tool_batch
        return active.tool_batch_id if active else ToolBatchId(step_id=self.step(), batch_seq=1)

    def input(self) -> str:
        return (self.state.run and self.state.run.input_id) or self.number("i")


# --- the moves ------------------------------------------------------------------------------------------------------


def _request(life: Life) -> Move:
    pending = life.state.pending_follow_up
    if pending and life.pick([True, True, False]):
        ref = pending[0]
        input_id = "followup:" + ref.rsplit("/", 2)[1]
        bodies: list[bytes] = []
    else:
        input_id = life.number("i")
        ref, bodies = derive_body_ref(f"RunRequested:{SESSION}/{input_id}", 1), [f"question {input_id}".encode()]
    requested = events.RunRequested(
        input_ref=ref,
        input_id=input_id,
        input_digest=journal.digest_input(input_id, "x"),
        run_overrides=life.pick([None, None, None, CONFIG.model_copy(update={"model": ""})]),
        deadline_at=at(life.second + 60),
        config_digest="sha256:0",
        lease=life.pick([None, TERMS]),
        at=life.now,
    )
    return requested, bodies


def _boundary(life: Life) -> Move:
    state, new_round = life.state, life.pick([True, False])
    current = (state.run and state.run.turn_id) or TurnId(run_id=life.run(), turn_seq=1)
    turn = TurnId(run_id=life.run(), turn_seq=(state.run.next_turn_seq if state.run else 1)) if new_round else current
    step_id = StepId(turn_id=turn, step_seq=1 if new_round else (state.run.next_step_seq if state.run else 1))
    steers = state.pending_steer if new_round and life.pick([True, True, True, False]) else []
    return events.StepStarted(step_id=step_id, new_round=new_round, steers=steers, at=life.now), []


def _order(life: Life) -> Move:
    wo_id = work_order_id(life.step(), life.pick(CALLS) if life.state.tool_batch else "")
    newest = life.state.intents.newest
    order = builders.order(wo_id=wo_id, intent_id=None if newest is None else newest.intent_id)
    return events.OrderDispatched(wo_id=wo_id, wo_type="synthesize", step_id=life.step(), order=order, at=life.now), []


def _order_end(life: Life) -> Move:
    wo_id = life.pick([*life.state.open_orders, f"{work_order_id(life.step())}"])
    if f"OrderEnded:{wo_id}" in {entry.submission_id for entry in life.entries}:
        return _time(life)  # its id was used: the ledger would not take it
    failed = {"state": "failed", "error": {"code": "expired", "message": "late"}}
    fence = {"fence": life.state.fence} if life.state.run else {}
    return events.OrderEnded(
        wo_id=wo_id, receipt=receipt(wo_id, **fence, **life.pick([{}, {}, failed])), at=life.now
    ), []


def _fan_out(life: Life) -> Move:
    batch = life.batch()
    if life.state.tool_batch and life.pick([True, False]):
        batch = batch.model_copy(update={"batch_seq": batch.batch_seq + 1})
    held = life.pick([[], [], ["002"], ["001", "003"], ["009"]])
    return events.ToolBatchIssued(tool_batch_id=batch, call_ids=["003", "001", "002"], held=held, at=life.now), []


def _receipt(life: Life) -> Move:
    receipt = events.ToolReceipt(
        tool_batch_id=life.batch(),
        call_id=life.pick(CALLS),
        status=life.pick(["Succeeded", "Failed", "Cancelled"]),
        session_epoch=life.state.session_epoch,
        step_epoch=max(0, life.state.step_epoch - life.pick([0, 0, 0, 1])),
        at=life.now,
    )
    return receipt, []


def _complete(life: Life) -> Move:
    input_id, run = life.input(), life.run()
    result = TurnResult(
        response=f"answer {input_id}", outcome="success", session_id=SESSION, run_id=run, input_id=input_id
    )
    completed = events.RunCompleted(
        input_id=input_id, result_ref=f"RunCompleted:{run}/1", reply_ref=f"RunCompleted:{run}/2", at=life.now
    )
    return completed, [pack(result.model_dump()), result.response.encode()]


def _degraded(life: Life) -> Move:
    input_id = life.pick([life.input(), life.number("host"), *list(life.record.inputs)[-1:]])
    about = f"TurnDegraded:{SESSION}/{input_id}"
    if about in {entry.submission_id for entry in life.entries}:
        return _time(life)
    event = events.TurnDegraded(
        input_id=input_id, input_ref=f"{about}/1", reply_ref=f"{about}/2", delivered=False, at=life.now
    )
    return event, [b"asked", b"bare reply"]


def _received(life: Life) -> Move:
    lease = life.state.lease
    call_id = life.pick([*(life.state.tool_batch.held if life.state.tool_batch else []), "007"])
    command: messages.Command = life.pick(
        [
            messages.Steer(text=""),
            messages.FollowUp(text=""),
            messages.Pause(),
            messages.Pause(),
            messages.Resume(),
            messages.Resume(),
            messages.Cancel(reason=life.pick([None, "enough"])),
            messages.LeaseHeartbeat(
                lease_id=life.pick(["LEASE-none", lease.lease_id if lease else "LEASE-no"]), heartbeat_at=life.now
            ),
            messages.Approve(call_id=call_id),
            messages.Approve(call_id=call_id),
            messages.Deny(call_id=call_id, reason=None),
        ]
    )
    sent = messages.HostCommand(
        command_id=life.number("c"),
        target_run_id=life.pick([None, None, None, life.run(), RunId(session_id=SESSION, run_seq=999)]),
        expected_session_epoch=life.pick([None, None, None, life.state.session_epoch, 999]),
        issued_at=life.now,
        command=command,
    )
    bodies = [b"words"] if isinstance(command, messages.Steer | messages.FollowUp) else []
    return events.HostCommandReceived(command=sent, at=life.now), bodies


def _applied(life: Life) -> Move:
    command = life.state.received_command
    return events.HostCommandApplied(command_id=command.command_id if command else "c0", at=life.now), []


def _rejected(life: Life) -> Move:
    command = life.state.received_command
    return events.HostCommandRejected(command_id=command.command_id if command else "c0", reason="no", at=life.now), []


def _leased(life: Life) -> Move:
    ttl = life.pick([TERMS.ttl_secs, TERMS.ttl_secs, 1])
    lease = events.LeaseIssued(
        lease_id=derive_lease_id(life.run(), FIRST_LEASE),
        issued_at=life.now,
        expires_at=format_iso(parse_iso(life.now) + ttl),
        heartbeat_timeout_secs=TERMS.heartbeat_timeout_secs,
        at=life.now,
    )
    return lease, []


def _declare(life: Life) -> Move:
    number = life.state.intents.next_seq + life.pick([0, 0, 0, 1])
    intent = derive_intent_id(SESSION, number)
    message = derive_body_ref(f"RunRequested:{SESSION}/{life.input()}", 1)
    ref = life.pick([derive_body_ref(f"INTENT_DECLARED:{SESSION}/{number:03d}", 1), message])
    words = [] if ref == message else [f"intent {number}".encode()]
    return events.IntentDeclared(intent_id=intent, scope="session", objective_ref=ref, at=life.now), words


def _supersede(life: Life) -> Move:
    newest, number = life.state.intents.newest, life.state.intents.next_seq
    event = events.IntentSuperseded(
        intent_id=newest.intent_id if newest else derive_intent_id(SESSION, 1),
        superseded_by_intent_id=derive_intent_id(SESSION, number), reason="new_objective", at=life.now,
    )  # fmt: skip
    return event, []


def _close(life: Life) -> Move:
    newest = life.state.intents.newest
    closed = newest.intent_id if newest else derive_intent_id(SESSION, 1)
    return events.IntentClosed(intent_id=closed, outcome="closed", reason="close_signal", at=life.now), []


def _doubt(life: Life) -> Move:
    active = life.state.intents.active_ids
    chosen = life.pick([*active, derive_intent_id(SESSION, 999)])
    doubt = events.IntentConflict(reason="several_active", active_intent_ids=active, chosen=chosen, at=life.now)
    return doubt, []


def _time(life: Life) -> Move:
    return events.TimePassed(at=life.now), []


def _snapshot(life: Life) -> Move:
    made = journal.derive_counted_id("StateSnapshot", SESSION, life.state.tenure, life.record.appended + 1)
    if snapshots.is_due(life.record, 0):
        return snapshots.make_snapshot(life.record, made, life.now)
    lie = events.StateSnapshot(
        after=life.record.head, state_hash="0" * 64, record_ref=f"{made}/1", record_hash="0" * 64, record_version=1,
        at=life.now,
    )  # fmt: skip
    return lie, [b""]


def _moved(lifecycle: Any) -> Callable[[Life], Move]:
    return lambda life: (events.LifecycleChanged(lifecycle=lifecycle, at=life.now), [])


MOVES: dict[str, Callable[[Life], Move]] = {
    "take over": lambda life: (
        events.TookOver(
            tenure=max(1, life.state.tenure + life.pick([1, 1, 0, 2])), instance="ho2/1@a", at=life.now
        ),
        [],
    ),
    "start": lambda life: (
        events.SessionStarted(
            agent_id="ADMIN", session_config=CONFIG, max_in_flight_effects=2, applied_commands_max=2, at=life.now
        ),
        [],
    ),
    "request": _request,
    "run": lambda life: (events.RunStarted(at=life.now), []),
    "attach": lambda life: (events.RunAttached(deadline_at=at(life.second + life.pick([0, 50, 99])), at=life.now), []),
    "lease": _leased,
    "boundary": _boundary,
    "order": _order,
    "order end": _order_end,
    "batch": _fan_out,
    "receipt": _receipt,
    "complete": _complete,
    "fail": lambda life: (events.RunFailed(input_id=life.input(), code="x", at=life.now), []),
    "cancelled": lambda life: (events.RunCancelled(input_id=life.input(), at=life.now), []),
    "cancel": _moved("Cancelling"),
    "wait": _moved("WaitingInput"),
    "pause": _moved("Paused"),
    "jump": _moved("Running"),
    "degraded": _degraded,
    "received": _received,
    "applied": _applied,
    "rejected": _rejected,
    "declare": _declare,
    "supersede": _supersede,
    "close": _close,
    "doubt": _doubt,
    "time": _time,
    "snapshot": _snapshot,
    "end": lambda life: (events.SessionEnded(reason="x", turn_count=life.record.turn_count, at=life.now), []),
}  # fmt: skip
OPENING = ["degraded", "take over", "start"]
FORWARD = [
    ["request", "run", "lease"],
    ["boundary", "order", "order end"],
    ["order end", "declare", "doubt"],
    ["supersede", "declare", "close"],
    ["boundary", "batch", "order", "order", "order", "order end", "order end"],
    ["receipt", "receipt", "receipt", "receipt"],
    ["order end", "order end", "receipt", "receipt", "receipt"],
    ["received", "applied"],
    ["received", "applied", "rejected"],
    ["received", "applied", "pause", "wait"],
    ["order end", "order end", "complete"],
    ["complete", "snapshot", "request", "run"],
    ["fail", "snapshot"],
    ["cancelled", "snapshot", "request", "run", "boundary"],
]
"""What drives a session on, in runs of events, so that lives get long."""


# --- what must hold -------------------------------------------------------------------------------------------------


def faults(before: SessionState, event: SessionEvent, outcome: Reduced) -> list[str]:
    """Every invariant of the state that does not hold after this event."""
    after, kind = outcome.state, event.event.kind
    batch = after.tool_batch
    issues = kind in ("OrderDispatched", "ToolBatchIssued", "StepStarted") and outcome.rejection is None
    is_same_run = before.run_id is not None and before.run_id == after.run_id
    waits = after.lifecycle in ("Paused", "WaitingInput")
    statements = {
        "a rejection leaves the very same state": outcome.rejection is None or after is before,
        "epochs never fall": after.session_epoch >= before.session_epoch and after.step_epoch >= before.step_epoch,
        "run numbers never fall": after.next_run_seq >= before.next_run_seq,
        "tenures rise one by one": before.tenure <= after.tenure <= before.tenure + 1,
        "in_flight counts the open orders": len(after.open_orders) == len(after.open_orders),
        "in_flight keeps its limit": 0 <= len(after.open_orders) <= after.max_in_flight_effects,
        "open orders are orders of this step": set(after.open_orders)
        <= set(after.run.step_orders if after.run else []),
        "a batch belongs to the active step": batch is None
        or batch.tool_batch_id.step_id == (after.run and after.run.step_id),
        "a batch is replaced only when it is complete": before.tool_batch is None
        or before.tool_batch.is_complete
        or batch is None
        or batch.tool_batch_id == before.tool_batch.tool_batch_id,
        "a batch has a status per call": batch is None or sorted(batch.call_status) == batch.expected_call_ids,
        "held calls are pending": batch is None or not any(batch.call_status[call].is_terminal for call in batch.held),
        "a terminal call stays as it is": not _changed_terminals(before, after),
        "nothing is issued unless Running": not issues or before.lifecycle == "Running",
        "no step begins while a pause is asked for": kind != "StepStarted"
        or outcome.rejection is not None
        or not before.pause_requested,
        "a held call is not dispatched": kind != "OrderDispatched"
        or outcome.rejection is not None
        or batch is None
        or not any(event.event.wo_id.endswith(f".{call}") for call in batch.held),  # type: ignore[union-attr]
        "a session at rest has no run": after.run_id is not None
        or (after.lifecycle, (after.run and after.run.input_id), after.open_orders, batch, after.lease)
        == ("Idle", None, [], None, None),
        "a running session has a run with a configuration": after.lifecycle == "Idle"
        or (
            after.run_id is not None
            and ((after.run and after.run.config) is not None or after.lifecycle == "Cancelling")
        ),
        "terminal states are left at once": after.lifecycle not in ("Completed", "Failed", "Cancelled"),
        "whoever waits knows since when": waits == ((after.run and after.run.waiting_since) is not None),
        "intents are counted on": after.intents.next_seq >= before.intents.next_seq,
        "no intent comes twice": len(set(after.intents.active_ids)) == len(after.intents.active),
        "a closed session has no intent": after.status == "open" or not after.intents.active,
        "a closed session has no run": after.status == "open" or after.run_id is None,
        "a closed session stays closed": before.status == "open" or after.status == "closed",
        "a step belongs to the active run": (after.run and after.run.step_id) is None
        or (after.run and after.run.step_id).turn_id.run_id == after.run_id,
        "a run's deadline never moves backwards": not is_same_run
        or (after.deadline_at or "") >= (before.deadline_at or ""),
        "remembered commands are bounded": after.applied_commands_max is None
        or len(after.applied_command_ids) <= after.applied_commands_max,
        "a lease is that of the active run": after.lease is None
        or after.lease.lease_id == derive_lease_id(after.run_id or RunId(session_id=SESSION, run_seq=1), 1),
    }
    return [statement for statement, holds in statements.items() if not holds]


def _changed_terminals(before: SessionState, after: SessionState) -> bool:
    old, new = before.tool_batch, after.tool_batch
    if old is None or new is None or old.tool_batch_id != new.tool_batch_id:
        return False
    return any(status.is_terminal and new.call_status[call] != status for call, status in old.call_status.items())


# --- folding it again -----------------------------------------------------------------------------------------------


def _recorded(entry: WriteEntry) -> Recorded:
    taken = read_recorded(entry)
    assert taken is not None
    return taken


def replayed(entries: Sequence[WriteEntry]) -> SessionRecord:
    """The fold of the whole journal, from its bytes."""
    record = SessionRecord(SESSION, LIMITS)
    for entry in entries:
        record.take(_recorded(entry))
    return record


def from_snapshot(entries: Sequence[WriteEntry], number: int) -> SessionRecord:
    """The fold of what follows a snapshot, over what it stands for."""
    base = _recorded(entries[number])
    assert isinstance(base.event.event, events.StateSnapshot)
    packed = snapshots.read_packed(base, entries[number].prev)
    assert not isinstance(packed, str), packed
    record = snapshots.restore(packed, base, LIMITS)
    texts = {
        derive_body_ref(entry.submission_id, at_): body.decode(errors="replace")
        for entry in entries[:number]
        for at_, body in enumerate(entry.bodies)
    }
    record.history = record.history.filled(texts, record.limits)
    record.follow_ups = {ref: texts[ref] for ref in record.state.pending_follow_up}
    for ref in record.list_missing_objectives():
        record.name_objective(ref, texts.get(ref))
    for entry in entries[number:]:
        record.take(_recorded(entry))
    return record


def fingerprint(record: SessionRecord) -> bytes:
    """Everything that a record holds, as bytes."""
    run = record.run
    memo = [] if run is None else [sorted(run.steps), run.orders, run.dispatched_in, run.receipts, run.steers]
    rest = (
        record.history,
        record.inputs,
        record.commands,
        record.last_run,
        record.inputs_forgotten,
        record.unrequested_forgotten,
        record.follow_ups,
        record.objectives,
        record.orders.list_known(),
    )
    return pack(
        [
            pack_state(record.state),
            b"" if run is not None else snapshots.pack_record(record),
            record.head,
            record.appended,
            record.since_snapshot,
            memo,
            repr(rest),
        ]
    )


def differences(entries: Sequence[WriteEntry], live: SessionRecord) -> list[str]:
    """Which fold of this journal gives other bytes than the live one did."""
    wanted = fingerprint(live)
    found = [f"replay {number}" for number in (1, 2) if fingerprint(replayed(entries)) != wanted]
    places = [number for number, entry in enumerate(entries) if entry.event_type == "STATE_SNAPSHOT"]
    return found + [f"snapshot at {n}" for n in places if fingerprint(from_snapshot(entries, n)) != wanted]
