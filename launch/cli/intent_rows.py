"""What a session is for, as people read it: its active intents, and whether they were ever in doubt. Pure."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.session.intents import Intents
from hobus.bus.messages.base import make_from
from hobus.bus.messages.session import ConflictView, SessionView
from hobus.launch.console.output import format_count

Row = tuple[str, str]

_DOUBTS = {"unclear_signal": "it was not clear what a message was for", "several_active": "several intents were active"}


def list_from_view(view: SessionView) -> list[Row]:
    rows = [("intent", f"{_shorten(one.intent_id)}: {one.objective}") for one in view.active_intents]
    return _with_doubt(rows, view.intent_conflicts, view.newest_conflict)


def list_from_record(intents: Intents) -> list[Row]:
    """Return the rows as a journal folds them: the words stand elsewhere."""
    rows = [("intent", f"{_shorten(one.intent_id)}, declared {one.at}") for one in intents.active]
    doubt = intents.newest_conflict
    return _with_doubt(rows, intents.conflict_count, None if doubt is None else make_from(ConflictView, doubt))


def _with_doubt(rows: list[Row], count: int, newest: ConflictView | None) -> list[Row]:
    rows = rows or [("intent", "none is active")]
    if newest is None:
        return rows
    why = _DOUBTS.get(newest.reason, newest.reason)
    return [
        *rows,
        ("in doubt", f"{format_count(count, 'time')}, last {newest.at}: {why}; went on with {_shorten(newest.chosen)}"),
    ]


def _shorten(intent_id: str) -> str:
    """Return `INT-<nnn>`: the session is known."""
    return f"INT-{intent_id.rpartition('-')[2]}"
