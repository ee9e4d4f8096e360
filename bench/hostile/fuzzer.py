"""An attacker of one socket, in a process of its own.

Every life is a further one, forked before it touches ZeroMQ; a key that is cut off is not heard again for a while. A
life ends when it is cut off, or after `life_max` frames.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import zmq

from bench.hostile.frames import Frames, command_line, subscription, wire
from hobus.bus.codec import decode, encode, pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Kind, make_header
from hobus.bus.errors import BusError
from hobus.bus.messages.control import Hello, Refused
from hobus.bus.messages.failure import Failure
from hobus.bus.zeromq import curve, tokens
from hobus.launch.cluster.version import __version__
from hobus.launch.launcher.control import CommandAnswer

_WELCOME_S = 5.0
_LAST_WORDS_S = 0.2
_HANDSHAKE_S = 2.0
_LIFE_S = 60
_WIRE_ONE_IN = 10  # lives that speak no ZMTP at all


@dataclass(frozen=True)
class Words:
    name: str  # of the attack: no two of them use the same names for their peers
    how: str  # frames, topics, strangers or lines
    frames: int
    rate: float
    seed: int
    body_max: int
    endpoint: str = ""
    run: str = ""  # the cluster's run directory: where tokens lie
    roles: tuple[str, ...] = ("",)  # who the attacker is in turn; '' without any token
    services: tuple[str, ...] = ()
    workers: tuple[dict[str, str], ...] = ()  # instead of roles: enrolled keys
    life_max: int = 400


@dataclass
class Seen:
    sent: int = 0
    lives: int = 0
    cut_off: int = 0
    let_in: int = 0  # connections whose key nobody enrolled, and which were let in all the same
    kinds: Counter[str] = field(default_factory=Counter[str])
    told: Counter[str] = field(default_factory=Counter[str])

    def count(self, kind: str) -> None:
        self.sent += 1
        self.kinds[kind] += 1


def attack(words: Words) -> Seen:
    """What all lives saw."""
    seen, number = Seen(), 0
    while seen.sent < words.frames and number <= words.frames:
        number += 1
        count = min(words.life_max, words.frames - seen.sent)
        with get_context("fork").Pool(1) as pool:
            life = pool.apply_async(_life, (words, number, count)).get(_LIFE_S)
        for name, value in vars(life).items():
            setattr(seen, name, getattr(seen, name) + value)
        if not life.sent:
            time.sleep(0.1)  # it was not let in: its key or pid is still banned
    return seen


def _life(words: Words, number: int, count: int) -> Seen:
    seen, rng = Seen(lives=1), random.Random(words.seed * 1_000_003 + number)
    with suppress(Exception):  # whatever ends it: it has seen what it has seen
        if words.how == "lines":
            _lines(words, rng, count, seen)
        elif words.how == "strangers" and number % 2:
            _strangers(words, rng, max(1, count // 10), seen)
        elif words.how == "strangers" or number % _WIRE_ONE_IN == 0:
            _wires(words, rng, max(1, count // 4), seen)
        else:
            _frames(words, rng, count, number, seen)
    return seen


def _frames(words: Words, rng: random.Random, count: int, number: int, seen: Seen) -> None:
    """One connection: hello if it has a name, then what `Frames` makes, at the pace."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealer = context.socket(zmq.XSUB if words.how == "topics" else zmq.DEALER)
    dealer.linger = 0
    dealer.setsockopt(zmq.RECONNECT_IVL, -1)
    worker = words.workers[number % len(words.workers)] if words.workers else {}
    if worker:
        _keys(dealer, worker["server"], worker["public"], worker["secret"])
    monitor = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED)
    dealer.connect(worker.get("endpoint", words.endpoint))
    instance, token = _name(words, worker, number)
    try:
        if instance and not _is_welcome(dealer, instance, token, words, seen):
            return
        maker = Frames(rng, instance=instance, services=words.services, body_max=words.body_max)
        for _ in _paced(count, words.rate):
            name, parts = ("topics", subscription(rng)) if words.how == "topics" else maker.one()
            if not _sent(dealer, monitor, parts):
                break
            seen.count(name)
            _listen(dealer, words, seen)
        until = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < until and not monitor.poll(0):
            dealer.poll(20)
            _listen(dealer, words, seen)
        seen.cut_off += bool(monitor.poll(0))
    finally:
        if token:
            tokens.revoke(Path(words.run), instance)
        dealer.disable_monitor()
        monitor.close(linger=0)
        context.destroy(linger=0)


def _name(words: Words, worker: dict[str, str], number: int) -> tuple[str, str]:
    epoch, role = f"{words.name}x{number}", words.roles[number % len(words.roles)]
    if worker:
        return f"{worker['name']}@{epoch}", ""
    if not role:
        return "", ""
    instance = f"{role}/fuzz-{words.name}-{number}@{epoch}"
    return instance, tokens.mint(Path(words.run), instance, role, None)


def _is_welcome(dealer: zmq.Socket[bytes], instance: str, token: str, words: Words, seen: Seen) -> bool:
    hello = Hello(
        instance=instance, token=token, role=instance.partition("/")[0], slots=0, version=__version__,
        protocol=HEADER_VERSION, host="" if token else "attacker",
    )  # fmt: skip
    dealer.send_multipart([pack_header(make_header(Kind.HELLO, "", type=Hello.TYPE)), encode(hello, words.body_max)])
    until = time.monotonic() + _WELCOME_S
    while (left := until - time.monotonic()) > 0 and not seen.told["bus.welcome"]:
        if dealer.poll(int(left * 1000)):
            seen.told[_told(dealer.recv_multipart(), words)] += 1
    return seen.told["bus.welcome"] > 0


def _sent(dealer: zmq.Socket[bytes], monitor: zmq.Socket[bytes], parts: list[bytes]) -> bool:
    """False once the connection is over."""
    while not monitor.poll(0):
        try:
            dealer.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            time.sleep(0.001)
        else:
            return True
    return False


def _listen(dealer: zmq.Socket[bytes], words: Words, seen: Seen) -> None:
    while dealer.poll(0):
        parts = dealer.recv_multipart()
        seen.told["tap" if words.how == "topics" else _told(parts, words)] += 1


def _told(parts: list[bytes], words: Words) -> str:
    """What a server said, by its type, and its code if it is a refusal."""
    try:
        head = unpack_header(parts[0])
        cls = {one.TYPE: one for one in (Failure, Refused)}.get(head.type)
        return head.type if cls is None else f"{head.type} {decode(cls, parts[1], words.body_max).code}"
    except (BusError, IndexError):
        return "not a frame"


def _paced(count: int, rate: float) -> Iterator[int]:
    """So many numbers, each at its time."""
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        yield number


def _wires(words: Words, rng: random.Random, count: int, seen: Seen) -> None:
    """Connections that speak something else than ZMTP, or lie in it."""
    endpoint = words.workers[0]["endpoint"] if words.workers else words.endpoint
    for _ in _paced(count, words.rate):
        with _stream(endpoint) as stream, suppress(OSError):
            stream.settimeout(0.02)
            stream.sendall(wire(rng))
            while stream.recv(4096):
                pass
            seen.told["closed"] += 1
        seen.count("wire")


def _stream(endpoint: str) -> socket.socket:
    if endpoint.startswith("ipc://"):
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(endpoint.removeprefix("ipc://"))
        return stream
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)))


def _strangers(words: Words, rng: random.Random, count: int, seen: Seen) -> None:
    """Connections with a key that nobody enrolled, with another server's key, or with none."""
    known = words.workers[0]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    for _ in range(count):
        dealer = context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.RECONNECT_IVL, -1)
        pair, kind = curve.draw_pair(), rng.choice(("unknown key", "wrong server", "no key"))
        if kind == "unknown key":
            _keys(dealer, known["server"], pair.public.decode(), pair.secret.decode())
        elif kind == "wrong server":
            _keys(dealer, pair.public.decode(), known["public"], known["secret"])
        monitor = dealer.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED
        )  # fmt: skip
        dealer.connect(known["endpoint"])
        with suppress(zmq.Again):  # it is over already
            dealer.send_multipart([rng.randbytes(60), b""], zmq.NOBLOCK)
        is_told = monitor.poll(int(_HANDSHAKE_S * 1000))
        event = struct.unpack("=hi", monitor.recv_multipart()[0])[0] if is_told else 0
        seen.let_in += event == zmq.EVENT_HANDSHAKE_SUCCEEDED
        seen.told["not let in" if event else "no answer"] += 1
        seen.count(kind)
        dealer.disable_monitor()
        monitor.close(linger=0)
        dealer.close(linger=0)
    context.destroy(linger=0)


def _keys(dealer: zmq.Socket[bytes], server: str, public: str, secret: str) -> None:
    dealer.curve_serverkey = server.encode()
    dealer.curve_publickey, dealer.curve_secretkey = public.encode(), secret.encode()


def _lines(words: Words, rng: random.Random, count: int, seen: Seen) -> None:
    """Commands to the launcher that are none, and connections that say nothing, or go before they are answered."""
    for _ in _paced(count, words.rate):
        kind = rng.choice(("line",) * 20 + ("nothing", "half", "gone"))
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.settimeout(_HANDSHAKE_S)
            connection.connect(words.endpoint)
            if kind != "nothing":
                connection.sendall(command_line(rng) + b"\n" * (kind == "line"))
            if kind == "line":
                answer = CommandAnswer.model_validate_json(connection.makefile("rb").readline())
                seen.told[answer.code or "accepted"] += 1
        seen.count(kind)
