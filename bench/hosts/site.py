"""A cluster on the first of several hosts, a worker on each other one, people who ask."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, eventually
from bench.far_worker import FarWorker, token_of, workers
from bench.hosts.wire import Hosts
from bench.outside import Outside, with_outside
from bench.random_kills import Asked, ask_on
from bench.waiting.provider import Provider
from hobus.bus.messages.control import Peers, ReadPeers
from hobus.launch.cluster.client import ask_operator

PATIENT = {"launcher.ready_timeout_ms": 120_000}
"""Eight hosts that start on one machine keep each other waiting."""
CLOCK = "import time\n_time = time.time\ntime.time = lambda: _time() + {shift}\n"
"""A worker's `sitecustomize`: the product reads the wall clock by this function alone."""


class Site:
    """What stands, and what was asked of it."""

    def __init__(
        self, hosts: Hosts, cluster: Cluster, outside: Outside, model: Provider | None, directory: Path
    ) -> None:
        self.hosts, self.cluster, self.outside, self.model = hosts, cluster, outside, model
        self.directory = directory
        self.workers: dict[int, FarWorker] = {}
        self.answers: list[Asked] = []
        self.back_s: list[float] = []

    def join(self, host: int, started: list[FarWorker], *, slots: int | None = None, clock_s: int = 0) -> None:
        """A worker of this host joins; its wall clock goes so much before."""
        env = self.outside.environment()
        if clock_s:
            place = self.directory / f"clock{host}"
            place.mkdir()
            (place / "sitecustomize.py").write_text(CLOCK.format(shift=clock_s))
            env["PYTHONPATH"] = f"{place}:{env['PYTHONPATH']}"
        words = ["join", token_of(self.cluster), *(() if slots is None else ("--slots", str(slots)))]
        with self.hosts.inside(host):
            self.workers[host] = FarWorker(self.directory / f"host{host}", words, env=env)
        started.append(self.workers[host].works())

    def name(self, host: int) -> str:
        """As which its worker joined."""
        return self.workers[host].said.partition(" as ")[2].split()[0]

    def rows(self) -> dict[str, int]:
        """The workers elsewhere that the broker knows, and how many orders each has."""
        peers = asyncio.run(ask_operator(self.cluster.place, "broker", ReadPeers(), Peers)).peers
        return {row.instance.partition("@")[0]: row.in_flight for row in peers if row.host}

    def busy(self, host: int) -> None:
        """Until its worker has orders."""
        eventually(lambda: self.rows().get(self.name(host)), within_s=30)

    def gone(self, host: int) -> None:
        """Until the broker has given its worker up."""
        eventually(lambda: self.name(host) not in self.rows(), within_s=60)

    def back(self, host: int) -> None:
        """Until the broker has its worker again; how long that takes is kept."""
        began = time.monotonic()
        eventually(lambda: self.name(host) in self.rows(), within_s=60)
        self.back_s.append(round(time.monotonic() - began, 1))

    @contextmanager
    def people(self, count: int, questions: Sequence[str], pause_s: float) -> Iterator[None]:
        """Meanwhile these people ask on, each in a session of its own; all have an answer, or none, afterwards."""
        is_over = threading.Event()
        asking = ask_on(self.cluster, count, is_over, self.answers, questions=questions, pause_s=pause_s)
        thread = threading.Thread(target=lambda: asyncio.run(asking))
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


@contextmanager
def site(
    directory: Path,
    count: int,
    changes: Mapping[str, Any],
    *,
    think_s: float | None = None,
    slots: int | None = None,
    clock_s: Mapping[int, int] | None = None,
) -> Iterator[Site]:
    """A cluster on host 0, and a worker on each other one of `count`; all gone afterwards.

    `think_s`: it has a model server that takes so long; None: the embedded model.
    """
    with Hosts(count) as hosts, workers(directory / "far") as started:
        model = None if think_s is None else Provider(think_s, 1, 0)
        if model is not None:
            with hosts.inside(0):
                model.start()
        outside, cluster = with_outside(directory, {**PATIENT, **(model.settings() if model else {}), **changes})
        try:
            with hosts.inside(0):
                cluster.up("--listen", f"{hosts.address(0)}:0")
            made = Site(hosts, cluster, outside, model, directory / "far")
            for host in range(1, count):
                made.join(host, started, slots=slots, clock_s=(clock_s or {}).get(host, 0))
            yield made
        finally:
            hosts.heal()
            cluster.end()
            if model is not None:
                model.kill()
