"""The screen of every call that waits for a person, over all sessions."""

from __future__ import annotations

from functools import partial
from typing import Any

from hobus.bus.messages.ids import format_iso_us, get_position
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.cli.web.sessions import list_sessions
from hobus.launch.sessions.evidence import seen_in
from hobus.launch.sessions.history import list_turns
from hobus.launch.sessions.journal import Journals, end_of
from hobus.launch.sessions.moments import moments_in
from hobus.launch.sessions.steps import steps_in
from hobus.launch.sessions.summary import SessionRow


async def show_approvals(look: PageRequest) -> PageAnswer:
    """List the held calls of `hobus session list`: whose, which tool, its arguments, since when, what was done."""
    page = await list_sessions(look, limits.PAGE, is_shown=lambda row: bool(row.held_calls), is_active=True)
    waiting = [one for row in page.rows for one in await look.source.read_files(partial(_list_waiting, row=row))]
    waiting.sort(key=lambda one: one["since"] or "")
    document = {"approvals": waiting, "more": page.next is not None, "next": page.next}
    shown = {"waiting": waiting, "next": page.next}
    return PageAnswer("approvals.html", "Approvals", document, shown, "*", has_texts=bool(waiting))


async def _list_waiting(journals: Journals, row: SessionRow) -> list[dict[str, Any]]:
    entries = [one for one in await end_of(journals, row.session_id) if one.provenance.run_seq in (0, row.runs)]
    seen = seen_in(entries)
    since = {
        one.call_id: format_iso_us(one.begin_us) for one in steps_in(seen) if one.kind == "wait" and not one.verdict
    }
    turns = [one for one in list_turns(entries) if one.run == row.runs]
    done = [one.what for one in moments_in(seen)][-limits.MOMENTS :]
    return [
        {
            "session_id": row.session_id, "agent_id": row.agent_id, "principal": row.principal, "run": row.runs,
            "call_id": call.call_id, "tool_id": call.tool_id, "arguments": call.arguments,
            "since": since.get(get_position(call.call_id)),
            "asked": turns[-1].text if turns else None,
            "done": done,
        }
        for call in row.held_calls
    ]  # fmt: skip
