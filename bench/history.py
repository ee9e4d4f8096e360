"""P2, P3, P4: what a turn costs after 10, 1000 and 10,000 turns, beside LangGraph with SqliteSaver in the same run.

usage: python -m bench.history [--rounds 6] [--longest 10000] [--no-peer] [--json FILE]

The turn of `bench.turn`, first row (two model calls, one tool call, `ho2.classify` and `ho3.enabled` off). Long histories are
made by taking the turns, one after the other, before anything is measured; the peer's are written into its state at once.
Then rounds: ten turns each in a new session of ten turns, in the long ones, and in the peer's threads of ten and 1000 turns,
so that a slow minute is slow for all of them. Bytes are those of the ledger's files (both directions of every prompt are in
them), and for the peer the growth of its database file.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster, ledger_stats
from bench.peers.environment import python_or_exit
from bench.report import arguments, machine, measured_on, say_machine, write_json
from bench.turn import HISTORY, LANGGRAPH, MEASURED, ROWS, Peer, ask, bytes_by_event, percentiles, texts_of, turns_of
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.ledger_service.reader import EntryFilter, read_entries

PEER_LONG = 1000
GOALS = {"P2 ratio": 20.0, "P3 1000/10": 1.15, "P3 10000/10": 1.3, "P4 bytes": 20_000}


class Measured:
    """The rounds of one length of history."""

    def __init__(self) -> None:
        self.rounds: list[list[float]] = []
        self.bytes: list[float] = []
        self.cpu_ms: list[float] = []

    @property
    def medians(self) -> list[float]:
        return [statistics.median(times) for times in self.rounds]

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            **percentiles("", self.rounds),
            "bytes_per_turn": round(statistics.median(self.bytes)),
        }
        return row | ({"cpu_ms_per_turn": round(statistics.median(self.cpu_ms), 1)} if self.cpu_ms else {})


def over(these: Measured, those: Measured) -> float:
    """The median over the rounds of how many times longer these took."""
    return round(statistics.median(a / b for a, b in zip(these.medians, those.medians, strict=True)), 2)


async def grow(door: Bus, session_id: str | None, turns: int) -> str:
    """A session with so many turns more, each of them taken; said from time to time."""
    started = time.perf_counter()
    for number in range(1, turns + 1):
        result, _ = await ask(door, session_id)
        session_id = result.session_id
        if number % 1000 == 0:
            print(f"    {number} turns in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    assert session_id is not None
    return session_id


async def measure(found: Cluster, rounds: int, longest: int, python: Path | None, directory: Path) -> dict[str, Any]:
    lengths = [HISTORY, *sorted({min(PEER_LONG, longest), longest} - {HISTORY})]
    ours = {length: Measured() for length in lengths}
    theirs = {length: Measured() for length in ((HISTORY, PEER_LONG) if python else ())}
    async with connect_bus(found.place, "door") as door, connect_bus(found.place, "operator") as operator:
        long = {length: await grow(door, None, length) for length in lengths[1:]}
        peer = None
        if python is not None:
            sample = await grow(door, None, 1)
            peer = await asyncio.to_thread(Peer, python, texts_of(found, sample), directory)
            peer.turns("long", written=PEER_LONG, measured=1)
            peer.round()
        for number in range(rounds):
            for length in lengths:
                session_id = long[length] if length in long else await grow(door, None, length)
                cpu_before = sum(found.cpu_s().values())
                bytes_before = (await ledger_stats(operator)).bytes_written
                ours[length].rounds.append([(await ask(door, session_id))[1] for _ in range(MEASURED)])
                await asyncio.sleep(0.05)  # what nobody waited for is in the record too
                grown = (await ledger_stats(operator)).bytes_written - bytes_before
                ours[length].bytes.append(grown / MEASURED)
                ours[length].cpu_ms.append((sum(found.cpu_s().values()) - cpu_before) / MEASURED * 1000)
            for length, measured in theirs.items():
                assert peer is not None
                given = {"taken": length} if length == HISTORY else {"written": length}
                name = f"round-{number}-{length}" if length == HISTORY else "long"
                times, grown = await asyncio.to_thread(peer.turns, name, **given, measured=MEASURED)
                measured.rounds.append(times)
                measured.bytes.append(grown)
        if peer is not None:
            peer.close()
    entries = {
        length: turns_of(list(read_entries(found.home.ledger, EntryFilter(session=session_id))))[-MEASURED:]
        for length, session_id in long.items()
    }
    result: dict[str, Any] = {
        "ours": {str(length): one.row() for length, one in ours.items()},
        "peer": {str(length): one.row() for length, one in theirs.items()},
        "growth": {f"{length}/{HISTORY}": over(ours[length], ours[HISTORY]) for length in lengths[1:]},
        "growth_cpu": {
            f"{length}/{HISTORY}": round(
                statistics.median(ours[length].cpu_ms) / statistics.median(ours[HISTORY].cpu_ms), 2
            )
            for length in lengths[1:]
        },
        "body_bytes_by_event": {str(length): bytes_by_event(turns) for length, turns in entries.items()},
    }
    if theirs:
        result["peer_growth"] = {f"{PEER_LONG}/{HISTORY}": over(theirs[PEER_LONG], theirs[HISTORY])}
        result["as_fast_as_peer"] = {
            str(length): over(theirs[length], ours[length]) for length in theirs if length in ours
        }
    return result


def run(rounds: int, longest: int, python: Path | None) -> dict[str, Any]:
    before = machine()
    with cluster(ROWS[0][1]) as found, tempfile.TemporaryDirectory(prefix="hobus-bench-") as directory:
        measured = asyncio.run(measure(found, rounds, longest, python, Path(directory)))
    return {"measured_on": measured_on(before), "rounds": rounds, "goals": GOALS, **measured}


def show(result: dict[str, Any]) -> None:
    print(f"a turn at growing length of its session ({result['rounds']} rounds of {MEASURED} turns)")
    say_machine(result["measured_on"])
    for name, part in result.items():
        if name in ("measured_on", "rounds"):
            continue
        print(f"\n{name}")
        for key, value in part.items():
            print(f"    {key:14} {value}")


def main() -> None:
    parser = arguments(__doc__, json=True, no_peer=True)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--longest", type=int, default=10_000, help="turns of the longest history")
    given = parser.parse_args()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    result = run(given.rounds, given.longest, python)
    show(result)
    write_json(given.json, result)


if __name__ == "__main__":
    main()
