"""Where one broker ends: microseconds of its rules with ever more executors, and of a beat by its socket, too."""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

from bench.cluster import cluster
from bench.report import arguments, markdown
from hobus.bus.broker.core import BrokerCore
from hobus.bus.broker.events import FrameReceived, Send
from hobus.bus.codec import encode, pack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, make_header
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Hello, Ready
from hobus.config.snapshot import load_snapshot

SETTINGS = load_snapshot().config.bus.model_copy(update={"reannounce_grace_ms": 0})


def row(number: int) -> list[object]:
    """One joins, one beats, an order and its answer while each third executor has one."""
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
    return [number, round(joins), round(statistics.median(beats), 1), round(statistics.median(orders))]


def beat_us(seconds: float = 5.0) -> float:
    """A beat and its answer by the broker's socket: what its processor does more where all beat more often."""
    seen: list[tuple[float, float]] = []
    for interval_ms in (200, 10):
        with cluster({"bus.beat_interval_ms": interval_ms}) as found:
            beats_per_s = (len(found.run().children) + 1) * 1000 / interval_ms
            before = found.cpu_s()["broker/1"]
            time.sleep(seconds)
            seen.append((beats_per_s, (found.cpu_s()["broker/1"] - before) / seconds * 1e6))
    (few, slow), (many, fast) = seen
    return round((fast - slow) / (many - few), 1)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--numbers", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    given = parser.parse_args()
    print(markdown(["executors", "joins", "beats", "an order"], map(row, given.numbers)))
    print(f"\na beat by the socket: {beat_us()}")
