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
from collections.abc import Callable
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
from hobus.launch.cluster.client import cluster_of, connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import home_of

OPEN_MAX = 1000
"""Requests that it keeps open at once."""
BIG_OPEN_MAX = 64
BIG_BYTES = 8_000_000
REPLAYED_S = 60.0
TIMEOUT_S = 30.0

Ask = Callable[[Bus, str], tuple[str, Message, type[Message]]]
"""One request of the flood, of the bus and the flood's own session: to whom, what, and what answers."""


def _turn(text: str) -> Ask:
    return lambda bus, _: ("host", ProcessTurn(session_id=None, input_id=bus.new_id(), text=text), TurnResult)


def _commanded(command: Command) -> Ask:
    def ask(bus: Bus, session_id: str) -> tuple[str, Message, type[Message]]:
        said = HostCommand(command_id=bus.new_id(), issued_at=iso(bus.now()), command=command)
        return "ho2", SessionCommand(session_id=session_id, command=said), CommandVerdict

    return ask


TURNS = ("turns", "tool orders", "big bodies")
"""What a door may ask; all else is an operator's."""
ASKS: dict[str, Ask] = {
    "turns": _turn("hello"),
    "tool orders": _turn(QUESTION),
    "follow-ups": _commanded(FollowUp(text="hello")),
    "host commands": _commanded(Cancel()),
    "session reads": lambda _, session_id: ("ho2", ReadSession(session_id=session_id), SessionView),
    "ledger queries": lambda *_: ("ledger", Query(limit=1000, with_bodies=True), Entries),
    "ledger long polls": lambda *_: ("ledger", Tail(after=2**40, limit=1, wait_ms=5000), Entries),
    "memory reads": lambda *_: ("ho3", ReadSignals(agent_id="ADMIN"), Signals),
    "budget reads": lambda _, session_id: ("gateway", ReadBudget(session_id=session_id), Budget),
    "big bodies": _turn("x" * BIG_BYTES),
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
                service, question, expect = ask(bus, session_id)
                key = session_id if service == "ho2" else ""
                answer = await bus.request(service, question, expect=expect, timeout_s=TIMEOUT_S, key=key)
            except RuntimeFault as fault:
                seen[fault.code] += 1
                continue
            seen[answer.outcome if isinstance(answer, TurnResult) else "answered"] += 1

    async with connected(place, "door") as door, connected(place, "operator") as operator:
        own = await _first(door)
        bus = door if kind in TURNS else operator
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
            reader = TapReader(zeromq, place.tap, since_s=REPLAYED_S, with_bodies=True)
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
    print(json.dumps(asyncio.run(flood(cluster_of(home_of(Path(root))), kind, float(seconds)))))


if __name__ == "__main__":
    main(sys.argv[1:])
