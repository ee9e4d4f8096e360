"""What distance and encryption cost, and where one broker ends: `python -m bench.far` (root; `--parts brokers` without).

calls   one after the other, and 32 at once, through the broker to the gateway and back: over the local socket, over CURVE from
        the broker's own host, and from another host (`bench/hosts/wire.py`) at 0, 10 and 50 ms each way
turns   of 32 sessions that ask again at once, by 1, 2 and 4 workers elsewhere at those distances; a call takes the model 0.15 s
brokers microseconds of the broker's rules with ever more executors: one joins, one beats, an order and its answer; a beat by a socket
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Iterator
from typing import Any

from bench.cluster import cluster, temporary
from bench.hostile.__main__ import enrolled
from bench.hosts.__main__ import Site, site
from bench.hosts.wire import why_not
from bench.report import arguments, rows_table
from bench.throughput import SESSIONS, measure
from hobus.bus.broker.core import BrokerCore
from hobus.bus.broker.events import FrameReceived, Send
from hobus.bus.clock import SystemClock
from hobus.bus.codec import encode, pack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, make_header
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Hello, Ready
from hobus.bus.messages.gateway import Breakers, ReadBreakers
from hobus.bus.peer import Peer
from hobus.bus.port import Bus
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.curve_link import CurveEnds, CurveLink
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.version import __version__

HERE, DELAYS_MS, WORKERS, EXECUTORS = "local socket", (0, 10, 50), (1, 2, 4), (10, 100, 1000, 10_000)
SETTINGS = load_snapshot().config.bus.model_copy(update={"reannounce_grace_ms": 0})


async def called(at: Site, bus: Bus, where: str, seconds: float) -> dict[str, Any]:
    times: list[float] = []

    async def caller(until: float) -> None:
        while (began := time.perf_counter()) < until:
            await bus.request("gateway", ReadBreakers(), expect=Breakers, timeout_s=20)
            times.append(time.perf_counter() - began)

    await caller(time.perf_counter() + seconds)
    alone_ms, before = round(statistics.median(times) * 1000, 2), at.cluster.cpu_s()["broker/1"]
    times.clear()
    await asyncio.gather(*(caller(time.perf_counter() + seconds) for _ in range(SESSIONS)))
    broker_us = round((at.cluster.cpu_s()["broker/1"] - before) / len(times) * 1e6)
    return {"calls": where, "alone_ms": alone_ms, "per_s": round(len(times) / seconds), "broker_us": broker_us}


async def calls_from(at: Site, where: str, seconds: float) -> dict[str, Any]:
    """As an operator here, or in a worker's place that offers nothing."""
    if where == HERE:
        async with connect_bus(at.cluster.place, "operator") as bus:
            return await called(at, bus, where, seconds)
    snapshot, clock = at.cluster.place.snapshot, SystemClock()
    (worker,) = await asyncio.to_thread(enrolled, at.cluster, 1)
    pair = curve.KeyPair(worker["public"].encode(), worker["secret"].encode())
    ends = CurveEnds(worker["endpoint"].removeprefix("tcp://"), worker["server"].encode(), pair)
    zeromq = ZeroMQ(snapshot.config.bus)
    link = CurveLink(zeromq, snapshot.config.bus, ends, clock=clock, on_happened=lambda _event: None)
    peer = Peer(
        None, instance=f"{worker['name']}@{clock.new_id()[:8]}", role="ho1", offers=(), slots=0, token="", host="far", clock=clock,
        settings=snapshot.config.bus, links={"": link}, config_digest="", version=__version__,
    )  # fmt: skip
    try:
        await peer.start(timeout_s=20)
        return await called(at, peer, where, seconds)
    finally:
        await peer.stop(1)
        peer.close()
        zeromq.close()


def calls(seconds: float) -> Iterator[dict[str, Any]]:
    with temporary("far") as directory, site(directory, 2, {}) as at:
        yield asyncio.run(calls_from(at, HERE, seconds))
        with at.hosts.inside(0):
            yield asyncio.run(calls_from(at, "CURVE, same host", seconds))
        for delay_ms in DELAYS_MS:
            at.hosts.links(delay_ms=delay_ms)
            with at.hosts.inside(1):
                yield asyncio.run(calls_from(at, f"another host, {delay_ms} ms", seconds))


def turns(seconds: float) -> Iterator[dict[str, Any]]:
    for count in WORKERS:
        with temporary("far") as directory, site(directory, count + 1, {}) as at:
            assert at.cluster("drain", "ho1/1").code == 0
            for delay_ms in DELAYS_MS:
                at.hosts.links(delay_ms=delay_ms)
                measured = asyncio.run(measure(at.cluster, seconds))
                yield {"turns": f"{count} workers, {delay_ms} ms", "per_s": measured.pop("turns_per_s"), **measured}


def ruled(number: int) -> dict[str, Any]:
    """Each third executor has an order while another one comes."""
    core = BrokerCore(SETTINGS, epoch="e", authenticate=lambda _hello: None, now=100.0, wall_now=1.7e9)

    def step(name: str, head: Header, body: bytes) -> tuple[float, list[Any]]:
        began = time.process_time()
        actions = core.step(FrameReceived(name.encode(), pack_header(head), body), 100.0)
        return (time.process_time() - began) * 1e6, [one for one in actions if isinstance(one, Send)]

    def say(name: str, kind: Kind, said: Message) -> float:
        return step(name, make_header(kind, "", type=said.TYPE), encode(said, BODY_MAX_BYTES))[0]

    def join(name: str, role: str, slots: int) -> float:
        who = {"instance": name, "token": "t", "role": role, "slots": slots, "version": "1", "offers": [role]}
        took = say(name, Kind.HELLO, Hello.model_validate({**who, "protocol": HEADER_VERSION}))
        return took + say(name, Kind.READY, Ready(state="ready"))

    join("ho2/1@a", "ho2", 0)
    names = [f"ho1/{one}@a" for one in range(number)]
    joins = statistics.mean(join(name, "ho1", 8) for name in names)
    gc.collect()
    gc.freeze()  # as the broker does once it runs
    beats, orders = [say(name, Kind.BEAT, Beat()) for _ in range(max(2, 2000 // number)) for name in names], [0.0]
    for count in range(number // 3 + 200):
        order = make_header(Kind.REQUEST, f"o{count}", type="wo.execute", destination="ho1", deadline_ms=60_000)
        asking, (sent, *_) = step("ho2/1@a", order, b"order")
        if count >= number // 3:
            answer = make_header(Kind.REPLY, f"r{count}", correlation_id=f"o{count}", type="wo.receipt")
            orders.append(asking + step(sent.connection.decode(), answer, b"receipt")[0])
    beat_us, order_us = round(statistics.median(beats), 1), round(statistics.median(orders))
    return {"executors": number, "joins_us": round(joins), "beats_us": beat_us, "order_us": order_us}


def brokers(seconds: float) -> Iterator[dict[str, Any]]:
    """The last row: a beat and its answer by the broker's socket, what its processor does more where all beat more often."""
    yield from map(ruled, EXECUTORS)
    seen: list[tuple[float, float]] = []
    for interval_ms in (200, 10):
        with cluster({"bus.beat_interval_ms": interval_ms}) as found:
            beats_per_s = (len(found.run().children) + 1) * 1000 / interval_ms
            before = found.cpu_s()["broker/1"]
            time.sleep(seconds)
            seen.append((beats_per_s, (found.cpu_s()["broker/1"] - before) / seconds * 1e6))
    (few, slow), (many, fast) = seen
    yield {"beat_by_socket_us": round((fast - slow) / (many - few), 1)}


PARTS = {"calls": calls, "turns": turns, "brokers": brokers}


if __name__ == "__main__":
    parser = arguments(__doc__, seconds=(5.0, "counted seconds of each row"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    if set(given.parts) != {"brokers"} and (words := why_not()):
        raise SystemExit(words)
    for part in given.parts:
        print(f"\n{rows_table([row for row in PARTS[part](given.seconds) if not print(row, flush=True)])}\n")
