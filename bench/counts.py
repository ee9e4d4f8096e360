"""What a turn costs that no busy machine can change: frames, writes, entries, validations, counted in the simulated cluster.

The turn of `bench.turn`, in one session with nobody else there, the same actors and broker core as in real processes; tools
run in the executor's own, and the client is counted too. Of each figure the median over the turns of a session at history 10
to 30: what is done by the clock (beats) or now and then (snapshots) is not in it. `tests/bench/test_counts.py` bounds all but
the last, which depends on Python's own version, for the first three of these turns.
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import msgspec
from pydantic_core import SchemaValidator

from bench.builders import shipped_with
from bench.cluster import answered, ledger_stats
from bench.turn import HISTORY, QUESTION
from hobus.bus.codec import unpack_header
from hobus.bus.envelope import Kind
from hobus.bus.messages.base import Record
from hobus.bus.messages.ledger import Write
from hobus.bus.port import Bus
from hobus.launch.lab.simulated import SimulatedCluster
from hobus.launch.lab.simulation.many import silence_logs

TURNS = 20
SETTLED_S = 0.05
"""Longer than twice `ledger.lazy_commit_ms`: what nobody waits for is written too, and belongs to the turn that wrote it."""
_COPIED = Record.model_copy.__code__


@dataclass(frozen=True, slots=True)
class Counts:
    frames_received: int  # by the broker; control between it and a peer is not counted
    frames_sent: int  # by the broker
    ledger_writes: int  # requests to write, each of them answered by one frame more
    commits: int  # of the ledger, each of them one sync
    entries: int
    record_bytes: int  # in the ledger's files
    wire_bytes: int  # headers and bodies of all frames, those of the ledger's lane included
    validations: int  # of messages, records and models; what stands inside of one is part of it
    model_copies: int
    function_calls: int  # of any function, in Python or not: CPU without a clock

    @property
    def bounded(self) -> dict[str, int]:
        """What is the same in each run, on each machine."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "function_calls"}


@dataclass(slots=True)
class _Calls:
    validations: int = 0
    model_copies: int = 0
    function_calls: int = 0

    def note(self, frame: FrameType, event: str, called: Any) -> None:
        """The interpreter calls a function: no detour around the models' own methods is missed."""
        if event == "c_call":
            self.function_calls += 1
            is_decoder = called is msgspec.convert or called is msgspec.msgpack.decode
            self.validations += is_decoder or type(called.__self__) is SchemaValidator
        elif event == "call":
            self.function_calls += 1
            self.model_copies += frame.f_code is _COPIED

    @contextmanager
    def counting(self) -> Generator[None]:
        self.validations = self.model_copies = self.function_calls = 0
        before = sys.getprofile()
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(before)


def counted(changes: Mapping[str, Any], *, turns: int = TURNS) -> Counts:
    """The medians of so many turns behind a history of ten, with these settings (dotted path -> value)."""
    with silence_logs(), SimulatedCluster(shipped_with(*changes.items())) as cluster:
        operator = cluster.world.client("operator")
        session_id: str | None = None

        def ask(number: int) -> None:
            nonlocal session_id
            of = {"input_id": f"in-{number}", "session_id": session_id, "timeout_s": 60}
            result = cluster.world.run(answered(cluster.door, QUESTION, **of))
            assert result.outcome == "success", result.code
            session_id = result.session_id
            cluster.world.run(asyncio.sleep(SETTLED_S))

        for number in range(HISTORY):
            ask(number)
        found = [_one(cluster, operator, partial(ask, number)) for number in range(HISTORY, HISTORY + turns)]
    names = [field.name for field in dataclasses.fields(Counts)]
    return Counts(**{name: statistics.median_high([getattr(one, name) for one in found]) for name in names})


def _one(cluster: SimulatedCluster, operator: Bus, ask: Callable[[], None]) -> Counts:
    calls, frames = _Calls(), Counter[str]()

    def note(source: str, target: str, header: bytes, body: bytes, is_copy: bool) -> None:
        """One frame has arrived; what is called to count it is none of the turn's calls."""
        profile = sys.getprofile()
        sys.setprofile(None)
        head = unpack_header(header)
        if head.kind < Kind.HELLO:
            is_write = head.kind == Kind.REQUEST and head.type == Write.TYPE
            frames.update(received=target == "broker", sent=source == "broker", writes=is_write)
            frames["bytes"] += len(header) + len(body)
        sys.setprofile(profile)

    before = cluster.world.run(ledger_stats(operator))
    cluster.world.network.on_delivery = note
    with calls.counting():
        ask()
    cluster.world.network.on_delivery = None
    after = cluster.world.run(ledger_stats(operator))
    return Counts(
        frames_received=frames["received"], frames_sent=frames["sent"], ledger_writes=frames["writes"],
        commits=after.commits - before.commits, entries=after.entries - before.entries,
        record_bytes=after.bytes_written - before.bytes_written, wire_bytes=frames["bytes"],
        validations=calls.validations, model_copies=calls.model_copies, function_calls=calls.function_calls,
    )  # fmt: skip
