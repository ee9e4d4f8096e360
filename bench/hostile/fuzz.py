"""Sends made and harmed frames to every socket of a cluster, while a polite client asks on: nobody else may notice.

usage: python -m bench.hostile fuzz [--frames 100000] [--seed 1] [--target NAME ...] [--rate 1000] [--write]

The frames are those of `bench/hostile/frames.py`, the attackers those of `bench/hostile/fuzzer.py`: one from elsewhere
that is cut off comes again with another key. For each target: what was sent, how often the attacker was cut off, what
the servers counted and recorded of it, what died, and the turns of the polite client, alone and beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.cluster import Cluster, cluster
from bench.hostile.enrol import enrolled
from bench.hostile.fuzzer import How, Words
from bench.report import machine, percentile, put_between, rows_table
from bench.turn import QUESTION
from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import BODY_MAX_BYTES, RECORD_INTERVAL_MS, RETRY_INTERVAL_MS
from hobus.bus.messages.control import Peers, ReadPeers
from hobus.bus.messages.session import ProcessTurn
from hobus.bus.port import Bus
from hobus.bus.record.catalog import read_body
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapReader
from hobus.launch.cluster.client import connect_bus
from hobus.launch.launcher.control import SOCKET
from hobus.launch.sessions.turns import process_turn
from hobus.ledger_service.reader import EntryFilter, read_entries
from hobus.ledger_service.verify import verify_directory

RESULTS = Path("bench/results/fuzz.json")
ALONE_S = 10.0
DEADLINE_S = 60.0
SLICE_S = 0.5
WORKERS_MAX = 32
"""A key that was cut off is not heard for `limits.BAN_MS`, so an attacker has several."""
EVERY_LIFE_S = 300.0
_CLIENTS = ("door", "operator")
_SERVICES = ("host", "ho1", "ho2", "ho3", "gateway", "ledger")
_RECORDED = ("DENIED", "KEY_REFUSED", "DEAD_LETTER")


@dataclass(frozen=True)
class Target:
    """One socket, and as whom it is attacked."""

    how: How
    endpoint: Callable[[Cluster], str]
    roles: tuple[str, ...] = ("",)
    services: tuple[str, ...] = ()
    is_remote: bool = False


def _nowhere(_up: Cluster) -> str:
    return ""


TARGETS = {
    "broker, without a token": Target("frames", lambda up: up.place.broker),
    "broker, as a client": Target("frames", lambda up: up.place.broker, _CLIENTS),
    "broker, as a service": Target("frames", lambda up: up.place.broker, _SERVICES),
    "remote, as an enrolled worker": Target("frames", _nowhere, is_remote=True),
    "remote, without an enrolled key": Target("strangers", _nowhere, is_remote=True),
    "ledger's lane": Target("frames", lambda up: up.place.lane("ledger"), ("", *_CLIENTS, *_SERVICES), ("ledger",)),
    "gateway's lane": Target("frames", lambda up: up.place.lane("gateway"), ("", "host", *_CLIENTS), ("gateway",)),
    "tap": Target("topics", lambda up: up.place.tap),
    "launcher's socket": Target("lines", lambda up: str(up.place.sockets / SOCKET)),
}


class Asked:
    """What one polite client was answered."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.outcomes: Counter[str] = Counter()

    def figures(self) -> dict[str, Any]:
        """Times in ms, and turns by outcome."""
        times = self.times or [float("nan")]
        p50, p99 = round(statistics.median(times), 1), round(percentile(times, 99), 1)
        return {"turns": len(self.times), "p50_ms": p50, "p99_ms": p99, "outcomes": dict(self.outcomes)}

    async def ask_on(self, door: Bus, *, until: float, turns_max: int = sys.maxsize) -> Asked:
        """Ask one question after the other in a new session; the one that is on its way at the end is waited for."""
        session_id = None
        for _ in range(turns_max):
            if time.perf_counter() >= until:
                break
            turn = ProcessTurn(session_id=session_id, input_id=door.new_id(), text=QUESTION)
            started = time.perf_counter()
            try:
                result = await process_turn(door, turn, timeout_s=DEADLINE_S, retry_interval_s=RETRY_INTERVAL_MS / 1000)
                session_id = result.session_id
                self.outcomes[result.outcome if result.outcome != "error" else f"error {result.code}"] += 1
            except RuntimeFault as fault:
                self.outcomes[f"lost {fault.code}"] += 1
            self.times.append((time.perf_counter() - started) * 1000)
        return self


class State:
    """What can be seen of a cluster from outside."""

    def __init__(self, up: Cluster, counters: Counter[str]) -> None:
        self.pids = {one.actor: one.pid for one in up.run().processes()}
        self.counters = counters
        self.recorded = recorded(up)
        self.defects = defects(up)

    def died_since(self, before: State) -> list[str]:
        """Processes that are not what they were."""
        return [
            actor for actor, pid in before.pids.items() if self.pids.get(actor) != pid or not psutil.pid_exists(pid)
        ]


async def state_of(up: Cluster) -> State:
    """What an operator sees of the cluster now."""
    async with connect_bus(up.place, "operator") as bus:
        peers = await bus.request("broker", ReadPeers(), expect=Peers, timeout_s=10.0)
    counters: Counter[str] = Counter()
    for row in peers.peers:
        if row.role in ("broker", "ledger", "gateway"):
            counters.update({f"{row.role}.{name}": value for name, value in row.counters.items()})
    return await asyncio.to_thread(State, up, counters)


def recorded(up: Cluster) -> Counter[str]:
    """Refusals in the record, by event and reason."""
    found: Counter[str] = Counter()
    for event_type in _RECORDED:
        for entry in read_entries(up.home.ledger, EntryFilter(event_type=event_type), with_bodies=True):
            found[f"{event_type} {entry.reason}"] += getattr(read_body(entry), "times", 1)
    return found


def defects(up: Cluster) -> Counter[str]:
    """Errors in the logs: what nobody has foreseen."""
    found: Counter[str] = Counter()
    for path in up.home.logs.iterdir():
        for line in path.read_text(errors="replace").splitlines():
            if '"level": "error"' in line:
                found[f"{path.stem}: {json.loads(line)['event']}"] += 1
            elif line.startswith(("Traceback", "Assertion failed")):
                found[f"{path.stem}: {line[:60]}"] += 1
    return found


async def attacked(up: Cluster, door: Bus, target: Target, words: Words) -> tuple[dict[str, Any], Asked]:
    """What the attacker saw, and what a polite client was answered meanwhile."""
    fuzzer = subprocess.Popen(
        [sys.executable, "-m", "bench.hostile.fuzzer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        asyncio_said = asyncio.ensure_future(asyncio.to_thread(fuzzer.communicate, json.dumps(asdict(words)) + "\n"))
        asked = await ask_while(lambda: fuzzer.poll() is None, door)
        said, _ = await asyncio_said
    finally:
        fuzzer.kill()
    return json.loads(said.splitlines()[-1]), asked


async def ask_while(goes_on: Callable[[], bool], door: Bus) -> Asked:
    """One question after the other, a new session every half second."""
    whole = Asked()
    while goes_on():
        await whole.ask_on(door, until=time.perf_counter() + SLICE_S)
    return whole


def words_of(up: Cluster, name: str, options: argparse.Namespace, frames: int, workers: list[Any]) -> Words:
    """What the attacker is told."""
    target = TARGETS[name]
    return Words(
        name=f"f{list(TARGETS).index(name)}", how=target.how, frames=frames, rate=options.rate, seed=options.seed, endpoint=target.endpoint(up),
        body_max=BODY_MAX_BYTES, run=str(up.home.run), roles=target.roles,
        services=target.services, workers=tuple(workers) if target.is_remote else (),
    )  # fmt: skip


async def row_of(up: Cluster, door: Bus, name: str, words: Words, before: State) -> tuple[dict[str, Any], State]:
    """One target, and what is to be seen after it."""
    settle_s = 2 * RECORD_INTERVAL_MS / 1000
    began = time.perf_counter()
    seen, asked = await attacked(up, door, TARGETS[name], words)
    took_s = time.perf_counter() - began
    await asyncio.sleep(settle_s)
    after = await state_of(up)
    row = {
        "target": name, "seconds": round(took_s, 1), **seen, "died": after.died_since(before),
        "counted": dict(after.counters - before.counters), "recorded": dict(after.recorded - before.recorded),
        "defects": dict(after.defects - before.defects), "beside": asked.figures(),
    }  # fmt: skip
    return row, after


async def fuzz(up: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    """All targets, one after the other, on one cluster."""
    names = options.target or list(TARGETS)
    frames = -(-options.frames // len(names))
    needs = any(TARGETS[name].is_remote for name in names)
    workers = await asyncio.to_thread(enrolled, up, min(WORKERS_MAX, 1 + frames // 100)) if needs else []
    async with connect_bus(up.place, "door") as door:
        await Asked().ask_on(door, until=time.perf_counter() + SLICE_S)
        until = time.perf_counter() + options.alone
        alone = (await ask_while(lambda: time.perf_counter() < until, door)).figures()
        rows: list[dict[str, Any]] = []
        state = await state_of(up)
        for name in names:
            words = words_of(up, name, options, frames, workers)
            row, state = await row_of(up, door, name, words, state)
            rows.append(row)
            print(json.dumps(rows[-1]), flush=True)
        afterwards = (await Asked().ask_on(door, until=time.perf_counter() + EVERY_LIFE_S, turns_max=3)).figures()
    await _tap_is_heard(up)
    report = await asyncio.to_thread(verify_directory, up.home.ledger)
    return {
        "measured_on": machine(), "seed": options.seed, "rate": options.rate, "alone": alone, "rows": rows,
        "afterwards": afterwards, "record": "whole" if report.fault is None else str(report.fault),
    }  # fmt: skip


async def _tap_is_heard(up: Cluster) -> None:
    """A reader that comes afterwards is answered."""
    zeromq = ZeroMQ(up.place.snapshot.config.bus)
    try:
        reader = TapReader(zeromq, up.place.tap, since_s=1.0, with_bodies=False)
        await asyncio.wait_for(reader.is_heard(), 10.0)
        reader.close()
    finally:
        zeromq.close()


def faults_of(result: dict[str, Any]) -> list[str]:
    """What must not be."""
    faults: list[str] = []
    for row in result["rows"]:
        name = row["target"]
        faults += [f"{name}: {actor} died or was started again" for actor in row["died"]]
        faults += [f"{name}: {count} x {what} in the log" for what, count in row["defects"].items()]
        faults += [f"{name}: {row['let_in']} connections without an enrolled key were let in"] * bool(row["let_in"])
        faults += _not_answered(name, row["beside"])
    faults += _not_answered("afterwards", result["afterwards"])
    if result["record"] != "whole":
        faults.append(f"the record: {result['record']}")
    return faults


def _not_answered(name: str, asked: dict[str, Any]) -> list[str]:
    return [f"{name}: {count} polite turns {what}" for what, count in asked["outcomes"].items() if what != "success"]


def write(result: dict[str, Any]) -> None:
    """Into the document and beside the other results."""
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    shown = rows_table([{"target": "nobody", "beside": result["alone"]}, *result["rows"]])
    put_between("fuzz", f"seed {result['seed']}, at most {result['rate']:g} frames a second", shown)


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much, from which seed, where."""
    parser.add_argument("--frames", type=int, default=100_000, help="in all, shared by the targets")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same frames")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    parser.add_argument("--rate", type=float, default=1000.0, help="frames a second, at most")
    parser.add_argument("--alone", type=float, default=ALONE_S, help="seconds that the polite client asks alone")
    parser.add_argument("--write", action="store_true", help=f"into bench/results/drills.md and {RESULTS}")


def run(options: argparse.Namespace) -> int:
    """1 if anybody but the attacker was harmed."""
    with cluster({"bus.listen": "127.0.0.1:0"}) as up:
        result = asyncio.run(fuzz(up, options))
    if options.write:
        write(result)
    faults = faults_of(result)
    print("\n".join(faults) or "nobody but the attacker noticed it")
    return bool(faults)
