"""Many seeds in several processes, in order, each on its own; the results as they come."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import structlog

from hobus.config.files import Layers
from hobus.launch.console.errors import CommandError
from hobus.launch.lab.simulation.faults import Faults
from hobus.launch.lab.simulation.plan import make_plan
from hobus.launch.lab.simulation.run import SeedVerdict, simulate

_CRITICAL = 50


@dataclass(frozen=True, slots=True)
class SeedOptions:
    """What every seed of a run has in common."""

    turns: int
    sessions: int | None
    faults: Faults
    layers: Layers


@dataclass(slots=True)
class SeedTally:
    """What came of all seeds together."""

    seeds: int = 0
    events: int = 0
    entries: int = 0
    strikes: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    failed: list[SeedVerdict] = field(default_factory=list[SeedVerdict])

    def add(self, verdict: SeedVerdict, cpu_s: float) -> None:
        self.seeds += 1
        self.events += verdict.events
        self.entries += verdict.entries
        self.strikes += verdict.strikes
        self.virtual_s += verdict.virtual_s
        self.cpu_s += cpu_s
        for outcome in verdict.answers.values():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if not verdict.holds:
            self.failed.append(verdict)


@contextmanager
def silence_logs() -> Generator[None]:
    """Silence what actors log, which is of no interest here and costs a third of the time."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def run_seeds(seeds: Sequence[int], wanted: SeedOptions, *, jobs: int) -> Generator[tuple[SeedVerdict, float]]:
    """Yield (verdict, CPU seconds) of each seed, in their order; closing the iterator ends what is under way."""
    if jobs == 1:
        for seed in seeds:
            yield _run_one(seed, wanted)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin) as pool:
        try:
            with _shield_children():
                results = pool.map(partial(_run_one, wanted=wanted), seeds)
            yield from results
        except BrokenProcessPool:
            raise CommandError("a process of the simulation was killed", hint="run the same command again") from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _shield_children() -> Generator[None]:
    """Keep Ctrl-C, which goes to all of a terminal's processes, from those started here: this one waits for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare each of the processes: gone once whoever wants the results is."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _run_one(seed: int, wanted: SeedOptions) -> tuple[SeedVerdict, float]:
    began = time.process_time()
    plan = make_plan(seed, turns=wanted.turns, sessions=wanted.sessions, faults=wanted.faults)
    with silence_logs():
        verdict = simulate(plan, layers=wanted.layers)
    return verdict, time.process_time() - began
