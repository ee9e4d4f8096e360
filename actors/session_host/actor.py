"""The session host: start a session, pass a turn to HO2, degrade. Everything else belongs to HO2."""

from __future__ import annotations

from functools import partial
from itertools import count

import structlog

from hobus.actors.session_host import limits, turns
from hobus.actors.session_host.degrade import Degrader
from hobus.actors.session_host.turns import Turn
from hobus.bus.dispatch import Actor, Call, name_sayer
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.first_answer import FirstAnswers
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.limits import RETRY_INTERVAL_MS, SPOOL_RETRY_MS
from hobus.bus.messages.base import make_from
from hobus.bus.messages.gateway import Embed, PromptResponse
from hobus.bus.messages.ledger import name_session_stream
from hobus.bus.messages.session import (
    EndSession,
    ProcessTurn,
    SessionClosed,
    SessionReady,
    StartSession,
    TurnReply,
    TurnRequest,
    TurnResult,
)
from hobus.bus.port import Bus, Disk
from hobus.bus.spool import RecordKeeper, Spool
from hobus.config.begun_sessions import BegunSessions
from hobus.config.limits import SESSIONS_MAX
from hobus.config.recorded import Snapshots
from hobus.config.snapshot import Snapshot

SPOOL_FILE = "host.spool"
_log = structlog.get_logger("session_host")


class SessionHost(Actor):
    """The boundary that every client sees. Holds no session: what it knows comes with each request."""

    service = "host"
    needs = ("ho2", "gateway")

    def __init__(self, *, snapshot: Snapshot, spool: Disk) -> None:
        self._snapshot = snapshot
        self._spool = Spool(spool, SPOOL_FILE)
        self._sessions = BegunSessions(SESSIONS_MAX)
        self._answers = FirstAnswers[TurnResult](lambda result: result.outcome != "error")

    async def start(self, bus: Bus) -> None:
        """Submit to the ledger what an earlier incarnation spooled."""
        self._bus = bus
        self._ledger = LedgerClient(bus, self._snapshot.config.ledger)
        self._keeper = RecordKeeper(
            self._ledger,
            self._spool,
            spool_after_s=limits.APPEND_RESERVE_MS / 1000,
            retry_s=SPOOL_RETRY_MS / 1000,
        )
        self._degradation = Degrader(bus, self._ledger, self._keeper, self._snapshot, self._sessions)
        for entry in self._spool.open():
            self._keeper.submit(entry, keep=False)

    async def reconfigure(self, digest: str) -> None:
        """Use this snapshot for turns that come, and for what degrades, from now on."""
        self._snapshot = await Snapshots(self._snapshot, self._ledger, kept_max=1).get(digest)
        self._degradation = Degrader(self._bus, self._ledger, self._keeper, self._snapshot, self._sessions)

    async def drain(self) -> None:
        """Bring records of degraded turns into the ledger, or leave them on disk."""
        await self._ledger.flush()

    def counters(self) -> dict[str, int]:
        return {"spooled": self._keeper.spooled}

    # --- messages ---------------------------------------------------------------------------------------------------

    async def on_start_session(self, message: StartSession, call: Call) -> SessionReady:
        """Start a session; idempotent by its id, which is drawn here if the client names none."""
        start = turns.start_for(
            message,
            message.session_id or self._bus.new_id(),
            message.agent_id or self._snapshot.config.host.agent_id,
            call,
        )
        return self._sessions.started(
            start,
            await self._bus.request(
                "ho2",
                start,
                expect=SessionReady,
                timeout_s=self._compute_client_left(call),
                key=str(start.session_id),
                trace=call.trace,
            ),
        )

    async def on_process_turn(self, message: ProcessTurn, call: Call) -> TurnResult:
        """Answer one message before the client's deadline: by HO2, a verdict, degraded, or an honest error.

        Once the reply of a turn that HO2 answered is on its way, HO2 is told which signals it may consolidate.
        """
        turn = turns.make_turn(
            message,
            call,
            now=self._bus.clock.monotonic,
            config=self._snapshot.config.host,
            agents=self._degradation.agents,
        )
        if refusal := turns.find_refusal(turn.text, self._snapshot.config.host.prompt_max_bytes):
            return turns.make_error(turn, *refusal)
        with self._answers.asked((turn.session_id, turn.input_id, turn.text, turn.form)) as told:
            try:
                result = told.given(self._degradation.find_told_before(turn) or await self._ask_supervisor(turn))
            except RuntimeFault as fault:
                return (
                    turns.make_error(turn, fault.code, fault.detail, after=fault)
                    if turns.is_verdict(fault)
                    else told.given(await self._degradation.answer(turn, fault, told))
                )
            if consolidate := turns.make_consolidation(turn, result):
                call.after_reply(partial(self._bus.post, "ho2", consolidate, key=turn.agent_id, trace=turn.trace))
            return result

    async def on_embed(self, message: Embed, call: Call) -> PromptResponse:
        """Return texts as vectors: no turn, so that nothing stands in for them."""
        return await self._bus.request(
            "gateway", message, expect=PromptResponse, timeout_s=self._compute_client_left(call), trace=call.trace
        )

    async def on_end_session(self, message: EndSession, call: Call) -> SessionClosed:
        """End a session as far as possible: whatever HO2 says, the client is done with this id.

        Answered within the client's time: a record that is away, or HO2, keeps nobody in a session that is over for
        him.
        """
        try:
            return await self._bus.request(
                "ho2",
                message.model_copy(update=name_sayer(call, message.principal)._asdict()),
                expect=SessionClosed,
                timeout_s=(left_s := self._compute_client_left(call) * (1 - limits.RESERVE_SHARE_MAX)),
                key=message.session_id,
                reached_within_s=left_s,
            )
        except RuntimeFault as fault:
            _log.warning("end_session_failed", session_id=message.session_id, code=fault.code)
            return SessionClosed(session_id=message.session_id, turn_count=None, total_tokens=None, cost_usd=None)

    # --- HO2 --------------------------------------------------------------------------------------------------------

    async def _ask_supervisor(self, turn: Turn) -> TurnResult:
        """Return HO2's answer. HO2 knows whether the session has begun, unless this host alone does, on its own disk.

        Ask until the answer is there: also while the run stands still, and to keep its lease alive. A run that has
        stood still is never ended for the deadline of who asked: they are told how it stands.
        """
        start = turn.start if turn.is_first or self._keeper.holds_of(name_session_stream(turn.session_id)) else None
        request = make_from(TurnRequest, turn.message, session_id=turn.session_id, client=turn.client, start=start)
        reply = TurnReply(result=None)
        for asked in count(1):
            try:
                reply = self._sessions.started(
                    start, await self._ask(turn, request.model_copy(update={"waiting": reply.waiting}), str(asked))
                )
            except RuntimeFault as fault:
                if turns.is_verdict(fault) or reply.meanwhile is None:
                    raise
                return reply.meanwhile
            if reply.result is not None:
                return reply.result
        raise AssertionError("counting does not end")

    async def _ask(self, turn: Turn, message: TurnRequest, name: str) -> TurnReply:
        """Return HO2's reply; ask again while the session changes hands, which is no failure."""
        for tries in count(1):
            try:
                return await self._bus.request(
                    "ho2",
                    message,
                    expect=TurnReply,
                    timeout_s=self._compute_supervisor_left(turn, stands_still=message.waiting is not None),
                    key=turn.session_id,
                    # Derived from the client's request: what a restarted host sends again for it joins this one. It
                    # names the turn, so that no trace has to (`bus.messages.ids.find_turn`).
                    message_id=f"turn:{turn.session_id}/{turn.input_id}/{turn.request_id}.{name}.{tries}",
                    on_stream=turn.stream,
                )
            except RuntimeFault as fault:
                if fault.code != "moved":
                    raise
                await self._bus.sleep(fault.pause_s(RETRY_INTERVAL_MS / 1000, self._bus.clock.random()))
        raise AssertionError("counting does not end")

    def _compute_supervisor_left(self, turn: Turn, *, stands_still: bool) -> float:
        """Return the client's deadline less what degrading takes. Raises BusError(expired) if nothing is left."""
        reserve_s = limits.STANDSTILL_RESERVE_MS / 1000 if stands_still else self._get_seconds("degrade_reserve_ms")
        left = turn.deadline - turn.reserves * reserve_s - self._bus.clock.monotonic()
        if left <= 0:
            raise BusError("expired", f"no time is left for the supervisor before the deadline of {turn.input_id}")
        return left

    def _compute_client_left(self, call: Call) -> float:
        return min(call.remaining_s(self._bus.clock.monotonic()), self._get_seconds("turn_timeout_ms"))

    def _get_seconds(self, name: str) -> float:
        """Return a setting of section `host` in seconds."""
        return getattr(self._snapshot.config.host, name) / 1000
