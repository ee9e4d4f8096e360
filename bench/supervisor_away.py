"""R3: turns while no supervisor answers: each one answered in time, marked as degraded, and the late answer fenced.

Four ways to be without HO2, each in a cluster of its own: it has spent its crash budget and is given up; it was drained; it
is frozen (SIGSTOP) before the questions come; it is frozen in the middle of each turn, thaws after the answer, and tries to
go on. The host keeps a reserve of a client's time; the goal is an answer within what is left for HO2 plus one gateway call (the
table counts what is later; past the client's deadline is a fault). The turn is then looked up in the record: one answer,
nothing of its run behind it; and the same input is asked again when HO2 is back: the same answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bench.builders import shipped_snapshot
from bench.cluster import Cluster, answered, eventually, head_of, next_entry
from bench.cluster import cluster as a_cluster
from bench.report import arguments, judged
from bench.turn import QUESTION
from hobus.actors.session_host.limits import RESERVE_SHARE_MAX
from hobus.bus.messages.session import TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster import identity
from hobus.launch.cluster.client import connect_bus
from hobus.launch.lab.simulation.record import answer_text, list_answers

CLIENT_S = 5.0
THINKING_MS = 200
SLACK_MS = 150  # what a loaded machine of four cores may take for the hops around the gateway call
AT_ONCE = 8
WAYS = ("given up", "drained", "frozen", "frozen in the turn")
SETTINGS = {"gateway.providers.offline.latency_ms": THINKING_MS, "launcher.restart_backoff_max_ms": 50}


@dataclass(frozen=True, slots=True)
class Row:
    """What became of the turns without a supervisor, one way."""

    way: str
    turns: int
    degraded: int
    other: dict[str, int]  # outcomes that are not degraded
    bound_ms: int  # HO2's time-out plus one gateway call
    p50_ms: int
    slowest_ms: int
    over_bound: int  # later than the bound and the slack
    unmarked: int  # degraded, without a DEGRADATION record
    answers_wrong: int  # inputs with another number of answers in the record than one
    changed_afterwards: int  # inputs with another answer in the record, or when asked again
    record: str

    @property
    def faults(self) -> list[str]:
        found = {
            "not degraded": self.other, "after the client's deadline": int(self.slowest_ms > CLIENT_S * 1000),
            "unmarked": self.unmarked, "not one answer": self.answers_wrong,
            "another answer afterwards": self.changed_afterwards,
        }  # fmt: skip
        wrong = [f"{self.way}: {count} {what}" for what, count in found.items() if count]
        return wrong if self.record == "ok" else [*wrong, f"{self.way}: the record: {self.record}"]


def run_way(way: str, turns: int) -> Row:
    """One cluster without its supervisor, this many turns, and the supervisor back again."""
    with a_cluster(SETTINGS, "--detach") as cluster:
        if way == "given up":
            _give_up(cluster)
        elif way == "drained":
            assert cluster("drain", "ho2/1").code == 0
        elif way == "frozen":
            os.kill(cluster.row("ho2/1").pid, signal.SIGSTOP)
        found = asyncio.run(_ask_all(cluster, way, turns))
        if way in ("given up", "drained"):
            assert cluster("restart", "ho2/1").code == 0
        elif way == "frozen":
            os.kill(cluster.row("ho2/1").pid, signal.SIGCONT)
        eventually(lambda: cluster.is_up("ho2/1"))
        again = asyncio.run(_asked_again(cluster, found))
        assert cluster("down").code == 0
        return _row(cluster, way, found, again)


def _give_up(cluster: Cluster) -> None:
    """SIGKILL after SIGKILL, until the launcher does not start it again."""
    while (row := cluster.row("ho2/1")).state != "failed":
        if row.state == "ready":
            identity.end(row.pid, row.mark, signal.SIGKILL)
        time.sleep(0.01)


async def _ask_all(cluster: Cluster, way: str, turns: int) -> dict[str, tuple[TurnResult, float]]:
    """Input id -> its answer and how long it took, in ms."""
    found: dict[str, tuple[TurnResult, float]] = {}
    place = cluster.place
    async with connect_bus(place, "door") as door, connect_bus(place, "operator") as operator:
        if way == "frozen in the turn":
            for number in range(turns):
                found[f"in-{number}"] = await _frozen_turn(cluster, door, operator, f"in-{number}")
            return found
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(input_id: str) -> None:
            async with limit:
                found[input_id] = await _asked(door, input_id, CLIENT_S)

        async with asyncio.TaskGroup() as group:
            for number in range(turns):
                group.create_task(one(f"in-{number}"))
    return found


async def _frozen_turn(cluster: Cluster, door: Bus, operator: Bus, input_id: str) -> tuple[TurnResult, float]:
    """HO2 stops while the model thinks for it, and thaws when the client has its answer."""
    head = await head_of(operator)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(_asked(door, input_id, CLIENT_S))
        await next_entry(operator, head, "PROMPT_SENT")
        pid = cluster.row("ho2/1").pid
        os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)
    # It goes on where it stood, is refused, and is a supervisor as any other before the next question comes.
    await asyncio.sleep(3 * THINKING_MS / 1000)
    await asyncio.to_thread(eventually, lambda: cluster.is_up("ho2/1"))
    return asking.result()


async def _asked_again(cluster: Cluster, input_ids: Iterable[str]) -> dict[str, TurnResult]:
    async with connect_bus(cluster.place, "door") as door:
        return {input_id: (await _asked(door, input_id, 30))[0] for input_id in input_ids}


async def _asked(door: Bus, input_id: str, timeout_s: float) -> tuple[TurnResult, float]:
    began = time.perf_counter()
    result = await answered(door, QUESTION, input_id=input_id, timeout_s=timeout_s)
    return result, (time.perf_counter() - began) * 1000


def _row(cluster: Cluster, way: str, found: dict[str, tuple[TurnResult, float]], again: dict[str, TurnResult]) -> Row:
    host = shipped_snapshot().config.host
    reserve_s = min(host.degrade_reserve_ms / 1000, RESERVE_SHARE_MAX * CLIENT_S)
    bound_ms = round((CLIENT_S - reserve_s) * 1000 + THINKING_MS)
    entries = cluster.entries()
    marked = {entry.provenance.session_id for entry in entries if entry.event_type == "DEGRADATION"}
    times = sorted(elapsed_ms for _, elapsed_ms in found.values())
    told = {input_id: result for input_id, (result, _) in found.items()}
    outcomes = Counter(result.outcome for result in told.values())
    heard = [{one.response, again[name].response, answer_text(entries, name)} for name, one in told.items()]
    return Row(
        way=way, turns=len(found), degraded=outcomes.pop("degraded", 0), other=dict(outcomes), bound_ms=bound_ms,
        p50_ms=round(statistics.median(times)), slowest_ms=round(times[-1]),
        over_bound=sum(elapsed_ms > bound_ms + SLACK_MS for elapsed_ms in times),
        unmarked=sum(result.session_id not in marked for result in told.values()),
        answers_wrong=sum(len(list_answers(entries, input_id)) != 1 for input_id in told),
        changed_afterwards=sum(len(texts) != 1 for texts in heard), record=cluster.record_verdict(),
    )  # fmt: skip


def main() -> None:
    given = arguments(__doc__, write=True, turns=50, ways=(",".join(WAYS), "some of them, by commas")).parse_args()
    rows: list[Row] = []
    for way in given.ways.split(","):
        rows.append(run_way(way, given.turns))
        print(rows[-1], file=sys.stderr, flush=True)
    how = f"each model call thinks {THINKING_MS} ms; a client waits {CLIENT_S:g} s; {SLACK_MS} ms of slack"
    sys.exit(judged(given, rows, name="supervisor away", how=how))


if __name__ == "__main__":
    main()
