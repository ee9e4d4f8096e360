"""Driving one run to its one answer: deadline, failures, verdicts, refused appends, cancellation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from hobus.actors.ho2_supervisor import cancelling, commanding, limits
from hobus.actors.ho2_supervisor.admission import find_agent_fault, find_conflict
from hobus.actors.ho2_supervisor.configurations import Configurations
from hobus.actors.ho2_supervisor.learning.learning import Learning
from hobus.actors.ho2_supervisor.ownership import history_lookup
from hobus.actors.ho2_supervisor.ownership.owner import AppendRefused, EntryRefused, JournalLost, SessionMoved
from hobus.actors.ho2_supervisor.ownership.registry import Registry
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.run_task import RunTask, tell_waiting
from hobus.actors.ho2_supervisor.session import commands
from hobus.actors.ho2_supervisor.session.record import KnownInput, RunMemo
from hobus.actors.ho2_supervisor.turn import context, turn, turn_record
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.actors.ho2_supervisor.turn.turn import Progress
from hobus.actors.ho2_supervisor.turn.verdicts import is_verdict
from hobus.bus.dispatch import SaidBy
from hobus.bus.errors import STEPS_KEPT, RuntimeFault, SessionFault, WorkOrderFault
from hobus.bus.messages.ids import parse_iso
from hobus.bus.messages.session import HostCommand, LeaseHeartbeat, TurnResult, describe_form
from hobus.bus.record.session_facts import LeaseTerms, TimePassed

_KEPT = (
    "The time of this turn was over after {} steps, which are kept. Ask again under the same input id, with more time, "
    "and it goes on from there."
)
_log = structlog.get_logger("ho2_supervisor")


@dataclass(eq=False, repr=False)
class Driver:
    """Drive runs, each in its own task; drop a session from the registry when it must be read again."""

    configurations: Configurations
    registry: Registry
    learning: Learning | None

    @property
    def resources(self) -> Resources:
        """Return the current resources, whose ways out of the process all configurations share."""
        return self.configurations.current

    async def drive(self, task: RunTask) -> None:
        """Drive a run to its end: when this returns, its requesters have the answer or the fault."""
        task.is_begun = True
        terms = task.requested.lease
        watch = None if terms is None else asyncio.get_running_loop().create_task(self._watch_lease(task, terms))
        try:
            task.tell(await self._answer(task))
            await self._settle(task)
        except AppendRefused:  # behind the answer
            self.registry.drop(task.session)
        except RuntimeFault as fault:
            # Whatever a run that is not over is left for (a question that the record did not answer): who reads it next
            # drives it on, this one if nobody does.
            if isinstance(fault, JournalLost) or task.session.record.state.run_id is not None:
                self.registry.drop(task.session)
            if not task.answer.done():
                task.answer.set_exception(fault)
        finally:
            task.end_beside()
            if watch is not None:
                watch.cancel()

    async def _settle(self, task: RunTask) -> None:
        """Finish an answered run's classification and lesson before its session's next run begins.

        Nobody else tells HO2 what the run may consolidate.
        """
        session, memo = task.session, task.session.record.run
        session.untold = None
        if memo is None or not session.record.state.is_answered:
            return
        if task.beside is None:
            await self._settle_again(task, memo)
        else:
            await task.beside
        await session.barrier()
        if self.learning is not None:
            session.untold = await self.learning.learn_late(session, memo.run_id, trace=task.trace)
        await self.registry.record_state(session)

    async def _settle_again(self, task: RunTask, memo: RunMemo) -> None:
        """Finish a classification that another drive of the run began, or give it up where nobody can be asked."""
        session = task.session
        try:
            resources = await self.configurations.of(memo.requested.config_digest)
            agent = resources.snapshot.agents.get(session.record.state.agent_id or "")
            if agent is not None:
                memo.input_text = memo.input_text or await session.text(memo.requested.input_ref)
                await turn.settle(Run(task, memo, agent, resources=resources, learning=self.learning))
        except RuntimeFault as fault:
            if isinstance(fault, EntryRefused | JournalLost) or fault.retryable:
                raise
            _log.warning("classification_given_up", turn=str(memo.run_id), code=fault.code, detail=fault.detail)
        if session.record.state.open_orders:
            await cancelling.end_orders(self.resources, session, memo, trace=task.trace)

    async def _watch_lease(self, task: RunTask, terms: LeaseTerms) -> None:
        """Renew the lease while a connected client waits; journal the time as soon as the lease is over."""
        session, half_s = task.session, terms.heartbeat_timeout_secs / 2
        while True:
            expires_at = commands.find_lease_expiry(session.record.state)
            # Before it was issued, and it is never over sooner than that.
            left_s = (
                terms.heartbeat_timeout_secs if expires_at is None else parse_iso(expires_at) - self.resources.bus.now()
            )
            if expires_at is not None and left_s <= 0:
                break
            pause_s = left_s - half_s
            if pause_s <= 0 and any(map(self.registry.unowned.is_connected, task.waited_for_by)):
                self.renew(task)
                pause_s = half_s
            await self.resources.bus.sleep(pause_s if pause_s > 0 else min(left_s, half_s / 4))
        task.notice(session.append(TimePassed(at=session.now()), trace=task.trace))

    def renew(self, task: RunTask) -> None:
        """Renew the run's lease, since a client waits for its answer."""
        session, bus, now = task.session, self.resources.bus, task.session.now()
        lease = session.record.state.lease
        if lease is None:
            return
        heartbeat = LeaseHeartbeat(lease_id=lease.lease_id, heartbeat_at=now)
        command = HostCommand(command_id=f"{lease.lease_id}:{now}", issued_at=now, command=heartbeat)
        said_by = SaidBy(task.requested.asked_by, bus.instance)
        config = self.resources.config
        task.notice(commanding.receive(session, command, config, said_by=said_by, agents=(), trace=task.trace))
        session.flush()

    async def _answer(self, task: RunTask) -> TurnResult:
        """Return the run's one answer.

        After a refused append the journal decides: answered by the host, or driven again.

        What the record will never take is not tried twice: the run fails without it.
        """
        session = task.session
        refused: EntryRefused | None = None
        for _ in range(limits.TAKEOVER_ATTEMPTS_MAX):
            try:
                if refused is None:
                    return await self._attempt(task)
                # RunFailed, durable, in place of what the record refused; then the requesters are told.
                turn_record.record_failure(session, task.input_id, refused, trace=task.trace)
                await session.barrier()
                raise WorkOrderFault(refused.code, refused.detail)
            except asyncio.CancelledError:
                if not task.is_cancellation():
                    raise
            except AppendRefused:
                await self.registry.read_again(session)
            except EntryRefused as fault:
                if refused is not None:
                    self.registry.drop(session)
                    raise
                refused = fault
                await self.registry.read_again(session)
            known = session.record.inputs.get(task.input_id) or await self._find_long_ago(task, refused)
            if known is None:
                self._request_again(task)
            elif known.became != "running":
                return await history_lookup.answer_of(session, known)
        self.registry.drop(session)
        raise SessionMoved(session.session_id, "has a head that keeps moving")

    async def _find_long_ago(self, task: RunTask, refused: EntryRefused | None) -> KnownInput | None:
        """Return the input whose request the record refused as a repetition; None if nothing was refused.

        Raises the refusal if it had another reason: then there is no run that could fail.
        """
        if refused is None:
            return None
        known = await history_lookup.find_input(self.resources.client, task.session, task.input_id)
        if known is None:
            raise refused
        if fault := find_conflict(known, task.requested.input_digest, describe_form(task.requested.run_overrides)):
            raise SessionFault("input_conflict", fault)
        return known

    def _request_again(self, task: RunTask) -> None:
        """Append RunRequested once more: it is not in the journal, and nothing says that it may not be."""
        session = task.session
        open_calls = session.record.state.open_calls if task.requested.results else None
        now = {"continues": open_calls and open_calls.wo_id, "at": session.now()}
        session.append(task.requested.model_copy(update=now), bodies=task.bodies, trace=task.trace)

    async def _attempt(self, task: RunTask) -> TurnResult:  # noqa: C901 - one place for all of its ends
        """Take the turn under the run's deadline; journal a failure or a verdict before it is told."""
        session, progress = task.session, Progress()
        memo = session.record.run
        if session.record.state.is_answered:
            return await history_lookup.answer_of(session, session.record.inputs[task.input_id])
        if memo is not None and session.record.state.lifecycle == "Cancelling":
            return await self._end_cancelled(task, memo)
        run: Run | None = None
        result: TurnResult | None = None
        fault: RuntimeFault | None = None
        try:
            if memo is None:
                raise WorkOrderFault("execution_error", f"input {task.input_id} has no run")
            # Its own: it ends under the configuration under which it began, whoever drives it on.
            resources = await self.configurations.of(memo.requested.config_digest)
            agent_id = session.record.state.agent_id or ""
            if fault_in := find_agent_fault(agent_id, resources.snapshot.agents):
                _log.warning("agent_removed", turn=str(memo.run_id), agent_id=agent_id, detail=fault_in)
                raise SessionFault("invalid_input", fault_in)
            agent = resources.snapshot.agents[agent_id]
            if memo.input_text is None:
                memo.input_text = await session.text(memo.requested.input_ref)
            run = Run(task, memo, agent, resources=resources, learning=self.learning)
            resumed = task.draft.before is not None
            _log.info("run_started", turn=str(run.run_id), input_id=task.input_id, resumed=resumed)
            if run.remaining_s() > 0:
                async with asyncio.timeout_at(self._compute_due(task)) as task.scope:
                    await self._wait_turn(task, memo, resources)
                    result = _log_end(run, await turn.take_turn(run, progress))
                return result
        except TimeoutError:
            pass
        except (EntryRefused, JournalLost):
            raise
        except RuntimeFault as caught:
            session.heed()
            fault = caught
        finally:
            task.scope = None
            if result is None:
                task.end_beside()
        fault = fault or WorkOrderFault("deadline_exceeded", f"input {task.input_id}: no time is left")
        return await self._end_without_answer(task, run, fault, progress)

    async def _end_cancelled(self, task: RunTask, memo: RunMemo) -> TurnResult:
        result = await cancelling.close(self.resources, task.session, memo, trace=task.trace)
        _log.info("turn_cancelled", turn=str(memo.run_id), input_id=task.input_id)
        if self.learning is not None:
            self.learning.log_later(task.session, trace=task.trace)
        return result

    async def _wait_turn(self, task: RunTask, memo: RunMemo, resources: Resources) -> None:
        """Wait until the run may work, and end what was on its way when it last failed."""
        if task.standstill is None:
            async with tell_waiting(task):
                await task.ticket.turn()
        if memo.given_up.intersection(task.session.record.state.open_orders):
            await cancelling.end_orders(resources, task.session, memo, trace=task.trace)

    def _compute_due(self, task: RunTask) -> float | None:
        """Return the run's deadline on the loop's clock; None while it stands still."""
        if task.standstill is not None:
            return None
        deadline_at = task.session.record.state.deadline_at or task.requested.deadline_at
        return self.resources.bus.clock.monotonic() + parse_iso(deadline_at) - self.resources.bus.now()

    async def _end_without_answer(
        self, task: RunTask, run: Run | None, fault: RuntimeFault, progress: Progress
    ) -> TurnResult:
        """Return what stands for an answer that the turn did not bring. Raises the failure, which is journaled."""
        session, active = task.session, task.session.record.run
        if active is None or session.record.state.is_answered or active.requested.input_id != task.input_id:
            # The deadline passed while RunCompleted was on its way: it decides.
            await session.barrier()
            return await history_lookup.answer_of(session, session.record.inputs[task.input_id])
        if run is not None:
            context.record_unanswered(run)
        if run is not None and is_verdict(fault.code):
            return _log_end(run, await turn_record.record_verdict(run, fault, progress.tool_calls))
        # By not_found a host knows that there is no such session.
        failed = WorkOrderFault("execution_error", fault.detail) if fault.code == "not_found" else fault
        failed.facts |= await turn_record.sum_spent(run)
        if failed.code == "deadline_exceeded" and (steps := len(progress.exchanges)):
            failed.facts[STEPS_KEPT], failed.detail = steps, _KEPT.format(steps)
        turn_record.record_failure(session, task.input_id, failed, trace=task.trace)
        session.flush(urgent=True)  # before the host's TurnDegraded, which moves the head
        if self.learning is not None:
            self.learning.log_later(session, trace=task.trace)
        raise failed


def _log_end(run: Run, result: TurnResult) -> TurnResult:
    """Log how the turn ended, without any of its text, and return the result."""
    _log.info(
        "turn_answered",
        turn=str(run.run_id),
        input_id=result.input_id,
        outcome=result.outcome,
        code=result.code,
        elapsed_ms=result.elapsed_ms,
        rounds=run.round_count,
    )
    return result
