"""What distance and encryption cost, and how many executors one broker bears.

usage: python -m bench.far [--parts calls turns broker] [--seconds 6] [--json FILE]

calls   a worker's place on the bus: a call through the broker to the gateway and back, over the local socket, over CURVE on
        loopback, and from another host (`bench/hosts/wire.py`) at 0, 10 and 50 ms each way
turns   32 sessions, each asking again at once, a model of 50 ms; 1, 2 and 4 workers of 8 orders elsewhere, at those distances
broker  the broker's rules alone with ever more executors, no socket: what one joining, one beat and one order take
        (somebody is idle); and
        one beat through a real broker's socket, of its main thread. Needs root, for hosts.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psutil

from bench.cluster import temporary
from bench.far_worker import token_of
from bench.hosts.site import Site, site
from bench.hosts.wire import why_not
from bench.report import arguments, machine, markdown, measured_on, percentile, say_machine, write_json
from bench.throughput import LATENCY, MODEL_MS, measure
from bench.turn import ROWS
from hobus.bus.broker.core import BrokerCore
from hobus.bus.broker.events import FrameReceived, Send
from hobus.bus.clock import SystemClock
from hobus.bus.codec import encode, pack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, header
from hobus.bus.join_token import decode
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.link import Link
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Hello, Ready
from hobus.bus.messages.gateway import Breakers, ReadBreakers
from hobus.bus.peer import Peer
from hobus.bus.port import Bus
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.curve_link import CurveEnds, CurveLink
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.version import software_version
from hobus.launch.worker.join import join

IN_FLIGHT = 64
DELAYS_MS = (0, 10, 50)
EXECUTORS = (10, 100, 1_000, 10_000)
BEATS = 20_000


# --- calls ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _worker(at: Site) -> AsyncIterator[tuple[Peer, Link]]:
    """A worker's place over CURVE, from where this thread is; it offers nothing."""
    config, clock = at.cluster.place.snapshot.config, SystemClock()
    given, pair = decode(token_of(at.cluster)), curve.new_pair()
    name = (await join(given, pair, config, clock=clock, host="far")).name
    zeromq = ZeroMQ(config.bus)
    ends = CurveEnds(given.address, curve.text(given.broker_key), pair)
    link = CurveLink(zeromq, config.bus, ends, clock=clock, on_happened=lambda _event: None)
    peer = Peer(
        None, instance=f"{name}@{clock.new_id()[:8]}", role="ho1", offers=(), slots=0, token="", settings=config.bus,
        clock=clock, links={"": link}, config_digest="", version=software_version(), host="far",
    )  # fmt: skip
    try:
        await peer.start(timeout_s=20)
        yield peer, link
    finally:
        await peer.stop(1)
        peer.close()
        zeromq.close()


async def _called(at: Site, peer: Bus, seconds: float) -> dict[str, Any]:
    times: list[float] = []

    async def caller(until: float) -> None:
        while (began := time.perf_counter()) < until:
            await peer.request("gateway", ReadBreakers(), expect=Breakers, timeout_s=20)
            times.append(time.perf_counter() - began)

    await caller(time.perf_counter() + seconds / 2)
    alone_ms = statistics.median(times) * 1000
    times.clear()
    before, began = at.cluster.cpu_s()["broker/1"], time.perf_counter()
    await asyncio.gather(*(caller(began + seconds) for _ in range(IN_FLIGHT)))
    rate, cpu_s = len(times) / (time.perf_counter() - began), at.cluster.cpu_s()["broker/1"] - before
    return {
        "alone_ms": round(alone_ms, 2), "calls_per_s": round(rate), "p99_ms": round(percentile(times, 99) * 1000, 1),
        "broker_cpu_us": round(cpu_s / len(times) * 1e6),
    }  # fmt: skip


def calls(seconds: float) -> Iterator[dict[str, Any]]:
    async def here(at: Site) -> dict[str, Any]:
        async with connected(at.cluster.place, "operator") as peer:
            return await _called(at, peer, seconds)

    async def far(at: Site) -> dict[str, Any]:
        async with _worker(at) as (peer, _link):
            return await _called(at, peer, seconds)

    with temporary("far") as directory, site(directory, 2, {}) as at:
        yield {"from": "here, local socket", **asyncio.run(here(at))}
        with at.hosts.inside(0):
            yield {"from": "here, CURVE on loopback", **asyncio.run(far(at))}
        for delay_ms in DELAYS_MS:
            at.hosts.link(0, 1, delay_ms=delay_ms)
            with at.hosts.inside(1):
                yield {"from": f"another host, {delay_ms} ms", **asyncio.run(far(at))}


# --- turns ------------------------------------------------------------------------------------------------------------


def turns(seconds: float) -> Iterator[dict[str, Any]]:
    changes = {**ROWS[0][1], LATENCY: MODEL_MS, "launcher.crash_budget": 1}
    for count in (1, 2, 4):
        with temporary("far") as directory, site(directory, count + 1, changes, slots=8) as at:
            at.end_own_executor()
            for delay_ms in DELAYS_MS:
                at.hosts.links(delay_ms=delay_ms)
                yield {"workers": count, "delay_ms": delay_ms, **asyncio.run(measure(at.cluster, seconds))}


# --- the broker alone -------------------------------------------------------------------------------------------------


class Core:
    """The broker's rules with so many executors, and somebody who orders."""

    def __init__(self, executors: int) -> None:
        self.now = 100.0
        settings = load_snapshot().config.bus.model_copy(update={"reannounce_grace_ms": 0})
        self.core = BrokerCore(settings, epoch="e", authenticate=lambda _hello: None, now=self.now, wall_now=1.7e9)
        self.join("ho2/1@a", 0)
        began = time.process_time()
        for number in range(executors):
            self.join(f"ho1/{number}@a", 8)
        self.joined_us = (time.process_time() - began) / executors * 1e6
        self.executors = executors

    def step(self, connection: str, head: Header, body: bytes) -> Sequence[Any]:
        self.now += 1e-6
        return self.core.step(FrameReceived(connection.encode(), pack_header(head), body), self.now)

    def say(self, connection: str, kind: Kind, message: Message) -> None:
        self.step(connection, header(kind, "", type=message.TYPE), encode(message, BODY_MAX_BYTES))

    def join(self, instance: str, slots: int) -> None:
        role = instance.partition("/")[0]
        hello = Hello(
            instance=instance, token="t", role=role, slots=slots, version="1", protocol=HEADER_VERSION, offers=[role]
        )
        self.say(instance, Kind.HELLO, hello)
        self.say(instance, Kind.READY, Ready(state="ready"))

    def beats_us(self) -> float:
        """One beat, of all in turn."""
        head, body = header(Kind.BEAT, "", type=Beat.TYPE), encode(Beat(), BODY_MAX_BYTES)
        names = [f"ho1/{number}@a" for number in range(self.executors)]
        for name in names:
            self.step(name, head, body)
        times, rounds = [], max(3, 2_000 // self.executors)
        for _ in range(rounds):
            began = time.process_time()
            for name in names:
                self.step(name, head, body)
            times.append((time.process_time() - began) / len(names))
        return statistics.median(times) * 1e6

    def order_us(self) -> float:
        """One order and its answer, with one in flight at each third executor."""
        number, times = max(50, self.executors // 3), []
        for count in range(number + 200):
            head = header(Kind.REQUEST, f"o{count}", type="wo.execute", destination="ho1", deadline_ms=60_000)
            began = time.process_time()
            (sent,) = [one for one in self.step("ho2/1@a", head, b"order") if isinstance(one, Send)]
            if count >= number:
                answer = header(Kind.REPLY, f"r{count}", correlation_id=f"o{count}", type="wo.receipt")
                self.step(sent.connection.decode(), answer, b"receipt")
                times.append(time.process_time() - began)
        return statistics.median(times) * 1e6


async def _beaten(at: Site) -> float:
    """What the broker's main thread uses for one beat that comes by CURVE, in microseconds."""
    broker = psutil.Process(at.cluster.row("broker/1").pid)

    def used_s() -> float:
        return next(one.user_time + one.system_time for one in broker.threads() if one.id == broker.pid)

    head, body = pack_header(header(Kind.BEAT, "", type=Beat.TYPE)), encode(Beat(), BODY_MAX_BYTES)
    async with _worker(at) as (_peer, link):
        await asyncio.sleep(1)
        before = used_s()
        await asyncio.sleep(2)
        idle_s = (used_s() - before) / 2
        before, began = used_s(), time.perf_counter()
        for number in range(BEATS):
            link.send(head, body)
            if number % 20 == 0:
                await asyncio.sleep(0.002)  # as many that come one by one, not one flood
        await asyncio.sleep(1)
        return (used_s() - before - idle_s * (time.perf_counter() - began)) / BEATS * 1e6


def broker(seconds: float) -> Iterator[dict[str, Any]]:
    del seconds
    with temporary("far") as directory, site(directory, 1, {}) as at, at.hosts.inside(0):
        beat_us = asyncio.run(_beaten(at))
    beats_per_s = 1000 / load_snapshot().config.bus.beat_interval_ms
    yield {
        "executors": f"{1e6 / beat_us / beats_per_s:.0f} by beats alone",
        "beat_us": f"{beat_us:.0f} with its socket",
    }
    for number in EXECUTORS:
        made = Core(number)
        gc.collect()
        gc.freeze()  # as the broker does once it runs
        order_us = made.order_us()
        yield {
            "executors": number, "joining_us": round(made.joined_us), "beat_us": round(made.beats_us(), 1),
            "order_us": round(order_us), "orders_per_s": round(1e6 / order_us),
        }  # fmt: skip


PARTS = {"calls": calls, "turns": turns, "broker": broker}


def main() -> None:
    parser = arguments(__doc__, json=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=6.0, help="counted seconds of each row")
    given = parser.parse_args()
    if words := why_not():
        sys.exit(words)
    before, result = machine(), dict[str, Any]()
    for part in given.parts:
        result[part] = []
        for row in PARTS[part](given.seconds):
            print(part, *(f"{name} {value}" for name, value in row.items()), sep=", ", flush=True)
            result[part].append(row)
        columns = list(dict.fromkeys(name for row in result[part] for name in row))
        print(
            f"\n{part}\n",
            markdown(columns, [[row.get(name, "") for name in columns] for row in result[part]]),
            sep="\n",
        )
    measured = measured_on(before)
    say_machine(measured)
    write_json(given.json, {"measured_on": measured, **result})


if __name__ == "__main__":
    main()
