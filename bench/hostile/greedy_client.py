"""One client that asks as much as it can, and asks again at once whatever it is told: `python -m bench.hostile.greedy_client`.

usage: python -m bench.hostile.greedy_client HOME KIND SECONDS

A process of its own, so that it has a principal of its own. Prints what it was answered as JSON: answers by outcome.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.turn import QUESTION
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import Message
from hobus.bus.messages.gateway import Budget, ReadBudget
from hobus.bus.messages.ids import iso
from hobus.bus.messages.ledger import Entries, Query, Tail
from hobus.bus.messages.memory import ReadSignals, Signals
from hobus.bus.messages.session import (
    Cancel,
    Command,
    CommandVerdict,
    FollowUp,
    HostCommand,
    ProcessTurn,
    ReadSession,
    SessionCommand,
    SessionView,
    TurnResult,
)
from hobus.bus.port import Bus
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapReader
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import home_of
from hobus.launch.cluster.run_file import read as read_run

OPEN_MAX = 1000
"""Requests that it keeps open at once."""
BIG_OPEN_MAX = 64
BIG_BYTES = 8_000_000
REPLAYED_S = 60.0
TIMEOUT_S = 30.0

Ask = Callable[[Bus, str], Awaitable[Message]]
"""One request of the flood, of the bus and the flood's own session."""


async def _turn(bus: Bus, _session_id: str) -> Message:
    return await bus.request(
        "host",
        ProcessTurn(session_id=None, input_id=bus.new_id(), text="hello"),
        expect=TurnResult,
        timeout_s=TIMEOUT_S,
    )


async def _tool_turn(bus: Bus, _session_id: str) -> Message:
    turn = ProcessTurn(session_id=None, input_id=bus.new_id(), text=QUESTION)
    return await bus.request("host", turn, expect=TurnResult, timeout_s=TIMEOUT_S)


async def _big(bus: Bus, _session_id: str) -> Message:
    turn = ProcessTurn(session_id=None, input_id=bus.new_id(), text="x" * BIG_BYTES)
    return await bus.request("host", turn, expect=TurnResult, timeout_s=TIMEOUT_S)


async def _command(bus: Bus, session_id: str, command: Command) -> Message:
    said = HostCommand(command_id=bus.new_id(), issued_at=iso(bus.now()), command=command)
    message = SessionCommand(session_id=session_id, command=said)
    return await bus.request("ho2", message, expect=CommandVerdict, timeout_s=TIMEOUT_S, key=session_id)


async def _follow_up(bus: Bus, session_id: str) -> Message:
    return await _command(bus, session_id, FollowUp(text="hello"))


async def _cancel(bus: Bus, session_id: str) -> Message:
    return await _command(bus, session_id, Cancel())


async def _read_session(bus: Bus, session_id: str) -> Message:
    return await bus.request(
        "ho2", ReadSession(session_id=session_id), expect=SessionView, timeout_s=TIMEOUT_S, key=session_id
    )


async def _query(bus: Bus, _session_id: str) -> Message:
    return await bus.request("ledger", Query(limit=1000, with_bodies=True), expect=Entries, timeout_s=TIMEOUT_S)


async def _poll(bus: Bus, _session_id: str) -> Message:
    return await bus.request("ledger", Tail(after=2**40, limit=1, wait_ms=5000), expect=Entries, timeout_s=TIMEOUT_S)


async def _memory(bus: Bus, _session_id: str) -> Message:
    return await bus.request("ho3", ReadSignals(agent_id="ADMIN"), expect=Signals, timeout_s=TIMEOUT_S)


async def _budget(bus: Bus, session_id: str) -> Message:
    return await bus.request("gateway", ReadBudget(session_id=session_id), expect=Budget, timeout_s=TIMEOUT_S)


ASKS: dict[str, Ask] = {
    "turns": _turn,
    "tool orders": _tool_turn,
    "follow-ups": _follow_up,
    "host commands": _cancel,
    "session reads": _read_session,
    "ledger queries": _query,
    "ledger long polls": _poll,
    "memory reads": _memory,
    "budget reads": _budget,
    "big bodies": _big,
}
CONTROL = "a busy core"
"""No flood at all, but as hungry: what the machine costs the polite client, whatever the cluster does."""
KINDS = (CONTROL, *ASKS, "tap replays", "whole tap replays", "connections")


async def flood(place: Place, kind: str, seconds: float) -> Counter[str]:
    """Everything that can be asked in this time; what came of it, by outcome."""
    until = time.perf_counter() + seconds
    seen: Counter[str] = Counter()
    if kind == "connections":
        await asyncio.gather(*(_come_and_go(place, until, seen) for _ in range(16)))
    elif kind == CONTROL:
        while time.perf_counter() < until:
            seen["rounds of a loop"] += 1
    elif kind in ("tap replays", "whole tap replays"):
        is_whole = kind == "whole tap replays"
        await asyncio.gather(*(_replay(place, until, seen, is_whole=is_whole) for _ in range(16)))
    else:
        await _ask_on(place, kind, until, seen)
    return seen


async def _ask_on(place: Place, kind: str, until: float, seen: Counter[str]) -> None:
    ask, count = ASKS[kind], BIG_OPEN_MAX if kind == "big bodies" else OPEN_MAX

    async def again(bus: Bus, session_id: str) -> None:
        while time.perf_counter() < until:
            try:
                answer = await ask(bus, session_id)
            except RuntimeFault as fault:
                seen[fault.code] += 1
                continue
            seen[answer.outcome if isinstance(answer, TurnResult) else "answered"] += 1

    async with connected(place, "door") as door, connected(place, "operator") as operator:
        own = await _first(door)
        bus = door if ask in (_turn, _tool_turn, _big) else operator
        tasks = [asyncio.ensure_future(again(bus, own)) for _ in range(count)]
        await asyncio.sleep(max(0.0, until - time.perf_counter()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _first(door: Bus) -> str:
    """A session of its own."""
    turn = ProcessTurn(session_id=None, input_id=door.new_id(), text="hello")
    return (await door.request("host", turn, expect=TurnResult, timeout_s=TIMEOUT_S)).session_id


async def _come_and_go(place: Place, until: float, seen: Counter[str]) -> None:
    while time.perf_counter() < until:
        try:
            async with connected(place, "door"):
                seen["connected"] += 1
        except RuntimeFault as fault:
            seen[fault.code] += 1


async def _replay(place: Place, until: float, seen: Counter[str], *, is_whole: bool) -> None:
    """Asks, and leaves at the first word; or reads its answer to the end."""
    zeromq = ZeroMQ(place.snapshot.config.bus)
    try:
        while time.perf_counter() < until:
            reader = TapReader(zeromq, place.snapshot.config.bus, place.tap, since_s=REPLAYED_S, with_bodies=True)
            try:
                async with asyncio.timeout(max(0.0, until - time.perf_counter())):
                    await (_read_ring(reader) if is_whole else reader.is_heard())
                seen["replayed"] += 1
            except TimeoutError:
                seen["not replayed"] += 1
            reader.close()
    finally:
        zeromq.close()


async def _read_ring(reader: TapReader) -> None:
    async for batch in reader.batches():
        if batch.reaches_at is not None:
            return


def main(words: list[str]) -> None:
    """Floods until its time is over."""
    root, kind, seconds = words
    home = home_of(Path(root))
    run = read_run(home.run_file)
    assert run is not None, "no cluster"
    print(json.dumps(asyncio.run(flood(place_of(home, run), kind, float(seconds)))))


if __name__ == "__main__":
    main(sys.argv[1:])
