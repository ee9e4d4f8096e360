"""Driving a run to its one answer: deadline, failures, verdicts, refused appends, cancellation.

`Drives` is the long-lived owner of one task per active run; requesters wait for its answer, so that several of them get
the same one and none of them ends it by going away. A run that stands still keeps its task, and is let go of whenever
that is of use: whoever is asked for it next finds it in the record as it stands.
Source: spec pages "Session contracts" and "Session host and HO2 supervisor".
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import NoReturn

import structlog

from actors.ho2_supervisor import answers, commanding, lookback, turn, turn_record
from actors.ho2_supervisor.cancelling import Closing
from actors.ho2_supervisor.learning import Learning
from actors.ho2_supervisor.own_entries import OwnEntries
from actors.ho2_supervisor.owner import AppendRefused, EntryRefused, JournalLost, OwnedSession, is_gone
from actors.ho2_supervisor.run import Run
from actors.ho2_supervisor.session import leases
from actors.ho2_supervisor.session.commands import command_of
from actors.ho2_supervisor.session.journal import input_digest
from actors.ho2_supervisor.session.outcome import Outcome, RunStops
from actors.ho2_supervisor.session.record import KnownInput, RunMemo
from actors.ho2_supervisor.sessions import Sessions
from actors.ho2_supervisor.turn import Progress
from actors.ho2_supervisor.verdicts import failure_code, is_verdict
from actors.ho2_supervisor.waiting import Waiting, standstill_of
from bus.errors import BusError, RuntimeFault, SessionFault, WorkOrderFault
from bus.messages.ids import body_ref, follow_up_input, iso, parse_iso, requested_id
from bus.messages.session import (
    CallResult,
    GivenResult,
    HostCommand,
    LeaseHeartbeat,
    LeaseTerms,
    LifecycleChanged,
    RunAttached,
    RunFailed,
    RunRequested,
    SessionConfig,
    TimePassed,
    TurnResult,
    form_of,
)
from bus.pacing import Rate
from bus.port import Bus
from bus.streaming import Draft
from bus.turnstile import Ticket, Turnstile
from config.snapshot import Snapshot

_log = structlog.get_logger("ho2_supervisor")


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What a requester asked, kept until it stands in the journal."""

    input_id: str
    text: str
    overrides: SessionConfig | None
    deadline_at: str
    lease: LeaseTerms | None = None
    ref: str | None = None  # where the text stands already; None: the request brings it
    results: tuple[CallResult, ...] = ()  # of open calls; the text is what they say


@dataclass(slots=True, eq=False)
class Drive:
    """One active run being driven. `answer` is set exactly once."""

    session: OwnedSession
    input: TurnInput
    trace: str
    answer: asyncio.Future[TurnResult]
    draft: Draft
    ticket: Ticket  # for its turn among the runs of all clients
    waiting: Waiting = field(default_factory=Waiting)
    task: asyncio.Task[None] | None = None
    lease_watch: asyncio.Task[None] | None = None
    is_begun: bool = False  # its task has had its first step
    is_stopping: bool = False  # its task was cancelled because the run is being cancelled


class Drives:
    """Session id -> the drive of its active run."""

    def __init__(
        self,
        *,
        bus: Bus,
        snapshot: Snapshot,
        own_entries: OwnEntries,
        learning: Learning | None,
        closing: Closing,
    ) -> None:
        self._bus = bus
        self._snapshot = snapshot
        self._config = snapshot.config
        self._own_entries = own_entries
        self._learning = learning
        self._closing = closing
        self._drives: dict[str, Drive] = {}
        self._turnstile = Turnstile(
            each_max=self._config.ho2.principal_runs_max,
            all_max=self._config.ho2.runs_max,
            settings=self._config.bus,
            # As many as the gate lets wait at most.
            beside=Rate(self._config.ho2.principal_step_rate, self._config.ho2.principal_step_burst, math.inf),
        )
        self._following: dict[str, asyncio.Task[None]] = {}
        self._is_draining = False
        self.sessions: Sessions | None = None

    def __len__(self) -> int:
        return len(self._drives)

    def is_running(self, session_id: str) -> bool:
        """Whether a run of this session is at work here, or about to begin."""
        drive = self._drives.get(session_id)
        return session_id in self._following or (drive is not None and drive.waiting.standstill is None)

    def of(self, session: OwnedSession) -> Drive | None:
        """The drive of the session's active run."""
        return self._drives.get(session.session_id)

    def deadline_at(self, remaining_s: float) -> str:
        """When a run must be over: the requester's deadline less the reserve for recording and replying, capped."""
        own_s = remaining_s - self._config.ho2.reply_reserve_ms / 1000
        return iso(self._bus.now() + max(0.0, min(own_s, self._config.budget.timeout_seconds)))

    def begin(self, session: OwnedSession, wanted: TurnInput, *, trace: str) -> Drive:
        """A new run for this input, requested, and driven as soon as it is its turn.

        Raises BusError(busy) when `ho2.runs_max` are at work or wait, for whoever has one among them.
        """
        principal = self._bus.principal
        running = [drive.ticket.principal for drive in self._drives.values() if drive.waiting.standstill is None]
        if len(running) >= self._config.ho2.runs_max and principal in running:
            raise BusError(
                "busy",
                f"{len(running)} runs are at work or wait; the limit is ho2.runs_max",
                retry_after_ms=self._config.bus.busy_retry_ms,
            )
        self._request(session, wanted, trace)
        return self._start(session, wanted, trace, Draft())

    def resume(self, session: OwnedSession) -> None:
        """Drive the unfinished run of a session that was just taken over, if it has one."""
        memo = session.record.run
        if memo is None:
            return
        wanted = TurnInput(
            input_id=memo.requested.input_id,
            text=memo.input_text or "",
            overrides=memo.requested.run_overrides,
            deadline_at=memo.requested.deadline_at,
            lease=memo.requested.lease,
            ref=None if memo.input_text is not None else memo.requested.input_ref,
            results=tuple(
                CallResult(tool_call_id=given.tool_call_id, content=text or "")
                for given, text in zip(memo.requested.results, memo.results, strict=True)
            ),
        )
        with self._bus.on_behalf_of(memo.requested.principal):
            self._start(session, wanted, "", Draft(before="take_over"))

    def attach(self, drive: Drive, deadline_at: str) -> None:
        """Another request for the same input: the deadline moves, never backwards, never past the longest life."""
        session = drive.session
        requested = session.record.run
        current = session.record.state.deadline_at
        if requested is None or current is None:
            return  # the run is over but for the barrier; its answer is on the way
        latest = iso(parse_iso(requested.requested.at) + self._config.budget.timeout_seconds)
        moved = min(deadline_at, latest)
        if moved <= current:
            return
        session.append(RunAttached(deadline_at=moved, at=session.now()), trace=drive.trace)
        session.flush()
        if drive.waiting.standstill is None:
            drive.waiting.due(self._monotonic(moved))

    def renew(self, drive: Drive) -> None:
        """Who asked for a lease asks again: the lease goes on."""
        session, now = drive.session, drive.session.now()
        lease = session.record.state.lease
        if lease is None:
            return
        heartbeat = LeaseHeartbeat(lease_id=lease.lease_id, heartbeat_at=now)
        command = HostCommand(command_id=f"{lease.lease_id}:{now}", issued_at=now, command=heartbeat)
        self.notice(session, commanding.receive(session, command, self._config, trace=drive.trace))
        session.flush()

    def notice(self, session: OwnedSession, outcome: Outcome | None) -> None:
        """What an event did to the session's run: it is cancelled, goes on, or sees what was said when it looks."""
        drive = self.of(session)
        if drive is None or outcome is None:
            return
        if any(isinstance(effect, RunStops) for effect in outcome.effects):
            drive.is_stopping = True
            if drive.is_begun and drive.task is not None:
                drive.task.cancel()
        drive.waiting.changed()

    async def cancel(self, session: OwnedSession) -> bool:
        """The active run of a session that ends is cancelled; False if the session is to be read again first."""
        drive = self.of(session)
        if drive is None:
            return False
        if session.record.state.lifecycle != "Cancelling":
            self.notice(session, session.append(LifecycleChanged(lifecycle="Cancelling", at=session.now())))
        try:
            await asyncio.shield(drive.answer)
        except SessionFault as fault:
            if fault.code != "moved":
                raise
            return False
        return True

    def stop(self, drive: Drive, fault: RuntimeFault) -> None:
        """Drive it no further: somebody else will, or has. Whoever waits is told why."""
        if drive.task is not None:
            drive.task.cancel()
        if self._drives.get(drive.session.session_id) is drive:
            del self._drives[drive.session.session_id]
        if not drive.answer.done():
            drive.answer.set_exception(fault)

    def let_go(self, session_id: str) -> None:
        """A run that stands still is driven here no more; it stands in the record as it is."""
        drive = self._drives.get(session_id)
        if drive is not None and drive.waiting.standstill is not None:
            self._registry.drop(drive.session)
            self.stop(drive, SessionFault("moved", f"session {session_id} is given up here", retryable=True))

    async def drain(self) -> None:
        """Every run that is at work has its answer; those that stand still are let go."""
        self._is_draining = True
        while self._drives:
            for session_id in list(self._drives):
                self.let_go(session_id)
            await asyncio.gather(*(drive.waiting.change() for drive in self._drives.values()))

    # --- what follows a run -------------------------------------------------------------------------------------------

    def follow(self, session: OwnedSession) -> None:
        """The oldest message that waits for the end of the run starts the next one, unless a run is active."""
        session_id = session.session_id
        if self._is_draining or session_id in self._following or not self._has_follow_up(session):
            return
        self._following[session_id] = asyncio.get_running_loop().create_task(self._follow(session))

    async def turnover(self, session: OwnedSession) -> None:
        """Returns when what keeps a follow-up waiting has changed. Raises SessionFault(moved) if nothing here does."""
        drive, following = self.of(session), self._following.get(session.session_id)
        if following is None and drive is None:
            raise SessionFault("moved", f"session {session.session_id} is being given up", retryable=True)
        if following is not None:
            await asyncio.shield(following)
        elif drive is not None:
            await drive.waiting.change()

    def _has_follow_up(self, session: OwnedSession) -> bool:
        state = session.record.state
        is_free = state.run_id is None and session.session_id not in self._drives and state.status == "open"
        return is_free and bool(state.pending_follow_up) and self._registry.held(session.session_id) is session

    async def _follow(self, session: OwnedSession) -> None:
        """From its last step on there is nobody who sees to it: a run that ends in the next one has to."""
        try:
            await self._begin_follow_up(session)
        finally:
            del self._following[session.session_id]

    async def _begin_follow_up(self, session: OwnedSession) -> None:
        ref = session.record.state.pending_follow_up[0]
        try:
            await session.barrier()
            text = await session.text(ref)
        except AppendRefused:
            self._registry.drop(session)  # whoever reads it next sees to its follow-ups, this one if nobody does
            return
        except RuntimeFault as fault:
            if not is_gone(fault):
                _log.warning("follow_up_not_started", session_id=session.session_id, code=fault.code)
                self._registry.drop(session)
                return
            text = ""  # it was erased: its run fails, and says so
        if not self._has_follow_up(session) or session.record.state.pending_follow_up[0] != ref:
            return
        wanted = TurnInput(
            input_id=follow_up_input(command_of(ref)),
            text=text,
            overrides=None,
            deadline_at=self.deadline_at(self._config.sessions.follow_up_timeout_ms / 1000),
            ref=ref,
        )
        self._request(session, wanted, "")
        self._start(session, wanted, "", Draft())

    # --- one drive ----------------------------------------------------------------------------------------------------

    def _start(self, session: OwnedSession, wanted: TurnInput, trace: str, draft: Draft) -> Drive:
        loop = asyncio.get_running_loop()
        drive = Drive(session, wanted, trace, loop.create_future(), draft, self._turnstile.ticket(self._bus.principal))
        drive.waiting.on_standstill = drive.ticket.rest  # what stands still keeps nobody else waiting
        drive.waiting.standstill = standstill_of(session.record.state.lifecycle)
        drive.waiting.has_stood_still = drive.waiting.standstill is not None
        drive.answer.add_done_callback(_seen)
        drive.answer.add_done_callback(lambda _: drive.waiting.changed())
        earlier = self._drives.get(session.session_id)
        if earlier is not None and earlier.session is not session:  # it stood still, and the session was read anew
            self.stop(earlier, SessionFault("moved", f"session {session.session_id} was read anew", retryable=True))
        self._drives[session.session_id] = drive
        drive.task = loop.create_task(self._drive(drive))
        drive.task.add_done_callback(lambda task: self._over(drive, task))
        if wanted.lease is not None:
            drive.lease_watch = loop.create_task(self._watch_lease(drive, wanted.lease))
        return drive

    async def _watch_lease(self, drive: Drive, terms: LeaseTerms) -> None:
        """The clock is journaled as soon as the run's lease is over by it."""
        session = drive.session
        while True:
            expires_at = leases.expiry(session.record.state)
            # Before it was issued, and it is never over sooner than that.
            left_s = terms.heartbeat_timeout_secs if expires_at is None else parse_iso(expires_at) - self._bus.now()
            if expires_at is not None and left_s <= 0:
                break
            await self._bus.sleep(left_s)
        self.notice(session, session.append(TimePassed(at=session.now()), trace=drive.trace))

    async def _drive(self, drive: Drive) -> None:
        drive.is_begun = True
        try:
            result = await self._answered(drive)
        except RuntimeFault as fault:
            # Whatever a run that is not over is left for (a question that the record did not answer): who reads it next
            # drives it on, this one if nobody does.
            if isinstance(fault, JournalLost) or drive.session.record.state.run_id is not None:
                self._registry.drop(drive.session)
            if not drive.answer.done():
                drive.answer.set_exception(fault)
        else:
            if not drive.answer.done():
                drive.answer.set_result(result)

    def _over(self, drive: Drive, task: asyncio.Task[None]) -> None:
        """The drive has ended; a programming error reaches the requesters, and the session is read again when asked."""
        drive.ticket.leave()
        if self._drives.get(drive.session.session_id) is drive:
            del self._drives[drive.session.session_id]
        if drive.lease_watch is not None:
            drive.lease_watch.cancel()
        drive.waiting.changed()
        self.follow(drive.session)
        if task.cancelled() or task.exception() is None:
            return
        self._registry.drop(drive.session)
        error = task.exception()
        if error is not None and not drive.answer.done():
            drive.answer.set_exception(error)

    async def _answered(self, drive: Drive) -> TurnResult:
        """The run's one answer. After a refused append the journal decides: answered by the host, or driven again.

        What the record will never take is not tried twice: the run fails without it.
        """
        session, input_id = drive.session, drive.input.input_id
        refused: EntryRefused | None = None
        for _ in range(self._config.ho2.takeover_attempts_max):
            try:
                if refused is None:
                    return await self._attempt(drive)
                await self._give_up(drive, refused)
            except asyncio.CancelledError:
                if not _is_run_stopped(drive):
                    raise
            except AppendRefused:
                await self._registry.reread(session)
            except EntryRefused as fault:
                if refused is not None:
                    self._registry.drop(session)
                    raise
                refused = fault
                await self._registry.reread(session)
            known = session.record.inputs.get(input_id) or await self._long_ago(drive, refused)
            if known is None:
                self._request(drive.session, drive.input, drive.trace)
            elif known.became != "running":
                return await answers.recorded(session, known)
        self._registry.drop(session)
        raise SessionFault("moved", f"session {session.session_id}: its head keeps moving", retryable=True)

    async def _long_ago(self, drive: Drive, refused: EntryRefused | None) -> KnownInput | None:
        """The input of a request that the record refused because it had come before; None: nothing was refused.

        Raises what was refused for another reason: there is no run that could fail.
        """
        if refused is None:
            return None
        known = await lookback.input_of(drive.session, drive.input.input_id)
        if known is None:
            raise refused
        if known.digest not in (None, input_digest(known.input_id, drive.input.text)):
            raise SessionFault("input_conflict", f"input {known.input_id} came before with another text")
        if known.form not in (None, form_of(drive.input.overrides)):
            raise SessionFault("input_conflict", f"input {known.input_id} came before with another output_schema")
        return known

    async def _attempt(self, drive: Drive) -> TurnResult:
        """The turn under the run's deadline; a failure or a verdict is journaled before it is told."""
        session, progress = drive.session, Progress()
        memo = session.record.run
        if memo is not None and session.record.state.lifecycle == "Cancelling":
            return await self._cancelled(drive, memo)
        agent = self._snapshot.agents.get(session.record.state.agent_id or "")
        run: Run | None = None
        fault: RuntimeFault = WorkOrderFault("deadline_exceeded", f"input {drive.input.input_id}: no time is left")
        try:
            if memo is None or agent is None:
                raise WorkOrderFault("execution_error", f"agent {session.record.state.agent_id} is not configured")
            if memo.input_text is None:
                memo.input_text = await session.text(memo.requested.input_ref)
            run = Run(
                session=session, memo=memo, bus=self._bus, config=self._config, agent=agent,
                own_entries=self._own_entries, learning=self._learning, trace=drive.trace, draft=drive.draft,
                waiting=drive.waiting, ticket=drive.ticket,
            )  # fmt: skip
            _log.info(
                "run_started", turn=str(run.run_id), input_id=run.input_id, resumed=drive.draft.before is not None
            )
            if run.remaining_s() > 0:
                deadline_at = session.record.state.deadline_at or drive.input.deadline_at
                due = self._monotonic(deadline_at) if drive.waiting.standstill is None else None
                async with asyncio.timeout_at(due) as drive.waiting.scope:
                    if due is not None:
                        await drive.ticket.turn()
                    return _told(run, await turn.take_turn(run, progress))
        except TimeoutError:
            pass
        except (EntryRefused, JournalLost):
            raise
        except RuntimeFault as caught:
            fault = caught
        finally:
            drive.waiting.scope = None
        return await self._ended(drive, run, fault, progress)

    async def _cancelled(self, drive: Drive, memo: RunMemo) -> TurnResult:
        """The run is over, on purpose: nothing of it is open, and that is the one answer to its input."""
        result = await self._closing.close(drive.session, memo, trace=drive.trace)
        _log.info("turn_cancelled", turn=str(memo.run_id), input_id=memo.requested.input_id)
        return result

    async def _ended(self, drive: Drive, run: Run | None, fault: RuntimeFault, progress: Progress) -> TurnResult:
        session, active = drive.session, drive.session.record.run
        if active is None or active.requested.input_id != drive.input.input_id:
            # The deadline passed while RunCompleted was on its way: it decides.
            await session.barrier()
            return await answers.recorded(session, session.record.inputs[drive.input.input_id])
        if run is not None and is_verdict(fault.code):
            return _told(run, await turn_record.record_verdict(run, fault, progress.tool_calls))
        failed = WorkOrderFault(failure_code(fault.code), fault.detail) if fault.code == "not_found" else fault
        failed.facts |= turn_record.spent(run)
        self._append_failed(drive, failed)
        session.flush(urgent=True)  # before the host's TurnDegraded, which moves the head
        if self._learning is not None:
            self._learning.log_later(session, trace=drive.trace)
        raise failed

    async def _give_up(self, drive: Drive, refused: EntryRefused) -> NoReturn:
        """RunFailed, durable, in place of what the record refused; then the requesters are told."""
        self._append_failed(drive, refused)
        await drive.session.barrier()
        raise WorkOrderFault(refused.code, refused.detail)

    def _append_failed(self, drive: Drive, fault: RuntimeFault) -> None:
        session, active = drive.session, drive.session.record.run
        turn_id = str(active.run_id) if active is not None else ""
        _log.warning("run_failed", turn=turn_id, input_id=drive.input.input_id, code=fault.code)
        detail_ref = body_ref(session.new_id("RunFailed"), 1)
        session.append(
            RunFailed(input_id=drive.input.input_id, code=fault.code, detail_ref=detail_ref, at=session.now()),
            bodies=[fault.detail.encode()],
            trace=drive.trace,
        )

    def _request(self, session: OwnedSession, wanted: TurnInput, trace: str) -> None:
        """RunRequested: the input stands in the journal, its text as a body, and each result that it brings."""
        submission_id = requested_id(session.session_id, wanted.input_id)
        open_calls = session.record.state.open_calls if wanted.results else None
        session.append(
            RunRequested(
                input_ref=wanted.ref or body_ref(submission_id, 1),
                input_id=wanted.input_id,
                input_digest=input_digest(wanted.input_id, wanted.text),
                results=[
                    GivenResult(tool_call_id=result.tool_call_id, content_ref=body_ref(submission_id, number))
                    for number, result in enumerate(wanted.results, start=2)
                ],
                continues=None if open_calls is None else open_calls.wo_id,
                run_overrides=wanted.overrides,
                deadline_at=wanted.deadline_at,
                config_digest=self._snapshot.digest,
                lease=wanted.lease,
                principal=self._bus.principal,
                at=session.now(),
            ),
            bodies=[]
            if wanted.ref
            else [wanted.text.encode(), *(result.content.encode() for result in wanted.results)],
            trace=trace,
        )

    def _monotonic(self, deadline_at: str) -> float:
        """A wall-clock deadline on the loop's clock, as of now."""
        return self._bus.clock.monotonic() + parse_iso(deadline_at) - self._bus.now()

    @property
    def _registry(self) -> Sessions:
        if self.sessions is None:
            raise AssertionError("the registry is set before anything is driven")
        return self.sessions


def _is_run_stopped(drive: Drive) -> bool:
    """Whether a cancellation of the drive's task means its run: then the task goes on, and closes it."""
    task = asyncio.current_task()
    if task is None or not drive.is_stopping:
        return False
    drive.is_stopping = False
    task.uncancel()
    return True


def _told(run: Run, result: TurnResult) -> TurnResult:
    """The same result; the log has how the turn ended, and none of its text."""
    _log.info(
        "turn_answered",
        turn=str(run.run_id),
        input_id=run.input_id,
        outcome=result.outcome,
        code=result.code,
        elapsed_ms=result.elapsed_ms,
        rounds=run.round_count,
    )
    return result


def _seen(future: asyncio.Future[TurnResult]) -> None:
    """A run's failure may find nobody waiting; asyncio need not complain."""
    if not future.cancelled():
        future.exception()
