"""What begins with a slash in the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hobus.bus.clock import SystemClock
from hobus.bus.errors import mark_in_doubt
from hobus.bus.messages import memory as m
from hobus.bus.messages.gateway import Budget
from hobus.bus.messages.ids import LOCAL, format_iso, shorten_session
from hobus.bus.messages.session import SessionConfig, SessionView
from hobus.config.model_choice import find_choice_fault
from hobus.launch.cli import intent_rows
from hobus.launch.cli.chat.run_commands import RUN_COMMANDS
from hobus.launch.cli.chat.talk import Talk
from hobus.launch.cli.outcome import Line
from hobus.launch.cli.turn_reading import read_account, run_in
from hobus.launch.cli.turn_view import WHY
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import demand_record
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, format_next_here
from hobus.launch.console.output import format_count, format_money, format_thousands, make_harmless, make_printable
from hobus.launch.console.view import lines_of
from hobus.launch.sessions.journal_files import find_session

_DIM = "bright_black"
_FURTHER = (
    "everything else is a message; type a space before one that begins with a slash",
    "while a turn runs you can type: a command acts at once, a message waits for the end of the turn (as /followup)",
    "Ctrl-C stops waiting and ends nothing: /wait waits again, /cancel ends the turn",
)
_NO_SESSION: list[Line] = [("there is no session yet: the first message begins one", _DIM)]

NAMES = {
    "/help": "this list",
    "/session": "show this session, and how to continue it later",
    "/intent": "show the session's intent",
    "/cost": "show what this session used and has left",
    "/why": "explain the last turn; `/why N`: turn N",
    "/memory": "list what is remembered of you; `/memory off ART-…`, `on`, `confirm`, `reject` change it",
    "/model": "`/model PROVIDER/MODEL`: choose the model of the next messages; alone: show the choice",
    "/wait": "wait again for the answer",
    "/new": "leave this session; the next message begins another one",
    "/end": "end this session; the next message begins another one",
    "/quit": "leave (as Ctrl-D does); the session stays and can be continued",
    "/exit": "leave, as /quit does",
}
"""Name -> what it does. `/wait` and those that leave are the chat's own; the others only tell."""
LEAVING = frozenset({"/quit", "/exit"})


def is_whole_command(line: str) -> bool:
    """Return whether a line of a pipe is nothing but an existing command; all else is a message."""
    return line.rstrip() in NAMES


async def run_slash(line: str, talk: Talk) -> list[Line]:
    """Return what a command tells; `/new`, `/end`, changes of memory also do it. Raises RuntimeFault, CommandError."""
    name, *words = line.split()
    match name:
        case "/help":
            return _render_help()
        case "/new":
            return _begin_new(talk)
        case "/model":
            return _set_model(words, talk)
        case "/memory" | "/why":
            return await (_run_memory if name == "/memory" else _explain_turn)(words, talk)
        case "/session" | "/intent" | "/cost" | "/end" if talk.current_session is None:
            return _NO_SESSION
        case "/session":
            return _render_session(talk, await talk.view())
        case "/intent":
            return _render_rows(intent_rows.list_from_view(await talk.view()))
        case "/cost":
            return _render_cost(talk, await talk.budget())
        case "/end":
            return await _end(talk)
        case _:
            return _render_unknown(name)


def _set_model(words: list[str], talk: Talk) -> list[Line]:
    """Set the model of every message from now on; refuse at once one that the agent cannot have."""
    if words:
        wanted = (talk.overrides or SessionConfig()).model_copy(update={"model": words[0]})
        snapshot = talk.place().snapshot
        agent = snapshot.agents[talk.agent_id or snapshot.config.host.agent_id]
        choice = snapshot.choose_model_for(agent, "synthesize", request=wanted)
        if (fault := find_choice_fault(choice, agent, snapshot.config.gateway)) is not None:
            return [(fault.detail, "yellow")]
        talk.overrides = wanted
    chosen = talk.overrides and talk.overrides.model
    return [(chosen or "none was chosen here: that of the session, or its agent's", _DIM)]


def _render_help() -> list[Line]:
    rows = {**NAMES, **RUN_COMMANDS}
    width = max(map(len, rows))
    lines: list[Line] = [(f"{name.ljust(width)}  {does}", _DIM) for name, does in rows.items()]
    return [*lines, *((line, _DIM) for line in _FURTHER)]


def _render_unknown(name: str) -> list[Line]:
    return [
        (
            f"{name}: no such command; there are {', '.join([*NAMES, *(one.split()[0] for one in RUN_COMMANDS)])}",
            "yellow",
        ),
        ("to send it as a message, type a space before it", _DIM),
    ]


def _render_session(talk: Talk, view: SessionView) -> list[Line]:
    rows = {
        "session": view.session_id,
        "agent": view.agent_id,
        "state": f"{view.status}, {view.lifecycle}",
        "turns": f"{view.turn_count} answered",
        "since": view.created_at,
        "owner": f"{view.owner or 'nobody'} (tenure {view.tenure})",
        "continue": format_next_here(f"chat --session {shorten_session(view.session_id)}"),
    }
    if view.run is not None:
        rows["run"] = _describe_run(view)
        for call in view.run.calls:
            rows[f"call {call.call_id}"] = f"{call.tool_id} " + (
                "waits for /approve or /deny" if call.held else call.state
            )
    if view.pending_follow_ups:
        rows["next"] = f"{format_count(view.pending_follow_ups, 'message')} for when the turn is over"
    if talk.unfetched is not None:
        rows["unfetched"] = f"input {talk.unfetched.input_id}: /wait"
    return _render_rows(list(rows.items()))


def _render_rows(rows: Sequence[tuple[str, str]]) -> list[Line]:
    width = max(len(name) for name, _ in rows)
    return [(f"{name.ljust(width)}  {make_printable(value)}", _DIM) for name, value in rows]


def _describe_run(view: SessionView) -> str:
    run = view.run
    assert run is not None  # noqa: S101 - asked before
    parts = [f"{run.run_id.run_seq}, round {run.rounds}"]
    if run.pause_requested:
        parts.append("pauses at its next step")
    if run.pending_steers:
        parts.append(f"{format_count(run.pending_steers, 'steer')} for its next round")
    return "; ".join(parts)


def _render_cost(talk: Talk, budget: Budget) -> list[Line]:
    row = next((row for row in budget.scopes if row.scope == f"session:{talk.current_session}"), None)
    if row is None:
        return [("nothing was used yet", _DIM)]
    lines: list[Line] = [
        (
            f"{format_count(row.calls, 'model call')}, {format_count(row.used, 'token')}, {format_money(row.cost_usd)}",
            _DIM,
        )
    ]
    if row.limit is not None:
        left = max(0, row.remaining or 0)
        tokens = f"{format_thousands(left)} of {format_thousands(row.limit)} tokens"
        lines.append((f"{tokens} are left (budget mode {budget.mode})", _DIM))
    if row.unknown_calls:
        outcome = f"{format_count(row.unknown_calls, 'call')} of unknown outcome, counted at what was reserved"
        lines.append((outcome, "yellow"))
    return lines


def _begin_new(talk: Talk) -> list[Line]:
    left = talk.session_id
    talk.leave_session()
    return [(f"left {shorten_session(left)}" if left else "there was no session to leave", _DIM)]


async def _end(talk: Talk) -> list[Line]:
    ended = talk.session_id or ""
    turns = await talk.end_session()
    if turns is None:
        later = format_next_here(f"session end {shorten_session(ended)}")
        return [(f"left {shorten_session(ended)}; nobody could record its end now: {later}", _DIM)]
    return [(f"{shorten_session(ended)} ended after {format_count(turns, 'answered turn')}", _DIM)]


_WHY_USAGE = "/why, or /why and the number of a turn of this session, or SES-…-n"


async def _explain_turn(words: list[str], talk: Talk) -> list[Line]:
    """Return why a turn was answered so: the last one, unless one is named. Raises RuntimeFault, CommandError."""
    if len(words) > 1:
        raise CommandError("/why: expected one turn", hint=_WHY_USAGE, exit_code=exit_codes.USAGE)
    given = words[0] if words else None
    if given is None and talk.current_session is None:
        return [("there is no session yet: the first message begins one", _DIM)]
    # Beside the loop: what is typed meanwhile is heard, however large the record is.
    return await asyncio.to_thread(_render_explained, talk.home, talk.current_session, given)


def _render_explained(home: Home, current: str | None, given: str | None) -> list[Line]:
    demand_record(home)
    session, number = _parse_meant(given, current)
    found = read_account(home, find_session(home.ledger, session, called="/why"), number, called="/why")
    lines = [(make_harmless(line), "") for line in lines_of(WHY, found)]
    return [*lines, (f"{format_next_here(f'why {found.name} --prompts')} prints its prompts whole", _DIM)]


def _parse_meant(given: str | None, current: str | None) -> tuple[str, str | None]:
    """Return the session and the turn in it; None: its last one. Raises CommandError (usage)."""
    if given is not None and (named := run_in(given)) is not None:
        return named
    if given is not None and (given[:4].upper() == "SES-" or current is None):
        return given, None
    assert current is not None  # noqa: S101 - without one, a turn was given
    return current, given


_CHANGES: dict[str, tuple[type[m.DeactivateOverlay | m.ActivateOverlay | m.ConfirmOverlay], str]] = {
    "off": (m.DeactivateOverlay, "switched off in the chat"),
    "on": (m.ActivateOverlay, "switched on in the chat"),
    "confirm": (m.ConfirmOverlay, "confirmed in the chat"),
    "reject": (m.DeactivateOverlay, "rejected in the chat"),
}
_MEMORY_USAGE = "/memory, or /memory off, on, confirm or reject, and ART-…"


async def _run_memory(words: list[str], talk: Talk) -> list[Line]:
    """Return what is remembered of this machine's clients, or a change's result. Raises RuntimeFault, CommandError."""
    place = talk.place()
    config = place.snapshot.config
    if config.memory is None:
        return [("memory is off in this cluster", _DIM)]
    agent_id = config.host.agent_id
    if talk.current_session is not None:
        agent_id = (await talk.view()).agent_id
    timeout_s = config.launcher.client_timeout_ms / 1000
    async with connect_bus(place, "operator") as bus:
        if words:
            change = _change(words, agent_id)
            with mark_in_doubt():
                changed = await bus.request("ho3", change, expect=m.OverlayChanged, timeout_s=timeout_s)
            return [_render_remembered(changed.overlay)]
        question = m.ReadOverlays(agent_id=agent_id, principal=LOCAL, active_only=False)
        shown: list[m.Overlay] = []
        after = question.after
        while after is not None:  # page after page, as of the first one
            question = question.model_copy(update={"after": after})
            found = await bus.request("ho3", question, expect=m.Overlays, timeout_s=timeout_s)
            shown += [one for one in found.overlays if one.state in ("active", "pending")]
            as_of = {"as_of_ts": found.as_of.as_of_ts, "as_of_seq": found.as_of.as_of_seq}
            question, after = question.model_copy(update=as_of), found.next
    if not shown:
        return [("nothing is remembered", _DIM)]
    return [*(_render_remembered(one) for one in shown), (_MEMORY_USAGE, _DIM)]


def _change(words: list[str], agent_id: str) -> m.DeactivateOverlay | m.ActivateOverlay | m.ConfirmOverlay:
    known = _CHANGES.get(words[0])
    if known is None or len(words) != 2:  # noqa: PLR2004 - what, and of which
        raise CommandError("/memory: expected a change and an artifact", hint=_MEMORY_USAGE, exit_code=exit_codes.USAGE)
    kind, reason = known
    try:
        return kind(
            agent_id=agent_id, artifact_id=words[1], reason=reason, at=format_iso(SystemClock().now())
        ).checked()
    except ValueError:
        given = make_harmless(words[1][:80])
        said = f"/memory {words[0]}: {given} is no artifact: expected ART-…, as /memory lists them"
        raise CommandError(said, hint=_MEMORY_USAGE, exit_code=exit_codes.USAGE) from None


def _render_remembered(overlay: m.Overlay) -> Line:
    artifact = overlay.artifact
    colour = "yellow" if overlay.state == "pending" else _DIM
    whose = "" if artifact.principal == LOCAL else f"  (of {artifact.principal or 'everybody'})"
    return f"{artifact.artifact_id}  {overlay.state}  {make_harmless(artifact.context_line)}{whose}", colour
