"""R8: how fast a cancel reaches the provider and the tool, and that a deadline holds while a provider hangs.

usage: python -m bench.cancels [--cancels 200] [--way command] [--write]

A turn is brought to the middle of a model call that would take half a minute, or of a tool that would charge a card in a
second (bench/outside_tools); then it is cancelled, and the clock stops when the gateway has given the provider's call up
(the time in PROMPT_FAILED, reason CANCELLED, taken by the gateway at that moment) or when the tool's process is dead
(its pidfd). Two ways: `command`, the operator's Cancel to the session (`session.command`), all the way through HO2;
`order`, HO2's part alone left out: the requester of an order takes it back on the bus. After each cancelled tool call the
session is asked the next question; in the end the outside is looked at: no card was charged.

The deadline: the provider hangs, the client gives the turn d seconds, and has its answer (an honest error: nobody could
answer) within d; `attempts` counts the model calls that were tried on the way. Chains: `bench.gateway stops`.
"""

from __future__ import annotations

import asyncio
import os
import select
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.builders import order
from bench.cluster import Cluster, cancelled, head_of, next_entry, temporary
from bench.outside import Outside, asking_for, with_outside
from bench.report import arguments, concluded, markdown, percentile, percentiles
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import session_id_of
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.messages.work_order import ExecuteWorkOrder, Receipt, ToolCall
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connected
from hobus.launch.cluster.endpoints import Place
from hobus.launch.sessions.turns import process_turn

WAYS = ("command", "order")
TARGETS = ("provider", "tool")
TOOL = "charge_late"
HANGS_MS = 30_000
GOAL_MS = 50
DEADLINES_S = (1.0, 2.0, 4.0)
PER_DEADLINE = 10
LIMIT_S = 20.0
STOPPED = ("error cancelled", "taken back")
"""How a turn, and an order, end that were cancelled."""
RESULTS = Path("bench/results/cancels.json")


@dataclass(slots=True)
class Row:
    """Cancels of one way at one target."""

    way: str
    target: str
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
        name = f"{self.way}, {self.target}"
        found = [f"{name}: p99 {p99} ms"] if (p99 := percentile(self.reached_ms, 99)) > GOAL_MS else []
        found += [f"{name}: {self.effects} cards charged"] if self.effects else []
        found += (
            [f"{name}: {self.asked_next - self.usable} sessions unusable"] if self.usable != self.asked_next else []
        )
        otherwise = {what: count for what, count in self.outcomes.items() if what not in STOPPED}
        found += [f"{name}: {count} answered as {what}" for what, count in sorted(otherwise.items())]
        return found if self.record == "ok" else [*found, f"{name}: the record: {self.record}"]


@contextmanager
def _up(latency_ms: int) -> Iterator[tuple[Cluster, Outside]]:
    """A cluster whose model thinks so long; down and gone afterwards."""
    # A cancelled run reserves its tokens for good where nobody knows what the call used: the budget is not the subject.
    settings = {
        "gateway.providers.offline.latency_ms": latency_ms, "ho2.classify": False, "ho3.enabled": False,
        "budget.budget_mode": "off",
    }  # fmt: skip
    with temporary("cancels") as directory:
        outside, cluster = with_outside(directory, settings)
        try:
            cluster.up("--detach")
            yield cluster, outside
        finally:
            cluster.end()


def measure(way: str, target: str, count: int) -> Row:
    """So many cancels, one after the other, in a cluster of their own."""
    row = Row(way, target)
    with _up(HANGS_MS if target == "provider" else 0) as (cluster, outside):
        asyncio.run(_cancel_all(cluster, outside, row, count))
        if target == "tool":
            time.sleep(1.5)  # what was not stopped has its effect by now
            row.effects = len(outside.effects(TOOL))
        assert cluster("down").code == 0
        if way == "command":
            row.record = cluster.record_verdict()
    return row


async def _cancel_all(cluster: Cluster, outside: Outside, row: Row, count: int) -> None:
    place = cluster.place
    async with (
        connected(place, "door") as door,
        connected(place, "operator") as operator,
        connected(place, "ho2") as supervisor,
    ):
        for number in range(count):
            seen = _Seen(operator, outside, row.target)
            await seen.begin()
            if row.way == "command":
                await _by_command(door, operator, seen, row, f"in-{number}")
            else:
                await _by_order(supervisor, place, seen, row, number)


class _Seen:
    """What the record and the outside show of one call."""

    def __init__(self, operator: Bus, outside: Outside, target: str) -> None:
        self._operator = operator
        self._outside = outside
        self._target = target
        self._head = -1
        self._runs = 0
        self._pidfd = -1

    async def begin(self) -> None:
        """From now on."""
        self._runs = len(self._outside.runs(TOOL))
        self._head = await head_of(self._operator)

    async def is_at_work(self) -> None:
        """Returns when the model, or the tool, has begun."""
        if self._target == "provider":
            await self._entry("PROMPT_SENT")
            return
        async with asyncio.timeout(LIMIT_S):
            while len(self._outside.runs(TOOL)) == self._runs:
                await asyncio.sleep(0.001)
        self._pidfd = os.pidfd_open(int(self._outside.runs(TOOL)[-1].split()[0]))

    async def is_reached(self) -> float:
        """When it was given up, seconds since 1970."""
        if self._target == "provider":
            entry = await self._entry("PROMPT_FAILED")
            if entry.reason != "CANCELLED":
                raise AssertionError(f"the call ended as {entry.reason}")
            return entry.at_us / 1e6
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        died = await asyncio.to_thread(lambda: (poll.poll(LIMIT_S * 1000), time.time()))
        os.close(self._pidfd)
        if not died[0]:
            raise AssertionError("the tool was not stopped")
        return died[1]

    async def _entry(self, event_type: str) -> Entry:
        async with asyncio.timeout(LIMIT_S):
            entry = await next_entry(self._operator, self._head, event_type)
        self._head = entry.sequence
        return entry


async def _by_command(door: Bus, operator: Bus, seen: _Seen, row: Row, input_id: str) -> None:
    """A turn, cancelled by its operator; then the next one in the same session."""
    text = asking_for(TOOL) if row.target == "tool" else "hello"
    session_id = session_id_of("door", input_id)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(_asked(door, ProcessTurn(session_id=None, input_id=input_id, text=text), LIMIT_S))
        await seen.is_at_work()
        reached = group.create_task(seen.is_reached())
        await asyncio.sleep(0)
        at = time.time()
        await cancelled(operator, session_id, input_id)
    result, answered_at = asking.result()
    row.reached_ms.append(round((reached.result() - at) * 1000, 2))
    row.answered_ms.append(round((answered_at - at) * 1000, 2))
    row.count(f"{result.outcome} {result.code or ''}".strip())
    if row.target == "tool":
        following = ProcessTurn(session_id=session_id, input_id=f"{input_id}-next", text="what packages are installed?")
        row.asked_next += 1
        row.usable += (await _asked(door, following, LIMIT_S))[0].outcome == "success"


async def _asked(door: Bus, turn: ProcessTurn, timeout_s: float) -> tuple[TurnResult, float]:
    result = await process_turn(door, turn, timeout_s=timeout_s, retry_interval_s=0.2)
    return result, time.time()


async def _by_order(supervisor: Bus, place: Place, seen: _Seen, row: Row, number: int) -> None:
    """An order as HO2 sends it, taken back by its requester."""
    session_id = session_id_of("door", f"order-{number}")
    changed: dict[str, Any] = {
        "wo_id": f"WO-{session_id}-1.1.1", "session_id": session_id, "config_digest": place.snapshot.digest,
        "constraints": {"timeout_seconds": LIMIT_S, "tools_allowed": [TOOL]},
    }  # fmt: skip
    if row.target == "tool":
        changed["tool_call"] = ToolCall(call_id="001", tool_id=TOOL, arguments={})
    wanted = order("tool_call" if row.target == "tool" else "synthesize", **changed)
    asking = asyncio.create_task(_ordered(supervisor, wanted))
    await seen.is_at_work()
    reached = asyncio.create_task(seen.is_reached())
    await asyncio.sleep(0)
    at = time.time()
    asking.cancel()
    row.reached_ms.append(round((await reached - at) * 1000, 2))
    row.count(await asking)


async def _ordered(supervisor: Bus, wanted: Any) -> str:
    try:
        receipt = await supervisor.request(
            "ho1", ExecuteWorkOrder(order=wanted, attempt=1), expect=Receipt, timeout_s=LIMIT_S,
            message_id=wanted.wo_id, key="" if wanted.tool_call is None else wanted.tool_call.tool_id,
        )  # fmt: skip
    except asyncio.CancelledError:
        return "taken back"
    return receipt.state


# --- deadlines --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeadlineRow:
    """Turns with one deadline while the provider hangs."""

    deadline_ms: int
    turns: int
    slowest_ms: float
    latest_after_ms: float  # the slowest answer less the deadline
    outcomes: dict[str, int]
    attempts: float  # model calls per turn

    @property
    def faults(self) -> list[str]:
        """What must not be: an answer behind the deadline, and a client that was told nothing."""
        name = f"deadline {self.deadline_ms}"
        found = [f"{name}: {self.latest_after_ms} ms late"] if self.latest_after_ms > GOAL_MS else []
        untold = sum(count for what, count in self.outcomes.items() if not what.startswith("error "))
        return [*found, f"{name}: {untold} were not told that nobody could answer"] if untold else found


def measure_deadlines() -> list[DeadlineRow]:
    """A provider that hangs, retries that are allowed, and clients that do not wait."""
    with _up(HANGS_MS) as (cluster, _outside):
        found = asyncio.run(_all_deadlines(cluster))
        assert cluster("down").code == 0
        sent = Counter(entry.provenance.session_id for entry in cluster.entries() if entry.event_type == "PROMPT_SENT")
    return [
        DeadlineRow(
            deadline_ms=round(deadline_s * 1000),
            turns=len(turns),
            slowest_ms=round(max(elapsed_ms for elapsed_ms, *_ in turns), 1),
            latest_after_ms=round(max(elapsed_ms for elapsed_ms, *_ in turns) - deadline_s * 1000, 1),
            outcomes=dict(Counter(outcome for _, outcome, _ in turns)),
            attempts=round(statistics.mean(sent[session_id] for *_, session_id in turns), 1),
        )
        for deadline_s, turns in found.items()
    ]


async def _all_deadlines(cluster: Cluster) -> dict[float, list[tuple[float, str, str]]]:
    async with connected(cluster.place, "door") as door:
        return {
            deadline_s: [
                await _in_time(door, deadline_s, f"d-{deadline_s:g}-{number}") for number in range(PER_DEADLINE)
            ]
            for deadline_s in DEADLINES_S
        }


async def _in_time(door: Bus, deadline_s: float, input_id: str) -> tuple[float, str, str]:
    began = time.perf_counter()
    try:
        turn = ProcessTurn(session_id=None, input_id=input_id, text="hello")
        result, _ = await _asked(door, turn, deadline_s)
        outcome = f"{result.outcome} {result.code or ''}".strip()
    except RuntimeFault as fault:
        outcome = f"fault {fault.code}"
    return (time.perf_counter() - began) * 1000, outcome, session_id_of("door", input_id)


# --- the tables -------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row], deadlines: Sequence[DeadlineRow]) -> str:
    """Both, as people read them."""
    cancelled = markdown(
        ("cancelled by", "at work", "cancels", "reached, ms p50 / p99 / max", "client's answer, ms p50 / p99",
         "answered as", "cards charged", "next turn answered"),
        [
            (
                row.way, row.target, len(row.reached_ms),
                percentiles(row.reached_ms, 50, 99, 100),
                percentiles(row.answered_ms, 50, 99) if row.answered_ms else "",
                told(row.outcomes), row.effects if row.target == "tool" else "",
                f"{row.usable} of {row.asked_next}" if row.asked_next else "",
            )
            for row in rows
        ],
    )  # fmt: skip
    if not deadlines:
        return cancelled
    kept = markdown(
        ("deadline d, ms", "turns", "slowest answer, ms", "latest after d, ms", "answered as", "model calls per turn"),
        [
            (one.deadline_ms, one.turns, one.slowest_ms, one.latest_after_ms, told(one.outcomes), one.attempts)
            for one in deadlines
        ],
    )
    return f"{cancelled}\n\n{kept}"


def told(outcomes: Mapping[str, int]) -> str:
    """How often what."""
    return ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))


def main() -> None:
    parser = arguments(__doc__, write=True)
    parser.add_argument("--cancels", type=int, default=200, help="of each row")
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--no-deadlines", action="store_true")
    given = parser.parse_args()
    rows: list[Row] = []
    for way in [given.way] if given.way else WAYS:
        for target in [given.target] if given.target else TARGETS:
            rows.append(measure(way, target, given.cancels))
            print(table(rows[-1:], ()), file=sys.stderr, flush=True)
    deadlines = [] if given.no_deadlines else measure_deadlines()
    wrong = [fault for row in [*rows, *deadlines] for fault in row.faults]
    figures = {"rows": [asdict(row) for row in rows], "deadlines": [asdict(one) for one in deadlines]}
    how = f"goal: p99 {GOAL_MS} ms"
    sys.exit(concluded(given, table(rows, deadlines), wrong, results=RESULTS, figures=figures, name="cancels", how=how))


if __name__ == "__main__":
    main()
