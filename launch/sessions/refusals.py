"""What each refusal of a command means, and what to do next; the list in docs/sessions.md is made from this. Pure.

`python -m hobus.launch.sessions.refusals` prints that list.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.session import CommandVerdict
from hobus.launch.console.errors import CommandError, RefusedFault, format_next_here


@dataclass(frozen=True, slots=True)
class Refusal:
    """One code of COMMAND_REFUSALS, for people."""

    means: str
    next: str  # a command with {session} and {run}


_LOOK = "session show {session}"

REFUSALS: dict[str, Refusal] = {
    "not_started": Refusal("the session has not begun; its first message begins it", "chat --session {session}"),
    "session_closed": Refusal("the session has ended", "session list --all"),
    "no_active_run": Refusal("no run is active", _LOOK),
    "stale_target": Refusal("the run that --run names is not the active one", _LOOK),
    "stale_epoch": Refusal("the session has moved on since the epoch that --epoch names", _LOOK),
    "cancelling": Refusal("the run is being cancelled already", _LOOK),
    "not_paused": Refusal("the run is not paused", _LOOK),
    "already_paused": Refusal("the run is paused, or will be at its next step", "session resume {session}"),
    "wrong_lease": Refusal("this lease is not the one in force", _LOOK),
    "lease_expired": Refusal("the lease ended before the renewal; the run is cancelled", _LOOK),
    "not_newer": Refusal("a newer renewal of the lease is already recorded", _LOOK),
    "call_not_open": Refusal("no tool call of this name waits for an approval", _LOOK),
    "own_call": Refusal(
        "this agent requires a second person: who asked for the run or steered it may not approve its calls", _LOOK
    ),
    "blank": Refusal("the text is empty", _LOOK),
    "too_large": Refusal("the command is larger than host.prompt_max_bytes", _LOOK),
    "command_conflict": Refusal("this command id belongs to another command; use a new one", _LOOK),
    "agent_removed": Refusal("the agent of the session was removed", "agent list"),
    "too_many": Refusal("the queue is full (sessions.pending_max)", _LOOK),
}


def split_reason(reason: str) -> tuple[str, str]:
    """Return code and facts of a verdict's reason, `<code>: <facts>`."""
    code, _, facts = reason.partition(":")
    return code.strip(), facts.strip()


def make_refused(verdict: CommandVerdict) -> CommandError:
    """Return a rejected command as the sentence, the next command and the exit code that its sender gets."""
    code, facts = split_reason(verdict.reason)
    known = REFUSALS.get(code)
    if known is None:
        hint = format_next_here(_LOOK.format(session=shorten_session(verdict.session_id)))
        return RefusedFault(f"refused: {verdict.reason}", hint=hint, code=code)
    told = f"refused ({code}): {known.means}" + (f"; {facts}" if facts not in ("", known.means) else "")
    hint = format_next_here(known.next.format(session=shorten_session(verdict.session_id)))
    return RefusedFault(told, hint=hint, code=code)


def make_table() -> str:
    """Return Markdown: a line per code, with the next command where it is not to look at the session."""
    return "\n".join(
        f"- `{code}`: {one.means}" + ("" if one.next == _LOOK else f"; `hobus {one.next.format(session='SES-…')}`")
        for code, one in REFUSALS.items()
    )


if __name__ == "__main__":
    sys.stdout.write(make_table() + "\n")
