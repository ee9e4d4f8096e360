"""A session's journal, folded entry by entry by `reduce`: what each one says, and the states around it. Pure.

For everybody who reads a journal without owning its session. Its owner's fold, `SessionRecord`, goes by the same rules
and remembers what a run needs besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import SessionEventKind
from hobus.bus.record.journal import Recorded, recorded

NOTHING = SessionState(session_id="")
"""Before any entry: which session it is, the first one says."""


class Step(NamedTuple):
    """One entry. What is rejected, or does not read, leaves the state as it was."""

    entry: Entry
    recorded: Recorded | None  # None: its event was erased, or is of a version that is not known here
    before: SessionState
    after: SessionState
    rejection: str = ""  # why its event does not apply; empty: it does

    @property
    def event(self) -> SessionEventKind | None:
        """What happened; None where that does not read."""
        return None if self.recorded is None else self.recorded.event.event


def step(before: SessionState, entry: Entry) -> Step:
    """What one entry does to the state that the entries before it gave."""
    taken = recorded(entry)
    if taken is None:
        return Step(entry, None, before, before)
    before = before if before.session_id else SessionState(session_id=taken.event.session_id)
    outcome = reduce(before, taken.event)
    rejection = "" if outcome.rejection is None else outcome.rejection.reason
    return Step(entry, taken, before, outcome.state, rejection)


def steps(entries: Iterable[Entry], state: SessionState = NOTHING) -> Iterator[Step]:
    """Entries in their order, from this state on."""
    for entry in entries:
        one = step(state, entry)
        state = one.after
        yield one


def state_after(entries: Iterable[Entry], state: SessionState) -> SessionState:
    """What all of them give."""
    for one in steps(entries, state):
        state = one.after
    return state
