"""Driving a run to its one answer: deadline, failures, verdicts, refused appends.

`Drives` is the long-lived owner of one task per active run; requesters wait for its answer, so that several of them get
the same one and none of them ends it by going away.
Source: spec pages "Session contracts" and "Session host and HO2 supervisor".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NoReturn

import structlog

from actors.ho2_supervisor import answers, turn, turn_record
from actors.ho2_supervisor.learning import Learning
from actors.ho2_supervisor.own_entries import OwnEntries
from actors.ho2_supervisor.owner import AppendRefused, EntryRefused, JournalLost, OwnedSession
from actors.ho2_supervisor.run import Run
from actors.ho2_supervisor.session.journal import input_digest
from actors.ho2_supervisor.sessions import Sessions
from actors.ho2_supervisor.turn import Progress
from actors.ho2_supervisor.verdicts import failure_code, is_verdict
from bus.errors import BusError, RuntimeFault, SessionFault, WorkOrderFault
from bus.messages.ids import body_ref, iso, parse_iso
from bus.messages.session import RunAttached, RunFailed, RunRequested, SessionConfig, TurnResult
from bus.port import Bus
from bus.streaming import Draft
from config.snapshot import Snapshot

_log = structlog.get_logger("ho2_supervisor")


@dataclass(frozen=True, slots=True)
class TurnInput:
    """What a requester asked, kept until it stands in the journal."""

    input_id: str
    text: str
    overrides: SessionConfig | None
    deadline_at: str


@dataclass(slots=True, eq=False)
class Drive:
    """One active run being driven. `answer` is set exactly once."""

    session: OwnedSession
    input: TurnInput
    trace: str
    answer: asyncio.Future[TurnResult]
    draft: Draft
    task: asyncio.Task[None] | None = None
    scope: asyncio.Timeout | None = field(default=None)


class Drives:
    """Session id -> the drive of its active run."""

    def __init__(self, *, bus: Bus, snapshot: Snapshot, own_entries: OwnEntries, learning: Learning | None) -> None:
        self._bus = bus
        self._snapshot = snapshot
        self._config = snapshot.config
        self._own_entries = own_entries
        self._learning = learning
        self._drives: dict[str, Drive] = {}
        self.sessions: Sessions | None = None

    def __len__(self) -> int:
        return len(self._drives)

    def is_running(self, session_id: str) -> bool:
        """Whether a run of this session is being driven here."""
        return session_id in self._drives

    def of(self, session: OwnedSession) -> Drive | None:
        """The drive of the session's active run."""
        return self._drives.get(session.session_id)

    def deadline_at(self, remaining_s: float) -> str:
        """When a run must be over: the requester's deadline less the reserve for recording and replying, capped."""
        own_s = remaining_s - self._config.ho2.reply_reserve_ms / 1000
        return iso(self._bus.now() + max(0.0, min(own_s, self._config.budget.timeout_seconds)))

    def begin(self, session: OwnedSession, wanted: TurnInput, *, trace: str) -> Drive:
        """A new run for this input, requested and being driven. Raises BusError(busy) at `ho2.runs_max`."""
        if len(self._drives) >= self._config.ho2.runs_max:
            raise BusError("busy", f"{len(self._drives)} runs are active; the limit is ho2.runs_max", retryable=True)
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
        )
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
        if drive.scope is not None and not drive.scope.expired():
            drive.scope.reschedule(self._monotonic(moved))

    def stop(self, drive: Drive) -> None:
        """Drive it no further (the session ends); the caller records how the run ended and settles the answer."""
        if drive.task is not None:
            drive.task.cancel()

    async def drain(self) -> None:
        """Every run that is being driven has its answer."""
        while self._drives:
            await asyncio.gather(*(asyncio.shield(d.answer) for d in self._drives.values()), return_exceptions=True)

    # --- one drive ----------------------------------------------------------------------------------------------------

    def _start(self, session: OwnedSession, wanted: TurnInput, trace: str, draft: Draft) -> Drive:
        loop = asyncio.get_running_loop()
        drive = Drive(session, wanted, trace, loop.create_future(), draft)
        drive.answer.add_done_callback(_seen)
        self._drives[session.session_id] = drive
        drive.task = loop.create_task(self._drive(drive))
        drive.task.add_done_callback(lambda task: self._over(drive, task))
        return drive

    async def _drive(self, drive: Drive) -> None:
        try:
            result = await self._answered(drive)
        except RuntimeFault as fault:
            if not drive.answer.done():
                drive.answer.set_exception(fault)
        else:
            if not drive.answer.done():
                drive.answer.set_result(result)

    def _over(self, drive: Drive, task: asyncio.Task[None]) -> None:
        """The drive has ended; a programming error reaches the requesters, and the session is read again when asked."""
        if self._drives.get(drive.session.session_id) is drive:
            del self._drives[drive.session.session_id]
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
            except AppendRefused:
                await self._registry.reread(session)
            except EntryRefused as fault:
                if refused is not None:
                    self._registry.drop(session)
                    raise
                refused = fault
                await self._registry.reread(session)
            except JournalLost:
                self._registry.drop(session)
                raise
            known = session.record.inputs.get(input_id)
            if known is None and refused is not None:
                raise refused  # the request itself: there is no run that could fail
            if known is None:
                self._request(session, drive.input, drive.trace)
            elif known.became != "running":
                return await answers.recorded(session, known)
        self._registry.drop(session)
        raise SessionFault("moved", f"session {session.session_id}: its head keeps moving", retryable=True)

    async def _attempt(self, drive: Drive) -> TurnResult:
        """The turn under the run's deadline; a failure or a verdict is journaled before it is told."""
        session, progress = drive.session, Progress()
        memo = session.record.run
        agent = self._snapshot.agents.get(session.record.state.agent_id or "")
        run: Run | None = None
        fault: RuntimeFault = WorkOrderFault("deadline_exceeded", f"input {drive.input.input_id}: no time is left")
        try:
            if memo is None or agent is None:
                raise WorkOrderFault("execution_error", f"agent {session.record.state.agent_id} is not configured")
            run = Run(
                session=session, memo=memo, bus=self._bus, config=self._config, agent=agent,
                own_entries=self._own_entries, learning=self._learning, trace=drive.trace, draft=drive.draft,
            )  # fmt: skip
            _log.info(
                "run_started", turn=str(run.run_id), input_id=run.input_id, resumed=drive.draft.before is not None
            )
            if run.remaining_s() > 0:
                deadline_at = session.record.state.deadline_at or drive.input.deadline_at
                async with asyncio.timeout_at(self._monotonic(deadline_at)) as drive.scope:
                    return _told(run, await turn.take_turn(run, progress))
        except TimeoutError:
            pass
        except (EntryRefused, JournalLost):
            raise
        except RuntimeFault as caught:
            fault = caught
        finally:
            drive.scope = None
        return await self._ended(drive, run, fault, progress)

    async def _ended(self, drive: Drive, run: Run | None, fault: RuntimeFault, progress: Progress) -> TurnResult:
        session, active = drive.session, drive.session.record.run
        if active is None or active.requested.input_id != drive.input.input_id:
            # The deadline passed while RunCompleted was on its way: it decides.
            await session.barrier()
            return await answers.recorded(session, session.record.inputs[drive.input.input_id])
        if run is not None and is_verdict(fault.code):
            return _told(run, await turn_record.record_verdict(run, fault.code, progress.tool_calls))
        failed = WorkOrderFault(failure_code(fault.code), fault.detail) if fault.code == "not_found" else fault
        self._append_failed(drive, failed)
        session.flush()
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
        """RunRequested: the input stands in the journal, its text as a body."""
        submission_id = f"RunRequested:{session.session_id}/{wanted.input_id}"
        session.append(
            RunRequested(
                input_ref=body_ref(submission_id, 1),
                input_id=wanted.input_id,
                input_digest=input_digest(wanted.input_id, wanted.text),
                run_overrides=wanted.overrides,
                deadline_at=wanted.deadline_at,
                config_digest=self._snapshot.digest,
                at=session.now(),
            ),
            bodies=[wanted.text.encode()],
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
