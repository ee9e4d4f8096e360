"""Worlds: the turns of one person over months, whose habits are known, and what is planted among them.

A turn carries signals, each at most once, as the product logs them. Every signal has a background rate; a habit raises the
rate of one for a span of days; a share of all events carries a wrong signal. What is planted is no habit: bursts of the
person's own, and sessions of somebody who wants something to be learned. A world follows from its kind and seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import HOUR_US, parse_micros

SIGNALS = 40
NAMES = tuple(f"tool:t{number:02d}" for number in range(SIGNALS))
BACKGROUND = (0.0, 0.002, 0.005, 0.01, 0.02)  # rates per turn of a signal that is no habit now
HABIT = (0.08, 0.15, 0.3)  # rates per turn of a habit
MISLABELLED = 0.05
DAY_US = 24 * HOUR_US
_BEGIN_US = parse_micros("2026-01-01T00:00:00.000000Z")
_TURN_US = 2 * 60 * 1_000_000
_PAUSE_US = 10 * 60 * 1_000_000


class Turn(NamedTuple):
    at_us: int
    signals: tuple[str, ...]


class Session(NamedTuple):
    """Turns in order; those of the person's own sessions are measured."""

    session_id: str
    turns: tuple[Turn, ...]
    is_own: bool


class Habit(NamedTuple):
    """The signal is one from `start_us` on, until `end_us`."""

    signal: str
    start_us: int
    end_us: int
    rate: float


class Plant(NamedTuple):
    """Sessions that are planted, each by its turns, and the signals in every turn of them."""

    attack: str
    signals: tuple[str, ...]
    sessions: tuple[tuple[Turn, ...], ...]


class World(NamedTuple):
    """Everything there is to learn, and what must not be; sessions in order of time."""

    sessions: list[Session]
    habits: list[Habit]
    plants: list[Plant]


@dataclass(frozen=True, slots=True)
class Kind:
    what: str
    habits: Callable[[Random, int], list[Habit]]
    plants: Callable[[Random, int], list[Plant]] = lambda _draw, _days: []
    script: str = ""  # the signal of a program of the same user that runs each hour in a session of its own
    days: int = 180
    sessions_per_day: float = 3.0
    turns: int = 8  # of a session, on average


def world(kind: str, seed: int) -> World:
    draw, made = Random(f"{kind}/{seed}"), KINDS[kind]
    background = {signal: draw.choice(BACKGROUND) for signal in NAMES}
    habits = made.habits(draw, made.days)
    plants = made.plants(draw, made.days)
    if made.script:
        habits.append(Habit(made.script, _at(0), _at(made.days), 1.0))
    hours = range(24 * made.days) if made.script else ()
    beside = [(Turn(_at(hour / 24), (made.script,)),) for hour in hours]
    beside += [turns for plant in plants for turns in plant.sessions]
    sessions = [*_own_sessions(draw, made, background, habits), *(Session("", turns, is_own=False) for turns in beside)]
    numbered = enumerate(sorted(sessions, key=lambda one: one.turns[0].at_us))
    named = [one._replace(session_id=f"00000000-0000-5000-8000-{number:012d}") for number, one in numbered]
    return World(named, habits, plants)


def _own_sessions(draw: Random, made: Kind, background: dict[str, float], habits: list[Habit]) -> Iterable[Session]:
    at_us, end_us = _at(0), _at(made.days)
    while True:
        at_us += _PAUSE_US + round(draw.expovariate(made.sessions_per_day) * DAY_US)
        if at_us >= end_us:
            return
        mine = [one for one in habits if one.signal != made.script]
        rates = background | {one.signal: one.rate for one in mine if one.start_us <= at_us < one.end_us}
        turns: list[Turn] = []
        for _ in range(max(1, round(draw.gauss(made.turns, made.turns * 0.4)))):
            drawn = [signal for signal, rate in rates.items() if draw.random() < rate]
            signals = [signal if draw.random() >= MISLABELLED else draw.choice(NAMES) for signal in drawn]
            turns.append(Turn(at_us, tuple(dict.fromkeys(signals))))
            at_us += _TURN_US
        yield Session("", tuple(turns), is_own=True)


def _at(day: float) -> int:
    return _BEGIN_US + round(day * DAY_US)


def _habit(draw: Random, signal: str, start_day: float, length_days: float) -> Habit:
    return Habit(signal, _at(start_day), _at(start_day + length_days), draw.choice(HABIT))


def _scattered(count: int) -> Callable[[Random, int], list[Habit]]:
    """Each for 20 to 60 days, begun 60 days before the end at the latest."""
    return lambda draw, days: [
        _habit(draw, signal, draw.uniform(5, days - 60), draw.uniform(20, 60)) for signal in draw.sample(NAMES, count)
    ]


def _seasonal(draw: Random, days: int) -> list[Habit]:
    """Eight that come back again and again: 8 to 20 days of every 30 to 60."""
    found: list[Habit] = []
    for signal in draw.sample(NAMES, 8):
        period, length = draw.uniform(30, 60), draw.uniform(8, 20)
        start = draw.uniform(2, period)
        while start + length < days - 7:
            found.append(_habit(draw, signal, start, length))
            start += period
    return found


def _ending(draw: Random, days: int) -> list[Habit]:
    """Six that all end on one day, on which six others begin that stay."""
    names, change = draw.sample(NAMES, 12), draw.uniform(days * 0.4, days * 0.6)
    starts = [(signal, draw.uniform(1, change / 2)) for signal in names[:6]]
    before = [_habit(draw, signal, start, change - start) for signal, start in starts]
    return before + [_habit(draw, signal, change, days) for signal in names[6:]]


def _plant(attack: str, names: tuple[str, ...], *sessions: tuple[float, int]) -> Plant:
    """Sessions as (day, turns)."""
    made = (tuple(Turn(_at(day) + n * _TURN_US, names) for n in range(turns)) for day, turns in sessions)
    return Plant(attack, names, tuple(made))


def _bursts(draw: Random, days: int) -> list[Plant]:
    """A dozen sessions in which one signal comes in each of 30 to 300 turns, and never again."""
    spans = [(draw.uniform(5, days - 20), draw.randint(30, 300)) for _ in range(12)]
    return [_plant("burst", (f"tool:burst{number}",), span) for number, span in enumerate(spans)]


def _hostile_session(draw: Random, days: int) -> list[Plant]:
    """One session of somebody else: ten signals in each of 300 turns."""
    names = tuple(f"tool:hostile{number}" for number in range(10))
    return [_plant("hostile session", names, (draw.uniform(10, days - 30), 300))]


def _slow_poisoning(draw: Random, days: int) -> list[Plant]:
    """Eight signals, each in 2 to 6 sessions of five turns, half a day to two days apart."""
    found: list[Plant] = []
    for number in range(8):
        day, visits = draw.uniform(5, days - 30), []
        for _ in range(draw.randint(2, 6)):
            visits.append((day, 5))
            day += draw.uniform(0.5, 2.0)
        found.append(_plant("slow poisoning", (f"tool:poison{number}",), *visits))
    return found


_EIGHT = _scattered(8)
KINDS = {
    "background noise": Kind("twelve habits of 20 to 60 days", _scattered(12)),
    "seasonal": Kind("eight habits that come back again and again", _seasonal),
    "ending": Kind("six habits that end on one day, on which six others begin", _ending),
    "bursts": Kind("a dozen sessions full of one signal each", _EIGHT, _bursts),
    "slow poisoning": Kind("eight signals, each pushed in 2 to 6 sessions of five turns", _EIGHT, _slow_poisoning),
    "hostile session": Kind("one session that pushes ten signals in 300 turns", _EIGHT, _hostile_session),
    "few sessions": Kind("one a day", _EIGHT, sessions_per_day=1.0),
    "many sessions": Kind("ten a day, of four turns", _EIGHT, days=120, sessions_per_day=10.0, turns=4),
    "questions": Kind("twelve sessions a day of one turn each", _EIGHT, days=120, sessions_per_day=12.0, turns=1),
    "hourly script": Kind("a program of the same user, one turn each hour", _EIGHT, days=120, script="tool:script"),
}
