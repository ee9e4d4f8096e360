"""Several hosts on one machine: the wire does what it says, and a cluster over it loses and doubles nothing."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from bench.cluster import eventually
from bench.hosts.__main__ import Times, seen
from bench.hosts.wire import Hosts, why_not

pytestmark = [pytest.mark.process, pytest.mark.skipif(bool(why_not()), reason=why_not() or "there are hosts")]


@contextmanager
def answered(hosts: Hosts) -> Iterator[socket.socket]:
    """A connection from host 1 to host 0, where somebody says everything back."""
    with hosts.inside(0):
        listening = socket.create_server((hosts.address(0), 5000))

    def say_back() -> None:
        with listening, listening.accept()[0] as heard:
            while said := heard.recv(65536):
                heard.sendall(said)

    thread = threading.Thread(target=say_back)
    thread.start()
    with hosts.inside(1):
        connection = socket.create_connection((hosts.address(0), 5000), timeout=20)
    with connection:
        yield connection
    thread.join()


def round_trip_s(connection: socket.socket, size: int = 1) -> float:
    began = time.monotonic()
    connection.sendall(b"x" * size)
    while size:
        size -= len(connection.recv(size))
    return time.monotonic() - began


def test_a_wire_delays_slows_loses_and_cuts() -> None:
    """A round trip takes two delays; a rate is kept; what is lost comes later; cut one way nothing is answered until healed."""
    with Hosts(2) as hosts, answered(hosts) as connection:
        assert round_trip_s(connection) < 0.04
        hosts.link(0, 1, delay_ms=40)
        assert 0.08 <= round_trip_s(connection) < 0.5
        hosts.link(0, 1, bytes_per_s=50_000)
        assert round_trip_s(connection, 20_000) >= 0.35
        hosts.link(0, 1, loss=0.3)
        assert max(round_trip_s(connection) for _ in range(20)) >= 0.2  # the least that TCP waits for what is lost
        assert hosts.dropped() > 0
        hosts.link(0, 1)
        hosts.partition(0, 1, one_way=True)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            round_trip_s(connection)
        connection.settimeout(20)
        hosts.heal()
        assert connection.recv(1) == b"x"


def test_a_host_sleeps_and_dies_alone() -> None:
    """All that runs on it and nothing else; what lives at the end ends with the hosts."""
    with Hosts(2) as hosts:
        left, other = (hosts.run(host, ["sleep", "100"]) for host in (0, 1))
        (there,) = hosts.processes(1)
        assert there.pid == other.pid
        hosts.sleep(1)
        eventually(lambda: there.status() == psutil.STATUS_STOPPED)
        assert psutil.Process(left.pid).status() != psutil.STATUS_STOPPED
        hosts.wake(1)
        eventually(lambda: there.status() != psutil.STATUS_STOPPED)
        hosts.kill(1)
        assert (other.wait(5), left.poll()) == (-signal.SIGKILL, None)
    assert left.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize("row", ["latency", "partition"])
def test_a_cluster_over_hosts_loses_and_doubles_nothing(row: str, tmp_path: Path) -> None:
    """A short one of each: all answered within the deadline, no model or tool called twice."""
    _cells, faults, looked = seen(tmp_path, row, Times(span_s=3), people=3)
    assert faults == [], looked
    assert looked.turns["success"] > 0
