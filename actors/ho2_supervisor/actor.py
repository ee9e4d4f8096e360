"""HO2: where a supervisor's messages arrive. It owns sessions by id, drives their turns, and never talks to a provider.

Admission is one synchronous step once the session is at hand; everything that takes time is a run (`runs.py`).
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any

from msgspec.structs import replace

from hobus.actors.ho2_supervisor import commanding, limits
from hobus.actors.ho2_supervisor.admission import (
    Admission,
    admit,
    find_agent_fault,
    find_blank_fault,
    find_profile_fault,
    find_settings_fault,
    find_template_fault,
    make_over_fault,
)
from hobus.actors.ho2_supervisor.attention.engine import Engine
from hobus.actors.ho2_supervisor.configurations import Configurations
from hobus.actors.ho2_supervisor.drive import Driver
from hobus.actors.ho2_supervisor.learning.consolidations import Consolidations
from hobus.actors.ho2_supervisor.learning.learning import Learning
from hobus.actors.ho2_supervisor.ownership import history_lookup
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession, SessionMoved
from hobus.actors.ho2_supervisor.ownership.registry import Registry
from hobus.actors.ho2_supervisor.ownership.take_over import TakeOver
from hobus.actors.ho2_supervisor.ownership.unowned import Unowned
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.run_task import RunTask
from hobus.actors.ho2_supervisor.runs import Runs
from hobus.actors.ho2_supervisor.session.record import KnownInput
from hobus.actors.ho2_supervisor.session.reducer import may_not_leave
from hobus.actors.ho2_supervisor.session_end import append_end
from hobus.actors.ho2_supervisor.turn import turn, views
from hobus.actors.ho2_supervisor.turn.verdicts import is_verdict, make_held_up
from hobus.bus.dispatch import Actor, Call, SaidBy, name_sayer
from hobus.bus.errors import RuntimeFault, SessionFault
from hobus.bus.lanes import get_role
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ids import LOCAL, derive_session_key, derive_turn_key
from hobus.bus.messages.session import (
    Cancel,
    CommandVerdict,
    Consolidate,
    EndSession,
    LeaveSession,
    ReadSession,
    SessionClosed,
    SessionCommand,
    SessionConfig,
    SessionReady,
    SessionView,
    StartSession,
    TurnReply,
    TurnRequest,
    TurnResult,
)
from hobus.bus.messages.streams import StreamWaiting
from hobus.bus.port import Bus
from hobus.bus.record.session_facts import SessionLeft, SessionStarted
from hobus.config import limits as config_limits
from hobus.config.model_choice import find_choice_fault
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot

SLOTS = 1
"""Consolidations are slotted posts. A post fills no slot, but the broker hands it only to a peer that has one."""
_KEEPS_MOVING = "has a head that keeps moving"


class Supervisor(Actor):
    """Own sessions and drive their turns, each under the frozen snapshot that it began with."""

    service = "ho2"
    needs = ("ledger",)

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        sessions_max: int = config_limits.SESSIONS_MAX,
        snapshot_entries: int = limits.SNAPSHOT_ENTRIES,
    ) -> None:
        self._first = snapshot
        self._sessions_max = sessions_max
        self._snapshot_entries = snapshot_entries

    @property
    def _snapshot(self) -> Snapshot:
        return self._configurations.current.snapshot

    @property
    def _config(self) -> AdminConfig:
        return self._configurations.current.config

    async def start(self, bus: Bus) -> None:
        """Build everything that lives as long as this incarnation; each part knows only those built before it."""
        self._bus = bus
        config = self._first.config
        self._client = LedgerClient(bus, config.ledger)
        first = Resources(bus=bus, client=self._client, **_list_governed(self._first, bus))
        self._configurations = configurations = Configurations(
            first,
            lambda snapshot: replace(first, **_list_governed(snapshot, bus)),
            kept_max=config_limits.SNAPSHOTS_KEPT,
        )
        self._memory = config.memory
        self._learning = self._memory and Learning(configurations, self._memory)
        self._unowned = Unowned(first)
        self._registry = Registry(
            configurations, self._unowned, sessions_max=self._sessions_max, snapshot_entries=self._snapshot_entries
        )
        driver = Driver(configurations, self._registry, self._learning)
        self._runs = Runs(configurations, self._registry, driver)
        self._take_over = TakeOver(limits.TAKEOVER_ATTEMPTS_MAX, self._registry, self._runs, self._learning)
        self._unowned.watch()

    async def ready(self) -> str:
        """Report ready once the ledger was reached: without its journal no session can be owned."""
        try:
            await self._client.stats()
        except RuntimeFault as fault:
            return f"ledger: {fault.code}"
        return ""

    async def reconfigure(self, digest: str) -> None:
        """Begin new runs under this configuration; read idle sessions again before their next run."""
        await self._configurations.use(digest)

    async def drain(self) -> None:
        """Answer the runs in progress and make everything durable."""
        self._unowned.close()
        await self._runs.drain()
        if self._learning is not None:
            await self._learning.drain()
        await self._client.flush()

    def counters(self) -> dict[str, int]:
        return {
            "runs": len(self._registry.runs),
            "runs_waiting": len(self._runs.queue),
            "sessions": len(self._registry),
            "unacknowledged": self._client.outstanding,
            "unowned_found": self._unowned.found,
            "snapshots_written": self._registry.snapshots_written,
            "snapshots_ignored": self._registry.snapshots_ignored,
        }

    # --- handlers -----------------------------------------------------------------------------------------------------

    async def start_session(self, message: StartSession, call: Call) -> SessionReady:
        """Start the session durably. Idempotent by session_id: the first start decides the agent.

        A start waits its turn as a run does; a start that comes with a run has waited with that.
        """
        session_id = message.session_id or self._bus.new_id()
        self._demand_well_formed(message)
        with ExitStack() as line:
            if self._registry.held(session_id) is None:
                await self._runs.queue.enter(self._bus.principal, line)
            return await self._begin_session(message, session_id, call)

    async def _begin_session(self, message: StartSession, session_id: str, call: Call) -> SessionReady:
        for _ in range(limits.TAKEOVER_ATTEMPTS_MAX):
            session = await self._load_owned(session_id)
            if is_new := not session.record.state.is_started:
                self._start(session, message, call.trace)
            if self._registry.is_running(session_id) or await self._registry.is_durable(session):
                return SessionReady(session_id=session_id, agent_id=session.record.state.agent_id or "", is_new=is_new)
        raise SessionMoved(session_id, _KEEPS_MOVING)

    def _demand_well_formed(self, start: StartSession) -> None:
        """Raise SessionFault for a session id, agent or settings that no session can have."""
        agent_id, wanted = self._choose_agent(start), start.session_config
        if agent_id not in self._snapshot.agents:
            known = ", ".join(self._snapshot.agents)
            raise SessionFault("invalid_input", f"no agent {agent_id} is configured; there are {known}")
        if fault := find_blank_fault(wanted) or find_settings_fault(wanted):
            raise SessionFault("invalid_input", fault)

    def _choose_agent(self, start: StartSession) -> str:
        return start.agent_id or self._config.host.agent_id

    def _start(self, session: OwnedSession, start: StartSession, trace: str) -> None:
        """Queue the session's first entries for its next write. Raises SessionFault where no model can serve it."""
        agent_id, wanted = self._choose_agent(start), start.session_config
        if refused := self._find_model_fault(agent_id, wanted):
            raise refused
        if fault := find_profile_fault(wanted, self._config.gateway) or find_template_fault(
            "session_config", wanted, self._snapshot.templates
        ):
            raise SessionFault("invalid_input", fault)
        self._append_start(session, agent_id, wanted, trace, principal=start.principal or LOCAL)

    async def turn(self, message: TurnRequest, call: Call) -> TurnReply:
        """Return the one answer to this input. Raises SessionFault for a verdict, or the fault of a failed run."""
        with ExitStack() as line:
            session, decision = await self._admit(message, call, line)
        del line  # an empty one has 800 bytes, and the answer may take minutes
        call.after_reply(partial(self._registry.record_state, session))
        deadline_at = self._runs.deadline_at(call.remaining_s(self._bus.clock.monotonic()))
        match decision:
            case SessionFault():
                raise decision
            case KnownInput():
                run = self._runs.of(session)
                if run is None or run.input_id != message.input_id:
                    return TurnReply(result=await self._find_recorded(session, decision, call))
            case "attach":
                run = self._runs.of(session)
                if run is None:
                    raise SessionMoved(session.session_id, "is being read")
                self._runs.attach(run, deadline_at)
            case "go on":
                self._require_agent(session)
                run = self._runs.go_on(session, deadline_at=deadline_at, trace=call.trace)
            case "begin":
                self._require_agent(session)
                asked_by = session.record.state.principal
                # Keys reach no sessions but their own; everybody else is the user of this machine.
                if asked_by != LOCAL and get_role(message.client) != "http" and not message.called_by:
                    raise SessionFault("invalid_input", f"the session belongs to {asked_by}; begin one of your own")
                run = self._runs.begin(session, message, asked_by=asked_by, deadline_at=deadline_at, trace=call.trace)
        is_watching = message.stream and message.waiting is None  # while it stands still, what was said is known
        call.on_attached(run.draft.repeat)
        with run.draft.watched(call.stream if is_watching else None):
            return await self._reply(run, message, call)

    def _require_agent(self, session: OwnedSession) -> None:
        """Raise SessionFault if the session's agent was removed from the configuration since it began."""
        if fault := find_agent_fault(session.record.state.agent_id, self._snapshot.agents):
            raise SessionFault("invalid_input", fault)

    async def _find_recorded(self, session: OwnedSession, known: KnownInput, call: Call) -> TurnResult:
        """Return the recorded answer of the input.

        Raises SessionFault(unreadable) if the record cannot be read in time.

        Unreadable is a verdict, not a failure: after a failure the host would give the input another answer. A failed
        run has no recorded answer.
        """
        is_answered = known.became != "failed" or is_verdict(known.code)
        reserve_s = limits.REPLY_RESERVE_MS / 1000
        left_s = call.remaining_s(self._bus.clock.monotonic(), reserve_s=reserve_s)
        try:
            async with asyncio.timeout(min(left_s, self._config.ledger.outage_wait_ms / 1000)):
                while True:
                    try:
                        return await history_lookup.answer_of(session, known)
                    except RuntimeFault as fault:
                        if not is_answered or not fault.retryable:
                            raise
                    await self._bus.sleep(limits.ORDER_RETRY_INTERVAL_MS / 1000)
        except TimeoutError:
            if not is_answered:
                raise
            raise SessionFault(
                "unreadable",
                f"input {known.input_id} is answered, and the answer cannot be read now; ask again under the same id",
            ) from None

    async def read_session(self, message: ReadSession, call: Call) -> SessionView:  # noqa: ARG002 - a handler's shape
        """Return what is known of a session; reading never takes it over."""
        session = self._registry.held(message.session_id) or await self._take_over.peek(message.session_id)
        view = views.make_view(session.record)
        if view is None:
            raise RuntimeFault("not_found", f"no session {message.session_id} was started")
        return view

    async def end_session(self, message: EndSession, call: Call) -> SessionClosed:
        """Close the session durably, after cancelling a run in progress. Idempotent."""
        for _ in range(limits.TAKEOVER_ATTEMPTS_MAX):
            session = await self._load_started(message.session_id)
            state = session.record.state
            if state.status == "open" and state.run_id is not None:
                await self._runs.cancel(session, call)
                continue
            if state.status == "open":
                by = SaidBy(message.principal or LOCAL, message.door or call.sender)  # only the host asks, and knows
                append_end(session, message.reason, said_by=by, trace=call.trace)
            if await self._registry.is_durable(session):
                record = session.record
                return SessionClosed(
                    session_id=record.session_id, turn_count=record.turn_count, total_tokens=record.total_tokens,
                    cost_usd=record.cost_usd,
                )  # fmt: skip
        raise SessionMoved(message.session_id, _KEEPS_MOVING)

    async def leave_session(self, message: LeaveSession, call: Call) -> SessionView:
        """Record durably that the session goes on in another cell.

        Raises SessionFault: run_active while something is not done yet, session_left where it went on to a third cell.
        """
        start = StartSession(session_id=message.session_id, principal=message.principal)
        for _ in range(limits.TAKEOVER_ATTEMPTS_MAX):
            if (peeked := await self._take_over.peek(message.session_id)).record.state.cell == message.cell:
                return await self.read_session(ReadSession(session_id=peeked.session_id), call)
            session = await self._load_started(message.session_id, start)
            if may_not_leave(session.record.state):
                raise SessionFault("run_active", f"session {session.session_id} still has work in progress")
            session.append(SessionLeft(cell=message.cell, at=session.now()), trace=call.trace)
            if await self._registry.is_durable(session):
                self._registry.drop(session)
        raise SessionMoved(message.session_id, _KEEPS_MOVING)

    async def command(self, message: SessionCommand, call: Call) -> CommandVerdict:
        """Record the command and what became of it, then answer. Idempotent by command_id."""
        command, by = message.command, name_sayer(call, message.principal)
        for _ in range(limits.TAKEOVER_ATTEMPTS_MAX):
            session = await self._load_started(message.session_id)
            if command.command_id in session.record.commands and not await self._registry.is_durable(session):
                continue
            repeated = await commanding.find_repeated(self._client, session, command)
            if repeated is not None:
                return repeated
            if self._registry.held(session.session_id) is not session:
                continue
            if command.command_id in session.record.commands:
                continue  # it came twice at the same moment: once that stands, both are compared
            is_of_next = isinstance(command.command, Cancel) and command.target_run_id != session.record.state.run_id
            if is_of_next and await self._runs.hurry(session):
                continue
            outcome = commanding.receive(
                session,
                command,
                self._config,
                said_by=by,
                agents=self._snapshot.agents,
                person=message.person,
                trace=call.trace,
            )
            self._runs.notice(session, outcome)
            self._runs.follow(session)  # also if whoever said it does not wait until it is durable
            if await self._registry.is_durable(session):
                return commanding.make_verdict(session, command, reason=session.record.commands[command.command_id])
        raise SessionMoved(message.session_id, _KEEPS_MOVING)

    async def consolidate(self, message: Consolidate, call: Call) -> None:
        """Consolidate signals whose gates a delivered turn has crossed; nobody waits for the result."""
        if self._memory is not None:
            await Consolidations(self._configurations.current, self._memory).run(message, trace=call.trace)

    # --- steps of the handlers ----------------------------------------------------------------------------------------

    async def _reply(self, run: RunTask, message: TurnRequest, call: Call) -> TurnReply:
        """Return the run's answer; report before it when the run stands still or goes on again."""
        record, run_id = run.session.record, run.session.record.state.run_id
        run.waited_for_by.append(message.client)  # while somebody waits, the lease is renewed
        # Who waits with a run that stands still asks again now and then, and so comes to another owner once this one
        # gets no new work.
        try:
            async with asyncio.timeout(None if message.waiting is None else limits.STANDSTILL_POLL_MS / 1000):
                while not run.answer.done() and run.standstill == message.waiting:
                    await run.change()
        except TimeoutError:
            pass
        finally:
            run.waited_for_by.remove(message.client)
        if run.answer.done():
            return TurnReply(result=run.answer.result())
        lease, standstill, held = record.state.lease, run.standstill, views.list_held_calls(record)
        if message.stream and standstill != message.waiting:
            call.stream(StreamWaiting(run=str(run_id or ""), waiting=standstill, held_calls=held))
        return TurnReply(
            result=None,
            waiting=standstill,
            run_id=run_id,
            held_calls=held,
            lease_id=None if lease is None else lease.lease_id,
            meanwhile=make_held_up(run.session.session_id, run_id, message.input_id, standstill, held)
            if run.has_stood_still
            else None,
        )

    async def _admit(self, message: TurnRequest, call: Call, line: ExitStack) -> tuple[OwnedSession, Admission]:
        """Load the session and decide on this input; the caller's next step is synchronous with that."""
        found: dict[str, KnownInput] | None = None
        # Nothing is read before its turn, which the caller of an agent has had.
        if message.start is not None and not message.called_by and self._registry.held(message.session_id) is None:
            with self._runs.tell_to_wait(call) if message.stream else nullcontext():
                await self._runs.queue.enter(self._bus.principal, line)
        for _ in range(limits.TAKEOVER_ATTEMPTS_MAX):
            session = await self._load_started(message.session_id, message.start, call.trace)
            said_before = self._runs.find_said_before(session, message.input_id)
            if not said_before and self._runs.keeps_waiting(session, message.input_id):
                line.enter_context(
                    self._runs.stand_in_line(session, message.input_id, call, is_watching=message.stream)
                )
            while not said_before and self._runs.keeps_waiting(session, message.input_id):
                await self._runs.wait_turnover(session, call)
                session = await self._load_started(message.session_id)
            known = session.record.inputs.get(message.input_id)
            if known is not None and known.digest is None:
                known.digest = await history_lookup.find_digest(session, known)
            inputs = session.record.inputs if found is None else found
            decision = admit(session.record.state, inputs, message, said_before=said_before)
            if found is None and history_lookup.is_needed(session.record, message.input_id, decision):
                known = await history_lookup.find_input(self._client, session, message.input_id)
                found = {} if known is None else {known.input_id: known}
                continue
            is_held_up = isinstance(decision, SessionFault) and decision.code == "run_active"
            if said_before or not is_held_up or not await self._is_over(session):
                fault = find_template_fault("run_overrides", message.run_overrides, self._snapshot.templates)
                return session, SessionFault("invalid_input", fault) if decision == "begin" and fault else decision
        raise SessionMoved(message.session_id, _KEEPS_MOVING)

    def _find_model_fault(self, agent_id: str, wanted: SessionConfig) -> SessionFault | None:
        """Return why no run of such a session could have its model; None if it names none or an available one."""
        agent = self._snapshot.agents[agent_id]
        choice = self._snapshot.choose_model_for(agent, "synthesize", session=wanted)
        return find_choice_fault(choice, agent, self._config.gateway) if choice.named_by == "session" else None

    async def _is_over(self, session: OwnedSession) -> bool:
        """Return whether the active run is over because the host answered its input while this process stood still.

        Then the run is driven no further, and the session is to be read again.
        """
        state = session.record.state
        run_id, input_id = state.run_id, state.run and state.run.input_id
        answer = (await self._client.lookup(once=[derive_turn_key(session.session_id, input_id or "")]))[0]
        if session.record.state.run_id != run_id or session.record.state.is_answered:
            return True
        if answer is None:
            return False
        run = self._runs.of(session)
        self._registry.drop(session)
        if run is not None:
            self._registry.stop(run, SessionMoved(session.session_id, f"had input {input_id} answered by its host"))
        return True

    async def _load_owned(self, session_id: str) -> OwnedSession:
        """Load as `TakeOver.owned` does. Raises SessionFault for a session that went on to another cell."""
        session = await self._take_over.owned(session_id)
        if session.record.state.cell:
            self._registry.drop(session)
            raise make_over_fault(session.record.state)
        return session

    async def _load_started(self, session_id: str, start: StartSession | None = None, trace: str = "") -> OwnedSession:
        """Return the session, loaded and started; `start` becomes durable with the run that it begins.

        A session that only the host has answered so far is started under the agent of that answer.
        """
        for _ in range(limits.TAKEOVER_ATTEMPTS_MAX):
            session = await self._load_owned(session_id)
            if session.record.state.is_started:
                return session
            if start is not None:
                self._demand_well_formed(start)
                self._start(session, start, trace)
                return session
            if not session.record.head:
                self._registry.drop(session)
                raise RuntimeFault("not_found", f"no session {session_id} was started; send session.start first")
            named = session.record.degraded_agent_id
            agent_id = named if named in self._snapshot.agents else self._config.host.agent_id
            self._append_start(session, agent_id, SessionConfig(), "")
            await self._registry.is_durable(session)
        raise SessionMoved(session_id, _KEEPS_MOVING)

    def _append_start(
        self, session: OwnedSession, agent_id: str, wanted: SessionConfig, trace: str, *, principal: str = LOCAL
    ) -> None:
        """Append TookOver and SESSION_START with the wished settings alone: each run chooses its model itself."""
        session.take_over()
        session.append(
            SessionStarted(
                agent_id=agent_id,
                session_config=wanted,
                max_in_flight_effects=self._config.sessions.max_in_flight_effects,
                applied_commands_max=limits.APPLIED_COMMANDS_MAX,
                principal=principal,
                at=session.now(),
            ),
            once=derive_session_key(session.session_id),
            trace=trace,
        )


def _list_governed(snapshot: Snapshot, bus: Bus) -> dict[str, Any]:
    config = snapshot.config
    return {
        "snapshot": snapshot,
        "config": config,
        "limits": turn.compute_history_limits(config, *snapshot.agents.values()),
        "packages": snapshot.map_agent_packages(),
        "attention": Engine.of(snapshot, now=bus.clock.monotonic),
    }
