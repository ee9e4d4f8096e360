"""The screens of sessions: the list of `hobus session list`, narrowed and in pages; of those, every call that waits."""

from __future__ import annotations

from functools import partial
from typing import Any

from hobus.bus.messages.ids import format_iso_us, get_position
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import PageAnswer, PageRequest
from hobus.launch.sessions.evidence import seen_in
from hobus.launch.sessions.history import list_turns
from hobus.launch.sessions.journal import Journals, end_of
from hobus.launch.sessions.listing import ACTIVE, OUTCOMES, STATES, SessionPage, Wanted, list_sessions
from hobus.launch.sessions.moments import moments_in
from hobus.launch.sessions.steps import steps_in
from hobus.launch.sessions.summary import SessionRow


async def _read_page(look: PageRequest, wanted: Wanted) -> SessionPage:
    """Return a page of the list, which looks at no more than it may cost."""
    most = limits.ACTIVE_LOOKED_AT_MAX if wanted.state in ACTIVE else limits.LOOKED_AT_MAX
    return await look.source.read_files(lambda files: list_sessions(files, wanted, looks_max=most))


async def show_sessions(look: PageRequest) -> PageAnswer:
    """`hobus session list --all`, narrowed; `before`: the change with which the page before ended."""
    chosen = {"state": look.choice("state", STATES), "outcome": look.choice("outcome", OUTCOMES)}
    chosen |= {name: look.text(name) for name in ("agent", "principal", "words")}
    words = chosen["words"]
    among = {hit.session_id for hit in (await look.source.search(words)).hits} if words else None
    named = {name: said for name, said in chosen.items() if name != "words"}
    limit = look.number("limit", limits.SESSIONS, limits.PAGE)
    page = await _read_page(look, Wanted(limit, look.sequence("before"), **named, among=among))
    shown: dict[str, Any] = {"page": page, "states": STATES, "outcomes": OUTCOMES, "chosen": chosen}
    return PageAnswer("sessions.html", "Sessions", page.document(), shown, live="*")


async def show_approvals(look: PageRequest) -> PageAnswer:
    """List the held calls of `hobus session list --state approval`: whose, of which tool, since when, what was done."""
    limit = look.number("limit", limits.SESSIONS, limits.PAGE)
    page = await _read_page(look, Wanted(limit, look.sequence("before"), "approval"))
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
