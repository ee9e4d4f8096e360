"""Connections of a socket whose owner cannot tell who has spoken (the tap's XPUB), with real ones of this process."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest
import zmq

from hobus.bus.clock import SystemClock
from hobus.bus.zeromq.context import ZeroMQ
from tests.bus.broker.rig import settings_with

pytestmark = pytest.mark.process
INTERVAL_S = 0.2


class Door:
    """One XPUB that is bound, and who came."""

    def __init__(self, path: str, **settings: int) -> None:
        self.path = path
        self.zeromq = ZeroMQ(settings_with(**settings))
        self.socket = self.zeromq.feed(zmq.XPUB)
        self.door = self.zeromq.door(self.socket, SystemClock(), what="test", speaks=False)
        self.socket.bind(f"ipc://{path}")
        self.peers: list[socket.socket] = []
        self.ended = 0

    def come(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(self.path)
        self.peers.append(peer)
        return peer

    def waits_for(self, ended: int) -> None:
        """Until so many were ended in all."""
        until = time.monotonic() + 20
        while self.ended < ended:
            assert time.monotonic() < until, self.ended
            self.ended += self.door.take_counts()["connections_ended"]
            time.sleep(0.01)

    def open(self) -> list[int]:
        """Which of those that came still have their connection: one that was ended reads to an end."""
        return [number for number, peer in enumerate(self.peers) if peer.fileno() >= 0 and not _has_ended(peer)]

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
        self.zeromq.close()


def _has_ended(peer: socket.socket) -> bool:
    peer.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        while True:
            if not peer.recv(4096):
                return True
    return False


@pytest.fixture
def door(tmp_path, request):
    """A door with these settings, closed afterwards."""
    made = Door(str(tmp_path / "s"), **request.param)
    yield made
    made.close()


@pytest.mark.parametrize("door", [{"connections_per_caller_max": 3, "tap_connect_interval_ms": 1}], indirect=True)
def test_a_process_keeps_its_number_of_connections_and_one_that_ends_makes_room(door):
    """Whoever comes counts as heard, though nobody tells that it spoke."""
    for _ in range(5):
        door.come()
        time.sleep(0.05)
    door.waits_for(2)
    assert door.open() == [0, 1, 2]
    door.peers[1].close()
    time.sleep(0.2)
    door.come()
    door.come()
    door.waits_for(3)
    assert len(door.open()) == 3


@pytest.mark.parametrize("door", [{"tap_connect_interval_ms": int(INTERVAL_S * 1000)}], indirect=True)
def test_a_process_that_comes_again_at_once_is_sent_away_and_later_let_in(door):
    """One per interval, however often it tries."""
    began = time.monotonic()
    for _ in range(20):
        door.come()
    door.waits_for(20 - 1 - int((time.monotonic() - began) / INTERVAL_S))
    assert 0 in door.open()
    time.sleep(INTERVAL_S)
    last = door.come()
    time.sleep(INTERVAL_S)
    assert door.peers.index(last) in door.open()
