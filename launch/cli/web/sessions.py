"""The screen of all sessions: the newest first, in pages, narrowed by what somebody looks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from hobus.bus.messages.ledger import name_session_stream
from hobus.bus.record.ends import ENDS
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.cluster.record import demand_record
from hobus.launch.sessions.journal import list_rows, read_standing, starts_behind
from hobus.launch.sessions.journal_files import FromDirectory
from hobus.launch.sessions.summary import SessionRow, SessionStanding
from hobus.ledger_service.reader import open_newest

STATES: dict[str, Callable[[SessionRow], bool]] = {
    "open": lambda row: row.status == "open",
    "closed": lambda row: row.status == "closed",
    "running": lambda row: row.active_input_id is not None,
    "waiting": lambda row: bool(row.held_calls) or row.lifecycle == "Paused",
    "degraded": lambda row: row.is_degraded or row.last_outcome == "degraded",
    "failed": lambda row: row.last_outcome in ("failed", "error"),
    "tool failed": lambda row: bool(row.tools_failed),
    "cancelled": lambda row: row.last_outcome == "cancelled",
}
"""What may be chosen -> whether a session is that."""
ACTIVE = ("running", "waiting")
"""Of them, those with a run that is not over."""
_OVER = ENDS | {"SessionEnded"}
_KEPT: dict[tuple[Path, str], tuple[int, SessionStanding]] = {}
"""Where sessions stood as of the last entry of their journals: a page reads anew those that went on since."""


async def list_sessions(
    look: PageRequest, limit: int, walk: Walk, *, is_shown: Callable[[SessionRow], bool], among: set[str] | None = None
) -> list[SessionRow]:
    """Return sessions, newest first, by the record's files, behind `after`, with which the page before ended.

    `among`: of these alone.
    """
    record = look.source.home.ledger
    demand_record(look.source.home)

    def read() -> list[SessionRow]:
        with open_newest(record) as newest:
            journals = FromDirectory(record)

            async def find_known(session_id: str) -> SessionStanding:
                last, place = newest(name_session_stream(session_id)), (record, session_id)
                sequence = -1 if last is None else last.sequence
                if place not in _KEPT or _KEPT[place][0] != sequence:
                    if len(_KEPT) >= limits.STANDINGS_MAX:
                        _KEPT.clear()
                    _KEPT[place] = (sequence, await read_standing(journals, session_id))
                return _KEPT[place][1]

            def is_looked_at(session_id: str) -> bool | None:
                if not walk.takes(session_id):
                    return None
                last = newest(name_session_stream(session_id)) if walk.is_active else None
                return last is None or last.event_type not in _OVER

            found = list_rows(
                journals, limit, is_all=True, is_meant=is_looked_at, is_shown=is_shown, known=find_known,
                starts=starts_behind(journals, look.query.get("after", ""), among),
            )  # fmt: skip
            return asyncio.run(found)

    return await run_in_threadpool(read)


async def show_sessions(look: PageRequest) -> PageAnswer:
    """`hobus session list --all`, narrowed; `after`: the session that the page before ended with."""
    query = look.query
    state, agent, principal = (query.get(name, "").strip() for name in ("state", "agent", "principal"))
    words, after = query.get("words", "").strip(), query.get("after", "")
    limit = look.number("limit", limits.SESSIONS, limits.PAGE)
    said_in = {hit.session_id for hit in (await look.source.search(words)).hits} if words else None
    walk = Walk(is_active=state in ACTIVE)
    is_state = STATES.get(state, lambda _row: True)

    def is_shown(row: SessionRow) -> bool:
        return (
            is_state(row) and agent.casefold() in ("", row.agent_id.casefold()) and row.principal.startswith(principal)
        )

    rows = await list_sessions(look, limit + 1, walk, is_shown=is_shown, among=said_in)
    page = rows[:limit]
    next_after = page[-1].session_id if len(rows) > limit else walk.stopped_at
    document = {"sessions": [row.model_dump(mode="json") for row in page], "more": bool(next_after), "next": next_after}
    shown: dict[str, Any] = {
        "rows": page, "next": next_after, "states": list(STATES), "looked_at": walk.count if walk.stopped_at else 0,
        "chosen": {"state": state, "agent": agent, "principal": principal, "words": words}, "after": after,
    }  # fmt: skip
    return PageAnswer("sessions.html", "Sessions", document, "session list --all", shown, live="*")


class Walk:
    """A walk through sessions, never longer than a page may cost; `is_active`: by their last entries alone."""

    def __init__(self, *, is_active: bool) -> None:
        self.is_active = is_active
        self._last, self._most = "", limits.GLANCED_AT_MAX if is_active else limits.LOOKED_AT_MAX
        self.count, self.stopped_at = 0, ""

    def takes(self, session_id: str) -> bool:
        if self.count >= self._most:
            self.stopped_at = self.stopped_at or self._last
            return False
        self.count, self._last = self.count + 1, session_id
        return True
