"""Sends made and harmed frames to every socket of a cluster (R9), while a polite client asks on: nobody else may notice.

The frames are those of `bench/hostile/frames.py`, the attackers those of `bench/hostile/fuzzer.py`: one from elsewhere
that is cut off comes again with another key. For each target: what was sent, how often the attacker was cut off, what
the servers counted and recorded of it, what died, and the turns of the polite client, alone and beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psutil

from bench.cluster import Cluster, answered, cluster
from bench.far_worker import token_of
from bench.hostile.fuzzer import Words
from bench.report import arguments, concluded, percentile, rows_table
from bench.turn import QUESTION
from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.join_token import decode
from hobus.bus.limits import BODY_MAX_BYTES, RECORD_INTERVAL_MS
from hobus.bus.messages.control import Peers, ReadPeers
from hobus.bus.port import Bus
from hobus.bus.record.catalog import read_body
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.curve_link import CurveEnds
from hobus.bus.zeromq.tap import TapReader
from hobus.launch.cluster.client import ask_operator, connect_bus
from hobus.launch.launcher.control import SOCKET
from hobus.launch.worker.join import join

DEADLINE_S = 60.0
SLICE_S = 0.5
WORKERS_MAX = 32  # a key that was cut off is not heard for `limits.BAN_MS`, so an attacker has several
EVERY_LIFE_S = 300.0
_ATTACK = (
    "import pickle, sys; from bench.hostile.fuzzer import attack; "
    "pickle.dump(attack(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)"
)
_CLIENTS = ("door", "operator")
_SERVICES = ("host", "ho1", "ho2", "ho3", "gateway", "ledger")
_RECORDED = ("DENIED", "KEY_REFUSED", "DEAD_LETTER")


@dataclass(frozen=True)
class Target:
    how: str
    endpoint: Callable[[Cluster], str]
    roles: tuple[str, ...] = ("",)  # as whom it is attacked
    services: tuple[str, ...] = ()
    is_remote: bool = False


TARGETS = {
    "broker, without a token": Target("frames", lambda up: up.place.broker),
    "broker, as a client": Target("frames", lambda up: up.place.broker, _CLIENTS),
    "broker, as a service": Target("frames", lambda up: up.place.broker, _SERVICES),
    "remote, as an enrolled worker": Target("frames", lambda _: "", is_remote=True),
    "remote, without an enrolled key": Target("strangers", lambda _: "", is_remote=True),
    "ledger's lane": Target("frames", lambda up: up.place.lane("ledger"), ("", *_CLIENTS, *_SERVICES), ("ledger",)),
    "gateway's lane": Target("frames", lambda up: up.place.lane("gateway"), ("", "host", *_CLIENTS), ("gateway",)),
    "tap": Target("topics", lambda up: up.place.tap),
    "launcher's socket": Target("lines", lambda up: str(up.place.sockets / SOCKET)),
}


def enrolled(up: Cluster, count: int) -> list[dict[str, str]]:
    """Endpoint, keys and name of so many workers, as an attacker has them who took over workers' hosts."""
    token = decode(token_of(up, "--uses", str(count)))
    found: list[dict[str, str]] = []
    key = curve.encode_key(token.broker_key)
    ends = CurveEnds(token.address, key, curve.derive_pair(curve.encode_key(token.secret)))
    for _ in range(count):
        pair = curve.draw_pair()
        worker = asyncio.run(join(ends, pair, up.place.snapshot.config, clock=SystemClock(), host="attacker"))
        found.append({
            "endpoint": f"tcp://{token.address}", "server": key.decode(), "public": pair.public.decode(),
            "secret": pair.secret.decode(), "name": worker.name,
        })  # fmt: skip
    return found


class Asked:
    """What a polite client was answered."""

    def __init__(self) -> None:
        self.times, self.outcomes = list[float](), Counter[str]()

    def figures(self) -> dict[str, Any]:
        p50, p99 = (round(percentile(self.times, percent), 1) for percent in (50, 99))
        return {"turns": len(self.times), "p50_ms": p50, "p99_ms": p99, "outcomes": self.outcomes}

    async def ask_while(self, goes_on: Callable[[], bool], door: Bus) -> Asked:
        """One question after the other, a new session every half second; the last one is waited for."""
        while goes_on():
            session_id, until = None, time.perf_counter() + SLICE_S
            while goes_on() and time.perf_counter() < until:
                started, of = time.perf_counter(), {"input_id": door.new_id(), "session_id": session_id}
                try:
                    result = await answered(door, QUESTION, timeout_s=DEADLINE_S, **of)
                    session_id = result.session_id
                    self.outcomes[result.outcome if result.outcome != "error" else f"error {result.code}"] += 1
                except RuntimeFault as fault:
                    self.outcomes[f"lost {fault.code}"] += 1
                self.times.append((time.perf_counter() - started) * 1000)
        return self


class State:
    """What can be seen of a cluster from outside."""

    def __init__(self, up: Cluster) -> None:
        self.pids = {one.actor: one.pid for one in up.run().processes()}
        self.counted: Counter[str] = Counter()
        for row in asyncio.run(ask_operator(up.place, "broker", ReadPeers(), Peers)).peers:
            if row.role in ("broker", "ledger", "gateway"):
                self.counted.update({f"{row.role}.{name}": value for name, value in row.counters.items()})
        self.recorded: Counter[str] = Counter()
        for entry in up.entries(*_RECORDED):
            self.recorded[f"{entry.event_type} {entry.reason}"] += getattr(read_body(entry), "times", 1)
        self.defects: Counter[str] = Counter()  # errors in the logs: what nobody has foreseen
        for path in up.home.logs.iterdir():
            for line in path.read_text(errors="replace").splitlines():
                if '"level": "error"' in line:
                    self.defects[f"{path.stem}: {json.loads(line)['event']}"] += 1
                elif line.startswith(("Traceback", "Assertion failed")):
                    self.defects[f"{path.stem}: {line[:60]}"] += 1

    def since(self, before: State) -> dict[str, Any]:
        died = [who for who, pid in before.pids.items() if self.pids.get(who) != pid or not psutil.pid_exists(pid)]
        names = ("counted", "recorded", "defects")
        return {"died": died, **{name: getattr(self, name) - getattr(before, name) for name in names}}


async def attacked(door: Bus, words: Words) -> tuple[dict[str, Any], Asked]:
    """What the attacker saw, and what a polite client was answered meanwhile."""
    fuzzer = subprocess.Popen([sys.executable, "-c", _ATTACK], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        saying = asyncio.ensure_future(asyncio.to_thread(fuzzer.communicate, pickle.dumps(words)))
        asked = await Asked().ask_while(lambda: not saying.done(), door)
        return vars(pickle.loads((await saying)[0])), asked
    finally:
        fuzzer.kill()


async def fuzz(up: Cluster, options: argparse.Namespace) -> dict[str, Any]:
    """All targets, one after the other, on one cluster."""
    names = options.target or list(TARGETS)
    frames = -(-options.frames // len(names))
    needs = any(TARGETS[name].is_remote for name in names)
    workers = await asyncio.to_thread(enrolled, up, min(WORKERS_MAX, 1 + frames // 100)) if needs else []
    async with connect_bus(up.place, "door") as door:
        until = time.perf_counter() + options.alone
        alone = (await Asked().ask_while(lambda: time.perf_counter() < until, door)).figures()
        rows: list[dict[str, Any]] = []
        state = await asyncio.to_thread(State, up)
        for name in names:
            target = TARGETS[name]
            words = Words(
                name=f"f{list(TARGETS).index(name)}", how=target.how, frames=frames, rate=options.rate, seed=options.seed,
                endpoint=target.endpoint(up), body_max=BODY_MAX_BYTES, run=str(up.home.run), roles=target.roles,
                services=target.services, workers=tuple(workers) if target.is_remote else (),
            )  # fmt: skip
            began = time.perf_counter()
            seen, asked = await attacked(door, words)
            seconds = round(time.perf_counter() - began, 1)
            await asyncio.sleep(2 * RECORD_INTERVAL_MS / 1000)
            before, state = state, await asyncio.to_thread(State, up)
            rows.append({"target": name, "seconds": seconds, **seen, **state.since(before), "beside": asked.figures()})
            print(json.dumps(rows[-1]), flush=True)
        last, until = Asked(), time.perf_counter() + EVERY_LIFE_S
        await last.ask_while(lambda: len(last.times) < 3 and time.perf_counter() < until, door)
    await _tap_is_heard(up)
    return {"seed": options.seed, "rate": options.rate, "alone": alone, "rows": rows, "afterwards": last.figures()}


async def _tap_is_heard(up: Cluster) -> None:
    """A reader that comes afterwards is answered."""
    with closing(ZeroMQ(up.place.snapshot.config.bus)) as zeromq:
        reader = TapReader(zeromq, up.place.tap, since_s=1.0, with_bodies=False)
        await asyncio.wait_for(reader.is_heard(), 10.0)
        reader.close()


def faults_of(result: dict[str, Any]) -> list[str]:
    faults: list[str] = []
    for row in [*result["rows"], {"target": "afterwards", "beside": result["afterwards"]}]:
        found = [f"{actor} died or was started again" for actor in row.get("died", ())]
        found += [f"{count} x {what} in the log" for what, count in row.get("defects", {}).items()]
        found += ["connections without an enrolled key were let in"] * bool(row.get("let_in"))
        outcomes = row["beside"]["outcomes"].items()
        found += [f"{count} polite turns {what}" for what, count in outcomes if what != "success"]
        faults += [f"{row['target']}: {one}" for one in found]
    return faults


def options() -> argparse.ArgumentParser:
    parser = arguments(
        __doc__, write=True, frames=(100_000, "in all, shared by the targets"), rate=(1000.0, "frames a second, at most"),
        seed=(1, "the same seed makes the same frames"), alone=(10.0, "seconds that the polite client asks alone"),
    )  # fmt: skip
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    return parser


def main() -> int:
    given = options().parse_args()
    with cluster({"bus.listen": "127.0.0.1:0"}) as up:
        result = asyncio.run(fuzz(up, given))
        up.verify()
    shown = rows_table([{"target": "nobody", "beside": result["alone"]}, *result["rows"]])
    how = f"seed {given.seed}, at most {given.rate:g} frames a second"
    return concluded(given, shown, faults_of(result), figures=result, name="fuzz", how=how)


if __name__ == "__main__":
    sys.exit(main())
