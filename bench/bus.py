"""Round trip of one request over the bus, against a bare Python ROUTER echo broker, in one run.

usage: python -m bench.bus [--calls 3000] [--rounds 3] [--json FILE]

Client, broker and worker are three processes on both sides; payloads of 200 B and 4 KB there and back; one call in
flight for the round trip, 64 for calls per second. Ours does everything that it always does: header decoding, policy,
stamped sender, deadlines, credit or mailbox bound, duplicate window, body validation at both edges, beats and probes; no
tap reader. Two kinds of body: `opaque`, the payload as the one field of a message there and back, and `strict`, the
payload in a ledger write of one entry with everything that an entry has (nested models, 30 fields), answered by its
ack; the bare broker carries the payload alone both times, echoed. The rounds alternate, so that the ratio holds when the
machine's speed drifts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zmq

from bench.report import arguments, machine, measured_on, say_machine, write_json
from hobus.bus.clock import SystemClock
from hobus.bus.dispatch import Actor, Call
from hobus.bus.messages.base import Message
from hobus.bus.messages.ledger import Ack, Body, GetBody, Provenance, Write, WriteEntry, Written
from hobus.bus.peer import Peer
from hobus.bus.settings import BusSettings
from hobus.bus.zeromq import tokens
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.link import ZeroMQLink
from hobus.config.snapshot import load_snapshot

SIZES = (200, 4096)
KINDS = ("opaque", "strict")
GOAL = 1.3
IN_FLIGHT = 64


class Echo(Actor):
    """Answers with the bytes of the request."""

    async def get_body(self, message: GetBody, call: Call) -> Body:
        return Body(ref="", data=message.ref.encode())

    async def on_write(self, message: Write, call: Call) -> Written:
        return Written(
            acks=[
                Ack(outcome="committed", sequence=1, submission_id=entry.submission_id, origin=call.sender)
                for entry in message.entries
            ]
        )


def question(kind: str, size: int) -> tuple[Message, type[Message]]:
    """What is asked, and what answers."""
    if kind == "opaque":
        return GetBody(ref="x" * size), Body
    session = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"
    entry = WriteEntry(
        submission_id=f"PROMPT_SENT:WO-{session}-1.2.1#1/1", stream="prompts", event_type="PROMPT_SENT",
        provenance=Provenance(agent_id="ADMIN", session_id=session, run_seq=1, work_order_id=f"WO-{session}-1.2.1"),
        parents=[f"WO_DISPATCHED:WO-{session}-1.2.1"], trace="bench", at_us=1_700_000_000_000_000, bodies=[b"x" * size],
        once=f"sent:WO-{session}-1.2.1#1/1",
    )  # fmt: skip
    return Write(entries=[entry]), Written


def settings() -> BusSettings:
    return load_snapshot().config.bus


def make_peer(actor: Actor | None, role: str, directory: Path, zeromq: ZeroMQ) -> Peer:
    instance = f"{role}/{os.getpid()}@{SystemClock().new_id()[:8]}"
    return Peer(
        actor, instance=instance, role=role, offers=(role,) if actor else (), slots=0,
        token=tokens.mint(directory, instance, role, os.getpid()), settings=settings(), clock=SystemClock(),
        links={"": ZeroMQLink(zeromq, settings(), f"ipc://{directory}/broker.sock")}, config_digest="", version="bench",
    )  # fmt: skip


async def serve(directory: Path) -> None:
    zeromq = ZeroMQ(settings())
    peer = make_peer(Echo(), "ledger", directory, zeromq)
    await peer.start(timeout_s=10)
    await peer.failed()


def worker(directory: Path) -> None:
    asyncio.run(serve(directory))


def broker(directory: Path) -> None:
    run_broker(
        settings=settings(), endpoint=f"ipc://{directory}/broker.sock", tap_endpoint=f"ipc://{directory}/tap.sock",
        epoch="bench", tokens=tokens.TokenDirectory(directory), clock=SystemClock(), stops={},
    )  # fmt: skip


async def measure_ours(directory: Path, calls: int, kind: str) -> dict[int, tuple[list[float], float]]:
    zeromq = ZeroMQ(settings())
    peer = make_peer(None, "ho2", directory, zeromq)
    await peer.start(timeout_s=10)
    found = {}
    for size in SIZES:
        asked, answer = question(kind, size)

        async def call(asked: Message = asked, answer: type[Message] = answer) -> None:
            await peer.request("ledger", asked, expect=answer, timeout_s=10)

        for _ in range(200):
            await call()
        times = []
        for _ in range(calls):
            started = time.perf_counter()
            await call()
            times.append(time.perf_counter() - started)
        left = calls * 2

        async def caller() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await call()

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
        found[size] = (times, calls * 2 / (time.perf_counter() - started))
    await peer.stop(1)
    zeromq.close()
    return found


# --- the bare broker --------------------------------------------------------------------------------------------------


def bare_broker(directory: Path) -> None:
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(f"ipc://{directory}/bare.sock")
    poller = zmq.Poller()
    poller.register(router, zmq.POLLIN)
    while True:
        poller.poll()
        source, destination, body = router.recv_multipart()
        router.send_multipart([destination, source, body])


def bare_worker(directory: Path) -> None:
    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.identity = b"W"
    dealer.connect(f"ipc://{directory}/bare.sock")
    while True:
        dealer.send_multipart(dealer.recv_multipart())


def measure_bare(directory: Path, calls: int) -> dict[int, tuple[list[float], float]]:
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.identity = b"C"
    dealer.connect(f"ipc://{directory}/bare.sock")
    while not dealer.poll(100):  # until the worker is there
        dealer.send_multipart([b"W", b"?"])
    while dealer.poll(200):
        dealer.recv_multipart()
    dealer.rcvtimeo = 10_000
    found = {}
    for size in SIZES:
        frames = [b"W", b"x" * size]
        for _ in range(200):
            dealer.send_multipart(frames)
            dealer.recv_multipart()
        times = []
        for _ in range(calls):
            started = time.perf_counter()
            dealer.send_multipart(frames)
            dealer.recv_multipart()
            times.append(time.perf_counter() - started)
        started = time.perf_counter()
        for number in range(calls * 2 + IN_FLIGHT):
            if number < calls * 2:
                dealer.send_multipart(frames)
            if number >= IN_FLIGHT:
                dealer.recv_multipart()
        found[size] = (times, calls * 2 / (time.perf_counter() - started))
    dealer.close()
    context.term()
    return found


# --- one run ----------------------------------------------------------------------------------------------------------


def part(name: str, directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.bus", "--part", name, "--directory", str(directory)])


def run(calls: int, rounds: int) -> list[dict[str, float | int | str]]:
    samples: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o700)
        running = [part(which, directory) for which in ("broker", "worker", "bare-broker", "bare-worker")]
        try:
            for _ in range(rounds):
                for kind in KINDS:
                    for who, found in (
                        ("bare", measure_bare(directory, calls)),
                        ("bus", asyncio.run(measure_ours(directory, calls, kind))),
                    ):
                        for size, (times, rate) in found.items():
                            samples.setdefault((who, kind, size), []).append((statistics.median(times) * 1e6, rate))
        finally:
            for process in running:
                process.kill()
                process.wait()
    rows = []
    for kind, size in ((kind, size) for kind in KINDS for size in SIZES):
        bare, ours = samples["bare", kind, size], samples["bus", kind, size]
        rows.append({
            "body": kind,
            "bytes": size,
            "bare_p50_us": round(statistics.median(p50 for p50, _ in bare)),
            "bus_p50_us": round(statistics.median(p50 for p50, _ in ours)),
            "p50_ratio": round(statistics.median(o[0] / b[0] for o, b in zip(ours, bare, strict=True)), 2),
            "bare_calls_per_s": round(statistics.median(rate for _, rate in bare)),
            "bus_calls_per_s": round(statistics.median(rate for _, rate in ours)),
            "rate_ratio": round(statistics.median(o[1] / b[1] for o, b in zip(ours, bare, strict=True)), 2),
        })  # fmt: skip
    return rows


def main() -> None:
    parser = arguments(__doc__, json=True)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        parts = {
            "broker": broker, "bare-broker": bare_broker, "bare-worker": bare_worker,
            "worker": worker,
        }  # fmt: skip
        parts[given.part](given.directory)
        return
    before = machine()
    rows = run(given.calls, given.rounds)
    measured = measured_on(before, pyzmq=zmq.__version__)
    print(f"bus round trip / bare Python ROUTER echo broker ({given.calls} calls x {given.rounds} rounds)")
    say_machine(measured)
    print(" | ".join(rows[0]))
    for row in rows:
        print(" | ".join(str(value) for value in row.values()))
    worst = max(float(row["p50_ratio"]) for row in rows if row["body"] == "opaque")
    print(f"p50, opaque body: {worst} (goal at most {GOAL}: {'met' if worst <= GOAL else 'missed'})")
    result = {"measured_on": measured, "calls": given.calls, "rounds": given.rounds, "goal": GOAL, "rows": rows}
    write_json(given.json, result)


if __name__ == "__main__":
    main()
