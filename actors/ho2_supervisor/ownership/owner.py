"""A session in the hands of its owner: append to its journal, wait for durability, read it back, take it over.

Appending is synchronous (reduce, fold, queue); entries that lie next to each other leave in one write, and a step that
brings no text leaves in the next event's entry. `flush` sends
what is queued without waiting, but nothing behind a take-over that is not known to stand: another one may. `barrier`
returns when all of it is durable. A refused append means that the stream moved on without us, or that the record will
never take this entry; the next barrier says which, whoever appended.
Entries of other streams that rest on appends leave with them, in one write, and stand only if those do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hobus.actors.ho2_supervisor.ownership import loading
from hobus.actors.ho2_supervisor.ownership.loading import Loaded
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.session import journal, snapshot
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import Reduced
from hobus.bus.errors import LedgerError, RuntimeFault, SessionFault
from hobus.bus.messages.ids import derive_candidates_key, format_iso_us, parse_iso_us
from hobus.bus.messages.ledger import Ack, Entry, Provenance, WriteEntry
from hobus.bus.messages.session import Remembered, TurnResult
from hobus.bus.messages.transcript import Told
from hobus.bus.record import text_parts
from hobus.bus.record.journal import TOLD_WITH, Recorded, read_learned
from hobus.bus.record.session_facts import SessionEvent, SessionFact, TookOver


class AppendRefused(Exception):
    """Say that the stream's head or tenure is not this owner's: drop the state and read again."""

    def __init__(self, ack: Ack) -> None:
        super().__init__(f"{ack.outcome} {ack.code} {ack.submission_id}".strip())
        self.ack = ack


class EntryRefused(RuntimeFault):
    """Say that the record never takes this entry, however often it is sent; the stream stands where it stood before.

    No verdict on the input: the run has failed, under a code by which the host degrades.
    """

    def __init__(self, session_id: str, entry_id: str, why: str) -> None:
        super().__init__("execution_error", f"session {session_id}: the record does not take {entry_id}: {why}")


class BodyMissing(LedgerError):
    """Say that a ref leads to no body: what it names never committed. Its code is not a session's `not_found`."""

    def __init__(self, ref: str) -> None:
        super().__init__("execution_error", f"the record has no body {ref}")


class SessionMoved(SessionFault):
    """Say that the session has another owner now, or will have one: whoever asks again comes to that."""

    def __init__(self, session_id: str, why: str) -> None:
        super().__init__("moved", f"session {session_id} {why}", retryable=True)


class JournalLost(LedgerError):
    """Say that the record does not answer: the last append is unknown, so the state in memory is given up."""


NOTHING_KNOWN: Mapping[str, str] = {}

_NEVER_TAKEN = frozenset({"too_large", "denied", "malformed", "rejected"})
"""Faults of a whole write that sending it again does not fix, while the record as such is at hand."""


def make_refusal(ack: Ack, entry: WriteEntry) -> AppendRefused | EntryRefused:
    """Return what a refused append means to the owner.

    Two owners derive the same ids: a conflict under another head or tenure is the other owner's entry, no defect.
    """
    tenure_before = (entry.tenure or 0) - (entry.event_type == "TookOver")
    is_anothers = ack.code == "conflict" and (ack.head, ack.tenure) != (entry.prev, tenure_before)
    if is_anothers or ack.outcome == "lost" or ack.code in ("head_mismatch", "tenure_mismatch"):
        return AppendRefused(ack)
    return EntryRefused(entry.provenance.session_id, entry.submission_id, f"refused as {ack.code}")


def _takes_over(entries: Sequence[WriteEntry]) -> bool:
    return "TookOver" in [entry.event_type for entry in entries]


class OwnedSession:
    """Hold one session's record in memory and extend it."""

    def __init__(
        self, session_id: str, resources: Resources, *, on_lost: Callable[[OwnedSession], None] = lambda _: None
    ) -> None:
        self.session_id = session_id
        self.record = SessionRecord(session_id, resources.limits)
        self.loaded: Loaded | None = None  # what the last reading took; None: nothing was read
        self.tenure = 0  # of this owner; 0 until it took the session over
        self.barriers = 0
        self.durable = -1  # sequence of the newest of its entries that is known to stand
        self.older_lines: text_parts.KeptText | None = None  # of its history, as an order recorded them last
        self.instructions: dict[str, str] = {}  # its agent's, as an order recorded them last -> where they stand
        self.told: Told | None = None  # of its history, as a model was asked with it last
        self.too_long: dict[tuple[str | None, str | None], int] = {}  # provider, model -> tokens that it could not read
        self.untold: Remembered | None = None  # of what a turn stated that was answered before that was known
        self._bus = resources.bus
        self._client = resources.client
        self._resources = resources
        self._unsent: list[WriteEntry] = []
        self._following: list[WriteEntry] = []
        self._earlier: list[SessionEvent] = []  # folded; the next entry tells them before its own event
        self._lost: Exception | None = None
        self._taking_over: asyncio.Future[None] | None = None  # until the record has said whether TookOver stands
        self._on_lost = on_lost
        self._about: tuple[str, int, int, str] | None = None
        self._provenance = Provenance()

    def is_under(self, resources: Resources) -> bool:
        return self._resources is resources

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read(self, *, page: int) -> None:
        """Read the record anew from the stream; what was appended and refused is gone."""
        self.loaded = await loading.load(self._client, self.session_id, self._resources.limits, page=page)
        self.record, self._unsent, self._following, self._lost = self.loaded.record, [], [], None
        self._earlier = []
        self.older_lines, self.instructions = None, {}

    async def text(self, ref: str, known: Mapping[str, str] = NOTHING_KNOWN) -> str:
        """Return the text behind a ref, also one that lists its parts. Raises LedgerError(erased) or BodyMissing.

        `known`: texts by their refs that need not be read.
        """
        body = await self.body(ref)
        parts = text_parts.read_parts(body)
        if parts is None:
            return body.decode(errors="replace")
        return text_parts.join(parts, await self.texts([of for of, _ in parts if of is not None], known))

    async def find_text(self, ref: str) -> str | None:
        """Return the text behind a ref; None if it was erased, or never was."""
        try:
            return await self.text(ref)
        except RuntimeFault as fault:
            if not isinstance(fault, BodyMissing) and fault.code != "erased":
                raise
        return None

    async def body(self, ref: str) -> bytes:
        """Return the bytes behind a ref. Raises LedgerError(erased) or BodyMissing.

        A reply whose own record never committed (its gateway died before the ledger was back) is taken from its turn.
        """
        try:
            return await self._client.body(ref)
        except RuntimeFault as fault:
            if fault.code != "not_found":
                raise
            reply = self.record.history.reply_behind(ref)
            if reply is None:
                raise BodyMissing(ref) from fault
            return reply.encode()

    async def learned(self, input_id: str) -> tuple[list[str], Remembered | None]:
        """Return what the input's answer says of memory beside RunCompleted, as CONSOLIDATION_DUE has it."""
        [due] = await self._client.lookup(once=[derive_candidates_key(self.session_id, input_id)], with_bodies=True)
        return read_learned(due)

    async def entries(self, ids: Sequence[str], *, once: Sequence[str] = ()) -> list[Entry | None]:
        """Return the entries of these ids, then of these once keys, in one question; None where nothing is."""
        return await self._client.lookup(ids, once, with_bodies=True)

    async def texts(self, refs: Sequence[str], known: Mapping[str, str] = NOTHING_KNOWN) -> dict[str, str]:
        return {ref: known[ref] if ref in known else await self.text(ref, known) for ref in refs}

    # --- appending ----------------------------------------------------------------------------------------------------

    def new_id(self, kind: str) -> str:
        """Return the submission id that the next append of this counted kind gets."""
        return journal.derive_counted_id(kind, self.session_id, self.tenure, self.record.appended + 1)

    def append(  # noqa: PLR0913 - what an entry is made of
        self,
        event: SessionFact,
        *,
        bodies: Sequence[bytes] = (),
        once: str | None = None,
        work_order_id: str = "",
        trace: str = "",
        result: TurnResult | None = None,
    ) -> Reduced:
        """Fold the event into the state and queue it for the journal.

        Raises RuntimeFault(internal) for one that does not apply, and changes nothing. `result`: what a body is packed
        of.
        """
        state = self.record.state
        enveloped = journal.make_envelope(state, event)
        outcome = reduce(state, enveloped)
        if outcome.rejection is not None:
            about = f"session {self.session_id}: {event.kind}"  # a fault of this program
            raise RuntimeFault("internal", f"{about} was rejected: {outcome.rejection.reason}")
        if type(event) in TOLD_WITH:
            self.record.tell(Recorded("", enveloped, ()), outcome)
            self._earlier.append(enveloped)
            return outcome
        run = state.run or outcome.state.run
        entry = self._queue(
            enveloped,
            bodies=bodies,
            once=once,
            provenance=self.provenance(0 if run is None else run.run_id.run_seq, work_order_id),
            trace=trace,
        )
        self.record.take(Recorded(entry.submission_id, enveloped, tuple(entry.bodies), result=result), outcome)
        return outcome

    def _queue(self, event: SessionEvent, **facts: Any) -> WriteEntry:
        """Queue the entry of an event together with earlier events that were to leave with it."""
        said = event.event
        entry = journal.make_entry(
            event,
            submission_id=journal.derive_event_id(self.session_id, said, event.run_id) or self.new_id(said.kind),
            prev=self.record.head,
            tenure=self.tenure,
            at_us=parse_iso_us(said.at),
            earlier=self._earlier,
            **facts,
        )
        self._earlier = []
        self._unsent.append(entry)
        return entry

    def _queue_earlier(self) -> None:
        """Queue an entry for earlier events that no other event takes along."""
        if self._earlier:
            last = self._earlier.pop()
            run_seq = 0 if last.run_id is None else last.run_id.run_seq
            entry = self._queue(last, provenance=self.provenance(run_seq))
            self.record.pass_over(entry.submission_id)

    def take_over(self) -> None:
        """Fence whoever owned the session before; durable with the next barrier."""
        self.tenure = self.record.state.tenure + 1
        self.append(TookOver(tenure=self.tenure, instance=self._bus.instance, at=self.now()))

    def record_state(self, *, every: int) -> bool:
        """Send STATE_SNAPSHOT if it is due; nobody waits for it, and with a crash nothing is lost."""
        if self.is_lost or self.tenure != self.record.state.tenure or not snapshot.is_due(self.record, every):
            return False
        self._queue_earlier()
        event, bodies = snapshot.make_snapshot(self.record, self.new_id("StateSnapshot"), self.now())
        self.append(event, bodies=bodies)
        self.flush()
        return True

    def queue_along(self, entry: WriteEntry) -> None:
        """Queue an entry of another stream between the appends; it stands before whatever comes next.

        It has no condition of its own, so it stands also if what comes next is refused.
        """
        self._unsent.append(entry)

    def note(self, entry: WriteEntry) -> None:
        """Send an entry of another stream about what is durable already; no barrier waits for it."""
        self._follow([entry])

    async def write_beside(self, entry: WriteEntry) -> Ack | None:
        """Return the answer to an entry of another stream; None: the record cannot take it. Raises JournalLost."""
        try:
            [ack] = await self._client.write([entry], trace=entry.trace)
        except RuntimeFault as fault:
            if fault.code == "unavailable":
                raise self._give_up(fault) from fault
            return None  # refused for good, or never sent
        return ack

    def also(self, entry: WriteEntry) -> None:
        """Queue an entry of another stream that stands only if everything appended so far does; no barrier."""
        self._following.append(entry)

    def leave(self) -> bool:
        """Send what is queued now; whoever acts on it must see to it that it stands first.

        Return False where that cannot be had: the next barrier says why, or waits for a take-over.
        """
        self.flush(at_once=True)
        return self._lost is None and self._taking_over is None

    def flush(self, *, urgent: bool = False, at_once: bool = False) -> None:
        """Send what is queued; a refusal shows at the next barrier. `urgent`: somebody waits for its ack."""
        if self._lost is not None or self._taking_over is not None:
            return
        self._queue_earlier()
        if not self._unsent:
            return
        self.barriers += urgent or at_once
        entries, self._unsent = self._unsent, []
        following: list[WriteEntry] = []
        if [entry for entry in entries if entry.prev is not None]:  # refused, if anything before them in the stream was
            following, self._following = self._following, []
        try:
            submitted = self._client.submit(
                [*entries, *following],
                trace=entries[0].trace,
                urgent=urgent,
                at_once=at_once,
                resting=len(following),
            )
        except LedgerError as fault:
            self._lose(self._give_up(fault))
        else:
            if _takes_over(entries):
                self._taking_over = asyncio.get_running_loop().create_future()
            submitted.then(partial(self._on_acknowledged, entries))

    async def barrier(self) -> None:
        """Wait until everything appended is durable. Raises AppendRefused, or JournalLost if the ledger stays away."""
        if self._lost is not None:
            raise self._lost
        try:
            if self._taking_over is not None:
                await self._client.flush()  # the client has the answer first; `_on_acknowledged` follows
            if self._taking_over is not None:
                await asyncio.shield(self._taking_over)
            self.flush(urgent=True)
            await self._client.flush()
        except RuntimeFault as fault:
            self._lose(self._give_up(fault))
        if self._lost is not None:
            raise self._lost
        if not self._unsent:  # what was said to follow after the last append had left
            following, self._following = self._following, []
            self._follow(following)

    def heed(self) -> None:
        """Raise as a barrier does if an append is known to be refused: an order may have failed by that alone."""
        if self._lost is not None:
            raise self._lost

    @property
    def is_lost(self) -> bool:
        """Return whether an append was refused or has no known outcome: the state in memory is not to be trusted."""
        return self._lost is not None

    def _on_acknowledged(self, entries: Sequence[WriteEntry], outcome: list[Ack] | RuntimeFault) -> None:
        """Keep the first refusal of these entries, since what follows rests on them."""
        taking_over = None
        if self._taking_over is not None and _takes_over(entries):
            taking_over, self._taking_over = self._taking_over, None
            if not taking_over.done():
                taking_over.set_result(None)
        if not isinstance(outcome, RuntimeFault):
            acks = outcome[: len(entries)]
            self.durable = max(self.durable, *[ack.sequence for ack in acks])
            refused = [(ack, entry) for ack, entry in zip(acks, entries, strict=True) if not ack.is_first]
            if refused:
                self._lose(self._lost or make_refusal(*refused[0]))
            elif taking_over is not None:
                self.flush()
        elif outcome.code in _NEVER_TAKEN and not outcome.retryable:
            what = f"{outcome.code}: {outcome.detail}"
            self._lose(self._lost or EntryRefused(self.session_id, entries[0].submission_id, what))
        else:
            self._lose(self._lost or self._give_up(outcome))

    def _lose(self, fault: Exception) -> None:
        """Keep the fault for the next barrier, and tell whoever sees to what may be open."""
        self._lost = fault
        self._on_lost(self)

    def _follow(self, following: list[WriteEntry]) -> None:
        """Queue these in one write; with the next one while too much is unacknowledged."""
        if not following:
            return
        try:
            self._client.submit(following, trace=following[0].trace)
        except LedgerError:
            self._following[:0] = following

    def _give_up(self, fault: RuntimeFault) -> JournalLost:
        """Give the state up, also after a write that the ledger cannot take at all: what follows rests on it."""
        return JournalLost(
            fault.code, f"journal of session {self.session_id}: {fault.detail}", retryable=fault.retryable
        )

    # --- what entries carry -------------------------------------------------------------------------------------------

    def now(self) -> str:
        """Return the bus's wall clock as a timestamp."""
        return format_iso_us(round(self._bus.now() * 1_000_000))

    @property
    def package_id(self) -> str:
        """Return the package that owns the session's agent; empty: none."""
        return self._resources.packages.get(self.record.state.agent_id or "", "")

    def provenance(self, run_seq: int, work_order_id: str = "") -> Provenance:
        state = self.record.state
        about = (
            state.agent_id or "",
            run_seq,
            0 if state.run is None or state.run.turn_id is None else state.run.turn_id.turn_seq,
            work_order_id,
        )
        if about != self._about:  # entries that lie next to each other are about the same
            agent_id, _, round_seq, _ = self._about = about
            agent = self._resources.snapshot.agents.get(agent_id)
            of_agent = ("", "") if agent is None else (agent.agent_class, agent.framework_id)
            self._provenance = Provenance(
                agent_id, *of_agent, self.package_id, self.session_id, run_seq, round_seq, work_order_id, "ho2"
            )
        return self._provenance
