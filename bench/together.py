"""Deaths together: how long nobody is answered when the zygote dies at the same moment as others, under 8 sessions.

usage: python -m bench.together [--rounds 1] [--sessions 8]

The zygote dies by SIGKILL alone, with every other process, with every pair of others; then broker and ledger with a zygote
that is frozen; one set after the other, while so many sessions ask without a pause. `ready`: until everybody is ready again, whoever died in another incarnation, by the run file. `answered`:
until a turn that was asked behind the kill has its answer. `fresh`: processes that the launcher had to start as fresh
interpreters. At the end the launcher is stopped, broker and ledger are killed, and what the others use of a core
meanwhile stands beside what they use at rest.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections import Counter
from typing import Any

import psutil

from bench.cluster import Cluster, cluster
from bench.launch import SETTINGS, spread
from bench.report import arguments, machine
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster import identity
from hobus.launch.cluster.client import connected
from hobus.launch.launcher.supervision import START_ORDER

FROZEN = "frozen zygote"

KINDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "the zygote alone": (("zygote",),),
    "zygote and one other": tuple((role, "zygote") for role in START_ORDER),
    "zygote and two others": tuple((*pair, "zygote") for pair in itertools.combinations(START_ORDER, 2)),
    "of these broker, ledger, zygote": (("broker", "ledger", "zygote"),),
    "broker, ledger; the zygote frozen": (("broker", "ledger", FROZEN),),
}
GOAL_S = {"quiet": 1.0, "busy": 3.0}
AWAY_S = 4.0
QUESTION = "what packages are installed?"
DEADLINE_S = 30.0
LOOK_S = 0.005
PAUSE_S = 1.0


def victims(up: Cluster, names: tuple[str, ...]) -> tuple[list[tuple[int, str]], dict[str, str]]:
    """Pid and start mark of each, and actor -> instance of those that are members."""
    run = up.run()
    pids: list[tuple[int, str]] = []
    members: dict[str, str] = {}
    for name in names:
        if name in ("zygote", FROZEN):
            pids.append((run.zygote_pid, run.zygote_mark))
        else:
            row = next(row for row in run.children if row.role == name)
            pids.append((row.pid, row.mark))
            members[row.actor] = row.instance
    return pids, members


def fresh_count(up: Cluster) -> int:
    """Processes of this run that were started as fresh interpreters, by the launcher's log."""
    return up.home.log("launcher").read_text(encoding="utf-8").count('"started_fresh"')


async def ask(door: Bus) -> str:
    """The outcome of one turn; asked again under its id, as its error says, until there is an answer."""
    input_id = door.new_id()
    while True:
        try:
            turn = ProcessTurn(text=QUESTION, input_id=input_id)
            result = await door.request("host", turn, expect=TurnResult, timeout_s=DEADLINE_S)
        except RuntimeFault:
            await asyncio.sleep(0.1)
        else:
            return result.outcome


async def strike(up: Cluster, door: Bus, names: tuple[str, ...]) -> dict[str, float]:
    """One set dies; what came of it."""
    pids, members = victims(up, names)
    fresh_before = fresh_count(up)
    began_at = time.perf_counter()
    if FROZEN in names:
        identity.end(*pids.pop(), signal.SIGSTOP)
    for pid, mark in pids:
        identity.end(pid, mark, signal.SIGKILL)
    asked = asyncio.create_task(ask(door))
    while not _is_whole(up, members):
        await asyncio.sleep(LOOK_S)
    ready_s = time.perf_counter() - began_at
    await asked
    answered_s = time.perf_counter() - began_at
    return {"ready_s": ready_s, "answered_s": answered_s, "fresh": fresh_count(up) - fresh_before}


def _is_whole(up: Cluster, members: dict[str, str]) -> bool:
    rows = up.run().children
    return all(row.state == "ready" and row.instance != members.get(row.actor) for row in rows)


async def _keep_asking(door: Bus, outcomes: Counter[str]) -> None:
    while True:
        outcomes[await ask(door)] += 1


async def measure_under_load(up: Cluster, sessions: int, rounds: int) -> tuple[dict[str, Any], Counter[str]]:
    """A row per kind of set, and the outcomes of the turns meanwhile."""
    outcomes: Counter[str] = Counter()
    rows: dict[str, list[dict[str, float]]] = {}
    async with connected(up.place, "door") as door:
        people = [asyncio.create_task(_keep_asking(door, outcomes)) for _ in range(sessions)]
        try:
            await asyncio.sleep(PAUSE_S)
            for _ in range(rounds):
                for kind, sets in KINDS.items():
                    for names in sets:
                        found = await strike(up, door, names)
                        rows.setdefault(kind, []).append(found)
                        print("+".join(names), {name: round(value, 3) for name, value in found.items()}, flush=True)
                        await asyncio.sleep(PAUSE_S)
        finally:
            for person in people:
                person.cancel()
    told = {
        name: {field: spread([row[field] for row in found], 3) for field in ("ready_s", "answered_s", "fresh")}
        for name, found in rows.items()
    }
    return told, outcomes


def cores_without(up: Cluster, roles: tuple[str, ...]) -> tuple[float, float]:
    """What all others use of a core at rest, and while these are dead and the launcher is stopped."""
    run = up.run()
    others = [psutil.Process(row.pid) for row in run.children if row.role not in roles]

    def used() -> float:
        before = sum(sum(one.cpu_times()[:2]) for one in others)
        time.sleep(AWAY_S)
        return (sum(sum(one.cpu_times()[:2]) for one in others) - before) / AWAY_S

    at_rest, launcher = used(), psutil.Process(run.launcher_pid)
    launcher.suspend()
    try:
        for row in run.children:
            if row.role in roles:
                identity.end(row.pid, row.mark, signal.SIGKILL)
        return at_rest, used()
    finally:
        launcher.resume()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=8)
    options = parser.parse_args()
    with cluster(dict(SETTINGS)) as up:
        rows, outcomes = asyncio.run(measure_under_load(up, options.sessions, options.rounds))
        time.sleep(PAUSE_S)
        at_rest, away = cores_without(up, ("broker", "ledger"))
    print(f"machine {machine()}; goals {GOAL_S}")
    for name, row in rows.items():
        print(f"{name:34} {row}")
    print(f"turns meanwhile: {dict(outcomes)}")
    print(f"the other processes use {at_rest:.3f} of a core at rest, {away:.3f} without broker and ledger")


if __name__ == "__main__":
    main()
