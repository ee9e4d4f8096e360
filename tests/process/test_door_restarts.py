"""The address of the HTTP door: one cluster's alone, and nobody who connects is refused while a door is started anew."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2
import pytest

from bench.cluster import Cluster, eventually

pytestmark = pytest.mark.process


@dataclass
class Seen:
    """What somebody saw who asks again and again, each time over a new connection."""

    faults: list[str] = field(default_factory=list[str])
    answers: int = 0


@contextmanager
def asking(url: str) -> Iterator[Seen]:
    seen, is_over = Seen(), threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            try:
                httpx2.get(f"{url}/healthz", timeout=30, headers={"connection": "close"})
                seen.answers += 1
            except (httpx2.RemoteProtocolError, httpx2.ReadError):
                pass  # it had been accepted by the one that was killed
            except httpx2.HTTPError as error:
                seen.faults.append(repr(error))
            time.sleep(0.05)  # the cluster has the same processors

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


@contextmanager
def slow_answer(address: str) -> Iterator[None]:
    """A door is kept busy by a request that does not come to its end."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as waiting:
        waiting.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{")
        yield


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_nobody_is_refused_while_the_only_door_is_started_anew(cluster: Cluster, how: str) -> None:
    """Who connects waits in the system until a door is there."""
    cluster.up("--http", "127.0.0.1:0", settings={"launcher.finish_ms": 2000})
    address = cluster.home.bound(http=True)
    with asking(f"http://{address}") as seen, slow_answer(address):
        eventually(lambda: seen.answers > 1)
        before = cluster.row("http/1")
        if how == "restart":
            assert cluster("restart", "http/1").code == 0
        else:
            cluster.kill("http/1")
        eventually(lambda: cluster.is_up("http/1", other_than=before.instance))
        eventually(lambda: [row.actor for row in cluster.run().children if row.role == "http"] == ["http/1"])
        answers = seen.answers
        eventually(lambda: seen.answers > answers + 1)
    assert seen.faults == []
    assert cluster.home.bound(http=True) == address


def test_no_other_cluster_answers_at_the_address_and_none_does_where_no_door_is(
    make_cluster: Callable[[str], Cluster],
) -> None:
    """Not even while the door of the first one is dead; drained, it refuses, and is there again at the same address."""
    first, second = make_cluster("first"), make_cluster("second")
    first.up("--http", "127.0.0.1:0")
    address = first.home.bound(http=True)
    first.kill("http/1")
    refused = second("up", "--wait", "--http", address)
    assert refused.code and f"cannot listen at {address}" in refused.err
    eventually(lambda: first.is_up("http/1"))
    assert first("drain", "http/1").code == 0
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"http://{address}/healthz")
    assert first("restart", "http/1").code == 0
    assert httpx2.get(f"http://{address}/healthz").status_code == 200
