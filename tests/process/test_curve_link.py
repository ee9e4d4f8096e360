"""The link of a worker elsewhere, over real sockets: it comes back by itself, and says why it cannot."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from hobus.bus.clock import SystemClock
from hobus.bus.codec import decode, encode, pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Kind, make_header
from hobus.bus.messages.control import CreateToken, Join, Joined
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.broker_loop import BrokerLoop
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.curve_link import CurveEnds, CurveLink
from hobus.bus.zeromq.key_book import KeyFiles
from tests.bus.broker.rig import BIG, settings_with

pytestmark = pytest.mark.process


class Broker:
    """In a thread, at an address that stays when it is started again."""

    def __init__(self, home):
        self.home, self.address = home, "127.0.0.1:0"
        self.settings = settings_with()
        self.thread = None

    def start(self):
        self.keys = KeyFiles(self.home / "keys", version="1", config_digest="d")
        reader, self.stop_fd = os.pipe()
        loop = BrokerLoop(
            settings=self.settings, endpoint=f"ipc://{self.home}/b", tap_endpoint=f"ipc://{self.home}/t", epoch="e",
            authenticate=lambda _hello: None, clock=SystemClock(), stops={reader: lambda _peers: True},
            remote=(self.address, self.keys), config_digest="d",
        )  # fmt: skip
        self.address = self.keys.listens

        def run():
            try:
                loop.run()
            finally:
                loop.close()
                os.close(reader)

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def stop(self):
        if self.thread is not None:
            os.close(self.stop_fd)
            self.thread.join(30)
            assert not self.thread.is_alive()
            self.thread = None


@pytest.fixture
def broker(tmp_path):
    tmp_path.chmod(0o700)
    made = Broker(tmp_path)
    made.start()
    yield made
    made.stop()


class Far:
    def __init__(self, broker, pair, *, address="", broker_key=b""):
        self.happened, self.got = [], []
        self.zeromq = ZeroMQ(broker.settings)
        ends = CurveEnds(address or broker.address, broker_key or broker.keys.pair.public, pair)
        self.link = CurveLink(
            self.zeromq,
            broker.settings,
            ends,
            clock=SystemClock(),
            on_happened=lambda event: self.happened.append(event.what),
        )
        self.link.attach(lambda head, body: self.got.append((unpack_header(head), body)))

    async def until(self, what, seconds=30.0):
        async with asyncio.timeout(seconds):
            while not what():
                await asyncio.sleep(0.01)

    def close(self):
        self.link.close()
        self.zeromq.close()


def token_key(broker):
    pair = curve.draw_pair()
    broker.keys.create_token(
        CreateToken(public_key=pair.public.decode(), role="ho1", ttl_s=60, uses=9), SystemClock().now()
    )
    return pair


def join_frames():
    join = Join(public_key=curve.draw_pair().public.decode(), role="ho1", version="1", protocol=HEADER_VERSION, host="")
    return pack_header(make_header(Kind.JOIN, "", type=Join.TYPE)), encode(join, BIG)


async def test_it_comes_back_by_itself_and_what_waited_leaves_then(broker):
    """The broker goes and comes: lost, unreachable, connected; a frame given meanwhile arrives."""
    far = Far(broker, token_key(broker))
    await far.until(lambda: "connected" in far.happened)
    far.happened.clear()  # on a busy machine also a living connection may have been lost, and come back
    broker.stop()
    await far.until(lambda: "lost" in far.happened)
    far.link.send(*join_frames())
    await far.until(lambda: "unreachable" in far.happened)
    broker.start()
    await far.until(lambda: "connected" in far.happened)
    await far.until(lambda: any(head.type == Joined.TYPE for head, _ in far.got))
    (name,) = [decode(Joined, body, BIG).name for head, body in far.got if head.type == Joined.TYPE]
    assert name == "ho1/remote-1"
    far.close()


async def test_a_refused_key_is_told_at_once_and_tried_with_pauses(broker):
    """Then with growing pauses, not in a hurry; let in as soon as the key is known."""
    pair = curve.draw_pair()
    far = Far(broker, pair)
    await far.until(lambda: far.happened)
    assert set(far.happened) == {"refused"}
    await asyncio.sleep(1.0)
    assert far.happened.count("refused") <= 12
    await far.until(lambda: far.happened.count("refused") >= 2)
    broker.keys.create_token(CreateToken(public_key=pair.public.decode(), role="ho1", ttl_s=60, uses=1), 1e9)
    await far.until(lambda: "connected" in far.happened)
    far.close()


async def test_another_broker_s_key_and_a_server_that_is_none_are_no_handshake(broker):
    """Told apart from silence, and tried again for ever, with pauses."""
    wrong = Far(broker, token_key(broker), broker_key=curve.draw_pair().public)
    await wrong.until(lambda: wrong.happened.count("no_handshake") >= 3)
    wrong.close()
    server = await asyncio.start_server(
        lambda _reader, writer: writer.write(b"HTTP/1.0 400\r\n\r\n" * 9), "127.0.0.1", 0
    )
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    http = Far(broker, token_key(broker), address=address)
    await http.until(lambda: http.happened.count("no_handshake") >= 3)
    http.close()
    server.close()
