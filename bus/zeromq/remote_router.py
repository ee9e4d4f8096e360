"""The broker's socket for other hosts: a ROUTER on TCP that speaks CURVE alone, its ZAP, and its self-test.

A connection is named `MARK` + the key that it proved + ZeroMQ's own routing id: so it can never be taken for one of the
local socket, and the same routing id under another key is another connection. The key is read from every message
(`User-Id`, set by ZAP), never from what a frame says, since a client may choose its routing id.

ZAP is the question that ZeroMQ asks about every CURVE key before a connection exists, over `inproc://zeromq.zap.01` of
the same context (RFC 27); it is answered in the broker's loop. Its socket is bound before any server socket, and those
name a domain and enforce it, so that without an answer nobody is let in (libzmq#2594 is about the opposite).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import zmq

from hobus.bus import limits
from hobus.bus.clock import SystemClock
from hobus.bus.errors import ConfigError
from hobus.bus.port import Clock
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.callers import Callers
from hobus.bus.zeromq.context import ZeroMQ, end_monitor
from hobus.bus.zeromq.drained import EVENTS, NOBLOCK, NOBLOCK_MORE, POLLIN, make_option_reader, make_sender
from hobus.bus.zeromq.key_book import KeyFiles

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

DOMAIN = b"hobus"
_ENDPOINT = "inproc://zeromq.zap.01"
_VERSION = b"1.0"
_CURVE = b"CURVE"
_KEY_BYTES = 32


class ConnectionQuestion(NamedTuple):
    """What ZAP asks about one connection."""

    request_id: bytes
    address: str
    public: bytes  # Z85; empty where there is none


class Stranger(NamedTuple):
    """Somebody who was not let in."""

    fingerprint: str
    address: str


def read_question(parts: list[bytes]) -> ConnectionQuestion | None:
    """Return the question in a ZAP request (without its routing); None for what is none about CURVE in this domain."""
    if len(parts) != 7 or parts[0] != _VERSION or parts[2] != DOMAIN or parts[5] != _CURVE:  # noqa: PLR2004 - RFC 27
        return None
    if len(parts[6]) != _KEY_BYTES:
        return None
    return ConnectionQuestion(parts[1], parts[3].decode("ascii", "replace")[:64], curve.encode_key(parts[6]))


class ZapHandler:
    """Let in whom `knows` knows, and tell who else came; a key that is banned for a while is told to try later."""

    def __init__(
        self, zeromq: ZeroMQ, knows: Callable[[bytes], bool], *, is_banned: Callable[[str], bool] = lambda _key: False
    ) -> None:
        self._knows = knows
        self._is_banned = is_banned
        self._socket = zeromq.bound(zmq.ROUTER)
        self._socket.bind(_ENDPOINT)
        self._option = make_option_reader(self._socket)
        self.descriptor = self._option(zmq.FD)

    def answer(self) -> list[Stranger]:
        """Answer every waiting question; return those who were not let in."""
        strangers: list[Stranger] = []
        while self._option(EVENTS) & POLLIN:
            parts = self._socket.recv_multipart(zmq.NOBLOCK)
            question = read_question(parts[2:])
            if question is None:
                self._say(parts, b"400", b"not a question about a CURVE key", b"")
            elif self._knows(question.public) and self._is_banned(question.public.decode("ascii", "replace")):
                self._say(parts, b"300", b"cut off a moment ago: try later", b"")
            elif self._knows(question.public):
                self._say(parts, b"200", b"OK", question.public)
            else:
                self._say(parts, b"400", b"unknown key", b"")
                strangers.append(Stranger(curve.compute_fingerprint(question.public), question.address))
        return strangers

    def _say(self, asked: list[bytes], status: bytes, text: bytes, user: bytes) -> None:
        request_id = asked[3] if len(asked) > 3 else b""  # noqa: PLR2004 - routing, empty, version, id
        self._socket.send_multipart([asked[0], b"", _VERSION, request_id, status, text, user, b""], zmq.NOBLOCK)

    def close(self) -> None:
        self._socket.close(linger=0)


MARK = b"curve:"
_KEY_CHARS = 40
_ROUTING_AT = len(MARK) + _KEY_CHARS
_WILDCARDS = ("0.0.0.0", "*", "[::]")  # noqa: S104 - what an operator may ask for; CURVE guards it


class Received(NamedTuple):
    """One message: from which connection, whose it is, and its parts."""

    connection: bytes
    key: str
    address: str
    parts: list[bytes]


class RemoteRouter:
    """The bound socket, which reads nothing until its owner drains it."""

    def __init__(self, zeromq: ZeroMQ, settings: BusSettings, address: str, keys: KeyFiles, *, clock: Clock) -> None:
        """Bind the socket. Raises ConfigError when CURVE is missing or the address cannot be bound."""
        curve.check_available()
        self._zeromq = zeromq
        self._settings = settings
        self._keys = keys
        router = self._zeromq.bound(zmq.ROUTER)
        self.callers = Callers(router, clock)
        try:
            # Before the socket is bound: nobody can come before there is an answer.
            self._zap = ZapHandler(zeromq, keys.knows, is_banned=self.callers.is_banned)
            self._router = self._bind(router, address)
        except (zmq.ZMQError, ConfigError):
            self.callers.close()  # its thread must not wait at a socket that somebody else closes: libzmq aborts
            raise
        self._option, self._send = make_option_reader(self._router), make_sender(self._router)
        self.address = self._router.getsockopt_string(zmq.LAST_ENDPOINT).removeprefix("tcp://")
        keys.listens = self.address
        self.descriptors = (self._option(zmq.FD), self._zap.descriptor)

    def _bind(self, router: zmq.Socket[bytes], address: str) -> zmq.Socket[bytes]:
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.setsockopt(zmq.CURVE_SERVER, 1)
        router.setsockopt(zmq.CURVE_SECRETKEY, self._keys.pair.secret)
        router.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
        router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        router.setsockopt(zmq.HANDSHAKE_IVL, limits.HANDSHAKE_TIMEOUT_MS)
        if address.startswith("["):
            router.setsockopt(zmq.IPV6, 1)
        try:
            router.bind(f"tcp://{address}")
        except zmq.ZMQError as error:
            raise ConfigError(
                f"cannot listen at {address} (bus.listen, up --listen): {error}; choose another port, or port 0"
            ) from error
        return router

    def receive(self) -> Received | None:
        """Return the next message; None when there is none."""
        while self._option(EVENTS) & POLLIN:
            frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            try:
                key, address = str(frames[0].get("User-Id")), str(frames[0].get("Peer-Address"))
            except zmq.ZMQError:
                continue  # nobody is let in without a key: this cannot be
            connection = MARK + key.encode() + frames[0].bytes
            if self.callers.hears(connection, frames[0], key):
                return Received(connection, key, address, [frame.bytes for frame in frames[1:]])
        return None

    def send(self, connection: bytes, header: bytes, body: bytes) -> None:
        """Send as the local socket does. Raises zmq.ZMQError: EHOSTUNREACH, EAGAIN."""
        self._send(connection[_ROUTING_AT:], NOBLOCK_MORE)
        self._send(header, NOBLOCK_MORE)
        self._send(body, NOBLOCK)

    def hear_strangers(self) -> list[Stranger]:
        """Answer waiting questions about keys; return those who were not let in."""
        return self._zap.answer()

    def check_strangers(self) -> None:
        """Check that a connection with a random key over this very socket is refused. Raises ConfigError otherwise."""
        clock, verdict = SystemClock(), 0
        stranger = self._zeromq.connecting(zmq.DEALER)
        pair = curve.draw_pair()
        stranger.setsockopt(zmq.CURVE_PUBLICKEY, pair.public)
        stranger.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
        stranger.setsockopt(zmq.CURVE_SERVERKEY, self._keys.pair.public)
        stranger.setsockopt(zmq.IPV6, int(self.address.startswith("[")))
        monitor = stranger.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        poller = zmq.Poller()
        poller.register(monitor, zmq.POLLIN)
        poller.register(self._zap.descriptor, zmq.POLLIN)
        try:
            stranger.connect(f"tcp://{_find_reachable(self.address)}")
            ends_at = clock.monotonic() + limits.HANDSHAKE_TIMEOUT_MS / 1000
            while not verdict and (left_s := ends_at - clock.monotonic()) > 0:
                ready = dict(poller.poll(int(left_s * 1000) + 1))
                self._zap.answer()
                if monitor in ready:
                    verdict = struct.unpack("=hi", monitor.recv_multipart()[0])[0]
        finally:
            end_monitor(stranger, monitor)
            stranger.close(linger=0)
        if verdict != int(zmq.EVENT_HANDSHAKE_FAILED_AUTH):
            found = "was let in" if verdict else f"was not refused within {limits.HANDSHAKE_TIMEOUT_MS} ms"
            raise ConfigError(f"the broker does not start: a random key {found} at {self.address} (self-test)")

    def close(self) -> None:
        self.callers.close()
        self._router.close(linger=0)
        self._zap.close()


def _find_reachable(address: str) -> str:
    """Return the address by which this machine itself reaches the socket."""
    host, _, port = address.rpartition(":")
    if host not in _WILDCARDS:
        return address
    return f"[::1]:{port}" if host.startswith("[") else f"127.0.0.1:{port}"
