"""What a learner made of worlds: read at the beginning of each of the person's sessions, as its first prompt would be.

Every line counts that would be shown to a turn about everything, so that labels hide no mistake; what a turn with labels
of its own would be shown is counted in tokens beside it. A world counts as much as any other, however many
sessions it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench.builders import shipped_snapshot
from bench.memory_eval.learners import Memory, Shown, labels_of
from bench.memory_eval.worlds import DAY_US, SIGNALS, Habit, Planted, World
from hobus.bus.messages.memory import Labels

_QUIET_US = 14 * DAY_US
"""What was planted has not been resisted if it is in force at any time from its first event until so long after its last."""
_YEAR_US = 365 * DAY_US


@dataclass(frozen=True, slots=True)
class Read:
    """The signals that had a line at a time; `turns` of the person were before it."""

    at_us: int
    turns: int
    lines: frozenset[str]
    tokens: int
    labelled_tokens: int


@dataclass(slots=True)
class Score:
    """Of one learner in some worlds. Per world: shares per read. Per habit or planted signal: a value each."""

    hits: list[float] = field(default_factory=list[float])
    false: list[float] = field(default_factory=list[float])
    missed: list[float] = field(default_factory=list[float])
    tokens: list[float] = field(default_factory=list[float])
    labelled_tokens: list[float] = field(default_factory=list[float])
    flips: list[float] = field(default_factory=list[float])  # per signal and year
    learn_turns: list[int | None] = field(default_factory=list[int | None])  # None: never
    forget_days: list[float] = field(default_factory=list[float])
    resisted: dict[str, list[bool]] = field(default_factory=dict[str, list[bool]])


@dataclass(frozen=True, slots=True)
class Figures:
    """What is told of a score; None where there was nothing to measure."""

    precision: float | None
    recall: float | None
    f1: float
    tokens: float
    labelled_tokens: float
    lines: float
    learn_turns_p50: float | None
    never_learned: float | None
    forget_days_p50: float | None
    flips_per_signal_year: float
    resisted: dict[str, float]


def reads_of(world: World, learner: Memory, *, every: int = 1) -> list[Read]:
    """The learner goes through the world; of the person's sessions one in so many is read."""
    reads: list[Read] = []
    turns = count = 0
    for session in world.sessions:
        if session.is_own:
            if count % every == 0:
                reads.append(_read(learner, session.turns[0].at_us, turns, session.turns[0].signals))
            count += 1
            turns += len(session.turns)
        for turn in session.turns:
            learner.observe(session, turn)
    return reads


def _read(learner: Memory, at_us: int, turns: int, signals: Sequence[str]) -> Read:
    own = [labels_of(signal) for signal in signals]
    labels = Labels(
        domain=[one for each in own for one in each.domain], task=[one for each in own for one in each.task]
    )
    shown, labelled = learner.shown(at_us, _EVERYTHING, labels)
    return Read(at_us, turns, frozenset(signal for signal, _ in shown), _tokens(shown), _tokens(labelled))


_SHIPPED = shipped_snapshot().config
_EVERYTHING = Labels(domain=list(_SHIPPED.classify_labels.domain), task=list(_SHIPPED.classify_labels.task))


def _tokens(shown: Shown) -> int:
    return sum(len(line) // _SHIPPED.attention.chars_per_token for _, line in shown)


# --- judging ----------------------------------------------------------------------------------------------------------


def add(score: Score, world: World, reads: Sequence[Read]) -> None:
    """The world's reads are in the score."""
    count = len(reads)
    hits = false = missed = flips = 0
    before: frozenset[str] = frozenset()
    for read in reads:
        truth = {habit.signal for habit in world.habits if habit.start_us <= read.at_us < habit.end_us}
        hits += len(read.lines & truth)
        false += len(read.lines - truth)
        missed += len(truth - read.lines)
        flips += len(read.lines ^ before)
        before = read.lines
    score.hits.append(hits / count)
    score.false.append(false / count)
    score.missed.append(missed / count)
    score.tokens.append(sum(read.tokens for read in reads) / count)
    score.labelled_tokens.append(sum(read.labelled_tokens for read in reads) / count)
    score.flips.append(flips / SIGNALS * _YEAR_US / (reads[-1].at_us - reads[0].at_us))
    for habit in world.habits:
        _add_habit(score, habit, _until_next(habit, world), reads)
    for planted in world.planted:
        score.resisted.setdefault(planted.attack, []).append(_is_resisted(planted, reads))


def _until_next(habit: Habit, world: World) -> int | None:
    """When the same signal is a habit again."""
    later = [one.start_us for one in world.habits if one.signal == habit.signal and one.start_us >= habit.end_us]
    return min(later, default=None)


def _add_habit(score: Score, habit: Habit, next_us: int | None, reads: Sequence[Read]) -> None:
    during = [read for read in reads if habit.start_us <= read.at_us < habit.end_us]
    if not during:
        return
    known = [read for read in during if habit.signal in read.lines]
    score.learn_turns.append(known[0].turns - during[0].turns if known else None)
    after = [read for read in reads if read.at_us >= habit.end_us and (next_us is None or read.at_us < next_us)]
    if not known or not after:
        return
    # One that is known to the end of the world, or until it is a habit again, was forgotten then at the earliest.
    still = [read.at_us for read in after if habit.signal in read.lines]
    score.forget_days.append((still[-1] - habit.end_us) / DAY_US if still else 0.0)


def _is_resisted(planted: Planted, reads: Iterable[Read]) -> bool:
    until_us = planted.end_us + _QUIET_US
    return not any(planted.signal in read.lines for read in reads if planted.start_us <= read.at_us <= until_us)


def measured(make: Callable[[], Memory], worlds: Iterable[World], *, every: int = 1) -> Score:
    """A new learner for each world, read in one session of so many."""
    score = Score()
    for world in worlds:
        add(score, world, reads_of(world, make(), every=every))
    return score


def figures_of(*scores: Score) -> Figures:
    """Of these scores together."""
    whole = _together(scores)
    hits, false, missed = sum(whole.hits), sum(whole.false), sum(whole.missed)
    learned = [turns for turns in whole.learn_turns if turns is not None]
    worlds = len(whole.tokens)
    return Figures(
        precision=_rounded(hits / (hits + false)) if hits + false else None,
        recall=_rounded(hits / (hits + missed)) if hits + missed else None,
        f1=round(2 * hits / (2 * hits + false + missed), 3) if hits else 0.0,
        tokens=round(sum(whole.tokens) / worlds, 1),
        labelled_tokens=round(sum(whole.labelled_tokens) / worlds, 1),
        lines=round((hits + false) / worlds, 2),
        learn_turns_p50=median(learned) if learned else None,
        never_learned=_rounded(1 - len(learned) / len(whole.learn_turns)) if whole.learn_turns else None,
        forget_days_p50=_rounded(median(whole.forget_days)) if whole.forget_days else None,
        flips_per_signal_year=round(sum(whole.flips) / worlds, 1),
        resisted={name: round(sum(each) / len(each), 3) for name, each in sorted(whole.resisted.items())},
    )


def _rounded(value: float) -> float:
    return round(value, 3)


def _together(scores: Iterable[Score]) -> Score:
    whole = Score()
    for score in scores:
        for name, values in asdict(score).items():
            kept: Any = getattr(whole, name)
            if isinstance(kept, list):
                kept.extend(values)
            else:
                for attack, each in values.items():
                    kept.setdefault(attack, []).extend(each)
    return whole
