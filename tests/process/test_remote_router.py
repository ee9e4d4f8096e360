"""The broker's TCP socket: who is let in, who is not, and that what a stranger sends harms nobody."""

from __future__ import annotations

import os
import struct
import threading
import time
from contextlib import suppress

import pytest
import zmq

from hobus.bus import limits
from hobus.bus.clock import SystemClock
from hobus.bus.codec import decode, encode, pack_header
from hobus.bus.envelope import HEADER_VERSION, Kind, make_header
from hobus.bus.messages.control import CreateToken, Hello, Join, Joined, Peers, ReadPeers, Refused
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.context import end_monitor
from hobus.bus.zeromq.key_book import KeyFiles
from hobus.bus.zeromq.tokens import TokenDirectory, mint
from tests.bus.broker.rig import BIG, settings_with
from tests.process.raw_peer import RawPeer

pytestmark = pytest.mark.process
DIGEST = "sha256:" + "a" * 64
TOLD_S = 20.0


class FarPeer(RawPeer):
    def __init__(self, context, address, *, broker_key, pair):
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.curve_publickey, self.socket.curve_secretkey = pair.public, pair.secret
        self.socket.curve_serverkey = broker_key
        self.monitor = self.socket.get_monitor_socket()
        self.socket.connect(f"tcp://{address}")

    def join(self, mine, **changes):
        fields = {
            "public_key": mine.public.decode(),
            "role": "ho1",
            "version": "1",
            "protocol": HEADER_VERSION,
            "host": "box",
        }
        self.control(Kind.JOIN, Join.model_validate(fields | changes))
        head, body = self.receive(10.0)
        return decode(Joined if head.type == Joined.TYPE else Refused, body, BIG)

    def is_told(self, event):
        end = time.monotonic() + TOLD_S
        while (left := end - time.monotonic()) > 0:
            is_heard = self.monitor.poll(int(left * 1000) + 1)
            if is_heard and struct.unpack("=hi", self.monitor.recv_multipart()[0])[0] == event:
                return True
        return False

    def close(self):
        end_monitor(self.socket, self.monitor)
        self.socket.close(linger=0)


class Listening:
    def __init__(self, home):
        self.home = home
        self.settings = settings_with()
        self.keys = KeyFiles(home / "keys", version="1", config_digest=DIGEST)
        self.context = zmq.Context()
        self.peers = []
        read_fd, self.stop_fd = os.pipe()
        ready = threading.Event()
        self.thread = threading.Thread(
            target=run_broker,
            kwargs={
                "settings": self.settings, "endpoint": f"ipc://{home}/b", "tap_endpoint": f"ipc://{home}/t",
                "epoch": "e1", "tokens": TokenDirectory(home), "clock": SystemClock(),
                "stops": {read_fd: lambda _peers: True}, "remote": ("127.0.0.1:0", self.keys), "on_ready": ready.set,
                "config_digest": DIGEST,
            },
        )  # fmt: skip
        self.thread.start()
        assert ready.wait(30)
        self.operator = RawPeer(self.context, f"ipc://{home}/b")
        self.operator_token = mint(home, "operator/1@a", "operator", None)

    def far(self, pair, *, broker_key=None):
        peer = FarPeer(self.context, self.keys.listens, broker_key=broker_key or self.keys.pair.public, pair=pair)
        self.peers.append(peer)
        return peer

    def token(self):
        pair = curve.draw_pair()
        self.ask(CreateToken(public_key=pair.public.decode(), role="ho1", ttl_s=60, uses=1))
        return pair

    def ask(self, message):
        """The broker's answer to its operator, who may have been silent for too long before."""
        assert self.operator.hello("operator/1@a", self.operator_token).type == "bus.welcome"
        head = make_header(
            Kind.REQUEST, f"q{time.monotonic_ns()}", type=message.TYPE, destination="broker", deadline_ms=5000
        )
        self.operator.send(head, encode(message, BIG))
        return self.operator.receive(10.0)

    def list(self):
        """Peers and refused keys as the broker knows them."""
        return decode(Peers, self.ask(ReadPeers())[1], BIG)

    def count(self, name):
        return next(row for row in self.list().peers if row.role == "broker").counters.get(name, 0)

    def end(self):
        os.close(self.stop_fd)
        self.thread.join(30)
        for peer in self.peers:
            peer.close()
        self.operator.socket.close(linger=0)
        self.context.destroy(linger=0)
        assert not self.thread.is_alive()


@pytest.fixture
def there(tmp_path):
    tmp_path.chmod(0o700)
    made = Listening(tmp_path)
    yield made
    made.end()


def eventually(what, seconds=30.0):
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def test_a_key_that_nobody_enrolled_is_refused_on_both_sides(there):
    """The stranger's socket says so, the broker names the key and counts it; the stranger never gets a frame in."""
    pair = curve.draw_pair()
    stranger = there.far(pair)
    stranger.socket.setsockopt(zmq.SNDTIMEO, 500)
    with suppress(zmq.Again):  # it may have been refused already
        stranger.control(
            Kind.HELLO, Hello(instance="ho1/1@a", token="", role="ho1", slots=1, version="1", protocol=HEADER_VERSION)
        )
    assert stranger.is_told(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
    (row,) = eventually(lambda: there.list().refused_keys)
    assert (row.key, row.address) == (pair.fingerprint, "127.0.0.1")
    assert there.count("keys_refused") == 1


def test_a_client_without_curve_is_not_heard(there):
    """Plain ZMTP, with a good token of the state directory: no handshake, no frame, a count."""
    plain = RawPeer(there.context, f"tcp://{there.keys.listens}")
    token = mint(there.home, "ho2/9@a", "ho2", None)
    hello = Hello(instance="ho2/9@a", token=token, role="ho2", slots=1, version="1", protocol=HEADER_VERSION)
    plain.socket.setsockopt(zmq.SNDTIMEO, 500)
    with suppress(zmq.Again):  # nobody takes it once the handshake has failed
        plain.control(Kind.HELLO, hello)
    assert plain.socket.poll(500) == 0
    assert [row.instance for row in there.list().peers if row.role == "ho2"] == []
    plain.socket.close(linger=0)
    eventually(lambda: there.count("handshakes_failed"))


def test_a_chosen_routing_id_makes_nobody_somebody_else(there):
    """A second worker that picks the first one's routing id is not heard as the first one."""
    pairs = [curve.draw_pair(), curve.draw_pair()]
    names = [there.far(there.token()).join(pair).name for pair in pairs]
    for pair, name in zip(pairs, names, strict=True):
        peer = there.far(pair)
        peer.socket.disconnect(f"tcp://{there.keys.listens}")
        peer.socket.routing_id = b"the same"
        peer.socket.connect(f"tcp://{there.keys.listens}")
        hello = Hello(instance=f"{names[0]}@e1", token="", role="ho1", slots=1, version="1", protocol=HEADER_VERSION)
        peer.control(Kind.HELLO, hello)
        if name == names[0]:
            assert peer.receive(10.0)[0].type == "bus.welcome"
            peer.close()
            there.peers.remove(peer)
            eventually(lambda: not [row for row in there.list().peers if row.role == "ho1"])
        else:
            head, body = peer.receive(10.0)
            assert (head.type, decode(Refused, body, BIG).code) == (Refused.TYPE, "role_mismatch")


def test_many_workers_that_join_at_once_keep_nobody_waiting(there, monkeypatch):
    """Each has its own name, and none is cut off; the operator beside them is answered between them, not behind all.

    In the shortest pass one is let in, however fast the machine is.
    """
    monkeypatch.setattr(limits, "REMOTE_PASS_S", 1e-9)
    token, count = curve.draw_pair(), 500
    there.ask(CreateToken(public_key=token.public.decode(), role="ho1", ttl_s=600, uses=count))
    poller, names, answered = zmq.Poller(), list[str](), 0
    head = pack_header(make_header(Kind.JOIN, "", type=Join.TYPE))
    for _ in range(count):
        joining = there.context.socket(zmq.DEALER)
        joining.linger = 0
        joining.curve_publickey, joining.curve_secretkey = token.public, token.secret
        joining.curve_serverkey = there.keys.pair.public
        joining.connect(f"tcp://{there.keys.listens}")
        key = curve.draw_pair().public.decode()
        wanted = Join(public_key=key, role="ho1", version="1", protocol=HEADER_VERSION, host="box")
        joining.send_multipart([head, encode(wanted, BIG)])
        poller.register(joining, zmq.POLLIN)
    while len(names) < count:
        there.ask(ReadPeers())
        answered += bool(names)
        for joining, _ in poller.poll(0):
            names.append(decode(Joined, joining.recv_multipart()[1], BIG).name)
            poller.unregister(joining)
            joining.close(linger=0)
    assert len(set(names)) == count and answered > count / 8
    assert not there.count("connections_ended") and not there.count("handshakes_failed")
