"""A peer of raw parts: one DEALER, hand-made frames."""

from __future__ import annotations

import time

import zmq

from hobus.bus.codec import encode, pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, make_header
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Hello
from hobus.bus.zeromq.curve import KeyPair

BIG = 10**8


class RawPeer:
    """What any program could do that can reach the socket."""

    def __init__(
        self, context: zmq.Context, endpoint: str, *, server: bytes = b"", pair: KeyPair | None = None
    ) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.setsockopt(zmq.HEARTBEAT_IVL, 200)
        self.socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 600)
        if pair is not None:
            self.socket.curve_serverkey = server
            self.socket.curve_publickey, self.socket.curve_secretkey = pair.public, pair.secret
        self.socket.connect(endpoint)

    def send(self, head: Header, body: bytes = b"") -> None:
        self.socket.send_multipart([pack_header(head), body])

    def control(self, kind: Kind, message: Message) -> None:
        self.send(make_header(kind, "", type=message.TYPE), encode(message, BIG))

    def hello(self, instance: str, token: str, *, slots: int = 1, offers: tuple[str, ...] = ()) -> Header:
        """Says hello; the header of the answer."""
        role = instance.partition("/")[0]
        hello = Hello(
            instance=instance,
            token=token,
            role=role,
            slots=slots,
            version="",
            protocol=HEADER_VERSION,
            offers=list(offers),
        )
        self.control(Kind.HELLO, hello)
        return self.receive(20.0)[0]

    def receive(self, timeout_s: float) -> tuple[Header, bytes]:
        """The next frame that is no beat; TimeoutError after the time. Beats meanwhile, as a living loop does."""
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            if self.socket.poll(int(min(left, 0.1) * 1000) + 1):
                parts = self.socket.recv_multipart()
                head = unpack_header(parts[0])
                if head.kind != Kind.BEAT:
                    return head, parts[1]
            else:
                self.control(Kind.BEAT, Beat())
        raise TimeoutError
