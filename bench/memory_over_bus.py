"""What a read of memory and a durable signal cost over the bus of a real cluster: a column of `bench.memory_store`.

HO3 is asked by a process of its own, as HO2 asks it: the way there and back, the checks of messages at both ends, and
behind a signal HO3's own way to the ledger. As many lines are in force as the store has; what has gone quiet is not
there, which a read does not look at and a signal does not meet.
"""

from __future__ import annotations

import time

from bench.cluster import Cluster
from bench.memory_eval.worlds import DAY_US
from bench.memory_habits import (
    AGENT,
    EVENTS_PER_SESSION,
    artifact_of,
    event_ids_of,
    labels_of,
    name_of,
    session_of,
    signal_of,
)
from hobus.actors.ho2_supervisor.turn.recall import TokenBudget, select_biases
from hobus.actors.ho3_memory.event_time import timestamp_of
from hobus.bus.messages.ids import LOCAL
from hobus.bus.messages.memory import (
    Bias,
    Biases,
    LogOverlay,
    LogSignal,
    LogSignals,
    OverlayLogged,
    ReadActiveBiases,
    SignalsLogged,
)
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connected

_EVENTS = 12
"""Of each habit: in so many, four sessions, its gate opens."""
_APART_US = DAY_US // 8
_NOW_US = 30 * DAY_US
_NEW_SESSION = 1_000_000
_WRITES_PER_SESSION = 40
_TIMEOUT_S = 10.0


async def over_bus(
    found: Cluster, alive: int, reads: int, writes: int, budget: TokenBudget
) -> tuple[list[float], list[float], int]:
    """Milliseconds of each read and of each signal, and how many lines were in force."""
    async with connected(found.place, "operator") as bus:
        for number in range(alive):
            await _learnt(bus, number)
        in_force = 0
        read_ms: list[float] = []
        for number in range(reads):
            began = time.perf_counter()
            biases = await _in_force(bus)
            select_biases(biases, labels_of(number), budget, timestamp_of(_NOW_US))
            read_ms.append(1000 * (time.perf_counter() - began))
            in_force = len(biases)
        write_ms: list[float] = []
        for number in range(writes):
            session_id, run = session_of(_NEW_SESSION + number // _WRITES_PER_SESSION), number % _WRITES_PER_SESSION + 1
            at_us = _NOW_US + (number + 1) * 60_000_000
            message = LogSignal(agent_id=AGENT, signal=signal_of(name_of(number % alive), session_id, run, at_us))
            began = time.perf_counter()
            await bus.request("ho3", message, expect=SignalsLogged, timeout_s=_TIMEOUT_S)
            write_ms.append(1000 * (time.perf_counter() - began))
    return read_ms, write_ms, in_force


async def _learnt(bus: Bus, number: int) -> None:
    """A habit that is alive, and its line."""
    name = name_of(number)
    signals = [
        signal_of(
            name, session_of(place // EVENTS_PER_SESSION), place % EVENTS_PER_SESSION + 1,
            _NOW_US - (_EVENTS - place) * _APART_US,
        )
        for place in range(_EVENTS)
    ]  # fmt: skip
    logged = LogSignals(agent_id=AGENT, signals=signals)
    await bus.request("ho3", logged, expect=SignalsLogged, timeout_s=_TIMEOUT_S)
    made = LogOverlay(agent_id=AGENT, overlay=artifact_of(number, event_ids_of(name, 5), _NOW_US - _APART_US // 2))
    await bus.request("ho3", made, expect=OverlayLogged, timeout_s=_TIMEOUT_S)


async def _in_force(bus: Bus) -> list[Bias]:
    """Page by page, as of the moment of the habits' end."""
    question = ReadActiveBiases(agent_id=AGENT, principal=LOCAL, as_of_ts=timestamp_of(_NOW_US))
    biases: list[Bias] = []
    while True:
        found = await bus.request("ho3", question, expect=Biases, timeout_s=_TIMEOUT_S)
        biases += found.biases
        if found.next is None:
            return biases
        question = question.model_copy(update={"after": found.next, "as_of_seq": found.as_of.as_of_seq})
