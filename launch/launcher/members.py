"""The members of a running cluster and their processes: events in, effects carried out, commands taken.

Rules are in `supervision.py`; here are the processes and the timers.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import structlog
from msgspec.structs import replace

from hobus.bus.errors import BusError
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Drain, InstanceLost, ServiceGivenUp
from hobus.bus.port import Clock
from hobus.bus.zeromq import tokens
from hobus.config.sections.processes import LauncherConfig
from hobus.launch.cluster.home import Home
from hobus.launch.launcher.children import Child
from hobus.launch.launcher.control import ELSEWHERE, LeaveCommand, ScaleCommand
from hobus.launch.launcher.listening import DoorSocket
from hobus.launch.launcher.options import SCALABLE, explain_too_many
from hobus.launch.launcher.spawner import ProcessNursery
from hobus.launch.launcher.status import Board
from hobus.launch.launcher.supervision import (
    FINISHES_BY_ITSELF,
    START_ORDER,
    Born,
    DrainAsked,
    Effect,
    Exited,
    Happening,
    LeaveAsked,
    Member,
    Reported,
    RetryDue,
    Spawned,
    SpawnFailed,
    apply,
    change_to,
    get_number,
    list_given_up,
)
from hobus.launch.limits import STARTING_MAX
from hobus.launch.logs import tail
from hobus.launch.process.liveness import FINISH
from hobus.launch.process.options import ProcessOptions

DOOR_STATES = ("starting", "ready", "degraded", "backoff")
"""Of a door that takes connections, or soon will."""
_log = structlog.get_logger()


class Crew:
    """The members and their processes. Every change goes through `happened`; the run file follows."""

    def __init__(  # noqa: PLR0913 - what a member's process is made of
        self,
        members: list[Member],
        *,
        home: Home,
        config: LauncherConfig,
        clock: Clock,
        board: Board,
        nursery: ProcessNursery,
        door: DoorSocket,
        tell: Callable[[Message], None],
        given: Callable[[str], Mapping[str, str]],
        starting_max: int = STARTING_MAX,
    ) -> None:
        """Start nothing yet. `tell`: a word for the broker, sent in this order when it can be.

        `given`: variables of the user's environment that processes of a role get.
        """
        self.members = {member.actor: member for member in members}
        self.children: dict[str, Child] = {}
        self.is_news = asyncio.Event()
        """Somebody's state has changed since it was last cleared."""
        self._changed: set[str] = set()
        """Of these the run file does not say yet how they are."""
        self._home = home
        self._config = config
        self._starting_max = starting_max
        self._clock = clock
        self._board = board
        self._nursery = nursery
        self._door = door
        self._tell = tell
        self._given = given
        self._is_closing = False
        self.is_rolling = False
        """The configuration is being changed: places come and go by that alone."""

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self.members.values()))

    # --- commands -----------------------------------------------------------------------------------------------

    def require_open(self) -> None:
        """Raise BusError once no command is taken any more."""
        if self._is_closing:
            raise BusError("unavailable", "the cluster is being stopped")

    def take(self, command: ScaleCommand | LeaveCommand) -> None:
        """Begin what a command asks for, in one synchronous step. Raises BusError where it is refused.

        The run file says so before the command is answered: whoever gave it looks there next.
        """
        self.require_open()
        if not isinstance(command, ScaleCommand):
            self._leave(command)
        elif self.is_rolling:
            raise BusError("rejected", "the configuration is being reloaded: wait until that is done")
        else:
            self._scale(command.role, command.count)
        self._write()

    def _leave(self, command: LeaveCommand) -> None:
        actor = command.actor
        if actor.startswith(ELSEWHERE) and "@" in actor and command.then == "stay" and not command.kill:
            self._tell(Drain(instance=actor))  # the broker knows whether it is there
            return
        if actor not in self.members:
            raise BusError("not_found", f"there is no {actor} here")
        member = self.members[actor]
        if is_at_odds(member, command):
            raise BusError("rejected", f"another command is already under way for {actor}: wait until it is done")
        _log.info("command_taken", member=actor, then=command.then, kill=command.kill)
        self.happened(actor, LeaveAsked(command.then, self._clock.now(), kill=command.kill))

    def close(self) -> None:
        """Take no command any more, and start nobody who waits: the cluster stops."""
        self._is_closing = True
        for member in self:
            self.members[member.actor] = replace(member, is_queued=False)

    def _scale(self, role: str, count: int) -> None:
        if role not in SCALABLE:
            raise BusError("rejected", f"{role[:16]} cannot be scaled; roles with a number: {', '.join(SCALABLE)}")
        if all(member.role != role for member in self):
            raise BusError("rejected", "this cluster has no HTTP door: hobus up --http starts one")
        others = sum(member.role != role for member in self)
        if fault := explain_too_many(others + count, self._config):
            raise BusError("rejected", fault)
        change = change_to(self.members.values(), role, count)
        _log.info("scale_asked", role=role, count=count, new=change.new, back=change.back, leaving=change.leaving)
        self.add(role, change.new)
        for actor in change.back:
            self.happened(actor, LeaveAsked("start", self._clock.now()))
        for actor in reversed(change.leaving):
            self.happened(actor, LeaveAsked("remove", self._clock.now()))

    def add(self, role: str, actors: Sequence[str]) -> None:
        for actor in actors:
            self.members[actor] = Member(actor=actor, role=role)
        self._start_in_order()
        self.begin(actors)

    def has_room(self) -> bool:
        return not explain_too_many(len(self.members) + 1, self._config)

    def _start_in_order(self) -> None:
        order = {role: number for number, role in enumerate(START_ORDER)}
        rows = sorted(self.members.values(), key=lambda member: (order[member.role], get_number(member.actor)))
        self.members = {member.actor: member for member in rows}

    # --- events and effects -------------------------------------------------------------------------------------

    def happened(self, actor: str, event: Happening) -> None:
        """Carry out the effects of an event; news of a member that is no more has none."""
        before = self.members.get(actor)
        if before is None:
            return
        member, effects = apply(before, event, self._config)
        self.members[actor] = member
        if member.state != before.state:
            self._say_changed(before, member)
        elif member.state == "starting" and member.note not in ("", before.note) and not self._is_closing:
            self._board.report_under_way(member, self._clock.now())
        if member.silent_since and not before.silent_since and not self._is_closing:
            now = self._clock.now()
            silent_s = now - member.silent_since
            self._board.say(f"{actor} has stalled: no beat for {silent_s:.1f} s, frozen or cut off", now)
        for effect in effects:
            self._carry_out(actor, effect)
        if not isinstance(event, Reported):
            self._write_soon(actor)

    def _say_changed(self, before: Member, member: Member) -> None:
        _log.info("state_changed", member=member.actor, was=before.state, now=member.state, note=member.note)
        self.is_news.set()
        if member.role == "http" and not any(is_door_expected(one) for one in self):
            self._door.close()
        if before.state == "starting":
            asyncio.get_running_loop().call_soon(self.start_queued)
        if not self._is_closing:
            self._board.report_change(member, self._clock.now())

    def _write_soon(self, *actors: str) -> None:
        """Write once for all that happens in this round of the loop: with many members a run file takes its time."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._write)
        self._changed.update(actors)

    def _write(self) -> None:
        """Write the run file, but not only for those who follow a dead one: their births are told at once."""
        changed, self._changed = self._changed, set()
        if not all(self._is_following(actor) for actor in changed):
            self._board.write(self.members.values())

    def _is_following(self, actor: str) -> bool:
        """Return whether a dead member is being born anew; one that a command starts is awaited by its state."""
        member = self.members.get(actor)
        return member is not None and member.state == "starting" and member.history.streak > 0 and not member.pid

    def _carry_out(self, actor: str, effect: Effect) -> None:
        match effect.kind:
            case "spawn":
                self._start(actor)
            case "retry":
                loop, delay_s = asyncio.get_running_loop(), effect.at - self._clock.now()
                if delay_s > 0:
                    loop.call_later(delay_s, self.happened, actor, RetryDue())
                else:  # before the run file is written, which tells then of the new incarnation
                    loop.call_soon(self.happened, actor, RetryDue())
            case "kill":
                _log.warning("process_killed", member=actor, reason=effect.detail)
                self._board.say(f"{actor} is killed: {effect.detail}", self._clock.now())
                self.children[actor].kill_group()
            case "drain":
                self.children[actor].signal(signal.SIGTERM)
            case "remove":
                del self.members[actor]
                self.children.pop(actor, None)
            case "lost" | "gave_up" | "took_up" | "rest":
                if effect.kind == "rest" and self.members[actor].role in FINISHES_BY_ITSELF:
                    self.children[actor].signal(FINISH)
                for word in self._list_words(actor, effect):
                    self._tell(word)

    def _list_words(self, actor: str, effect: Effect) -> list[Message]:
        role = self.members[actor].role
        if effect.kind == "lost":
            return [InstanceLost(instance=effect.instance, exit=effect.detail)]
        if effect.kind == "gave_up":
            services = list_given_up(self.members.values())
            return [ServiceGivenUp(service=service, given_up=True) for service in services]
        if effect.kind == "took_up":
            return [ServiceGivenUp(service=role, given_up=False)]
        return [Drain(instance=effect.instance)] if role != "broker" else []

    def begin(self, actors: Iterable[str]) -> None:
        """Start these for the first time, in this order, and never more at once than `starting_max`.

        So many processes take the machine from nobody, least of all from whoever has to answer meanwhile.
        """
        queued = list(actors)
        for actor in queued:
            self.members[actor] = replace(self.members[actor], is_queued=True)
        self.start_queued()
        self._write_soon(*queued)

    def start_queued(self) -> None:
        """Start as many as there is room for; of each role one first."""
        while self._count_starting() < self._starting_max:
            queued = [member.actor for member in self if member.is_queued]
            if not queued:
                return
            self._spawn(min(queued, key=get_number))

    def _count_starting(self) -> int:
        """Return how many are starting; whoever has taken longer than a start may holds up nobody."""
        since = self._clock.now() - self._config.ready_timeout_ms / 1000
        return sum(member.state == "starting" and member.started_at > since for member in self)

    def _start(self, actor: str) -> None:
        """Start a member, at once if it has run before: it is missed."""
        if self.members[actor].instance:
            self._spawn(actor)
        else:
            self.begin([actor])

    def _spawn(self, actor: str) -> None:
        """Spawn a new incarnation under a new epoch and a new secret."""
        member = self.members[actor]
        instance = f"{actor}@{self._clock.new_id()[:8]}"
        options = ProcessOptions(member.role, instance, str(self._home.root), str(self._board.sockets))
        log = self._home.log(actor)
        begins_at = tail.measure_log(log)
        self._board.logs_begin_at.setdefault(actor, begins_at)
        refused = ""

        def on_born(child: Child) -> None:
            nonlocal refused
            self.happened(actor, Born(instance, child.pid, child.mark))
            try:
                child.say(self._given(member.role), tokens.mint(self._home.run, instance, member.role, child.pid))
            except OSError as error:
                _log.warning("no_token", member=actor, reason=error.strerror)
                refused = f"no token can be written for it: {error.strerror}"
                child.kill_group()

        def on_gone(how: str) -> None:
            tokens.revoke(self._home.run, instance)
            # Who was killed has no last words of its own; who left by itself says why in its log.
            said = refused or (tail.find_reason(log, start=begins_at) if how.startswith("exit") else "")
            self.happened(actor, Exited(instance, how, self._clock.now(), self._clock.random(), said))

        self.happened(actor, Spawned(instance, self._clock.now()))
        try:
            listening = (self._door.descriptor(),) if member.role == "http" else ()
            self.children[actor] = self._nursery.start(
                options, log=log, on_born=on_born, on_exit=on_gone, listening_fds=listening
            )
        except OSError as error:
            self.happened(actor, SpawnFailed(error.strerror or "", self._clock.now(), self._clock.random()))

    # --- processes ----------------------------------------------------------------------------------------------

    def kill_all(self) -> None:
        """Kill whoever runs, and start nobody any more."""
        self.close()
        for member in self:
            if member.state != "stopped":
                self.happened(member.actor, DrainAsked())
        for child in self.children.values():
            child.kill_group()

    async def wait_all_gone(self) -> None:
        for child in list(self.children.values()):
            await child.wait()
        self._changed.clear()  # the run file goes with them


def is_at_odds(member: Member, command: LeaveCommand) -> bool:
    """Return whether the process leaves already for another end: who asked for that would be told that it came true."""
    return member.state == "draining" and member.then != command.then and not command.kill


def is_door_expected(member: Member) -> bool:
    """Return whether the member is a door that takes connections, or will: where there is none, they are refused."""
    is_back_soon = member.state == "draining" and member.then == "start"
    return member.role == "http" and (member.is_queued or is_back_soon or member.state in DOOR_STATES)
