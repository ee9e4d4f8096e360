"""The last resort: one bare model call, and the stream decides whether its reply is the turn's answer."""

from __future__ import annotations

import asyncio

import structlog

from hobus.actors.session_host import limits, records, turns
from hobus.actors.session_host.records import DegradedPrompts
from hobus.actors.session_host.turns import Turn
from hobus.bus import limits as bus_limits
from hobus.bus.errors import RuntimeFault
from hobus.bus.first_answer import FirstAnswer
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import derive_requested_id, derive_turn_trace
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.streams import StreamReset
from hobus.bus.port import Bus
from hobus.bus.spent import with_calls
from hobus.bus.spool import RecordKeeper
from hobus.config.begun_sessions import BegunSessions
from hobus.config.snapshot import Snapshot

_log = structlog.get_logger("session_host")


class Degrader:
    """Answer turns that the supervisor could not."""

    def __init__(
        self, bus: Bus, ledger: LedgerClient, keeper: RecordKeeper, snapshot: Snapshot, sessions: BegunSessions
    ) -> None:
        self._bus = bus
        self._ledger = ledger
        self._keeper = keeper
        self._snapshot = snapshot
        self._sessions = sessions
        self._config = snapshot.config.host
        self.agents = snapshot.map_agent_provenance()
        self._prompts = DegradedPrompts(snapshot)

    async def answer(self, turn: Turn, fault: RuntimeFault, told: FirstAnswer[TurnResult]) -> TurnResult:
        """Return the reduced answer, or the one that the stream has, or an honest error; before the deadline.

        A record that takes nothing, its disk full, can still be read: no model is asked for what it has, and the one
        that is asked answers as the session's agent. `told`: what another one who asks the same was told meanwhile.
        """
        recorded, turn = await self._find_recorded(turn, turn.reserves * limits.APPEND_RESERVE_MS / 1000)
        return recorded or await self._ask(turn, fault, told)

    async def _ask(self, turn: Turn, fault: RuntimeFault, told: FirstAnswer[TurnResult]) -> TurnResult:
        self._record(turn, fault)
        turn.stream(StreamReset(reason="degraded"))
        try:
            response = await self._bus.request(
                "gateway",
                self._prompts.make_prompt(turn, self._sessions),
                expect=PromptResponse,
                timeout_s=self._compute_left(turn, limits.APPEND_RESERVE_MS),
                trace=turn.trace,
                reached_within_s=limits.GATEWAY_WAIT_MS / 1000,
            )
        except RuntimeFault as error:
            return turns.make_unanswered(turn, fault, error.code)
        if response.outcome != "SUCCESS" or not response.content.strip():
            return turns.make_unanswered(turn, fault, response.error_code, response)
        content = with_calls(response.content, fault, "\n\n")
        return await self._deliver(turn, response.model_copy(update={"content": content}), told, fault)

    def find_told_before(self, turn: Turn) -> TurnResult | None:
        """Return what a client was told of this turn while the record was away, until the record says so itself."""
        told = self._keeper.held(records.derive_delivered_id(turn))
        return told and turns.read_result(turn, None, told, None)

    def _record(self, turn: Turn, fault: RuntimeFault) -> None:
        """Record the degradation before the gateway is called: pipelined, spooled if need be, delaying no answer."""
        _log.warning(
            "turn_degrades",
            turn=derive_turn_trace(turn.session_id, turn.input_id),
            input_id=turn.input_id,
            code=fault.code,
        )
        self._keeper.submit(records.make_degradation(turn, fault, now=self._bus.now()), keep=True)

    async def _deliver(
        self, turn: Turn, response: PromptResponse, told: FirstAnswer[TurnResult], fault: RuntimeFault
    ) -> TurnResult:
        """Make TurnDegraded durable and first, or return what came before it.

        The ledger has the reserve of this turn to say so, even if much more is left until the deadline.
        """
        submitted = self._keeper.submit(
            records.make_turn_degraded(turn, response, fault, now=self._bus.now(), delivered=False),
            keep=False,
            urgent=True,
        )
        try:
            async with asyncio.timeout(
                min(
                    turn.reserves * self._config.degrade_reserve_ms / 1000,
                    self._compute_left(turn, limits.REPLY_RESERVE_MS),
                )
            ):
                ack = (await submitted)[0]
        except (TimeoutError, RuntimeFault):
            # The ledger cannot decide in time: the reply goes out, and the record will say that it did.
            if told.value is None:
                self._keeper.submit_and_spool(
                    records.make_turn_degraded(turn, response, fault, now=self._bus.now(), delivered=True)
                )
        else:
            if not ack.is_first:
                return (await self._find_recorded(turn, self._compute_left(turn, limits.REPLY_RESERVE_MS)))[
                    0
                ] or turns.make_error(
                    turn,
                    "unavailable",
                    "This turn is answered, and the answer cannot be read now. "
                    "Please ask again under the same input id.",
                )
        return turns.make_degraded(turn, response, fault)

    async def _find_recorded(self, turn: Turn, within_s: float) -> tuple[TurnResult | None, Turn]:
        """Return what answered this input before: the run's own result, a verdict, or an earlier degraded reply.

        None: nothing did, or the ledger does not say so in time. Beside it the turn as one of its session's agent.
        """
        try:
            async with asyncio.timeout(within_s):
                found = await self._look_up(turn)
            self._sessions.read(turn.session_id, found[-1])
            return turns.read_recorded(turn, found, self.agents)
        except TimeoutError:
            return None, turn
        except ValueError as error:
            _log.warning("winning_answer_unreadable", input_id=turn.input_id, error=str(error))
            sentence = "This turn was answered before, and that answer cannot be read any more."
            return turns.make_error(turn, "unavailable", sentence), turn

    async def _look_up(self, turn: Turn) -> list[Entry | None]:
        """Look up the input, its answer, and what that names besides; ask until the ledger says."""
        while True:
            try:
                return await self._ledger.lookup(
                    [derive_requested_id(turn.session_id, turn.input_id)],
                    records.answer_keys(turn),
                    with_bodies=True,
                )
            except RuntimeFault as fault:
                _log.warning("winner_unknown", input_id=turn.input_id, code=fault.code)
            await self._bus.sleep(bus_limits.RETRY_INTERVAL_MS / 1000)

    def _compute_left(self, turn: Turn, reserve_ms: int) -> float:
        return max(0.0, turn.deadline - turn.reserves * reserve_ms / 1000 - self._bus.clock.monotonic())
