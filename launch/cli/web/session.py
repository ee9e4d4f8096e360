"""The screen of one session, newest turns first, and what an operator says to its run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hobus.bus.messages import session as messages
from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.session import Command, ProcessTurn, StartSession
from hobus.launch.cli.commands.session_show import look_at, make_document, with_view
from hobus.launch.cli.commands.steering import end_session
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import Asked, PageAnswer, PageRequest, read_number
from hobus.launch.cli.web.talks import TALKS
from hobus.launch.cluster.client import connect_bus
from hobus.launch.console.errors import UsageFault
from hobus.launch.sessions.commands import Fences, draw_id, make_host_command, send_command
from hobus.launch.sessions.journal import find_begun
from hobus.launch.sessions.refusals import make_refused
from hobus.launch.sessions.turns import check_text
from hobus.launch.sessions.watched_turn import ROLE


async def show_session(look: PageRequest) -> PageAnswer:
    """`hobus session show`: the conversation, who owns it, its run and what that waits for, the last commands."""
    limit = look.number("limit", limits.TURNS, limits.TURNS_MAX)
    found = await look.source.read_files(lambda files: look_at(files, look.path["session_id"], limit))
    found = await with_view(found, await look.source.journals("ho2"))
    if found.view is None and look.source.runs:  # nobody was asked, or nobody answered
        found = found._replace(unanswered=found.unanswered or "unreachable")
    standing, row = found.standing, found.row
    talk = TALKS.of_session(found.session_id)
    shown: dict[str, Any] = {
        "row": row, "found": found, "standing": standing, "commands": found.commands[::-1],
        "cards": found.cards[::-1], "limit": limit, "has_more": found.has_more,
        "run": None if standing.state.run is None else standing.runs,
        "talk": None if talk is None or (talk.is_over and not talk.is_lost) else talk,
    }  # fmt: skip
    name = shorten_session(found.session_id)
    return PageAnswer("session.html", name, make_document(found), shown, found.session_id, has_texts=True)


# --- what is done -----------------------------------------------------------------------------------------------------

_COMMANDS: dict[str, Callable[[str, str], Command]] = {
    "Steer": lambda said, _: messages.Steer(text=said),
    "FollowUp": lambda said, _: messages.FollowUp(text=said),
    "Pause": lambda _said, _call_id: messages.Pause(),
    "Resume": lambda _said, _call_id: messages.Resume(),
    "Cancel": lambda said, _: messages.Cancel(reason=said or None),
    "Approve": lambda _, call_id: messages.Approve(call_id=call_id),
    "Deny": lambda said, call_id: messages.Deny(call_id=call_id, reason=said or None),
}
"""That a page sends, by what was typed and the call that waits."""


async def tell(asked: Asked) -> str:
    """One command to the session's run, under the fence of the run that its page showed."""
    place = asked.source.place()
    session_id = await find_begun(await asked.source.journals(), asked.path["session_id"], called="SESSION")
    kind, said = asked.form.get("kind", ""), asked.form.get("text", "").strip()
    if kind == "End":
        await end_session(place, session_id, f"{said or 'from the console'} ({asked.person.name})")
        return f"{shorten_session(session_id)} has ended"
    if kind not in _COMMANDS:
        raise UsageFault("there is no such command")
    wanted = _COMMANDS[kind](said, asked.form.get("call_id", ""))
    if isinstance(wanted, messages.Steer | messages.FollowUp):
        check_text(wanted.text, place.snapshot.config.host)
    fences = Fences(read_number(asked.form.get("run", "")), None)
    try:
        sent = make_host_command(session_id, wanted, fences, draw_id("console"))
    except ValueError as error:
        raise UsageFault(f"{kind}: {error}") from None
    verdict = await send_command(place, session_id, sent, timeout_s=place.client_timeout_s, person=asked.person.name)
    if verdict.outcome == "rejected":
        raise make_refused(verdict)
    return f"{kind}: applied"


async def ask(asked: Asked) -> str:
    """Send a message to the session, or to a new one; the browser goes where the answer is written."""
    place, text = asked.source.place(), asked.form.get("text", "").strip()
    check_text(text, place.snapshot.config.host)
    given = asked.form.get("session", "")
    if given:
        session_id = await find_begun(await asked.source.journals(), given, called="SESSION")
    else:
        agent = asked.form.get("agent") or place.snapshot.config.host.agent_id
        async with connect_bus(place, ROLE) as bus:
            question = StartSession(agent_id=agent)
            wait_s = place.client_timeout_s
            started = await bus.request("host", question, expect=messages.SessionReady, timeout_s=wait_s)
        session_id = started.session_id
    who = re.sub(r"[^A-Za-z0-9._-]", "_", asked.person.name)
    turn = ProcessTurn(session_id=session_id, input_id=draw_id(f"console:{who}"), text=text, stream=True)
    TALKS.begin(place, turn, asked.source.forget)
    asked.goes_to = f"/sessions/{session_id}"
    return ""
