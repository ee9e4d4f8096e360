"""R8: how fast a cancel reaches a tool that runs: `python -m bench.cancels [--cancels 200] [--write]`.

A turn is brought to the middle of a tool that would charge a card in a second (bench/outside_tools); then it is
cancelled by the operator's Cancel to the session, all the way through HO2, and the clock stops when the tool's process is
dead (its pidfd). After each cancelled turn the session is asked the next question; in the end the outside is
looked at: no card was charged. Cancels of a provider's call, and deadlines: `bench.gateway stops`.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster import Cluster, cancelled, temporary
from bench.outside import Outside, asking_for, with_outside
from bench.report import arguments, judged, percentile
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.launch.sessions.turns import process_turn

TOOL = "charge_late"
GOAL_MS = 50
LIMIT_S = 20.0
STOPPED = "error cancelled"
"""How a turn ends that was cancelled."""
RESULTS = Path("bench/results/cancels.json")


@dataclass(slots=True)
class Row:
    """All the cancels."""

    reached_ms: list[float] = field(default_factory=list[float])
    answered_ms: list[float] = field(default_factory=list[float])  # until whoever asked has control back
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    usable: int = 0  # sessions that answered the next question
    asked_next: int = 0
    effects: int = 0  # cards charged all the same
    record: str = "ok"

    def count(self, outcome: str) -> None:
        """One more that ended so."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        found = [f"p99 {p99} ms"] if (p99 := percentile(self.reached_ms, 99)) > GOAL_MS else []
        found += [f"{self.effects} cards charged"] if self.effects else []
        found += [f"{self.asked_next - self.usable} sessions unusable"] if self.usable != self.asked_next else []
        otherwise = {what: count for what, count in self.outcomes.items() if what != STOPPED}
        found += [f"{count} answered as {what}" for what, count in sorted(otherwise.items())]
        return found if self.record == "ok" else [*found, f"the record: {self.record}"]


@contextmanager
def _up() -> Iterator[tuple[Cluster, Outside]]:
    """A cluster with tools outside; down and gone afterwards."""
    # A cancelled run reserves its tokens for good where nobody knows what the call used: the budget is not the subject.
    settings = {"ho2.classify": False, "ho3.enabled": False, "budget.budget_mode": "off"}
    with temporary("cancels") as directory:
        outside, cluster = with_outside(directory, settings)
        try:
            cluster.up("--detach")
            yield cluster, outside
        finally:
            cluster.end()


def measure(count: int) -> Row:
    """So many cancels, one after the other, in a cluster of their own."""
    row = Row()
    with _up() as (cluster, outside):
        asyncio.run(_cancel_all(cluster, outside, row, count))
        time.sleep(1.5)  # what was not stopped has its effect by now
        row.effects = len(outside.effects(TOOL))
        assert cluster("down").code == 0
        row.record = cluster.record_verdict()
    return row


async def _cancel_all(cluster: Cluster, outside: Outside, row: Row, count: int) -> None:
    place = cluster.place
    async with connect_bus(place, "door") as door, connect_bus(place, "operator") as operator:
        for number in range(count):
            await _cancel(door, operator, _Seen(outside), row, f"in-{number}")


class _Seen:
    """What the outside shows of one call, from now on."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._runs = len(outside.runs(TOOL))
        self._pidfd = -1

    async def is_at_work(self) -> None:
        """Returns when the tool has begun."""
        async with asyncio.timeout(LIMIT_S):
            while len(self._outside.runs(TOOL)) == self._runs:
                await asyncio.sleep(0.001)
        self._pidfd = os.pidfd_open(int(self._outside.runs(TOOL)[-1].split()[0]))

    async def is_reached(self) -> float:
        """When its process died, seconds since 1970."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        died = await asyncio.to_thread(lambda: (poll.poll(LIMIT_S * 1000), time.time()))
        os.close(self._pidfd)
        if not died[0]:
            raise AssertionError("the tool was not stopped")
        return died[1]


async def _cancel(door: Bus, operator: Bus, seen: _Seen, row: Row, input_id: str) -> None:
    """A turn, cancelled by its operator; then the next one in the same session."""
    session_id = derive_session_id("door", input_id)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(
            _asked(door, ProcessTurn(session_id=None, input_id=input_id, text=asking_for(TOOL)), LIMIT_S)
        )
        await seen.is_at_work()
        reached = group.create_task(seen.is_reached())
        await asyncio.sleep(0)
        at = time.time()
        await cancelled(operator, session_id, input_id)
    result, answered_at = asking.result()
    row.reached_ms.append(round((reached.result() - at) * 1000, 2))
    row.answered_ms.append(round((answered_at - at) * 1000, 2))
    row.count(f"{result.outcome} {result.code or ''}".strip())
    following = ProcessTurn(session_id=session_id, input_id=f"{input_id}-next", text="what packages are installed?")
    row.asked_next += 1
    row.usable += (await _asked(door, following, LIMIT_S))[0].outcome == "success"


async def _asked(door: Bus, turn: ProcessTurn, timeout_s: float) -> tuple[TurnResult, float]:
    result = await process_turn(door, turn, timeout_s=timeout_s, retry_interval_s=0.2)
    return result, time.time()


def main() -> None:
    parser = arguments(__doc__, write=True)
    parser.add_argument("--cancels", type=int, default=200)
    given = parser.parse_args()
    sys.exit(judged(given, [measure(given.cancels)], results=RESULTS, name="cancels", how=f"goal: p99 {GOAL_MS} ms"))


if __name__ == "__main__":
    main()
