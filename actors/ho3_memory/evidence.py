"""Evidence that fades: mode `bistable` of the gate. Pure.

Every event adds 1. What a session has added so far fades and never stands above the cap, so that one busy session
cannot open a gate alone. The sum opens the gate at `high`, never stands above it, and closes the gate below `low`.
It fades with event time, of which an absence, hours without any event of its principal, counts for a day at most: who
comes once a day keeps what they taught, and however much else a principal does, or a program in their name, nothing
fades faster than time passes. However strong a habit was, its gate closes within half-life x log2(high / low) of such
time after its last event. All of it follows from the events alone, in order of their time and then their id; nothing
is remembered beside them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf, log2
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import DECIMALS, HOUR_US, compute_remaining
from hobus.actors.ho3_memory.limits import ABSENCE_MAX_HOURS
from hobus.config.sections.record import Ho3Config

_ROUNDING = 1e-9
"""A share is compared once it is rounded: half of this away from the floor it may still pass."""


class Level(NamedTuple):
    """Evidence at a moment, rounded, and whether the gate stands open on it."""

    evidence: float
    is_open: bool


class Added(NamedTuple):
    """What a session had added by its newest event."""

    at_us: int
    own: float


NOTHING = Level(0.0, is_open=False)
_NONE_ADDED = Added(0, 0.0)


Hours = Sequence[int]
"""The hours since 1970 in which a principal had an event, in order; also those of a part of the time alone."""


def count_present_us(hours: Hours, since_us: int, at_us: int) -> int:
    """Return how much of the time between two moments counts, where `hours` has those between them."""
    first, last = since_us // HOUR_US, at_us // HOUR_US
    between = hours[bisect_left(hours, first) : bisect_right(hours, last)]
    absent = sum(max(0, after - before - ABSENCE_MAX_HOURS) for before, after in pairwise((first, *between, last)))
    return at_us - since_us - absent * HOUR_US


def fade(level: Level, present: int, config: Ho3Config) -> Level:
    """Return what is left of a level after so many microseconds that count."""
    evidence = round(level.evidence * compute_remaining(present, config.evidence_half_life_hours), DECIMALS)
    return Level(evidence, bool(level.is_open) and evidence >= config.gate_low)


def raise_level(before: Level, session: Added | None, at_us: int, config: Ho3Config) -> tuple[Level, Added]:
    """Return the level after an event, and what its session has added by then; `before`: the level at that time."""
    last = session or _NONE_ADDED
    own = last.own * compute_remaining(at_us - last.at_us, config.evidence_half_life_hours)
    following = min(config.evidence_cap_per_session, own + 1.0)
    evidence = round(min(config.gate_high, before.evidence + max(0.0, following - own)), DECIMALS)
    return Level(evidence, before.is_open or evidence >= config.gate_high), Added(at_us, following)


def trace(
    events: Iterable[tuple[int, str]],
    hours: Hours,
    config: Ho3Config,
    before: tuple[int, Level] | None = None,
    added_before: Callable[[str], Added | None] = lambda _: None,
) -> Iterator[tuple[Level, float]]:
    """Of each of these (time, session), in their order: the level after it, and what its session has added by then.

    `before`: the newest event ahead of them and its level; `added_before`: what a session had added ahead of them.
    """
    added: dict[str, Added] = {}
    for at_us, session_id in events:
        level = NOTHING if before is None else fade(before[1], count_present_us(hours, before[0], at_us), config)
        session = added.get(session_id) or added_before(session_id)
        level, added[session_id] = raise_level(level, session, at_us, config)
        yield level, added[session_id].own
        before = at_us, level


def reach_us(config: Ho3Config) -> float:
    """Return after how long without an event a signal weighs less than `bias_decay_floor`; infinite: 0."""
    if config.bias_decay_floor <= 0:
        return inf
    share = max(config.bias_decay_floor - _ROUNDING, _ROUNDING / 4)
    return -log2(share) * config.decay_half_life_hours * HOUR_US


def open_hours(config: Ho3Config) -> float:
    """Return how long, of time that counts, a gate can stay open after its signal's newest event; or infinite."""
    low = config.gate_low - _ROUNDING
    if config.gate_mode == "counting" or low <= 0:
        return inf
    return max(0.0, log2(config.gate_high / low)) * config.evidence_half_life_hours


def open_since_us(hours: Hours, at_us: int, config: Ho3Config) -> float:
    """Return since when a signal must have had an event for its gate to be open at `at_us`; -infinite: any.

    `hours` begins with the newest hour before that time, and goes back.
    """
    reach, counted = open_hours(config) + 1, 0  # an event may lie anywhere in its hour
    for after, before in pairwise((at_us // HOUR_US, *hours)):
        counted += min(after - before, ABSENCE_MAX_HOURS)
        if counted > reach:
            return before * HOUR_US
    return -inf
