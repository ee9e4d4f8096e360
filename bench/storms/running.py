"""A cluster in one storm after the other: everybody asks, the faults come, everybody is answered, nobody is left behind."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.cluster import alive, answered, eventually, family_in
from bench.outside import asking_for, with_outside
from bench.people import CHARGES, DEADLINE_S, Asked, Looked, ask, follow, looked_at
from bench.random_kills import SCALE
from bench.storms.plan import Plan
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import follow_up_input
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import FollowUp, ProcessTurn
from hobus.bus.port import Bus
from hobus.bus.record.session_facts import RUN_ENDS
from hobus.launch.cluster import identity
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.commands import Fences, make_host_command, send_command
from hobus.ledger_service.segment import DIRECTORY

PEOPLE = 8
THINKING_MS = 200
GIVEN_UP_S = 60.0  # what is not as it should be by then never will be
LATE_S, WHOLE_S, LEFT_S = 10.0, 30.0, 15.0
"""Too long is: from the first fault, or the question, to the answer; from the last fault until everybody is ready again; and
from then until what nobody waits for is over."""
MOMENT_S_MAX = 30.0  # a moment that has not come by then is given up, and the faults come all the same
SETTINGS = {
    "gateway.providers.offline.latency_ms": THINKING_MS,
    "ho2.classify": False,
    "launcher.crash_budget": 1_000_000,
    "launcher.healthy_after_ms": 2000,  # each storm is the first misfortune of its victims
    "ledger.segment_bytes": 512 << 10,  # so small that a storm's questions fill one
}


@dataclass(slots=True)
class Storm:
    """What was seen of one storm; the record says the rest."""

    plan: Plan
    asked: list[Asked] = field(default_factory=list[Asked])
    is_over: bool = False  # the faults have all come, and whoever was frozen goes on
    struck: list[str] = field(default_factory=list)  # who was hit, in order, as the launcher names them
    struck_at: float = 0.0  # the first fault
    last_at: float = 0.0  # the last one
    whole_after_s: float = -1.0  # -1: never
    undriven: list[str] = field(default_factory=list)  # inputs that stay open
    left_after_s: float = 0.0

    @property
    def waited_s(self) -> dict[str, float]:
        """From the first fault, or the question, to the answer, of those that were answered after it."""
        after = (one for one in self.asked if one.answered_at > self.struck_at)
        return {one.turn.input_id: one.answered_at - max(self.struck_at, one.asked_at) for one in after}

    @property
    def slow(self) -> list[str]:
        """What took too long: a fault on a machine that has the time."""
        found: list[str] = []
        if not self.plan.ends_the_cluster:
            found += [f"{who} waited {waited_s:.1f} s" for who, waited_s in self.waited_s.items() if waited_s > LATE_S]
            found += [f"somebody had to ask again: {one.told}" for one in self.asked if one.told]
        if not 0 <= self.whole_after_s <= WHOLE_S:
            found.append("somebody was not ready again" + (" in time" if self.whole_after_s >= 0 else ""))
        if self.left_after_s > LEFT_S:
            found.append(f"what nobody waited for was over only after {self.left_after_s:.1f} s")
        return found

    def figures(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """As they stand in the results."""
        inputs = {one.turn.input_id for one in self.asked}
        requested = [e for e in entries if e.event_type == "RunRequested"]
        runs = {_run_of(one) for one in requested if one.submission_id.rpartition("/")[2] in inputs}
        reasons = Counter(f"{e.event_type} {e.reason}" for e in entries if e.reason and _run_of(e) in runs)
        waited_s = self.waited_s.values() or [0.0]
        return {
            "name": self.plan.name, "kind": self.plan.kind, "struck": self.struck,
            "outcomes": dict(Counter(one.first for one in self.asked)), "p50_s": round(statistics.median(waited_s), 2),
            "slowest_s": round(max(waited_s), 2), "asked_again": sum(bool(one.told) for one in self.asked),
            "whole_after_s": round(self.whole_after_s, 2), "left_after_s": round(self.left_after_s, 2),
            "model_calls_lost": reasons["PROMPT_FAILED UNKNOWN_OUTCOME"], "in_doubt": reasons["WO_FAILED unknown_outcome"],
        }  # fmt: skip


def _run_of(entry: Entry) -> tuple[str, int]:
    return entry.provenance.session_id, entry.provenance.run_seq


class Left:
    """Which inputs are open by the record: a run that is not over, a follow-up (the only command) that has not begun."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], str] = {}  # (session, run) -> `<session>/<input>`
        self._waiting: set[str] = set()

    def take(self, entry: Entry) -> None:
        about, session_id = entry.submission_id.partition(":")[2], entry.provenance.session_id
        name = f"{session_id}/{follow_up_input(about.partition('/')[2])}"
        match entry.event_type:
            case "RunRequested":
                self._runs[_run_of(entry)] = about
                self._waiting.discard(about)
            case "TurnDegraded":
                self._runs = {run: of for run, of in self._runs.items() if of != about}
            case "HostCommandReceived":
                self._waiting.add(name)
            case "HostCommandRejected":
                self._waiting.discard(name)
            case _ if entry.event_type in RUN_ENDS:
                self._runs.pop(_run_of(entry), None)
            case _:
                pass

    def open(self) -> list[str]:
        return sorted([*self._runs.values(), *(f"{name} (not begun)" for name in self._waiting)])


class Weather:
    def __init__(self, directory: Path, *, seed: int) -> None:
        self.outside, self.cluster = with_outside(directory, SETTINGS)
        self.family: set[psutil.Process] = set()
        self.shown: set[str] = set()
        self.left = Left()
        self._draw = random.Random(seed)
        self._sessions: list[str | None] = [None] * (PEOPLE + 1)
        self._number = 0

    def up(self) -> None:
        self.cluster.up("--detach", *SCALE)
        self._note_family()

    async def storm(self, plan: Plan) -> Storm:
        """One of them, from the questions until nothing is open and everybody runs."""
        self._number += 1
        storm = Storm(plan)
        is_over = asyncio.Event()
        following = asyncio.create_task(follow(self.cluster, is_over.is_set, self._take))
        try:
            await self._ask_all(storm)
            if plan.ends_the_cluster:
                await asyncio.to_thread(self._up_again)
            await self._whole(storm)
            for one in storm.asked:
                if not one.is_answered:
                    await ask(self.cluster.place, one)
            await self._left(storm)
        finally:
            self.outside.release()
            is_over.set()
            await following
        self._note_family()
        slowest_s = max(storm.waited_s.values(), default=0.0)
        said = f"{plan.name}: {len(storm.asked)} questions, slowest {slowest_s:.1f} s, {storm.slow + storm.undriven}"
        print(said, file=sys.stderr, flush=True)
        return storm

    def down(self) -> list[str]:
        """Stopped in order; whoever outlived that, which nobody may."""
        self._note_family()
        assert self.cluster("down").code == 0
        return sorted(map(str, alive([*self.family])))

    async def _ask_all(self, storm: Storm) -> None:
        place = self.cluster.place
        if storm.plan.at_effect:
            self.outside.hold()
        async with connect_bus(place, "door") as door, asyncio.TaskGroup() as group:
            for number in range(PEOPLE):
                group.create_task(self._person(number, storm))
            group.create_task(self._strike(storm))
            group.create_task(self._leave_alone(door))
            if (session_id := self._sessions[0]) is not None:
                group.create_task(self._follow_up(place, session_id))

    async def _person(self, number: int, storm: Storm) -> None:
        """Question after question until the faults are over; without an answer, no further one."""
        place, text = self.cluster.place, asking_for(CHARGES[number % len(CHARGES)])
        for count in itertools.count():
            input_id = f"storm-{self._number}-{number}-{count}"
            turn = ProcessTurn(session_id=self._sessions[number], input_id=input_id, text=text)
            one = Asked(turn, time.monotonic())
            storm.asked.append(one)
            await ask(place, one)
            if one.result is not None:
                self._sessions[number] = one.result.session_id
            if storm.is_over or not one.is_answered:
                return

    async def _leave_alone(self, door: Bus) -> None:
        """Somebody asks and takes the request back: the run goes on, and nobody waits for it."""
        input_id = f"storm-{self._number}-left"
        of = {"input_id": input_id, "session_id": self._sessions[PEOPLE], "timeout_s": DEADLINE_S}
        with suppress(TimeoutError, RuntimeFault):
            async with asyncio.timeout(0.1 + self._draw.random() / 2):
                self._sessions[PEOPLE] = (await answered(door, asking_for("charge_keyed"), **of)).session_id

    async def _follow_up(self, place: Place, session_id: str) -> None:
        """To whom is refused nothing was promised; what the record has of it is looked at all the same."""
        follow_up = FollowUp(text=asking_for("charge_keyed"))
        command = make_host_command(session_id, follow_up, Fences(), f"storm-{self._number}")
        with suppress(RuntimeFault, CommandError):
            await send_command(place, session_id, command, timeout_s=DEADLINE_S)

    async def _strike(self, storm: Storm) -> None:
        """The faults of the plan, at their moment; whoever was frozen goes on, or dies, after its time."""
        plan = storm.plan
        meanwhile = asyncio.create_task(self._during(plan)) if plan.during else None
        try:
            async with asyncio.timeout(MOMENT_S_MAX):
                await self._moment(storm)
        except TimeoutError:
            storm.struck.append("(its moment did not come)")
        thawing: list[asyncio.Task[None]] = []
        for number, (actor, pid, mark) in enumerate(self._victims(plan)):
            if number and plan.apart_s:
                await asyncio.sleep(plan.apart_s)
            is_kill = number < len(plan.killed)
            is_hit = identity.end(pid, mark, signal.SIGKILL if is_kill else signal.SIGSTOP)
            storm.last_at = time.monotonic()
            storm.struck_at = storm.struck_at or storm.last_at
            storm.struck.append(f"{actor}{'' if is_hit else ' (gone)'}")
            if not is_kill:
                thawing.append(asyncio.create_task(_thaw(plan, pid, mark)))
        self.outside.release()
        for task in thawing:
            await task
            storm.last_at = time.monotonic()
        storm.is_over = True
        if meanwhile is not None:
            await meanwhile

    async def _moment(self, storm: Storm) -> None:
        """When the first fault is due."""
        plan = storm.plan
        if plan.at_effect:
            await _changed(lambda: sum(len(self.outside.effects(tool)) for tool in CHARGES))
        elif plan.during == "segment":
            await _changed(lambda: {path.name for path in (self.cluster.home.ledger / DIRECTORY).iterdir()})
        elif plan.during == "snapshot":  # it is written once the reply is out
            await _changed(lambda: any(one.answered_at for one in storm.asked))
            await asyncio.sleep(plan.after_s / 20)
        else:
            await asyncio.sleep(plan.after_s)

    async def _during(self, plan: Plan) -> None:
        """What an operator does meanwhile, and takes back afterwards."""
        to_do = {
            "scale": ("scale ho1=3 ho2=3", "scale ho1=2 ho2=2"), "restart": ("restart ho2/1", "restart ho1/1"),
            "drain": ("drain ho2/1", "restart ho2/1"),
        }  # fmt: skip
        for words in to_do.get(plan.during, ()):
            await asyncio.to_thread(self.cluster, *words.split())

    def _victims(self, plan: Plan) -> list[tuple[str, int, str]]:
        """Name, pid and mark of each that is hit, in the plan's order; who is named twice loses two of its processes."""
        free: dict[str, list[tuple[str, int, str]]] = {}
        for one in self.cluster.run().processes():
            free.setdefault(one.actor.partition("/")[0], []).append((one.actor, one.pid, one.mark))
        there = ((role, free.get(role, [])) for role in (*plan.killed, *plan.frozen))
        return [of.pop(self._draw.randrange(len(of))) if of else (role, 0, "") for role, of in there]

    async def _whole(self, storm: Storm) -> None:
        """Everybody is ready again, in a cluster that had to be started again as soon as `up` says so."""
        until = time.monotonic() + GIVEN_UP_S
        while time.monotonic() < until:
            run = await asyncio.to_thread(self.cluster.run)
            if run.zygote_pid and run.children and all(row.state == "ready" for row in run.children):
                storm.whole_after_s = time.monotonic() - storm.last_at
                return
            await asyncio.sleep(0.02)

    def _up_again(self) -> None:
        eventually(lambda: not self.cluster.living(), within_s=DEADLINE_S)
        self._note_family()
        self.up()

    def _take(self, entry: Entry) -> None:
        """The follower begins anew with every storm; what was taken before is passed over."""
        if entry.submission_id not in self.shown:
            self.shown.add(entry.submission_id)
            self.left.take(entry)

    async def _left(self, storm: Storm) -> None:
        began = time.monotonic()
        while (undriven := self.left.open()) and time.monotonic() < began + GIVEN_UP_S:
            await asyncio.sleep(0.02)
        storm.undriven, storm.left_after_s = undriven, time.monotonic() - began

    def _note_family(self) -> None:
        self.family.update(family_in(self.cluster.home))


async def _changed(look: Callable[[], object]) -> None:
    before = look()
    while look() == before:
        await asyncio.sleep(0.001)


async def _thaw(plan: Plan, pid: int, mark: str) -> None:
    await asyncio.sleep(plan.frozen_s)
    identity.end(pid, mark, signal.SIGKILL if plan.frozen_die else signal.SIGCONT)


@dataclass(slots=True)
class Row:
    """A row of storms in one cluster."""

    storms: list[Storm]
    looked: Looked
    shown: int
    figures: list[dict[str, Any]]

    @property
    def broken(self) -> list[str]:
        """What must not be on any machine, however slow."""
        return self.looked.faults + self.of_each("undriven")

    def of_each(self, what: str) -> list[str]:
        return [f"{storm.plan.name}: {what}: {one}" for storm in self.storms for one in getattr(storm, what)]


def run_row(directory: Path, wanted: Sequence[Plan], *, seed: int) -> Row:
    """These storms in one cluster; everything that it started has ended when this returns."""
    weather = Weather(directory, seed=seed)
    try:
        weather.up()
        storms = [asyncio.run(weather.storm(plan)) for plan in wanted]
        outlived = weather.down()
        asked = [one for storm in storms for one in storm.asked]
        looked = looked_at(weather.cluster, weather.outside, asked, shown=weather.shown)
        looked.wrong["outlived the cluster"] = outlived
        entries = weather.cluster.entries()
        return Row(storms, looked, len(weather.shown), [storm.figures(entries) for storm in storms])
    finally:
        weather.outside.release()
        weather.cluster.end()
