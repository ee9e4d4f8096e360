"""What begins with a slash in the chat."""

from __future__ import annotations

from collections.abc import Callable

from bus.messages.ids import shown_session
from launch.chat.outcome import Line, counted, money
from launch.chat.talk import Talk

_DIM = "bright_black"
_NO_SESSION: list[Line] = [("there is no session yet: the first message begins one", _DIM)]

NAMES = {
    "/help": "this list",
    "/session": "what is known of this session, and how to continue it later",
    "/cost": "what this session has used, and what is left",
    "/wait": "wait again for the answer that was not waited for",
    "/new": "leave this session; the next message begins another one",
    "/end": "end this session; the next message begins another one",
    "/quit": "leave (as Ctrl-D does); the session stays and can be continued",
}
"""Name -> what it does. `/wait` and `/quit` are the chat's own; the others only tell."""


def is_command(line: str) -> bool:
    """Whether a typed line is one; a message that begins with a slash is typed with a space before it."""
    return line.startswith("/")


def is_whole_command(line: str) -> bool:
    """Whether a line of a pipe is one: nothing but a command that there is; all else is a message."""
    return line.rstrip() in NAMES


def told(name: str, talk: Talk) -> list[Line]:
    """What a command tells. Raises RuntimeFault, CommandError."""
    commands: dict[str, Callable[[Talk], list[Line]]] = {
        "/help": lambda _talk: _help(),
        "/session": _session,
        "/cost": _cost,
        "/new": _new,
        "/end": _end,
    }
    command = commands.get(name)
    return command(talk) if command is not None else _unknown(name)


def _help() -> list[Line]:
    width = max(map(len, NAMES))
    lines: list[Line] = [(f"{name.ljust(width)}  {does}", _DIM) for name, does in NAMES.items()]
    return [*lines, ("everything else is a message; one that begins with a slash needs a space before it", _DIM)]


def _unknown(name: str) -> list[Line]:
    return [
        (f"{name}: no such command; there are {', '.join(NAMES)}", "yellow"),
        ("to send it as a message, type a space before it", _DIM),
    ]


def _session(talk: Talk) -> list[Line]:
    if talk.session_id is None:
        return _NO_SESSION
    view = talk.view()
    rows = {
        "session": view.session_id,
        "agent": view.agent_id,
        "state": f"{view.status}, {view.lifecycle}",
        "turns": str(view.turn_count),
        "since": view.created_at,
        "owner": f"{view.owner or 'nobody'} (tenure {view.tenure})",
        "continue": f"hobus chat --session {shown_session(view.session_id)}",
    }
    if talk.unfetched is not None:
        rows["unfetched"] = f"input {talk.unfetched.input_id}: /wait"
    width = max(map(len, rows))
    return [(f"{name.ljust(width)}  {value}", _DIM) for name, value in rows.items()]


def _cost(talk: Talk) -> list[Line]:
    if talk.session_id is None:
        return _NO_SESSION
    budget = talk.budget()
    row = next((row for row in budget.scopes if row.scope == f"session:{talk.session_id}"), None)
    if row is None:
        return [("nothing was used yet", _DIM)]
    lines: list[Line] = [
        (f"{counted(row.calls, 'model call')}, {counted(row.used, 'token')}, {money(row.cost_usd)}", _DIM)
    ]
    if row.limit is not None:
        left = max(0, row.remaining or 0)
        lines.append((f"{left} of {row.limit} tokens are left (budget mode {budget.mode})", _DIM))
    if row.unknown_calls:
        outcome = f"{counted(row.unknown_calls, 'call')} of unknown outcome, counted at what was reserved"
        lines.append((outcome, "yellow"))
    return lines


def _new(talk: Talk) -> list[Line]:
    left = talk.session_id
    talk.leave_session()
    return [(f"left {shown_session(left)}" if left else "there was no session to leave", _DIM)]


def _end(talk: Talk) -> list[Line]:
    ended = talk.session_id
    if ended is None:
        return _NO_SESSION
    return [(f"{shown_session(ended)} ended after {counted(talk.end_session(), 'turn')}", _DIM)]
