"""The screen of all sessions: the newest first, in pages, narrowed by what somebody looks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hobus.bus.messages.ledger import Hits, Search
from hobus.launch.cli.commands.ledger_search import found_in
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.sessions.journal import rows_of
from hobus.launch.sessions.summary import SessionRow

STATES: dict[str, Callable[[SessionRow], bool]] = {
    "open": lambda row: row.status == "open",
    "closed": lambda row: row.status == "closed",
    "running": lambda row: row.active_input_id is not None,
    "waiting": lambda row: bool(row.held_calls) or row.lifecycle == "Paused",
    "degraded": lambda row: row.is_degraded or row.last_outcome == "degraded",
    "failed": lambda row: row.last_outcome in ("failed", "error"),
    "cancelled": lambda row: row.last_outcome == "cancelled",
}
"""What may be chosen -> whether a session is that."""


async def sessions(look: PageRequest) -> PageAnswer:
    """`hobus session list --all`, narrowed; `after`: the session that the page before ended with."""
    query = look.query
    state, agent, principal = (query.get(name, "").strip() for name in ("state", "agent", "principal"))
    words, after = query.get("words", "").strip(), query.get("after", "")
    limit = look.number("limit", limits.PAGE, limits.PAGE)
    said_in = await _sessions_with(look, words) if words else None
    walk = Walk(after)
    is_state = STATES.get(state, lambda _row: True)

    def is_shown(row: SessionRow) -> bool:
        return is_state(row) and agent in ("", row.agent_id) and row.principal.startswith(principal)

    journals = await look.source.journals()
    rows = await rows_of(
        journals, limit + 1, is_all=True, is_shown=is_shown,
        is_meant=lambda one: (said_in is None or one in said_in) and walk.takes(one),
    )  # fmt: skip
    page = rows[:limit]
    next_after = page[-1].session_id if len(rows) > limit else walk.stopped_at
    document = {"sessions": [row.model_dump(mode="json") for row in page], "more": bool(next_after), "next": next_after}
    shown: dict[str, Any] = {
        "rows": page, "next": next_after, "states": list(STATES), "looked_at": walk.count if walk.stopped_at else 0,
        "chosen": {"state": state, "agent": agent, "principal": principal, "words": words}, "after": after,
    }  # fmt: skip
    return PageAnswer("sessions.html", "Sessions", document, "session list --all", shown, live="*")


class Walk:
    """From one session on, and never through more than a page may cost."""

    def __init__(self, after: str) -> None:
        self._waits_for, self._last = after, ""
        self.count, self.stopped_at = 0, ""

    def takes(self, session_id: str) -> bool:
        """Whether this one is looked at."""
        if self._waits_for:
            if session_id == self._waits_for:
                self._waits_for = ""
            return False
        if self.count >= limits.LOOKED_AT_MAX:
            self.stopped_at = self.stopped_at or self._last
            return False
        self.count, self._last = self.count + 1, session_id
        return True


async def _sessions_with(look: PageRequest, words: str) -> set[str]:
    """Those in which something with these words was said, the best answers first."""
    found: Hits = await found_in(
        look.source.home, await look.source.journals(), Search(words=words[: limits.WORDS_CHARS], limit=limits.HITS)
    )
    return {hit.session_id for hit in found.hits}
