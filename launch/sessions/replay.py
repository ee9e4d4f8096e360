"""A journal folded again, as whoever takes the session over folds it: what it gives, what does not fit. Pure.

What must follow what is the loader's rule, too: a journal without a misfit is one that an owner takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hobus.actors.ho2_supervisor.session import snapshot
from hobus.actors.ho2_supervisor.session.journal import break_before, compute_state, reduce_steps
from hobus.actors.ho2_supervisor.session.state import SessionState, hash_state, pack_state
from hobus.bus.messages.base import name_fields
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.journal import read_recorded
from hobus.bus.record.session_facts import StateSnapshot


@dataclass(frozen=True, slots=True)
class Misfit:
    """One thing that does not fit, and where."""

    kind: str  # hole, unreadable, rejected, snapshot, difference
    sequence: int
    submission_id: str
    what: str


@dataclass(slots=True)
class Replay:
    """What folding a journal gave."""

    session_id: str
    entries: int
    state: SessionState
    events: Counter[str] = field(default_factory=Counter[str])
    from_snapshot: str = ""  # submission id of the one that the second fold began with; empty: from the first entry
    misfits: list[Misfit] = field(default_factory=list[Misfit])

    def add(self, kind: str, entry: Entry, what: str) -> None:
        self.misfits.append(Misfit(kind, entry.sequence, entry.submission_id, what))

    @property
    def fits(self) -> bool:
        return not self.misfits

    @property
    def state_hash(self) -> str:
        return hash_state(self.state)


def replay(session_id: str, entries: Sequence[Entry]) -> Replay:
    """Fold the journal twice; name every misfit, the first one first."""
    begin = SessionState(session_id=session_id)
    found = Replay(session_id, len(entries), compute_state(entries, begin))
    folded = list(reduce_steps(entries, begin))
    head, tenure = "", 0
    for entry, taken, _before, _after, rejection in folded:
        found.events[entry.event_type if taken is None else taken.event.event.entry_name] += 1
        if entry.submission_id != head and (fault := break_before(entry, head, tenure)):
            found.add("hole", entry, fault)
        if taken is None:
            what = f"its {entry.event_type} was erased, or is of a version that is not known here"
            found.add("unreadable", entry, what)
        elif rejection:
            found.add("rejected", entry, rejection)
        head, tenure = entry.submission_id, tenure if entry.tenure is None else entry.tenure
    _compare(found, "a second fold", folded[-1].after if folded else begin, entries)
    _from_snapshot(found, entries)
    return found


def _from_snapshot(found: Replay, entries: Sequence[Entry]) -> None:
    """Compare the newest snapshot and what follows it with the whole fold; an unusable snapshot is a misfit."""
    for number, entry in reversed(list(enumerate(entries))):
        taken = read_recorded(entry) if entry.event_type == StateSnapshot.entry_name else None
        if taken is None:
            continue
        packed = snapshot.read_packed(taken, entry.prev)
        if isinstance(packed, str):
            found.add("snapshot", entry, packed)
        else:
            found.from_snapshot = entry.submission_id
            _compare(
                found, f"the fold from {entry.submission_id}", compute_state(entries[number:], packed.state), entries
            )
        return


def _compare(found: Replay, which: str, other: SessionState, entries: Sequence[Entry]) -> None:
    """Compare another fold of the same journal byte for byte; the first field that differs is a misfit."""
    if pack_state(found.state) != pack_state(other):
        path = find_first_difference(name_fields(found.state), name_fields(other))
        found.add("difference", entries[-1], f"{which} differs in {path}")


def find_first_difference(one: Any, other: Any, path: str = "state") -> str:
    """Return the path to the first value that differs, and both values; empty: there is none."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            if found := find_first_difference(one.get(key), other.get(key), f"{path}.{key}"):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            if found := find_first_difference(left, right, f"{path}[{number}]"):
                return found
        return ""
    return "" if one == other else f"{path}: {one!r} and {other!r}"
