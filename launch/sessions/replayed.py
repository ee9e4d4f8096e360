"""A journal folded again by the reducer, as whoever takes the session over folds it: what it gives, what does not fit.

Pure. A stream's entries name their predecessor; the host's TurnDegraded alone may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.ho2_supervisor.history import HistoryLimits
from actors.ho2_supervisor.session import snapshot
from actors.ho2_supervisor.session.reducer import reduce
from actors.ho2_supervisor.session.state import SessionState, state_bytes, state_hash
from bus.messages.base import named
from bus.messages.ledger import Entry
from bus.messages.session import StateSnapshot
from bus.record.journal import Recorded, recorded


@dataclass(frozen=True, slots=True)
class Misfit:
    """One thing that does not fit, and where."""

    kind: str  # hole, unreadable, rejected, difference
    sequence: int
    submission_id: str
    what: str


@dataclass(slots=True)
class Replay:
    """What folding a journal gave."""

    session_id: str
    entries: int = 0
    events: Counter[str] = field(default_factory=Counter[str])
    state: SessionState | None = None
    snapshots: int = 0
    from_snapshot: str = ""  # submission id of the one that the second fold began with; empty: from the first entry
    refused_commands: int = 0
    misfits: list[Misfit] = field(default_factory=list[Misfit])

    @property
    def fits(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.misfits

    @property
    def state_hash(self) -> str:
        """SHA-256 of the canonical state bytes; empty: there is no state."""
        return "" if self.state is None else state_hash(self.state)


def replay(session_id: str, entries: Sequence[Entry], limits: HistoryLimits) -> Replay:
    """The journal folded twice; every misfit is named, the first one first."""
    found = Replay(session_id, entries=len(entries))
    taken = _read(entries, found)
    found.state, rejected = fold(session_id, taken)
    found.misfits += [Misfit("rejected", entry.sequence, entry.submission_id, why) for entry, why in rejected]
    found.misfits.sort(key=lambda one: one.sequence)
    again, _ = fold(session_id, taken)
    _compare(found, "a second fold", again, entries)
    _from_snapshot(found, taken, entries, limits)
    return found


def fold(
    session_id: str, taken: Sequence[tuple[Entry, Recorded]], state: SessionState | None = None
) -> tuple[SessionState, list[tuple[Entry, str]]]:
    """The state after these entries, and those that the reducer does not take."""
    state = state or SessionState(session_id=session_id)
    rejected: list[tuple[Entry, str]] = []
    for entry, one in taken:
        outcome = reduce(state, one.event)
        if outcome.rejection is None:
            state = outcome.state
        else:
            rejected.append((entry, outcome.rejection.reason))
    return state, rejected


def _read(entries: Sequence[Entry], found: Replay) -> list[tuple[Entry, Recorded]]:
    """Each entry with its event; holes and what cannot be read are misfits."""
    taken: list[tuple[Entry, Recorded]] = []
    before = ""
    for entry in entries:
        found.events[entry.event_type] += 1
        found.snapshots += entry.event_type == "STATE_SNAPSHOT"
        found.refused_commands += entry.event_type == "HostCommandRejected"
        if entry.prev is not None and entry.prev != before:
            what = f"it follows {entry.prev or 'nothing'}, and the entry before it is {before or 'none'}"
            found.misfits.append(Misfit("hole", entry.sequence, entry.submission_id, what))
        before = entry.submission_id
        one = recorded(entry)
        if one is None:
            what = f"its {entry.event_type} was erased, or is of a version that is not known here"
            found.misfits.append(Misfit("unreadable", entry.sequence, entry.submission_id, what))
        else:
            taken.append((entry, one))
    return taken


def _from_snapshot(
    found: Replay, taken: Sequence[tuple[Entry, Recorded]], entries: Sequence[Entry], limits: HistoryLimits
) -> None:
    """The newest snapshot and what follows it give the same state; one that cannot be used is a misfit."""
    number = max((n for n, (_, one) in enumerate(taken) if one.event.event.kind == "StateSnapshot"), default=-1)
    if number < 0:
        return
    entry, one = taken[number]
    event = one.event.event
    assert isinstance(event, StateSnapshot)  # noqa: S101 - chosen by its kind
    if fault := snapshot.fault_of(one, event, entry.prev):
        found.misfits.append(Misfit("snapshot", entry.sequence, entry.submission_id, fault))
        return
    found.from_snapshot = entry.submission_id
    state, _ = fold(found.session_id, taken[number:], snapshot.restored(one, limits).state)
    _compare(found, f"the fold from {entry.submission_id}", state, entries)


def _compare(found: Replay, which: str, other: SessionState, entries: Sequence[Entry]) -> None:
    """Another fold of the same journal has the same bytes; else the first field that differs is a misfit."""
    assert found.state is not None  # noqa: S101 - set before anything is compared with it
    if state_bytes(found.state) == state_bytes(other):
        return
    path = first_difference(named(found.state), named(other))
    last = entries[-1]
    found.misfits.append(Misfit("difference", last.sequence, last.submission_id, f"{which} differs in {path}"))


def first_difference(one: Any, other: Any, path: str = "state") -> str:
    """The path to the first value that differs, and both values; empty: there is none."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            if found := first_difference(one.get(key), other.get(key), f"{path}.{key}"):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            if found := first_difference(left, right, f"{path}[{number}]"):
                return found
        return ""
    return "" if one == other else f"{path}: {one!r} and {other!r}"
