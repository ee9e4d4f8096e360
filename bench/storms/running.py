"""A cluster in one storm after the other: everybody asks, the faults come, everybody is answered, nobody is left behind."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.cluster import eventually, family_in
from bench.following import follow
from bench.outside import asking_for, with_outside
from bench.storms.left import Left
from bench.storms.plan import Plan
from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import CommandVerdict, FollowUp, HostCommand, ProcessTurn, SessionCommand, TurnResult
from hobus.bus.port import Bus
from hobus.launch.cluster import identity
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.run_file import RunFile, find_gone
from hobus.launch.console.errors import CommandError
from hobus.launch.sessions.turns import Watch, process_turn
from hobus.ledger_service.segment import DIRECTORY

PEOPLE = 8
TOOLS = ("charge_keyed", "charge_unkeyed")
DEADLINE_S = 30.0
THINKING_MS = 200
WHOLE_S = 60.0
LEFT_S = 60.0
"""What is not as it should be by then never will be; what is too long, `verdict.py` says."""
RETRY_S = 0.2
SCALE = ("ho1=2", "ho2=2")
SEGMENT_BYTES = 512 << 10
"""So small that a storm's questions fill one."""
MOMENT_S_MAX = 30.0
"""A moment that has not come by then is given up, and the faults come all the same."""
SETTINGS = {
    "gateway.providers.offline.latency_ms": THINKING_MS,
    "ho2.classify": False,
    "launcher.crash_budget": 1_000_000,
    "launcher.healthy_after_ms": 2000,  # each storm is the first misfortune of its victims
    "ledger.segment_bytes": SEGMENT_BYTES,
}


@dataclass(slots=True)
class Asked:
    """One question and what came of it; times on the monotonic clock."""

    input_id: str
    turn: ProcessTurn
    tool: str
    asked_at: float
    answered_at: float = 0.0
    result: TurnResult | None = None
    first_told: str = ""  # why there was no answer at first
    asked_again: int = 0
    asked_anew: int = 0  # of a cluster that had to be started again

    @property
    def is_answered(self) -> bool:
        """In full or marked as degraded."""
        return self.result is not None and self.result.outcome in ("success", "degraded")


@dataclass(slots=True)
class Seen:
    """What was seen of one storm while it went on; the record says the rest."""

    plan: Plan
    asked: list[Asked] = field(default_factory=list[Asked])
    is_over: bool = False  # the faults have all come, and whoever was frozen goes on
    struck: list[str] = field(default_factory=list)  # who was hit, in order, as the launcher names them
    struck_at: float = 0.0  # the first fault
    last_at: float = 0.0  # the last one
    whole_after_s: float = -1.0  # from the last fault until everybody is ready again; -1: never
    undriven: list[str] = field(default_factory=list)  # inputs that stay open
    left_after_s: float = 0.0  # from everybody's answer until nothing was open
    weights: dict[str, tuple[int, int]] = field(default_factory=dict)  # role -> bytes of its own, descriptors


class Weather:
    """The cluster of a row of storms and its eight people."""

    def __init__(self, directory: Path, *, seed: int) -> None:
        self.outside, self.cluster = with_outside(directory, SETTINGS)
        self.family: set[psutil.Process] = set()
        self.shown: set[str] = set()
        self.left = Left()
        self._draw = random.Random(seed)
        self._sessions: list[str | None] = [None] * (PEOPLE + 1)
        self._number = 0

    def up(self) -> None:
        """Everybody is ready."""
        self.cluster.up("--detach", *(word for one in SCALE for word in ("--scale", one)))
        self._note_family()

    async def storm(self, plan: Plan) -> Seen:
        """One of them, from the questions until nothing is open and everybody runs."""
        self._number += 1
        seen = Seen(plan)
        is_over = asyncio.Event()
        following = asyncio.create_task(follow(self.cluster, is_over.is_set, self._take))
        try:
            await self._ask_all(seen)
            if plan.ends_the_cluster:
                await asyncio.to_thread(self._up_again)
            await self._whole(seen)
            await self._ask_again(seen)
            await self._left(seen)
        finally:
            self.outside.release()
            is_over.set()
            await following
        self._note_family()
        self._weigh(seen)
        return seen

    def down(self) -> list[str]:
        """Stopped in order; whoever outlived that, which nobody may."""
        self._note_family()
        assert self.cluster("down").code == 0
        return sorted(f"{one.pid}" for one in self.family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE)

    # --- people -------------------------------------------------------------------------------------------------------

    async def _ask_all(self, seen: Seen) -> None:
        place = self.cluster.place
        if seen.plan.at_effect:
            self.outside.hold()
        async with (
            connect_bus(place, "door") as door,
            connect_bus(place, "operator") as operator,
            asyncio.TaskGroup() as group,
        ):
            for number in range(PEOPLE):
                group.create_task(self._person(door, number, seen))
            group.create_task(self._strike(seen))
            group.create_task(self._leave_alone(door))
            if (session_id := self._sessions[0]) is not None:
                group.create_task(self._follow_up(operator, session_id))

    async def _person(self, door: Bus, number: int, seen: Seen) -> None:
        """Question after question until the faults are over; without an answer, no further one."""
        for count in range(1_000_000):
            tool = TOOLS[number % len(TOOLS)]
            input_id = f"storm-{self._number}-{number}-{count}"
            turn = ProcessTurn(session_id=self._sessions[number], input_id=input_id, text=asking_for(tool))
            one = Asked(input_id, turn, tool, time.monotonic())
            seen.asked.append(one)
            await self._asked(door, one, seen)
            if one.result is not None:
                self._sessions[number] = one.result.session_id
            if seen.is_over or not one.is_answered:
                return

    async def _asked(self, door: Bus, one: Asked, seen: Seen) -> None:
        watch = Watch(lambda: self._gone(seen), RETRY_S)
        try:
            one.result = await process_turn(
                door, one.turn, timeout_s=DEADLINE_S, retry_interval_s=RETRY_S, watch=watch, waits_for_its_turn=True
            )
        except (RuntimeFault, CommandError) as fault:
            one.first_told = f"{type(fault).__name__}: {fault}"[:200]
        else:
            if not one.is_answered:
                one.first_told = f"{one.result.code}: {one.result.response}"[:200]
        one.answered_at = time.monotonic()

    async def _leave_alone(self, door: Bus) -> None:
        """Somebody asks and takes the request back: the run goes on, and nobody waits for it."""
        input_id = f"storm-{self._number}-left"
        turn = ProcessTurn(session_id=self._sessions[PEOPLE], input_id=input_id, text=asking_for("charge_keyed"))
        try:
            async with asyncio.timeout(0.1 + self._draw.random() / 2):
                result = await process_turn(door, turn, timeout_s=DEADLINE_S, retry_interval_s=RETRY_S)
                self._sessions[PEOPLE] = result.session_id
        except (TimeoutError, RuntimeFault):
            pass

    async def _follow_up(self, operator: Bus, session_id: str) -> None:
        """The first person says something more, and waits for no answer to it."""
        command = HostCommand(
            command_id=f"storm-{self._number}", issued_at=format_iso(SystemClock().now()),
            command=FollowUp(text=asking_for("charge_keyed")),
        )  # fmt: skip
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            try:
                await operator.request(
                    "ho2", SessionCommand(session_id=session_id, command=command), expect=CommandVerdict,
                    timeout_s=until - time.monotonic(), key=session_id,
                )  # fmt: skip
                return
            except RuntimeFault as fault:
                if not fault.retryable:
                    return  # nothing was promised; what the record has of it is looked at all the same
            await asyncio.sleep(RETRY_S)
            if not self.cluster.living():
                return

    async def _ask_again(self, seen: Seen) -> None:
        """Whoever has no answer asks under the same input id, as the error says; so do all, for the same answer."""
        async with connect_bus(self.cluster.place, "door") as door:
            for one in (asked for asked in seen.asked if not asked.is_answered):
                one.asked_anew += seen.plan.ends_the_cluster
                one.asked_again += not seen.plan.ends_the_cluster
                try:
                    one.result = await process_turn(
                        door, one.turn, timeout_s=DEADLINE_S, retry_interval_s=RETRY_S, waits_for_its_turn=True
                    )
                except RuntimeFault:
                    continue
                self._sessions[int(one.input_id.split("-")[2])] = one.result.session_id

    def _gone(self, seen: Seen) -> CommandError | None:
        return find_gone(self.cluster.home) if seen.plan.ends_the_cluster else None  # as `hobus ask` looks

    # --- faults -------------------------------------------------------------------------------------------------------

    async def _strike(self, seen: Seen) -> None:
        """The faults of the plan, at their moment; whoever was frozen goes on, or dies, after its time."""
        plan = seen.plan
        meanwhile = asyncio.create_task(self._during(plan)) if plan.during else None
        try:
            async with asyncio.timeout(MOMENT_S_MAX):
                await self._moment(seen)
        except TimeoutError:
            seen.struck.append("(its moment did not come)")
        thawing: list[asyncio.Task[None]] = []
        for number, (actor, pid, mark) in enumerate(_victims(self.cluster.run(), plan, self._draw)):
            if number and plan.apart_s:
                await asyncio.sleep(plan.apart_s)
            is_kill = number < len(plan.killed)
            is_hit = identity.end(pid, mark, signal.SIGKILL if is_kill else signal.SIGSTOP)
            now = time.monotonic()
            seen.struck_at, seen.last_at = seen.struck_at or now, now
            seen.struck.append(f"{actor}{'' if is_hit else ' (gone)'}")
            if not is_kill:
                thawing.append(asyncio.create_task(_thaw(plan, pid, mark)))
        self.outside.release()
        for task in thawing:
            await task
            seen.last_at = time.monotonic()
        seen.is_over = True
        if meanwhile is not None:
            await meanwhile

    async def _moment(self, seen: Seen) -> None:
        """When the first fault is due."""
        plan = seen.plan
        if plan.at_effect:
            before = self._effects()
            while self._effects() == before:
                await asyncio.sleep(0.005)
        elif plan.during == "segment":
            segments = self._segments()
            while self._segments() == segments:
                await asyncio.sleep(0.001)
        elif plan.during == "snapshot":  # it is written once the reply is out
            while not any(one.answered_at for one in seen.asked):
                await asyncio.sleep(0.001)
            await asyncio.sleep(plan.after_s / 20)
        else:
            await asyncio.sleep(plan.after_s)

    def _effects(self) -> int:
        return sum(len(self.outside.effects(tool)) for tool in TOOLS)

    def _segments(self) -> set[str]:
        return {path.name for path in (self.cluster.home.ledger / DIRECTORY).iterdir()}

    async def _during(self, plan: Plan) -> None:
        """What an operator does meanwhile, and takes back afterwards."""
        to_do: dict[str, tuple[tuple[str, ...], ...]] = {
            "scale": (("scale", "ho1=3", "ho2=3"), ("scale", *SCALE)),
            "restart": (("restart", "ho2/1"), ("restart", "ho1/1")),
            "drain": (("drain", "ho2/1"), ("restart", "ho2/1")),
        }
        for words in to_do.get(plan.during, ()):
            await asyncio.to_thread(self.cluster, *words)

    async def _whole(self, seen: Seen) -> None:
        """Everybody is ready again, in a cluster that had to be started again as soon as `up` says so."""
        until = time.monotonic() + WHOLE_S
        while time.monotonic() < until:
            run = await asyncio.to_thread(self.cluster.run)
            if run.zygote_pid and run.children and all(row.state == "ready" for row in run.children):
                seen.whole_after_s = time.monotonic() - seen.last_at
                return
            await asyncio.sleep(0.02)

    def _up_again(self) -> None:
        eventually(lambda: not self.cluster.living(), within_s=DEADLINE_S)
        self._note_family()
        self.up()

    # --- what is left -------------------------------------------------------------------------------------------------

    def _take(self, entry: Entry) -> None:
        """The follower begins anew with every storm; what was taken before is passed over."""
        if entry.submission_id not in self.shown:
            self.shown.add(entry.submission_id)
            self.left.take(entry)

    async def _left(self, seen: Seen) -> None:
        """Until nothing is open, or too long."""
        began = time.monotonic()
        while (undriven := self.left.open()) and time.monotonic() < began + LEFT_S:
            await asyncio.sleep(0.02)
        seen.undriven, seen.left_after_s = undriven, time.monotonic() - began

    def _note_family(self) -> None:
        self.family.update(family_in(self.cluster.home))

    def _weigh(self, seen: Seen) -> None:
        """Memory of its own and descriptors of each role, the heaviest process of it."""
        run = self.cluster.run()
        for one in run.processes():
            role = one.actor.partition("/")[0]
            try:
                process = psutil.Process(one.pid)
                weight = (process.memory_full_info().uss, process.num_fds())
            except psutil.Error:
                continue
            known = seen.weights.get(role, (0, 0))
            seen.weights[role] = (max(known[0], weight[0]), max(known[1], weight[1]))


async def _thaw(plan: Plan, pid: int, mark: str) -> None:
    await asyncio.sleep(plan.frozen_s)
    identity.end(pid, mark, signal.SIGKILL if plan.frozen_die else signal.SIGCONT)


def _victims(run: RunFile, plan: Plan, draw: random.Random) -> list[tuple[str, int, str]]:
    """Name, pid and mark of each that is hit, in the plan's order; a role that is named twice loses two of its processes."""
    free: dict[str, list[tuple[str, int, str]]] = {}
    for one in run.processes():
        free.setdefault(one.actor.partition("/")[0], []).append((one.actor, one.pid, one.mark))
    found: list[tuple[str, int, str]] = []
    for role in (*plan.killed, *plan.frozen):
        of_role = free.get(role, [])
        if of_role:
            found.append(of_role.pop(draw.randrange(len(of_role))))
        else:
            found.append((role, 0, ""))
    return found
