"""Evidence that fades: mode `bistable` of the gate. Pure.

Every event adds 1. What a session has added so far fades and never stands above the cap, so that one busy session
cannot open a gate alone. The sum opens the gate at `high`, never stands above it, and closes the gate below `low`.
It fades with event time alone: how much else its principal does, or a program in their name, changes nothing. However
strong a habit was, its gate closes within half-life x log2(high / low) of its last event. All of it follows from the
events alone, in order of their time and then their id; nothing is remembered beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, log2
from typing import NamedTuple

from hobus.actors.ho3_memory.event_time import DECIMALS, HOUR_US, remaining
from hobus.config.sections.memory import Ho3Config

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


def faded(level: Level, since_us: int, at_us: int, config: Ho3Config) -> Level:
    """What is left at a time of a level that stood since an earlier one."""
    evidence = round(level.evidence * _left(since_us, at_us, config), DECIMALS)
    return Level(evidence, bool(level.is_open) and evidence >= config.gate_low)


def raised(before: Level, session: Added | None, at_us: int, config: Ho3Config) -> tuple[Level, Added]:
    """The level after an event, and what its session has added by then; `before`: the level at that time."""
    last = session or _NONE_ADDED
    own = last.own * _left(last.at_us, at_us, config)
    following = min(config.evidence_cap_per_session, own + 1.0)
    evidence = round(min(config.gate_high, before.evidence + max(0.0, following - own)), DECIMALS)
    return Level(evidence, before.is_open or evidence >= config.gate_high), Added(at_us, following)


def trace(events: Iterable[tuple[int, str]], config: Ho3Config) -> tuple[list[Level], dict[str, Added]]:
    """The level after each of these (time, session), in their order; and what each session has added in the end."""
    levels: list[Level] = []
    sessions: dict[str, Added] = {}
    level, since_us = NOTHING, 0
    for at_us, session_id in events:
        before = faded(level, since_us, at_us, config)
        level, sessions[session_id] = raised(before, sessions.get(session_id), at_us, config)
        since_us = at_us
        levels.append(level)
    return levels, sessions


def _left(since_us: int, at_us: int, config: Ho3Config) -> float:
    return remaining(at_us - since_us, config.evidence_half_life_hours)


def reach_us(config: Ho3Config) -> float:
    """A signal without an event for longer than this weighs less than `bias_decay_floor`; infinite: 0."""
    if config.bias_decay_floor <= 0:
        return inf
    share = max(config.bias_decay_floor - _ROUNDING, _ROUNDING / 4)
    return -log2(share) * config.decay_half_life_hours * HOUR_US


def open_reach_us(config: Ho3Config) -> float:
    """No gate stands open for longer than this after its signal's newest event; infinite where gates count."""
    low = config.gate_low - _ROUNDING
    if config.gate_mode == "counting" or low <= 0:
        return inf
    return max(0.0, log2(config.gate_high / low)) * config.evidence_half_life_hours * HOUR_US
