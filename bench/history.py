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
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, cluster, ledger_stats
from bench.peers.environment import python_or_exit
from bench.report import arguments, machine, measured_on, say, write_json
from bench.turn import HISTORY, LANGGRAPH, MEASURED, ROWS, Peer, percentiles, ratio, talk, texts_of
from hobus.launch.cluster.client import connect_bus

PEER_LONG = 1000
GOALS = {"P2 ratio": 25.0, "P3 1000/10": 1.15, "P3 10000/10": 1.3, "P4 bytes": 12_000}


@dataclass(slots=True)
class Measured:
    rounds: list[list[float]] = field(default_factory=list[list[float]])
    bytes: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])

    def row(self) -> dict[str, Any]:
        cpu = {"cpu_ms_per_turn": round(statistics.median(self.cpu_ms), 1)} if self.cpu_ms else {}
        return {**percentiles("", self.rounds), "bytes_per_turn": round(statistics.median(self.bytes)), **cpu}


async def measure(found: Cluster, rounds: int, longest: int, python: Path | None, directory: Path) -> dict[str, Any]:
    lengths = [HISTORY, *sorted({min(PEER_LONG, longest), longest} - {HISTORY})]
    ours = {length: Measured() for length in lengths}
    theirs = {length: Measured() for length in ((HISTORY, PEER_LONG) if python else ())}
    async with AsyncExitStack() as stack:
        door = await stack.enter_async_context(connect_bus(found.place, "door"))
        operator = await stack.enter_async_context(connect_bus(found.place, "operator"))
        long = {length: (await talk(door, None, length))[0] for length in lengths[1:]}
        peer = None
        if python is not None:
            sample, _ = await talk(door, None, 1)
            peer = stack.enter_context(await asyncio.to_thread(Peer, python, texts_of(found, sample), directory))
            peer.turns("long", written=PEER_LONG, measured=1)
            peer.round()
        for number in range(rounds):
            for length, measured in ours.items():
                session_id = long[length] if length in long else (await talk(door, None, length))[0]
                cpu_before = sum(found.cpu_s().values())
                bytes_before = (await ledger_stats(operator)).bytes_written
                measured.rounds.append((await talk(door, session_id, MEASURED))[1])
                await asyncio.sleep(0.05)  # what nobody waited for is in the record too
                measured.bytes.append(((await ledger_stats(operator)).bytes_written - bytes_before) / MEASURED)
                measured.cpu_ms.append((sum(found.cpu_s().values()) - cpu_before) / MEASURED * 1000)
            for length, measured in theirs.items():
                assert peer is not None
                name, given = (f"round-{number}", {"taken": length}) if length == HISTORY else ("long", {})
                times, grown = await asyncio.to_thread(peer.turns, name, **given, measured=MEASURED)
                measured.rounds.append(times)
                measured.bytes.append(grown)
    result: dict[str, Any] = {
        "ours": {str(length): one.row() for length, one in ours.items()},
        "peer": {str(length): one.row() for length, one in theirs.items()},
        "growth": {f"{one}/{HISTORY}": ratio(ours[one].rounds, ours[HISTORY].rounds) for one in lengths[1:]},
    }
    if theirs:
        result["peer_growth"] = {f"{PEER_LONG}/{HISTORY}": ratio(theirs[PEER_LONG].rounds, theirs[HISTORY].rounds)}
        result["as_fast_as_peer"] = {
            str(one): ratio(theirs[one].rounds, ours[one].rounds) for one in theirs if one in ours
        }
    return result


def main() -> None:
    parser = arguments(__doc__, json=True, no_peer=True)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--longest", type=int, default=10_000, help="turns of the longest history")
    given = parser.parse_args()
    python = None if given.no_peer else python_or_exit("langgraph", LANGGRAPH)
    before = machine()
    with cluster(ROWS[0][1]) as found, tempfile.TemporaryDirectory(prefix="hobus-bench-") as directory:
        measured = asyncio.run(measure(found, given.rounds, given.longest, python, Path(directory)))
    print(f"a turn at growing length of its session ({given.rounds} rounds of {MEASURED} turns)")
    result = {"measured_on": measured_on(before), "goals": GOALS, **measured}
    say(result)
    write_json(given.json, result)


if __name__ == "__main__":
    main()
