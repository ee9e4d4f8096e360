"""ZAP, the question that ZeroMQ asks about every CURVE key before a connection exists; answered in the broker's loop.

ZeroMQ asks over `inproc://zeromq.zap.01` of the same context (RFC 27). The socket here is bound before any server
socket, and those name a domain and enforce it, so that without an answer nobody is let in (libzmq#2594 is about the
opposite).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import zmq

from hobus.bus.zeromq import curve
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.drained import EVENTS, POLLIN, option_of

DOMAIN = b"hobus"
_ENDPOINT = "inproc://zeromq.zap.01"
_VERSION = b"1.0"
_CURVE = b"CURVE"
_KEY_BYTES = 32


class Question(NamedTuple):
    """What is asked about one connection."""

    request_id: bytes
    address: str
    public: bytes  # Z85; empty where there is none


class Stranger(NamedTuple):
    """Somebody who was not let in."""

    fingerprint: str
    address: str


def question_of(parts: list[bytes]) -> Question | None:
    """The question in a ZAP request (without its routing); None for what is none about CURVE in our domain."""
    if len(parts) != 7 or parts[0] != _VERSION or parts[2] != DOMAIN or parts[5] != _CURVE:  # noqa: PLR2004 - RFC 27
        return None
    if len(parts[6]) != _KEY_BYTES:
        return None
    return Question(parts[1], parts[3].decode("ascii", "replace")[:64], curve.text(parts[6]))


class ZapHandler:
    """Lets in whom `knows` knows, and tells who else came; a key that is banned for a while is told to try later."""

    def __init__(
        self, zeromq: ZeroMQ, knows: Callable[[bytes], bool], *, is_banned: Callable[[str], bool] = lambda _key: False
    ) -> None:
        self._knows = knows
        self._is_banned = is_banned
        self._socket = zeromq.bound(zmq.ROUTER)
        self._socket.bind(_ENDPOINT)
        self._option = option_of(self._socket)
        self.descriptor = self._option(zmq.FD)

    def answer(self) -> list[Stranger]:
        """Every waiting question is answered; those who were not let in."""
        strangers: list[Stranger] = []
        while self._option(EVENTS) & POLLIN:
            parts = self._socket.recv_multipart(zmq.NOBLOCK)
            question = question_of(parts[2:])
            if question is None:
                self._say(parts, b"400", b"not a question about a CURVE key", b"")
            elif self._knows(question.public) and self._is_banned(question.public.decode("ascii", "replace")):
                self._say(parts, b"300", b"cut off a moment ago: try later", b"")
            elif self._knows(question.public):
                self._say(parts, b"200", b"OK", question.public)
            else:
                self._say(parts, b"400", b"unknown key", b"")
                strangers.append(Stranger(curve.fingerprint(question.public), question.address))
        return strangers

    def _say(self, asked: list[bytes], status: bytes, text: bytes, user: bytes) -> None:
        request_id = asked[3] if len(asked) > 3 else b""  # noqa: PLR2004 - routing, empty, version, id
        self._socket.send_multipart([asked[0], b"", _VERSION, request_id, status, text, user, b""], zmq.NOBLOCK)

    def close(self) -> None:
        """Nobody is let in any more."""
        self._socket.close(linger=0)
