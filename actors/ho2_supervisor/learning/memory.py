"""What HO2 asks of HO3 in a turn: READ before the prompt, LOG after the answer; bounded, and never the turn's failure.

Memory is an aid, never a precondition: HO3 silent within its time-out, or gone, is an outcome with a code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.memory import AsOf, Bias, Biases, LogSignals, ReadActiveBiases, Signal, SignalsLogged
from hobus.bus.port import Bus
from hobus.config.schema import Ho3Config

HO3 = "ho3"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recalled:
    """What HO3 had in force for a turn, and as of what; `code` says why there is nothing."""

    biases: tuple[Bias, ...] = ()
    as_of: AsOf | None = None
    code: str = ""


@dataclass(frozen=True, slots=True)
class Learned:
    """The signals whose gates the turn's events have crossed; `code` says why nobody knows, and of which signals."""

    candidates: tuple[str, ...] = ()
    code: str = ""
    unknown: tuple[str, ...] = ()
    """With a code: the signals that HO3 did not acknowledge."""


class Memory:
    """HO3 as a turn sees it."""

    def __init__(self, bus: Bus, config: Ho3Config) -> None:
        self._bus = bus
        self._config = config

    async def recall(self, agent_id: str, session_id: str, *, as_of_ts: str, trace: str) -> Recalled:
        """What is in force as of then, within `ho3.read_timeout_ms`."""
        timeout_s = self._config.read_timeout_ms / 1000
        question = ReadActiveBiases(agent_id=agent_id, as_of_ts=as_of_ts, session_id=session_id)
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._bus.request(HO3, question, expect=Biases, timeout_s=timeout_s, trace=trace)
        except (TimeoutError, RuntimeFault) as fault:
            return Recalled(code=code_of(fault))
        return Recalled(tuple(found.biases), found.as_of)

    async def log(self, agent_id: str, signals: Sequence[Signal], *, trace: str) -> Learned:
        """The turn's events, in one message, within `ho3.log_timeout_ms`. Logged again, they count once."""
        if not signals:
            return Learned()
        timeout_s = self._config.log_timeout_ms / 1000
        message = LogSignals(agent_id=agent_id, signals=list(signals))
        try:
            async with asyncio.timeout(timeout_s):
                logged = await self._bus.request(HO3, message, expect=SignalsLogged, timeout_s=timeout_s, trace=trace)
        except (TimeoutError, RuntimeFault) as fault:
            return Learned(code=code_of(fault), unknown=tuple(signal.signal_id for signal in signals))
        return Learned(tuple(gate.signal_id for gate in logged.gates if gate.crossed))


def code_of(fault: TimeoutError | RuntimeFault) -> str:
    """The closed code under which a record names it."""
    return fault.code if isinstance(fault, RuntimeFault) else "expired"


async def beside(main: Coroutine[Any, Any, T], aside: Coroutine[Any, Any, Any]) -> tuple[T, Any]:
    """Both results, the two awaited at once; what `main` raises is raised as it is, and ends `aside`."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(aside)
            result = await main
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return result, task.result()
