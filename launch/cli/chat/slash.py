"""What begins with a slash in the chat."""

from __future__ import annotations

from collections.abc import Sequence

from hobus.bus.messages.gateway import Budget
from hobus.bus.messages.ids import shown_session
from hobus.bus.messages.session import SessionConfig, SessionView
from hobus.launch.cli import intent_rows
from hobus.launch.cli.chat.about_turn import about_turn
from hobus.launch.cli.chat.memory_words import about_memory
from hobus.launch.cli.chat.outcome import Line
from hobus.launch.cli.chat.run_commands import RUN_COMMANDS
from hobus.launch.cli.chat.talk import Talk
from hobus.launch.console.errors import next_here
from hobus.launch.console.output import counted, money, printable, thousands

_DIM = "bright_black"
_FURTHER = (
    "everything else is a message; one that begins with a slash needs a space before it",
    "while a turn runs you can go on typing: a command acts on it at once, a message waits for its end (as /followup)",
    "Ctrl-C stops waiting and ends nothing: /wait waits again, /cancel ends the turn",
)
_NO_SESSION: list[Line] = [("there is no session yet: the first message begins one", _DIM)]

NAMES = {
    "/help": "this list",
    "/session": "what is known of this session, and how to continue it later",
    "/intent": "what this session is for, as the record has it",
    "/cost": "what this session has used, and what is left",
    "/why": "why the last turn was answered as it was; `/why N` of the n-th one",
    "/memory": "what is remembered of you; `/memory off ART-…`, `on`, `confirm`, `reject` change it",
    "/model": "`/model NAME`: what answers the next messages (PROVIDER/MODEL); alone: what was chosen so",
    "/wait": "wait again for the answer that was not waited for",
    "/new": "leave this session; the next message begins another one",
    "/end": "end this session; the next message begins another one",
    "/quit": "leave (as Ctrl-D does); the session stays and can be continued",
    "/exit": "leave, as /quit does",
}
"""Name -> what it does. `/wait` and those that leave are the chat's own; the others only tell."""
LEAVING = frozenset({"/quit", "/exit"})


def is_whole_command(line: str) -> bool:
    """Whether a line of a pipe is one: nothing but a command that there is; all else is a message."""
    return line.rstrip() in NAMES


async def told(line: str, talk: Talk) -> list[Line]:
    """What a command tells; `/new`, `/end` and a change of memory also do it. Raises RuntimeFault, CommandError."""
    name, *words = line.split()
    match name:
        case "/help":
            return _help()
        case "/new":
            return _new(talk)
        case "/model":
            return _model(words, talk)
        case "/memory" | "/why":
            return await (about_memory if name == "/memory" else about_turn)(words, talk)
        case "/session" | "/intent" | "/cost" | "/end" if talk.current_session is None:
            return _NO_SESSION
        case "/session":
            return _about_session(talk, await talk.view())
        case "/intent":
            return _rows(intent_rows.of_view(await talk.view()))
        case "/cost":
            return _about_cost(talk, await talk.budget())
        case "/end":
            return await _end(talk)
        case _:
            return _unknown(name)


def _model(words: list[str], talk: Talk) -> list[Line]:
    """Of every message from now on; whether it can be had, the next answer says."""
    if words:
        talk.overrides = (talk.overrides or SessionConfig()).model_copy(update={"model": words[0]})
    chosen = talk.overrides and talk.overrides.model
    return [(chosen or "none was chosen here: that of the session, or its agent's", _DIM)]


def _help() -> list[Line]:
    rows = {**NAMES, **RUN_COMMANDS}
    width = max(map(len, rows))
    lines: list[Line] = [(f"{name.ljust(width)}  {does}", _DIM) for name, does in rows.items()]
    return [*lines, *((line, _DIM) for line in _FURTHER)]


def _unknown(name: str) -> list[Line]:
    return [
        (
            f"{name}: no such command; there are {', '.join([*NAMES, *(one.split()[0] for one in RUN_COMMANDS)])}",
            "yellow",
        ),
        ("to send it as a message, type a space before it", _DIM),
    ]


def _about_session(talk: Talk, view: SessionView) -> list[Line]:
    rows = {
        "session": view.session_id,
        "agent": view.agent_id,
        "state": f"{view.status}, {view.lifecycle}",
        "turns": str(view.turn_count),
        "since": view.created_at,
        "owner": f"{view.owner or 'nobody'} (tenure {view.tenure})",
        "continue": next_here(f"chat --session {shown_session(view.session_id)}"),
    }
    if view.run is not None:
        rows["run"] = _about_run(view)
        for call in view.run.calls:
            rows[f"call {call.call_id}"] = f"{call.tool_id} " + (
                "waits for /approve or /deny" if call.held else call.state
            )
    if view.pending_follow_ups:
        rows["next"] = f"{counted(view.pending_follow_ups, 'message')} for when the turn is over"
    if talk.unfetched is not None:
        rows["unfetched"] = f"input {talk.unfetched.input_id}: /wait"
    return _rows(list(rows.items()))


def _rows(rows: Sequence[tuple[str, str]]) -> list[Line]:
    width = max(len(name) for name, _ in rows)
    return [(f"{name.ljust(width)}  {printable(value)}", _DIM) for name, value in rows]


def _about_run(view: SessionView) -> str:
    run = view.run
    assert run is not None  # noqa: S101 - asked before
    parts = [f"{run.run_id.run_seq}, round {run.rounds}"]
    if run.pause_requested:
        parts.append("pauses at its next step")
    if run.pending_steers:
        parts.append(f"{counted(run.pending_steers, 'steer')} for its next round")
    return "; ".join(parts)


def _about_cost(talk: Talk, budget: Budget) -> list[Line]:
    row = next((row for row in budget.scopes if row.scope == f"session:{talk.current_session}"), None)
    if row is None:
        return [("nothing was used yet", _DIM)]
    lines: list[Line] = [
        (f"{counted(row.calls, 'model call')}, {counted(row.used, 'token')}, {money(row.cost_usd)}", _DIM)
    ]
    if row.limit is not None:
        left = max(0, row.remaining or 0)
        lines.append((f"{thousands(left)} of {thousands(row.limit)} tokens are left (budget mode {budget.mode})", _DIM))
    if row.unknown_calls:
        outcome = f"{counted(row.unknown_calls, 'call')} of unknown outcome, counted at what was reserved"
        lines.append((outcome, "yellow"))
    return lines


def _new(talk: Talk) -> list[Line]:
    left = talk.session_id
    talk.leave_session()
    return [(f"left {shown_session(left)}" if left else "there was no session to leave", _DIM)]


async def _end(talk: Talk) -> list[Line]:
    ended = talk.session_id or ""
    turns = await talk.end_session()
    if turns is None:
        later = next_here(f"session end {shown_session(ended)}")
        return [(f"left {shown_session(ended)}; nobody could record its end now: {later}", _DIM)]
    return [(f"{shown_session(ended)} ended after {counted(turns, 'turn')}", _DIM)]
