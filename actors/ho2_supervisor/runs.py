"""The runs of this instance's sessions: how one begins, what its requesters may do to it, and which one comes next.

What a run does until it is answered says `drive.py`. A run that stands still keeps its task, and is let go of whenever
that is of use: whoever is asked for it next finds it in the record as it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import structlog

from hobus.actors.ho2_supervisor import limits as own_limits
from hobus.actors.ho2_supervisor.admission import is_pending_follow_up
from hobus.actors.ho2_supervisor.configurations import Configurations
from hobus.actors.ho2_supervisor.drive import Driver
from hobus.actors.ho2_supervisor.ownership.owner import AppendRefused, OwnedSession, SessionMoved
from hobus.actors.ho2_supervisor.ownership.registry import Registry
from hobus.actors.ho2_supervisor.run_queue import RunQueue, RunTicket
from hobus.actors.ho2_supervisor.run_task import RunTask
from hobus.actors.ho2_supervisor.session.commands import get_command_id
from hobus.actors.ho2_supervisor.session.journal import digest_input
from hobus.actors.ho2_supervisor.session.state import Reduced
from hobus.bus.dispatch import Call
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import derive_body_ref, derive_requested_id, follow_up_input, format_iso, parse_iso
from hobus.bus.messages.session import TurnRequest, render_words
from hobus.bus.messages.streams import StreamWaiting
from hobus.bus.record.session_facts import GivenResult, LeaseTerms, LifecycleChanged, RunAttached, RunRequested
from hobus.bus.streaming import Draft
from hobus.config.schema import AdminConfig

_log = structlog.get_logger("ho2_supervisor")


class Runs:
    """Begin runs, each as one task in the registry, and tell them what their requesters and operators want."""

    def __init__(self, configurations: Configurations, registry: Registry, driver: Driver) -> None:
        self._bus = configurations.current.bus
        self._configurations = configurations
        self._registry = registry
        self._driver = driver
        self.queue = RunQueue(
            wait_max_s=self._config.sessions.wait_max_ms / 1000,
            unwritten=lambda: configurations.current.client.outstanding,
        )
        self._in_line: dict[str, list[tuple[str, asyncio.Event]]] = {}  # inputs that wait in their session
        self._is_draining = False

    @property
    def _config(self) -> AdminConfig:
        return self._configurations.current.config

    # --- how a run begins ---------------------------------------------------------------------------------------------

    def begin(
        self, session: OwnedSession, message: TurnRequest, *, asked_by: str, deadline_at: str, trace: str
    ) -> RunTask:
        """Begin a new run for this input, driven as soon as its turn comes.

        Raises BusError(busy) where it would wait too long for that.
        """
        has_waited = not session.record.inputs  # as its session did, or its caller
        if not has_waited:
            self.queue.require_room(self._bus.principal)
        submission_id = derive_requested_id(session.session_id, message.input_id)
        text, silence_s = render_words(message.text, message.results), self._config.sessions.lease_heartbeat_timeout_s
        open_calls = session.record.state.open_calls if message.results else None
        requested = self._make_requested(
            session,
            message.input_id,
            text,
            input_ref=derive_body_ref(submission_id, 1),
            results=[
                GivenResult(tool_call_id=result.tool_call_id, content_ref=derive_body_ref(submission_id, number))
                for number, result in enumerate(message.results, start=2)
            ],
            continues=open_calls and open_calls.wo_id,
            run_overrides=message.run_overrides,
            files=message.files,
            called_by=message.called_by,
            tokens_max=message.tokens_max,
            callers=message.callers,
            asked_by=asked_by,
            deadline_at=deadline_at,
            lease=LeaseTerms(ttl_secs=silence_s, heartbeat_timeout_secs=silence_s) if message.lease else None,
        )
        bodies = [text.encode(), *(result.content.encode() for result in message.results)]
        session.append(requested, bodies=bodies, trace=trace)
        return self._start(session, requested, bodies=bodies, trace=trace, has_waited=has_waited)

    def go_on(self, session: OwnedSession, *, deadline_at: str, trace: str) -> RunTask:
        """Drive a failed run on from its last recorded step. Raises BusError(busy) as `begin` does."""
        self.queue.require_room(self._bus.principal)
        session.append(RunAttached(deadline_at=deadline_at, at=session.now()), trace=trace)
        memo = session.record.run
        if memo is None:
            raise AssertionError("the reducer accepted RunAttached without a run")
        return self._start(session, memo.requested, trace=trace, draft=Draft(before="retry"))

    def resume(self, session: OwnedSession) -> None:
        """Drive the unfinished run of a session that was just taken over, if it has one."""
        memo = session.record.run
        if memo is not None:
            with self._bus.on_behalf_of(memo.requested.principal):
                self._start(session, memo.requested, draft=Draft(before="take_over"))

    def follow(self, session: OwnedSession) -> None:
        """Begin the next run with the oldest waiting follow-up, unless a run is active."""
        session_id, follow_ups = session.session_id, self._registry.follow_ups
        if self._is_draining or session_id in follow_ups or not self._has_follow_up(session):
            return
        follow_ups[session_id] = asyncio.get_running_loop().create_task(self._follow(session))

    def is_settling(self, session: OwnedSession) -> bool:
        """Return whether the newest run is answered and what it brought is still being recorded."""
        run = self.of(session)
        return run is not None and (run.answer.done() or session.record.state.is_answered)

    async def _wait_change(self, session: OwnedSession, run: RunTask, call: Call) -> None:
        """Wait for the run's next change; a caller waits for its labels only for a part of their time."""
        if self.is_settling(session):
            left_s = call.remaining_s(self._bus.clock.monotonic())
            run.bound_work_beside(asyncio.get_running_loop().time() + left_s * own_limits.LABELS_SHARE)
        await run.change()

    def keeps_waiting(self, session: OwnedSession, input_id: str) -> bool:
        """Return whether this input must wait: the run before is being recorded, or a follow-up begins.

        A follow-up came before this input, which then meets that run, or is that follow-up.
        """
        if is_pending_follow_up(session.record.state, input_id):
            return True
        is_between = self.is_settling(session) or session.session_id in self._registry.follow_ups
        return is_between and input_id not in session.record.inputs

    def find_said_before(self, session: OwnedSession, input_id: str) -> str:
        """Return the message that came before this input and has no run yet either; empty: none, or it is that one."""
        in_line = [waiting for waiting, _ in self._in_line.get(session.session_id, ())]
        if input_id in in_line or is_pending_follow_up(session.record.state, input_id):
            return ""
        is_behind_follow_up = session.record.state.pending_follow_up and self.is_settling(session)
        before = f"input {in_line[0]}" if in_line else "a follow-up" if is_behind_follow_up else ""
        return before and f"{before} was said before"

    def tell_to_wait(self, call: Call) -> AbstractContextManager[None]:
        """While a session waits to begin with its first run."""
        principal = self._bus.principal
        return tell_to_wait(call, lambda: StreamWaiting(waiting="Turn", place=self.queue.ahead(principal)))

    @contextmanager
    def stand_in_line(self, session: OwnedSession, input_id: str, call: Call, *, is_watching: bool) -> Generator[None]:
        """While an input waits so: whoever watches is told, and a cancel means that input."""
        over = asyncio.Event()
        labels = StreamWaiting(waiting="Labels")
        waiting = self._in_line.setdefault(session.session_id, [])
        waiting.append((input_id, over))
        try:
            with tell_to_wait(call, lambda: labels if is_watching and self.is_settling(session) else None):
                yield
        finally:
            waiting.remove((input_id, over))
            if not waiting:
                self._in_line.pop(session.session_id, None)
            over.set()

    async def hurry(self, session: OwnedSession) -> bool:
        """Give up labels of the run before that an input waits for; return whether there were any."""
        run, waiting = self.of(session), list(self._in_line.get(session.session_id, ()))
        if run is None or not waiting or not self.is_settling(session):
            return False
        run.bound_work_beside(asyncio.get_running_loop().time())
        for _, one in waiting:
            await one.wait()
        return True

    async def wait_turnover(self, session: OwnedSession, call: Call) -> None:
        """Wait until what keeps an input waiting has changed. Raises SessionMoved if nothing here does."""
        run, following = self.of(session), self._registry.follow_ups.get(session.session_id)
        if following is not None:
            await asyncio.shield(following)
        elif run is not None:
            await self._wait_change(session, run, call)
        else:
            raise SessionMoved(session.session_id, "is being given up")

    def _has_follow_up(self, session: OwnedSession) -> bool:
        state = session.record.state
        is_free = state.run_id is None and self.of(session) is None and state.status == "open"
        return is_free and bool(state.pending_follow_up) and self._registry.held(session.session_id) is session

    async def _follow(self, session: OwnedSession) -> None:
        """Begin the next run at a point from which on nobody else would: a run that ends in the next one has to."""
        try:
            await self._begin_follow_up(session)
        finally:
            del self._registry.follow_ups[session.session_id]

    async def _begin_follow_up(self, session: OwnedSession) -> None:
        ref = session.record.state.pending_follow_up[0]
        try:
            await session.barrier()
            text = await session.find_text(ref)
        except AppendRefused:
            self._registry.drop(session)  # whoever reads it next sees to its follow-ups, this one if nobody does
            return
        except RuntimeFault as fault:
            _log.warning("follow_up_not_started", session_id=session.session_id, code=fault.code)
            self._registry.drop(session)
            return
        if not self._has_follow_up(session) or session.record.state.pending_follow_up[0] != ref:
            return
        input_id = follow_up_input(get_command_id(ref))
        deadline_at = self.deadline_at(self._config.sessions.follow_up_timeout_ms / 1000)
        # Of a text that was erased the run fails, and says so.
        requested = self._make_requested(session, input_id, text or "", input_ref=ref, deadline_at=deadline_at)
        session.append(requested)
        self._start(session, requested)

    def _make_requested(self, session: OwnedSession, input_id: str, text: str, **own: Any) -> RunRequested:
        state, snapshot = session.record.state, self._configurations.current.snapshot
        agent = snapshot.agents.get(state.agent_id or "")
        return RunRequested(
            model=snapshot.choose_model_for(
                agent, "synthesize", request=own.get("run_overrides"), session=state.session_config
            ),
            input_id=input_id,
            input_digest=digest_input(input_id, text),
            config_digest=snapshot.digest,
            principal=self._bus.principal,
            at=session.now(),
            **own,
        )

    def _start(  # noqa: PLR0913 - what a run begins with
        self,
        session: OwnedSession,
        requested: RunRequested,
        *,
        bodies: Sequence[bytes] = (),
        trace: str = "",
        draft: Draft | None = None,
        has_waited: bool = False,
    ) -> RunTask:
        earlier = self.of(session)
        if earlier is not None and earlier.session is not session:  # it stood still, and the session was read anew
            self._registry.stop(earlier, SessionMoved(session.session_id, "was read anew"))
        run = RunTask(
            session, requested, bodies=bodies, trace=trace, draft=draft or Draft(),
            ticket=RunTicket(self.queue, self._bus.principal, has_begun=has_waited, is_beginning=has_waited),
            drive=self._driver.drive,
        )  # fmt: skip
        self.queue.beginning += has_waited
        self._registry.runs[session.session_id] = run
        run.task.add_done_callback(partial(self._on_over, run))
        return run

    # --- while it goes on ---------------------------------------------------------------------------------------------

    def of(self, session: OwnedSession) -> RunTask | None:
        return self._registry.runs.get(session.session_id)

    def deadline_at(self, remaining_s: float) -> str:
        """Return when a run must be over: the requester's deadline less a reserve for record and reply, capped."""
        own_s = remaining_s - own_limits.REPLY_RESERVE_MS / 1000
        return format_iso(self._bus.now() + max(0.0, min(own_s, self._config.budget.timeout_seconds)))

    def attach(self, run: RunTask, deadline_at: str) -> None:
        """Attach another request for the same input; the deadline never moves backwards or past the longest life."""
        session = run.session
        current = session.record.state.deadline_at
        if session.record.run is None or current is None:
            return  # the run is over but for the barrier; its answer is on the way
        latest = format_iso(parse_iso(session.record.run.requested.at) + self._config.budget.timeout_seconds)
        moved = min(deadline_at, latest)
        if moved <= current:
            return
        session.append(RunAttached(deadline_at=moved, at=session.now()), trace=run.trace)
        session.flush()
        if run.standstill is None:
            run.due(self._bus.clock.monotonic() + parse_iso(moved) - self._bus.now())

    def notice(self, session: OwnedSession, outcome: Reduced | None) -> None:
        """Tell the session's run what an event did to the session."""
        run = self.of(session)
        if run is not None:
            run.notice(outcome)

    # --- how it ends --------------------------------------------------------------------------------------------------

    async def cancel(self, session: OwnedSession, call: Call) -> None:
        """Cancel the active run of a session that ends, or have the session read again first."""
        run = self.of(session)
        if run is None:
            return
        if session.record.state.is_answered:
            while self.of(session) is run:
                await self._wait_change(session, run, call)
            return
        if session.record.state.lifecycle != "Cancelling":
            run.notice(session.append(LifecycleChanged(lifecycle="Cancelling", at=session.now())))
        with suppress(SessionMoved):
            await asyncio.shield(run.answer)

    async def drain(self) -> None:
        """Wait until every working run has its answer; let those go that stand still."""
        self._is_draining = True
        while runs := self._registry.runs:
            for session_id in list(runs):
                self._registry.let_go(session_id)
            await asyncio.gather(*(run.change() for run in runs.values()))

    def _on_over(self, run: RunTask, task: asyncio.Task[None]) -> None:
        """End the run with its task; pass a programming error to the requesters, and have the session read again."""
        self._registry.remove(run)
        run.ticket.works()
        if run.ticket.has_begun:
            self.queue.ended()
        run.changed()
        self.follow(run.session)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        self._registry.drop(run.session)
        if not run.answer.done():
            run.answer.set_exception(error)


@contextmanager
def tell_to_wait(call: Call, said: Callable[[], StreamWaiting | None]) -> Generator[None]:
    """Whoever watches is told what this waits for, once that takes a while, and when it is over."""
    told = list[StreamWaiting]()

    def tell() -> None:
        if (message := said()) is not None:
            told.append(message)
            call.stream(message)

    timer = asyncio.get_running_loop().call_later(own_limits.TURN_TOLD_S, tell)
    try:
        yield
    finally:
        timer.cancel()
        if told:
            call.stream(StreamWaiting(waiting=None))
