"""What a session has put into a server's process (an open page, a shell's directory) is gone with it, and that is told.

A worker remembers which process had a session's last call at each server. Of one that it does not know it asks the
record: a call that another worker, or its own predecessor, had begun for the session went to a process that is gone.
"""

from __future__ import annotations

from collections import OrderedDict

from hobus.bus.errors import RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.ledger import Query
from hobus.bus.window import remember

_KNOWN_MAX = 10_000
"""Sessions at servers that are remembered: some hundred bytes each. Of one that is forgotten nothing is told."""


class HeldState:
    """Remember which process holds each session's state at a server; ask `word` after each call."""

    def __init__(self, ledger: LedgerClient, instance: str, *, page: int) -> None:
        """Begin empty. `page`: how many of a session's last calls at a server are looked at."""
        self._ledger = ledger
        self._page = page
        self._instance = instance
        self._holders: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def word(self, session_id: str, server: str, held_by: str) -> str:
        """Return what a model is told before the result: that the state is gone; empty if the process is the same."""
        before = self._holders.get((session_id, server))
        remember(self._holders, (session_id, server), held_by, at_most=_KNOWN_MAX)
        is_lost = before != held_by if before is not None else await self._was_elsewhere(session_id, server)
        if not is_lost:
            return ""
        return (
            f"[The server {server} was restarted since this session last called it: what it held for the session "
            "(open pages, variables, a login) is gone.]\n"
        )

    async def _was_elsewhere(self, session_id: str, server: str) -> bool:
        where = {"event_type": "TOOL_STARTED", "session_id": session_id, "reason": server}
        try:
            page = await self._ledger.page(Query(where=where, limit=self._page, newest_first=True))
        except RuntimeFault:
            return False  # its result counts for more
        return any(entry.origin != self._instance for entry in page.entries)
