"""The screen of all sessions: the one that changed last first, in pages, narrowed by what somebody looks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from hobus.bus.messages.ids import is_call
from hobus.bus.record.ends import ENDS
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.cluster.record import demand_record
from hobus.launch.sessions.journal import end_of, start_of
from hobus.launch.sessions.journal_files import FromDirectory
from hobus.launch.sessions.summary import SessionRow, fold_standing
from hobus.ledger_service.reader import JournalEnd, list_journal_ends, list_runs_with

STATES: dict[str, Callable[[SessionRow], bool]] = {
    "open": lambda row: row.status == "open",
    "closed": lambda row: row.status == "closed",
    "running": lambda row: row.active_input_id is not None,
    "waiting": lambda row: bool(row.held_calls) or row.lifecycle == "Paused",
}
"""What a session may be now."""
ACTIVE = ("running", "waiting")
"""Of them, those with a run that is not over."""
OUTCOMES = {
    "degraded": "TurnDegraded", "failed": "RunFailed", "tool failed": "WO_FAILED", "cancelled": "RunCancelled",
}  # fmt: skip
"""What became of any turn of a session -> the type of the entry that says so."""
_OVER = ENDS | {"SessionEnded"}
_KEPT: dict[tuple[Path, str], tuple[int, SessionRow]] = {}
"""Where sessions stood as of the last entry of their journals: a page reads anew those that went on since."""


class SessionPage(NamedTuple):
    """One page of sessions."""

    rows: list[SessionRow]
    next: int | None = None
    """The change before which further ones stand; None: there are none."""
    looked_at: int = 0
    """Where the page ended because it may look at no more; else 0."""


async def list_sessions(
    look: PageRequest, limit: int, *, is_shown: Callable[[SessionRow], bool], is_active: bool = False,
    among: Mapping[str, Any] | None = None,
) -> SessionPage:  # fmt: skip
    """Return sessions by the record's files, those that changed last before entry `before` first; `among`: of these.

    A page looks at no more than it may cost; `is_active`: at the last entries alone of those whose run is over.
    """
    record, before = look.source.home.ledger, look.sequence("before")
    demand_record(look.source.home)
    most = limits.GLANCED_AT_MAX if is_active else limits.LOOKED_AT_MAX

    async def walk() -> SessionPage:
        journals, rows, last = FromDirectory(record), list[SessionRow](), None
        ends = [one for one in list_journal_ends(record) if among is None or one.session_id in among]
        for count, end in enumerate(one for one in ends if before is None or one.sequence < before):
            if count == most:
                return SessionPage(rows, last, count)
            if not (is_active and end.event_type in _OVER) and is_shown(row := await _find_row(journals, record, end)):
                if len(rows) == limit:
                    return SessionPage(rows, last)
                rows.append(row)
            last = end.sequence
        return SessionPage(rows)

    return await run_in_threadpool(lambda: asyncio.run(walk()))


async def _find_row(journals: FromDirectory, record: Path, end: JournalEnd) -> SessionRow:
    sequence, row = _KEPT.get((record, end.session_id), (-1, None))
    if row is None or sequence != end.sequence:
        entries = await end_of(journals, end.session_id)
        row = SessionRow.of(await start_of(journals, end.session_id) or entries[0], fold_standing(entries))
        if len(_KEPT) >= limits.STANDINGS_MAX:
            _KEPT.clear()
        _KEPT[record, end.session_id] = entries[-1].sequence, row
    return row


async def show_sessions(look: PageRequest) -> PageAnswer:
    """`hobus session list --all`, narrowed; `before`: the change with which the page before ended."""
    chosen = {name: look.text(name) for name in ("state", "agent", "principal", "words")}
    state, agent, principal, words = chosen.values()
    found_in: dict[str, int] = {}
    if state in OUTCOMES:
        record, kind = look.source.home.ledger, OUTCOMES[state]
        told = await run_in_threadpool(list_runs_with, record, kind)
        found_in = {session_id: run for session_id, run, order in told if kind != "WO_FAILED" or is_call(order)}
    among = found_in if state in OUTCOMES else None
    if words:
        said_in = {hit.session_id: 0 for hit in (await look.source.search(words)).hits}
        among = said_in if among is None else {name: 0 for name in said_in if name in among}
    is_state = STATES.get(state, lambda _row: True)

    def is_shown(row: SessionRow) -> bool:
        is_agents = agent.casefold() in ("", row.agent_id.casefold())
        return is_state(row) and is_agents and row.principal.startswith(principal)

    limit = look.number("limit", limits.SESSIONS, limits.PAGE)
    page = await list_sessions(look, limit, is_shown=is_shown, is_active=state in ACTIVE, among=among)
    runs = {row.session_id: run for row in page.rows if (run := found_in.get(row.session_id))}
    document = {"sessions": page.rows, "more": page.next is not None, "next": page.next, "found_in_run": runs}
    shown: dict[str, Any] = {"page": page, "states": [*STATES, *OUTCOMES], "runs": runs, "chosen": chosen}
    return PageAnswer("sessions.html", "Sessions", document, shown, live="*")
