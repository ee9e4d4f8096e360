"""Commands that act on a turn while it runs: what is typed, what that means, and what became of it, in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hobus.bus.messages import session as events
from hobus.bus.messages.session import Command, CommandVerdict, HeldCall
from hobus.launch.cli.outcome import Line
from hobus.launch.console.errors import CommandError, RefusedFault, UsageFault
from hobus.launch.sessions import refusals

_DIM = "bright_black"

RUN_COMMANDS = {
    "/steer TEXT": "say something to the turn that runs: its next round sees it",
    "/followup TEXT": "a message for when the turn is over (so is a plain line that is typed while it runs)",
    "/pause": "pause the turn at its next step",
    "/resume": "resume a paused turn",
    "/cancel [REASON]": "end the turn: its model call and its tools are stopped",
    "/approve [CALL]": "allow a tool call that waits for approval",
    "/deny [CALL] [REASON]": "refuse such a call; the model is told so",
}
"""What is typed -> what it does. Each also works in `hobus session`, from any terminal."""
NAMES = frozenset(usage.split()[0] for usage in RUN_COMMANDS)
_USAGE = {usage.split()[0]: usage for usage in RUN_COMMANDS}
_TAKES_NOTHING = frozenset({"/pause", "/resume"})

_NEXT = {
    "not_started": "send a message: it begins the session",
    "session_closed": "/new, then a message, begins another session",
    "no_active_run": "a plain line is a message, and begins a turn",
    "cancelling": "/wait for what became of it",
    "not_paused": "/session shows its state",
    "already_paused": "/resume lets it go on",
    "call_not_open": "/session shows which calls wait",
    "too_large": "send a shorter text",
    "too_many": "wait until some of them have been taken up",
}
"""What to type after a refusal; the codes that a chat's commands cannot meet are left out."""


def is_command(line: str) -> bool:
    """Return whether a typed line is a command; a message with a slash in front is typed behind a space."""
    return line.startswith("/")


def is_run_command(line: str) -> bool:
    return is_command(line) and line.split(maxsplit=1)[0] in NAMES


def needs_held(line: str) -> bool:
    return line.split(maxsplit=1)[0] in ("/approve", "/deny")


def parse_command(line: str, held: Sequence[HeldCall] = ()) -> Command:
    """Return the command that a line means; `held`: calls that wait and were shown. Raises CommandError (usage)."""
    name, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if name in _TAKES_NOTHING and rest:
        raise _make_misused(name, "takes no arguments")
    match name:
        case "/steer" | "/followup":
            if not rest:
                raise _make_misused(name, "needs a text")
            return events.Steer(text=rest) if name == "/steer" else events.FollowUp(text=rest)
        case "/pause":
            return events.Pause()
        case "/resume":
            return events.Resume()
        case "/cancel":
            return events.Cancel(reason=rest or None)
        case _:
            return _parse_decision(name, rest, held)


_CALL = re.compile(r"\d+(-[0-9a-f]*)?")
"""A call as it was shown; a number alone, which names none, is answered by the session."""


def _parse_decision(name: str, rest: str, held: Sequence[HeldCall]) -> Command:
    first, _, reason = rest.partition(" ")
    if _CALL.fullmatch(first):
        call_id = first
    else:
        call_id, reason = _require_one(name, held).call_id, rest
    if name == "/deny":
        return events.Deny(call_id=call_id, reason=reason.strip() or None)
    if reason.strip():
        raise _make_misused(name, "takes only a call as it was shown")
    return events.Approve(call_id=call_id)


def _require_one(name: str, held: Sequence[HeldCall]) -> HeldCall:
    if len(held) == 1:
        return held[0]
    if not held:
        raise RefusedFault("no tool call that was shown here waits for an approval", hint=_NEXT["call_not_open"])
    which = ", ".join(f"{one.call_id} {one.tool_id}" for one in held)
    raise UsageFault(f"{len(held)} tool calls wait for an approval: {which}", hint=f"{name} and one of them")


def _make_misused(name: str, how: str) -> CommandError:
    return UsageFault(f"{name} {how}", hint=f"type {_USAGE[name]}")


def render_applied(verdict: CommandVerdict, command: Command) -> Line:
    match command:
        case events.Steer():
            said = "steered: the next round of the turn sees it"
        case events.FollowUp():
            said = "it is queued" if verdict.run_id is not None else "it starts a turn"
        case events.Pause():
            said = "the turn pauses at its next step"
        case events.Resume():
            said = "the turn goes on"
        case events.Cancel():
            said = "the turn is being cancelled"
        case events.Approve(call_id=call_id):
            said = f"call {call_id} may run"
        case events.Deny(call_id=call_id):
            said = f"call {call_id} is not run"
        case _:
            said = f"{command.kind} applied"
    return said, _DIM


def make_refused(verdict: CommandVerdict) -> CommandError:
    """Return a rejected command as what it means and what to type next."""
    fault = refusals.make_refused(verdict)
    return RefusedFault(fault.message, hint=_NEXT.get(fault.code, fault.hint), code=fault.code)
