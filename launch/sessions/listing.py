"""The list of sessions by the record's files: the one that changed last first, in pages, narrowed by what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hobus.bus.messages.ids import is_call
from hobus.bus.record.ends import ENDS
from hobus.launch import limits
from hobus.launch.sessions.journal import end_of, start_of
from hobus.launch.sessions.summary import SessionRow, fold_standing

if TYPE_CHECKING:
    from hobus.launch.sessions.journal_files import FromDirectory
    from hobus.ledger_service.reader import JournalEnd

STATES: dict[str, Callable[[SessionRow], bool]] = {
    "open": lambda row: row.status == "open" and not row.cell,
    "closed": lambda row: row.status == "closed",
    "running": lambda row: row.active_input_id is not None,
    "waiting": lambda row: bool(row.held_calls) or row.lifecycle == "Paused",
    "approval": lambda row: bool(row.held_calls),
}
"""What a session may be now; `approval`: a call of it waits for one."""
ACTIVE = ("running", "waiting", "approval")
"""Of them, those with a run that is not over."""
OUTCOMES = {
    "degraded": "TurnDegraded", "failed": "RunFailed", "tool-failed": "WO_FAILED", "cancelled": "RunCancelled",
}  # fmt: skip
"""What became of any turn of a session -> the type of the entry that says so."""
_OVER = ENDS | {"SessionEnded"}
_KEPT: dict[tuple[Path, str], tuple[int, SessionRow]] = {}
"""Where sessions stood as of the last entry of their journals: a page reads anew those that went on since."""


class Wanted(NamedTuple):
    """Which sessions, and how many of them; empty: whichever."""

    limit: int
    before: int | None = None
    """The change before which they changed last; None: the last ones."""
    state: str = ""
    outcome: str = ""
    agent: str = ""
    principal: str = ""
    """Its first characters."""
    among: Collection[str] | None = None
    """Ids; None: of all."""

    def accepts(self, row: SessionRow) -> bool:
        is_state = not self.state or STATES[self.state](row)
        is_agents = self.agent.casefold() in ("", row.agent_id.casefold())
        return is_state and is_agents and row.principal.startswith(self.principal)


class SessionPage(NamedTuple):
    """One page of sessions."""

    rows: list[SessionRow]
    runs: dict[str, int]
    """Session, also of other pages -> the last run that ended as was wanted; 0: it was none of a run."""
    next: int | None = None
    """The change before which further ones stand; None: there are none."""
    looked_at: int = 0
    """Where the page ended because it may look at no more; else 0."""

    def document(self) -> dict[str, Any]:
        rows = [one.model_dump(mode="json") for one in self.rows]
        runs = {row.session_id: run for row in self.rows if (run := self.runs.get(row.session_id))}
        return {"sessions": rows, "more": self.next is not None, "next": self.next, "found_in_run": runs}


async def list_sessions(files: FromDirectory, wanted: Wanted, *, looks_max: int | None = None) -> SessionPage:
    """Return a page of the sessions that are wanted; `looks_max`: one that looks at so many journals at most."""
    from hobus.ledger_service.reader import list_journal_ends, list_runs_with  # noqa: PLC0415 - reads segments

    kind, is_active = OUTCOMES.get(wanted.outcome), wanted.state in ACTIVE
    told = [] if kind is None else list_runs_with(files.path, kind)
    runs = {session_id: run for session_id, run, order in told if kind != "WO_FAILED" or is_call(order)}
    folded, rows, last = files.map_rows(), list[SessionRow](), None
    ends = [
        one
        for one in list_journal_ends(files.path)
        if (wanted.before is None or one.sequence < wanted.before)
        and (kind is None or one.session_id in runs)
        and (wanted.among is None or one.session_id in wanted.among)
        and not (is_active and one.event_type in _OVER)
    ]
    for count, end in enumerate(ends):
        if count == looks_max:
            return SessionPage(rows, runs, last, count)
        row = folded.get(end.session_id) or await _find_row(files, end)
        if wanted.accepts(row) and len(rows) == wanted.limit:
            return SessionPage(rows, runs, last)
        rows += [row] if wanted.accepts(row) else []
        last = end.sequence
    return SessionPage(rows, runs)


async def _find_row(files: FromDirectory, end: JournalEnd) -> SessionRow:
    key = files.path, end.session_id
    sequence, row = _KEPT.get(key, (-1, None))
    if row is None or sequence != end.sequence:
        entries = await end_of(files, end.session_id)
        row = SessionRow.of(await start_of(files, end.session_id) or entries[0], fold_standing(entries))
        if len(_KEPT) >= limits.STANDINGS_MAX:
            _KEPT.clear()
        _KEPT[key] = entries[-1].sequence, row
    return row
