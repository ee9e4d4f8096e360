"""P: what the HTTP door adds to a turn, and how many readers of events it holds.

usage: python -m bench.door [--turns 40] [--readers 1000] [--json FILE]

The turn of `bench.turn`, first row, asked in turns over the bus and over the door, each in a session of its own, in the same
run; whole, and streamed up to the first piece. Then readers follow 20 sessions as server-sent events, a turn is asked in
each, and every reader is to have every event of its session; beside them strangers hold idle connections.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

from bench.cluster import Cluster, cluster
from bench.report import arguments, machine, measured_on, percentile, write_json
from bench.turn import QUESTION, ROWS
from hobus.bus.clock import SystemClock
from hobus.bus.messages.base import Message
from hobus.bus.messages.session import ProcessTurn
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.endpoints import parts_of
from hobus.launch.http import keys
from hobus.launch.sessions.http_client import AsyncClient
from hobus.launch.sessions.turns import process_turn

SESSIONS, STRANGERS = 20, 2000


async def added(found: Cluster, url: str, key: str, turns: int) -> dict[str, Any]:
    """Milliseconds, p50 and p90, over the bus and over the door."""
    times: dict[str, list[float]] = {name: [] for name in ("bus", "door", "bus first piece", "door first piece")}
    clock = SystemClock()
    async with connected(found.place, "door") as bus, AsyncClient(url, key) as client:
        over_bus, over_door = None, await client.start()

        async def by_bus(*, stream: bool) -> float:
            nonlocal over_bus
            first: list[float] = []
            turn = ProcessTurn(session_id=over_bus, input_id=clock.new_id(), text=QUESTION, stream=stream)
            began = time.perf_counter()

            def heard(_: Message) -> None:
                first.append(time.perf_counter() - began)

            on_stream = heard if stream else None
            result = await process_turn(bus, turn, timeout_s=30, retry_interval_s=0.2, on_stream=on_stream)
            assert result.outcome == "success", result
            over_bus = result.session_id
            return first[0] if stream else time.perf_counter() - began

        async def by_door(*, stream: bool) -> float:
            began = time.perf_counter()
            if not stream:
                assert (await client.ask(QUESTION, session_id=over_door)).outcome == "success"
                return time.perf_counter() - began
            first = 0.0
            async for _ in client.stream(QUESTION, session_id=over_door):
                first = first or time.perf_counter() - began
            return first

        for number in range(turns + 5):
            for stream in (False, True):
                taken = {"bus": await by_bus(stream=stream), "door": await by_door(stream=stream)}
                if number >= 5:  # the first ones warm up what is loaded on first use
                    for name, took in taken.items():
                        times[f"{name} first piece" if stream else name].append(took * 1000)
    return {
        name: {"p50_ms": round(statistics.median(some), 1), "p90_ms": round(percentile(some, 90), 1)}
        for name, some in times.items()
    }


async def held(url: str, key: str, readers: int) -> dict[str, Any]:
    """Readers of events, each of whom is to have all of its session; and strangers who say nothing."""
    host, port = parts_of(url.removeprefix("http://"))
    async with AsyncClient(url, key) as client:
        sessions = [await client.start() for _ in range(SESSIONS)]
        got: dict[int, list[int]] = {number: [] for number in range(readers)}
        ended: list[float] = []

        async def read(number: int) -> None:
            reader, writer = await asyncio.open_connection(host, port)
            path = f"/v1/sessions/{sessions[number % SESSIONS]}/events"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
            async for line in reader:
                if line.startswith(b"id: "):
                    got[number].append(int(line[4:]))
                elif line == b"event: SESSION_END\n":
                    break
            ended.append(time.perf_counter())
            writer.close()

        async with asyncio.TaskGroup() as group:
            began = time.perf_counter()
            for number in range(readers):
                group.create_task(read(number))
                if number % 100 == 99:
                    await asyncio.sleep(0.05)
            while not all(got.values()):
                await asyncio.sleep(0.05)
            opened_s = time.perf_counter() - began
            for session in sessions:
                assert (await client.ask(QUESTION, session_id=session)).outcome == "success"
            ends = time.perf_counter()
            for session in sessions:
                await client.end(session)
        missed = sum(got[number] != got[number % SESSIONS] for number in range(readers))
        strangers = [await asyncio.open_connection(host, port) for _ in range(STRANGERS)]
        began_ask = time.perf_counter()
        assert (await client.ask(QUESTION)).outcome == "success"
        beside_ms = (time.perf_counter() - began_ask) * 1000
        for _, writer in strangers:
            writer.close()
    return {
        "readers": readers, "sessions": SESSIONS, "opened_s": round(opened_s, 2),
        "events_each": len(got[0]), "readers_that_differ": missed,
        "all_ended_after_s": round(max(ended) - ends, 2),
        "turn_beside_idle_connections_ms": round(beside_ms, 1), "idle_connections": STRANGERS,
    }  # fmt: skip


def run(turns: int, readers: int) -> dict[str, Any]:
    before = machine()
    with cluster(ROWS[0][1], "--http", "127.0.0.1:0") as found:
        home, clock = found.place.home, SystemClock()
        key = keys.create(home, "bench", new_id=clock.new_id, now_us=0, ttl_s=None)
        url = f"http://{home.bound(http=True)}"
        figures = {"added": asyncio.run(added(found, url, key, turns)), "held": asyncio.run(held(url, key, readers))}
        figures["held"]["door_rss_mb"] = round(found.processes["http/1"].memory_info().rss / 1e6)
    return {"measured_on": measured_on(before), "turns": turns, **figures}


def main() -> None:
    parser = arguments(__doc__, json=True)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--readers", type=int, default=1000)
    given = parser.parse_args()
    result = run(given.turns, given.readers)
    print(json.dumps(result, indent=1))
    write_json(given.json, result)


if __name__ == "__main__":
    main()
