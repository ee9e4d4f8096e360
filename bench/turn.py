"""A durable, audited turn over the whole cluster of real processes, with the zero-latency offline model.

usage: python -m bench.turn [--turns 200] [--json FILE]

One client asks "what packages are installed?" again and again in one session: classify, synthesize, one tool call,
synthesize: three model calls, every step durable. Printed: p50 and p99 of the turn as the client sees it; frames on the
bus, ledger commits (= syncs), entries, bytes and CPU per turn; one raw 4 KB append + fdatasync on the same disk in the same
run; and where the time goes, from the times in the record itself (median over the turns).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bus.messages.ledger import Entry, LedgerStats, ReadLedgerStats
from bus.messages.session import ProcessTurn, TurnResult
from bus.port import Bus
from bus.zeromq.context import ZeroMQ
from bus.zeromq.tap import TapReader
from launch.client import connected, place_of
from launch.endpoints import Place
from launch.home import home_of
from launch.run_file import read as read_run
from ledger_service.reader import Filter, read_entries

QUESTION = "what packages are installed?"
WARM_UP = 10


def hobus(home: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "launch.cli", "--home", str(home), *arguments], check=True, stdout=subprocess.DEVNULL
    )


def raw_append_us(directory: Path, count: int = 300) -> float:
    """p50 of writing and syncing 4 KB at a time into a file that was filled with zeros before."""
    path = directory / "raw"
    with path.open("wb", buffering=0) as file:
        file.write(bytes(4096 * count))
        os.fsync(file.fileno())
        file.seek(0)
        times = []
        for _ in range(count):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    path.unlink()
    return statistics.median(times) * 1e6


async def ask(door: Bus, session_id: str | None) -> tuple[TurnResult, float]:
    turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=QUESTION)
    started = time.perf_counter()
    result = await door.request("host", turn, expect=TurnResult, timeout_s=30)
    elapsed = time.perf_counter() - started
    if result.outcome != "success":
        raise SystemExit(f"a turn failed: {result.code}")
    return result, elapsed


async def frames_of_one_turn(place: Place, door: Bus, session_id: str) -> dict[str, int]:
    """Frames that the broker handled during one turn, without control, by kind."""
    zeromq = ZeroMQ(place.snapshot.config.bus)
    reader = TapReader(zeromq, place.snapshot.config.bus, place.tap)
    await reader.is_heard()
    await ask(door, session_id)
    await asyncio.sleep(0.3)
    reader.close()
    kinds: dict[str, int] = {}
    async for batch in reader.batches():
        for record in batch.records:
            if record.verdict == "delivered":
                kinds[record.kind] = kinds.get(record.kind, 0) + 1
    zeromq.close()
    return kinds


def cpu_of(children: dict[str, psutil.Process]) -> dict[str, float]:
    """Seconds of CPU that each process and what it started have used so far."""
    used = {}
    for actor, process in children.items():
        family = [process, *process.children(recursive=True)]
        used[actor] = sum(sum(member.cpu_times()[:2]) for member in family)
    return used


async def measure(place: Place, children: dict[str, psutil.Process], turns: int) -> dict[str, object]:
    async with connected(place, "door") as door, connected(place, "operator") as operator:
        first, _ = await ask(door, None)
        for _ in range(WARM_UP):
            await ask(door, first.session_id)

        async def stats() -> LedgerStats:
            return await operator.request("ledger", ReadLedgerStats(), expect=LedgerStats, timeout_s=5)

        before, cpu_before = await stats(), cpu_of(children)
        times = []
        for _ in range(turns):
            _, elapsed = await ask(door, first.session_id)
            times.append(elapsed * 1000)
        after, cpu_after = await stats(), cpu_of(children)
        cpu = {actor: round((cpu_after[actor] - cpu_before[actor]) / turns * 1000, 1) for actor in children}
        frames = await frames_of_one_turn(place, door, first.session_id)
        times.sort()
        return {
            "turns": turns,
            "p50_ms": round(statistics.median(times), 2),
            "p99_ms": round(times[int(len(times) * 0.99) - 1], 2),
            "commits_per_turn": round((after.commits - before.commits) / turns, 1),
            "syncs_per_turn": round((after.syncs - before.syncs) / turns, 1),
            "entries_per_turn": round((after.entries - before.entries) / turns, 1),
            "bytes_per_turn": round((after.bytes_written - before.bytes_written) / turns),
            "bus_frames_per_turn": sum(frames.values()),
            "bus_frames_by_kind": frames,
            "cpu_ms_per_turn": round(sum(cpu.values()), 1),
            "cpu_ms_by_process": cpu,
            "session_id": first.session_id,
        }


def where_time_goes(entries: list[Entry]) -> dict[str, float]:
    """Median milliseconds between consecutive records of a turn, by the ledger's own times."""
    gaps: dict[str, list[float]] = {}
    turn: list[Entry] = []
    for entry in entries:
        if entry.event_type == "RunRequested":
            turn = [entry]
            continue
        if not turn:
            continue
        seen = sum(1 for other in turn if other.event_type == entry.event_type)
        step = f"{turn[-1].event_type} -> {entry.event_type}" + (f" ({seen + 1})" if seen else "")
        gaps.setdefault(step, []).append((entry.ledger_at_us - turn[-1].ledger_at_us) / 1000)
        turn.append(entry)
        if entry.event_type == "RunCompleted":
            turn = []
    return {
        step: round(statistics.median(values), 2) for step, values in gaps.items() if statistics.median(values) >= 0.05
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="hobus-bench-"))
    home = root / "home"
    try:
        hobus(home, "up", "--wait", "--detach")
        try:
            run = read_run(home_of(home).run_file)
            if run is None:
                raise SystemExit("the cluster is gone")
            place = place_of(home_of(home), run)
            children = {child.actor: psutil.Process(child.pid) for child in run.children}
            found = asyncio.run(measure(place, children, given.turns))
            raw = raw_append_us(root)
            session = Filter(session=str(found["session_id"]))
            entries = list(read_entries(home / "ledger", session))
        finally:
            hobus(home, "down")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    found["raw_append_p50_us"] = round(raw)
    found["turn_in_raw_appends"] = round(float(str(found["p50_ms"])) * 1000 / raw, 1)
    found["where_ms"] = where_time_goes(entries)
    print(f"one turn: 3 model calls, 1 tool, every step durable ({machine})")
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for key, part in value.items():
                print(f"    {key:60} {part}")
        else:
            print(f"{name:24} {value}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({"machine": machine, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
