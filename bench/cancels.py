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
from dataclasses import dataclass, field

from bench.cluster import answered, cancelled, temporary
from bench.outside import Outside, asking_for, with_outside
from bench.report import arguments, judged, percentile
from bench.turn import QUESTION
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place

TOOL = "charge_late"
GOAL_MS = 50
LIMIT_S = 20.0
STOPPED = "error cancelled"  # how a turn ends that was cancelled
SETTINGS = {"ho2.classify": False, "ho3.enabled": False, "budget.budget_mode": "off"}
"""A cancelled run reserves its tokens for good where nobody knows what the call used: the budget is not the subject."""


@dataclass(slots=True)
class Row:
    reached_ms: list[float] = field(default_factory=list[float])
    answered_ms: list[float] = field(default_factory=list[float])  # until whoever asked has control back
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    unusable: int = 0  # sessions that did not answer the next question
    effects: int = 0  # cards charged all the same
    record: str = "ok"

    @property
    def faults(self) -> list[str]:
        found = {
            f"p99 {percentile(self.reached_ms, 99)} ms": percentile(self.reached_ms, 99) > GOAL_MS,
            f"{self.effects} cards charged": self.effects, f"{self.unusable} sessions unusable": self.unusable,
            f"the record: {self.record}": self.record != "ok",
        } | {f"{count} answered as {what}": what != STOPPED for what, count in self.outcomes.items()}  # fmt: skip
        return [what for what, is_so in found.items() if is_so]


def measure(count: int) -> Row:
    """So many cancels, one after the other, in a cluster of their own; down and gone afterwards."""
    row = Row()

    async def cancel_all(place: Place) -> None:
        async with connect_bus(place, "door") as door, connect_bus(place, "operator") as operator:
            for number in range(count):
                await _cancel(door, operator, outside, row, f"in-{number}")

    with temporary("cancels") as directory:
        outside, cluster = with_outside(directory, SETTINGS)
        try:
            cluster.up("--detach")
            asyncio.run(cancel_all(cluster.place))
            time.sleep(1.5)  # what was not stopped has its effect by now
            row.effects = len(outside.effects(TOOL))
            assert cluster("down").code == 0
            row.record = cluster.record_verdict()
        finally:
            cluster.end()
    return row


async def _at_work(outside: Outside, before: int) -> int:
    """The pidfd of the tool's process, once it has begun."""
    async with asyncio.timeout(LIMIT_S):
        while len(runs := outside.runs(TOOL)) == before:
            await asyncio.sleep(0.001)
    return os.pidfd_open(int(runs[-1].split()[0]))


def _died_at(pidfd: int) -> float:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    died, at = poll.poll(LIMIT_S * 1000), time.time()
    os.close(pidfd)
    assert died, "the tool was not stopped"
    return at


async def _cancel(door: Bus, operator: Bus, outside: Outside, row: Row, input_id: str) -> None:
    """A turn, cancelled by its operator; then the next one in the same session."""
    session_id, before = derive_session_id("door", input_id), len(outside.runs(TOOL))
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(answered(door, asking_for(TOOL), input_id=input_id, timeout_s=LIMIT_S))
        asking.add_done_callback(lambda _: row.answered_ms.append(round((time.time() - at) * 1000, 2)))
        died = group.create_task(asyncio.to_thread(_died_at, await _at_work(outside, before)))
        await asyncio.sleep(0)
        at = time.time()
        await cancelled(operator, session_id, input_id)
    row.reached_ms.append(round((died.result() - at) * 1000, 2))
    result, follows = asking.result(), {"session_id": session_id, "input_id": f"{input_id}-next"}
    outcome = f"{result.outcome} {result.code or ''}".strip()
    row.outcomes[outcome] = row.outcomes.get(outcome, 0) + 1
    row.unusable += (await answered(door, QUESTION, timeout_s=LIMIT_S, **follows)).outcome != "success"


def main() -> None:
    given = arguments(__doc__, write=True, cancels=200).parse_args()
    sys.exit(judged(given, [measure(given.cancels)], name="cancels", how=f"goal: p99 {GOAL_MS} ms"))


if __name__ == "__main__":
    main()
