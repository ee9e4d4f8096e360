"""What clients do in a simulated run: every input asked as by `hobus ask`, some twice at once, all of them again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.lab.simulated import SimulatedCluster
from hobus.launch.lab.simulation.plan import PlannedAsk
from hobus.launch.lab.simulation.record import Broken, must
from hobus.launch.lab.simulation.watch import EventWatch
from hobus.launch.sessions.turns import process_turn

ASK_S = 30.0
"""A client's patience, virtual seconds."""
LATE_S = 0.001
"""An answer or fault may come so much behind the deadline: what is lost when times are added up."""
HONEST = frozenset({"BUDGET_EXHAUSTED"})
"""Errors that are an answer for good: asking again cannot help."""
Told = TurnResult | RuntimeFault


class Clients:
    """All clients of one run, and what each input was answered."""

    def __init__(self, cluster: SimulatedCluster, watch: EventWatch, on_first: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._watch = watch
        self._on_first = on_first
        self._session_of: dict[str, str | None] = {}
        self.told: dict[str, TurnResult] = {}
        """The final answers: success or degraded, first telling."""
        self.faults: dict[str, str] = {}
        """What the others were told."""

    async def hold(self, sessions: tuple[tuple[PlannedAsk, ...], ...]) -> None:
        """Ask every session's inputs, one after another; the sessions side by side."""
        async with asyncio.TaskGroup() as group:
            for asks in sessions:
                group.create_task(self._run_session(asks))

    async def _run_session(self, asks: tuple[PlannedAsk, ...]) -> None:
        session_id: str | None = None
        for ask in asks:
            await asyncio.sleep(ask.after_s)
            self._session_of[ask.input_id] = session_id
            self._on_first(ask.input_id)
            async with asyncio.TaskGroup() as group:
                clients = [group.create_task(self._ask(ask, session_id)) for _ in range(1 + ask.is_doubled)]
            for told in (client.result() for client in clients):
                self._settle(ask, told)
                if isinstance(told, TurnResult) and told.outcome != "error":
                    session_id = told.session_id

    async def again(self, sessions: tuple[tuple[PlannedAsk, ...], ...]) -> None:
        """Ask every input once more, in fair weather. Raises Broken where that brings no answer, or another one."""
        for asks in sessions:
            for ask in asks:
                told = await self._ask(ask, self._session_of[ask.input_id])
                self._settle(ask, told)
                is_honest = isinstance(told, TurnResult) and told.code in HONEST
                if ask.input_id not in self.told and not is_honest:
                    raise Broken(f"{ask.input_id} has no answer when nothing is wrong any more: {_describe_told(told)}")

    async def _ask(self, ask: PlannedAsk, session_id: str | None) -> Told:
        turn = ProcessTurn(session_id=session_id, input_id=ask.input_id, text=ask.text)
        began = self._world.loop.time()
        self._watch.note(f"asked    {ask.input_id}: {ask.text!r}")
        try:
            told: Told = await process_turn(self._cluster.door, turn, timeout_s=ASK_S, waits_for_its_turn=True)
        except RuntimeFault as fault:
            told = fault
        took_s = self._world.loop.time() - began
        self._watch.note(f"answered {ask.input_id} after {took_s:.3f} s: {_describe_told(told)}")
        must(took_s <= ASK_S + LATE_S, f"{ask.input_id} was answered only after {took_s:.3f} s, beyond its deadline")
        return told

    def _settle(self, ask: PlannedAsk, told: Told) -> None:
        if isinstance(told, RuntimeFault):
            self.faults[ask.input_id] = told.code
        elif told.outcome == "error":
            self.faults[ask.input_id] = told.code or "error"
        else:
            first = self.told.setdefault(ask.input_id, told)
            is_same = (first.outcome, first.response) == (told.outcome, told.response)
            must(
                is_same,
                f"{ask.input_id} is answered twice, and not alike: {_describe_told(first)}; {_describe_told(told)}",
            )


def _describe_told(told: Told) -> str:
    if isinstance(told, RuntimeFault):
        return f"fault {told.code}"
    return f"{told.outcome}{f' ({told.code})' if told.code else ''}: {told.response.splitlines()[0][:60]!r}"
