"""What the launcher knows of each process and what follows from an event: `apply(member, event) -> (member, effects)`.

No process, no socket, no clock in here; `launcher.py` feeds events and carries out effects. A member's states:

stopped --spawned--> starting --is_ready/is_degraded--> ready <-> degraded
^                    |            any of the three --crashed--> backoff --spawned--> starting
|                    |                             --gave_up--> failed
+------ended/crashed-- draining <--drain-- any living state

Anything else is a programming error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from hobus.bus.messages.base import make_from
from hobus.bus.messages.control import PeerRow
from hobus.config.sections.processes import LauncherConfig
from hobus.launch.cluster.run_file import ChildRow, State
from hobus.launch.console import exit_codes
from hobus.launch.launcher.restart_policy import CrashHistory, decide_after_crash
from hobus.launch.limits import WATCH_INTERVAL_MS

START_ORDER = ("broker", "ledger", "gateway", "ho3", "ho1", "ho2", "host", "http")
"""Only for the eye: every process binds first and connects late, so the order of starting does not matter."""

STOP_ORDER = ("http", "host", "ho2", "ho1", "ho3", "gateway", "ledger", "broker")
"""Edges first, so that nobody loses what it still needs."""

FINISHES_BY_ITSELF = frozenset({"http"})
"""Roles whose work does not come over the bus: only they know when it is done. They are sent `FINISH`, and end."""

NOT_AGAIN = f"exit {exit_codes.INTEGRITY}"
"""The end of a process for which another start would be the same: a damaged record, say."""


DRAINED = "drained, until it is restarted"
"""Note of one that has finished its work and stopped; of one that has not, another one says so."""
After = Literal["stay", "start", "remove"]
Event = Literal["spawned", "is_starting", "is_ready", "is_degraded", "crashed", "gave_up", "drain", "ended"]

_LIVING: dict[Event, State] = {
    "is_starting": "starting",
    "is_ready": "ready",
    "is_degraded": "degraded",
    "crashed": "backoff",
    "gave_up": "failed",
    "drain": "draining",
    "ended": "stopped",
}

TRANSITIONS: dict[State, dict[Event, State]] = {
    "stopped": {"spawned": "starting", "drain": "stopped"},
    "starting": _LIVING,
    "ready": _LIVING,
    "degraded": _LIVING,
    "draining": {
        "is_starting": "draining",
        "is_ready": "draining",
        "is_degraded": "draining",
        "crashed": "stopped",
        "ended": "stopped",
        "drain": "draining",
    },
    "backoff": {"spawned": "starting", "gave_up": "failed", "drain": "stopped"},
    "failed": {"drain": "stopped"},
}

_QUEUED = {"state": "starting", "note": "waits until fewer are starting"}

RUNNING: frozenset[State] = frozenset({"starting", "ready", "degraded", "draining"})
"""States in which there is an operating system process."""


class Member(Struct, frozen=True):
    """One place in the cluster and its present incarnation."""

    actor: str
    role: str
    state: State = "stopped"
    instance: str = ""
    pid: int = 0
    mark: str = ""
    started_at: float = 0.0
    seen_at: float = 0.0
    """When its loop was last known to turn; its start, before the first word."""
    was_seen: bool = False
    silent_since: float = 0.0
    """Its last beat, while the broker does not know it any more though it runs: it stands still, or is cut off."""
    restarts: int = 0
    next_try_at: float = 0.0
    ready_after_ms: int = 0
    note: str = ""
    is_damaged: bool = False
    """Given up at once, because what it needs is damaged: another start would end the same way."""
    history: CrashHistory = field(default_factory=CrashHistory)
    then: After = "stay"
    """What follows its end, while it is draining by a command."""
    resting_since: float = 0.0
    """It gets no new work since then, and is to end when it has none; 0 if nobody asked for that."""
    told_at: float = 0.0
    """When it was told to end."""
    is_queued: bool = False
    """It is to be started for the first time, as soon as fewer others are starting."""

    def row(self) -> ChildRow:
        row = make_from(ChildRow, self)
        return row.model_copy(update=_QUEUED) if self.is_queued else row


class Spawned(Struct, frozen=True):
    """A new incarnation is being started."""

    instance: str
    at: float


class Born(Struct, frozen=True):
    """The process of that incarnation is there."""

    instance: str
    pid: int
    mark: str


class SpawnFailed(Struct, frozen=True):
    """The operating system did not make the process."""

    reason: str
    at: float
    draw: float


class Exited(Struct, frozen=True):
    """The incarnation ended: `exit 1`, `signal 9`."""

    instance: str
    exit: str
    at: float
    draw: float
    reason: str = ""
    """Its own last words, if it had any."""


class Reported(Struct, frozen=True):
    """What the broker says of the member: its row, or None when the broker does not know it."""

    row: PeerRow | None
    at: float


class RetryDue(Struct, frozen=True):
    """The member's back-off is over."""


class DrainAsked(Struct, frozen=True):
    """The cluster stops: the member is to end now, and gives back what it cannot finish at once."""


class LeaveAsked(Struct, frozen=True):
    """A command: the member is to finish its work and end (or be killed); then stay away, start anew, or be removed."""

    then: After
    at: float
    kill: bool = False


class Unheard(Struct, frozen=True):
    """The broker could not be asked about the member."""

    at: float


Happening = Spawned | Born | SpawnFailed | Exited | Reported | Unheard | RetryDue | DrainAsked | LeaveAsked


class Effect(Struct, frozen=True):
    """What the launcher is to do about a member.

    spawn: start an incarnation now. retry: start one at `at`. kill: it is stuck. lost: tell the broker that `instance`
    is gone. gave_up: it will not be started again. took_up: it will, after all. rest: no new work for `instance`.
    drain: tell the process to end. remove: there is no such place any more.
    """

    kind: Literal["spawn", "retry", "kill", "lost", "gave_up", "took_up", "rest", "drain", "remove"]
    instance: str = ""
    detail: str = ""
    at: float = 0.0


def get_next_state(state: State, event: Event) -> State:
    """Return the state after this event. Raises ValueError for a pair that cannot happen."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ValueError(f"a process in state {state} cannot be told {event}") from None


def apply(member: Member, event: Happening, config: LauncherConfig) -> tuple[Member, list[Effect]]:
    """Return the member after this event, and what to do; events of an earlier incarnation change nothing."""
    match event:
        case Spawned():
            return _apply_spawned(member, event), []
        case Born():
            is_present = event.instance == member.instance and member.state in RUNNING
            return (replace(member, pid=event.pid, mark=event.mark) if is_present else member), []
        case Exited():
            return _apply_exited(member, event, config) if event.instance == member.instance else (member, [])
        case SpawnFailed():
            why = f"not started: {event.reason}"
            return _apply_crash(member, why, event.at, event.draw, config, reason=event.reason)
        case Reported():
            return _apply_seen(member, event, config)
        case RetryDue():
            return (member, [Effect("spawn")]) if member.state == "backoff" else (member, [])
        case DrainAsked():
            return _drain_asked(member)
        case LeaveAsked():
            return _leave_asked(member, event)
        case Unheard():
            return _apply_rest(member, None, event.at, config)


def _apply_spawned(member: Member, event: Spawned) -> Member:
    return replace(
        member,
        state=get_next_state(member.state, "spawned"),
        is_queued=False,
        instance=event.instance,
        pid=0,
        mark="",
        started_at=event.at,
        seen_at=event.at,
        was_seen=False,
        silent_since=0.0,
        restarts=member.restarts + (1 if member.instance else 0),
        next_try_at=0.0,
        ready_after_ms=0,
    )


def _apply_exited(member: Member, event: Exited, config: LauncherConfig) -> tuple[Member, list[Effect]]:
    lost = Effect("lost", instance=event.instance, detail=event.exit)
    if member.state == "draining":
        note = member.note or ("" if event.exit == "exit 0" else event.exit)
        ended = _drop_process(replace(member, state=get_next_state(member.state, "ended"), note=note))
        return _apply_left(ended, [lost])
    # Nobody asked it to end, so even `exit 0` is a crash.
    if event.exit == NOT_AGAIN:
        note = event.reason or f"{event.exit}: what it needs is damaged; its log names the place"
        failed = replace(
            _drop_process(member), state=get_next_state(member.state, "gave_up"), note=note, is_damaged=True
        )
        return failed, [lost, Effect("gave_up")]
    why = f"{event.exit}: {event.reason}" if event.reason else event.exit
    following, effects = _apply_crash(member, why, event.at, event.draw, config, reason=event.reason)
    return following, [lost, *effects]


def _apply_crash(  # noqa: PLR0913 - what a crash is judged by
    member: Member, why: str, at: float, draw: float, config: LauncherConfig, *, reason: str = ""
) -> tuple[Member, list[Effect]]:
    decision = decide_after_crash(
        member.history, started_at=member.started_at, now=at, draw=draw, config=config, reason=reason
    )
    following = _drop_process(replace(member, history=decision.history, note=why))
    if decision.delay_s is None:
        note = f"{why}; given up after {len(decision.history.crashes)} crashes (launcher.crash_budget)"
        return replace(following, state=get_next_state(member.state, "gave_up"), note=note), [Effect("gave_up")]
    next_try_at = at + decision.delay_s
    waiting = replace(following, state=get_next_state(member.state, "crashed"), next_try_at=next_try_at)
    return waiting, [Effect("retry", at=next_try_at)]


def _drop_process(member: Member) -> Member:
    """Return the member without a process; the instance's name stays, so that it can be told as lost."""
    return replace(member, pid=0, mark="", started_at=0.0, silent_since=0.0)


def count_anew(member: Member, at: float) -> Member:
    """Return the member with all times beginning now: the launcher stood still, and perhaps everything with it."""
    since = {name: at for name in ("resting_since", "told_at") if getattr(member, name)}
    return replace(member, seen_at=at, **since)


def _apply_seen(member: Member, event: Reported, config: LauncherConfig) -> tuple[Member, list[Effect]]:
    if member.state not in RUNNING:
        return member, []
    if member.resting_since:
        return _apply_rest(member, event.row, event.at, config)
    following = member
    row = event.row
    if row is not None and row.instance == member.instance:
        heard_at = max(member.seen_at, event.at - row.last_beat_ms / 1000)
        heard = replace(member, seen_at=heard_at, was_seen=True, silent_since=0.0)
        following = _apply_report(heard, row, event.at)
    elif member.was_seen and (event.at - member.seen_at) * 1000 > 2 * WATCH_INTERVAL_MS:
        # Not at once: a broker that has just begun does not know anybody yet.
        following = replace(member, silent_since=member.silent_since or member.seen_at)
    silent_ms = (event.at - following.seen_at) * 1000
    if following.state != "draining" and silent_ms > _compute_allowed_silence_ms(following, config):
        why = f"no beat for {silent_ms / 1000:.1f} s; killed"
        # Counting anew from here: one kill per silence, its exit follows.
        return replace(following, seen_at=event.at, note=why), [Effect("kill", instance=member.instance, detail=why)]
    return following, []


def _compute_allowed_silence_ms(member: Member, config: LauncherConfig) -> int:
    """Return the allowed silence: before its first word a process is starting, which may take longer than a beat."""
    return config.stuck_after_ms if member.was_seen else config.ready_timeout_ms


def _apply_report(member: Member, row: PeerRow, at: float) -> Member:
    events: dict[str, Event] = {"starting": "is_starting", "ready": "is_ready", "degraded": "is_degraded"}
    event = events.get(row.state)
    if event is None:
        return member
    ready_after_ms = member.ready_after_ms
    if event == "is_ready" and not ready_after_ms:
        ready_after_ms = max(1, round((at - member.started_at) * 1000))
    return replace(member, state=get_next_state(member.state, event), ready_after_ms=ready_after_ms, note=row.reason)


def _leave_asked(member: Member, event: LeaveAsked) -> tuple[Member, list[Effect]]:
    """Have a running member finish first; one that does not run is where it was to be at once."""
    runs = member.state in RUNNING
    following = replace(
        member,
        state=get_next_state(member.state, "drain"),
        is_queued=False,
        next_try_at=0.0,
        note="",
        then=event.then,
        resting_since=event.at,
        told_at=event.at if event.kill else member.told_at,
    )
    if not runs:
        return _apply_left(following, [])
    if event.kill:
        return following, [Effect("kill", instance=member.instance, detail="restart --kill")]
    return following, [Effect("rest", instance=member.instance)]


def _apply_left(member: Member, effects: list[Effect]) -> tuple[Member, list[Effect]]:
    """Do what was to follow, as the member has no process."""
    then = member.then if member.resting_since else "stay"
    following = replace(member, then="stay", resting_since=0.0, told_at=0.0)
    if then == "start":
        return replace(following, history=CrashHistory(), is_damaged=False), [
            *effects,
            Effect("took_up"),
            Effect("spawn"),
        ]
    if then == "remove":
        return following, [*effects, Effect("remove")]
    if member.resting_since:
        following = replace(following, note=member.note or DRAINED)
    return following, effects


def _apply_rest(member: Member, row: PeerRow | None, at: float, config: LauncherConfig) -> tuple[Member, list[Effect]]:
    """Tell a member to end when its work is done or has taken too long; kill it when it does not."""
    if member.state != "draining" or not member.resting_since:
        return member, []
    if member.told_at:
        if (at - member.told_at) * 1000 <= config.drain_ms:
            return member, []
        why = f"did not end within {config.drain_ms / 1000:g} s: killed (launcher.drain_ms)"
        return replace(member, told_at=at, note=why), [Effect("kill", instance=member.instance, detail=why)]
    if member.role in FINISHES_BY_ITSELF and (at - member.resting_since) * 1000 <= config.finish_ms:
        return member, []
    # A broker's row shows that nothing new will come once it says `draining` itself; the broker has no row for that.
    is_idle = row is not None and row.in_flight == 0 and (row.state == "draining" or member.role == "broker")
    is_late = (at - member.resting_since) * 1000 > config.finish_ms
    if not is_idle and not is_late:
        return member, []
    note = f"unfinished work was given back (launcher.finish_ms {config.finish_ms})" if is_late else ""
    return replace(member, told_at=at, note=note), [Effect("drain", instance=member.instance)]


def _drain_asked(member: Member) -> tuple[Member, list[Effect]]:
    had_process = member.state in RUNNING
    following = replace(
        member, state=get_next_state(member.state, "drain"), next_try_at=0.0, note="", then="stay", resting_since=0.0,
        is_queued=False,
    )  # fmt: skip
    return following, [Effect("drain", instance=member.instance)] if had_process else []


def make_members(counts: Mapping[str, int]) -> list[Member]:
    """Return the members of a cluster with these numbers of processes per role, in the order in which they are shown.

    A role that is not named has one, `http` none.
    """
    return [
        Member(actor=f"{role}/{number}", role=role)
        for role in START_ORDER
        for number in range(1, _count_of(role, counts) + 1)
    ]


def count_processes(counts: Mapping[str, int]) -> int:
    return sum(_count_of(role, counts) for role in START_ORDER)


def _count_of(role: str, counts: Mapping[str, int]) -> int:
    return counts.get(role, 0 if role == "http" else 1)


class ScaleChange(Struct, frozen=True):
    """What is to be done to the members of a role, each list by rising number."""

    new: list[str]
    """Places to make and start."""
    back: list[str]
    """Places that were drained or about to be removed and are wanted after all."""
    leaving: list[str]
    """Places to empty and remove, the highest numbers first to go."""


def change_to(members: Iterable[Member], role: str, count: int) -> ScaleChange:
    """Return the change to exactly the places 1..count of this role; emptied or drained ones are started again."""
    there = {get_number(member.actor): member for member in members if member.role == role}
    wanted = range(1, count + 1)
    return ScaleChange(
        new=[f"{role}/{number}" for number in wanted if number not in there],
        back=[member.actor for number, member in sorted(there.items()) if number <= count and _is_away(member)],
        leaving=[member.actor for number, member in sorted(there.items()) if number > count],
    )


def get_number(actor: str) -> int:
    """Return 12 for `ho1/12`."""
    return int(actor.rpartition("/")[2])


def _is_away(member: Member) -> bool:
    """Return whether a member rests, or will: nobody is to start it again."""
    is_out = member.state == "stopped" and not member.is_queued
    return is_out or (bool(member.resting_since) and member.then != "start")


def drain_bound_s(config: LauncherConfig) -> float:
    """Return how long an orderly stop takes at most: each stage has its deadline, and one is left for the launcher."""
    return (len(STOP_ORDER) + 1) * config.drain_ms / 1000


def list_given_up(members: Iterable[Member]) -> list[str]:
    """Return services of which every member has failed: nobody will offer them."""
    by_role: dict[str, list[Member]] = {}
    for member in members:
        by_role.setdefault(member.role, []).append(member)
    return [role for role, group in by_role.items() if all(member.state == "failed" for member in group)]
