"""What somebody who waits for a turn is told of its session's journal: it stands still, goes on, was steered.

The record alone is read, so it is told whoever did it, and also while no supervisor lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal

from hobus.actors.ho2_supervisor.session.commands import derive_text_ref
from hobus.actors.ho2_supervisor.session.journal import Reduction
from hobus.actors.ho2_supervisor.session.state import SessionState
from hobus.bus.errors import LedgerError, RuntimeFault
from hobus.bus.messages import session
from hobus.bus.messages.ids import LOCAL, derive_body_ref, shorten_session
from hobus.bus.messages.ledger import Body, Entry, GetBody
from hobus.bus.messages.session import HeldCall, HostCommand
from hobus.bus.port import Bus
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import find_own_text
from hobus.bus.text import shorten
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError, format_next_here
from hobus.launch.console.output import as_json, make_printable
from hobus.launch.limits import JOURNAL_POLL_MS
from hobus.launch.sessions.journal import FromLedger, end_of
from hobus.launch.sessions.summary import SessionStanding

Line = tuple[str, str]
Answer = Literal["resume", "cancel", "approve", "deny"]
_STANDS, _DIM = "yellow", "bright_black"
_TEXT_CHARS = 120
_ARGUMENTS_CHARS = 400


def describe_in_chat(answer: Answer, _session_id: str, call_id: str = "") -> str:
    return f"/{answer} {call_id}".rstrip()


def describe_in_shell(answer: Answer, session_id: str, call_id: str = "") -> str:
    return format_next_here(f"session {answer} {shorten_session(session_id)} {call_id}".rstrip())


class Noticed:
    """The lines about a session's journal, entry by entry. `own` are the ids of commands whose sender knows already.

    `shown`: filled with the held calls that were told of.
    """

    def __init__(
        self, session_id: str, *, says: Callable[..., str], own: set[str] | None = None, shown: set[str] | None = None
    ) -> None:
        self._session_id = session_id
        self._says = says
        self._own = own if own is not None else set[str]()
        self._texts: dict[str, str] = {}  # of steers, by their refs
        self._shown = shown if shown is not None else set[str]()
        self.standing = SessionStanding()

    def catch_up(self, entries: Iterable[Entry], *, input_id: str) -> list[Line]:
        """Return the lines of the journal's end: what happened since this input was admitted, or else how it stands.

        Without an input, nothing that has happened is told.
        """
        lines: list[Line] = []
        is_its_own = False
        for entry in entries:
            told = self.take(entry)
            if is_its_own:
                lines += told
            is_its_own = is_its_own or (bool(input_id) and entry.submission_id.endswith(f"/{input_id}"))
        return lines or self.describe_standing()

    def take(self, entry: Entry) -> list[Line]:
        return [line for step in self.standing.take(entry) for line in self._render_step(step)]

    def describe_standing(self) -> list[Line]:
        """Return that the run waits, for what, and what to type; nothing for one in progress."""
        say = self._says
        if self.standing.lifecycle == "Paused":
            resume, cancel = say("resume", self._session_id), say("cancel", self._session_id)
            return [("the turn is paused", _STANDS), (f"{resume} lets it go on, {cancel} ends it", _DIM)]
        lines: list[Line] = []
        for held in self.standing.held_calls() if self.standing.lifecycle == "WaitingInput" else []:
            approve, deny = (say(one, self._session_id, held.call_id) for one in ("approve", "deny"))
            self._shown.add(held.call_id)
            lines.append((f"the turn waits for your approval of call {held.call_id}: {describe_asked(held)}", _STANDS))
            lines.append((f"{approve} lets it run, {deny} does not", _DIM))
        return lines

    # --- one event ----------------------------------------------------------------------------------------------------

    def _render_step(self, taken: Reduction) -> list[Line]:
        match taken.event:
            case events.LifecycleChanged():
                return self.describe_standing()
            case events.HostCommandReceived() if taken.recorded is not None:
                ref = derive_body_ref(taken.entry.submission_id, 1)
                if (text := find_own_text(taken.recorded, ref)) is not None:
                    self._texts[ref] = text
            case events.HostCommandApplied() if taken.before.received_command is not None and not taken.rejection:
                return self._render_applied(taken.before.received_command, taken.before)
            case events.StepStarted(steers=steers) if steers:
                return [(f"the steer was taken up{self._quoted(self._texts.pop(ref, ''))}", _DIM) for ref in steers]
            case events.TookOver(instance=instance, tenure=tenure) if self.standing.input_id:
                return [(f"another supervisor took the turn over ({instance}, tenure {tenure})", _DIM)]
            case _:
                pass
        return []

    def _render_applied(self, command: HostCommand, before: SessionState) -> list[Line]:
        said = command.command
        is_own = command.command_id in self._own
        if isinstance(said, session.Resume) and before.lifecycle == "Paused" and not is_own:
            return [("the turn goes on", _DIM)]
        if is_own or isinstance(said, session.LeaseHeartbeat | session.Resume):
            return []
        text = self._texts.get(derive_text_ref(self._session_id, command.command_id), "")
        if isinstance(said, session.FollowUp):
            self._texts.pop(derive_text_ref(self._session_id, command.command_id), None)
        who = "somebody" if before.received_from == LOCAL else before.received_from
        match said:
            case session.Steer():
                told = f"{who} steered the turn{self._quoted(text)}"
            case session.FollowUp():
                told = f"{who} queued a message for the end of the turn{self._quoted(text)}"
            case session.Pause():
                told = f"{who} pauses the turn"
            case session.Cancel(reason=reason):
                told = f"{who} cancels the turn{self._quoted(reason or '')}"
            case session.Approve(call_id=call_id):
                told = f"{who} approved call {call_id}"
            case session.Deny(call_id=call_id, reason=reason):
                told = f"{who} denied call {call_id}{self._quoted(reason or '')}"
        return [(told, _DIM)]

    @staticmethod
    def _quoted(text: str) -> str:
        line = make_printable(" ".join(text.split()))
        return f": “{shorten(line, _TEXT_CHARS)}”" if line else ""


def describe_asked(held: HeldCall) -> str:
    """Return tool and arguments of a call as the model asked for it, in one line."""
    return f"{make_printable(held.tool_id)} {shorten(make_printable(as_json(held.arguments)), _ARGUMENTS_CHARS)}"


async def follow(
    place: Place, session_id: str, input_id: str, noticed: Noticed, tell: Callable[[list[Line]], None]
) -> None:
    """Tell what is noticed, until cancelled; whatever is away comes back, or who waits for the turn says so."""
    interval_s = JOURNAL_POLL_MS / 1000
    is_caught_up, after = False, -1
    while True:
        await asyncio.sleep(interval_s)
        try:
            async with connect_bus(place, "operator") as bus:
                if not is_caught_up:
                    entries = await read_newest(place, bus, session_id)
                    tell(noticed.catch_up(entries, input_id=input_id))
                    is_caught_up, after = bool(entries), entries[-1].sequence if entries else -1
                while is_caught_up:
                    async for entry in _make_journals(place, bus).behind(session_id, after):
                        tell(noticed.take(entry))
                        after = entry.sequence
                    await bus.sleep(interval_s)
        except (RuntimeFault, CommandError, OSError):
            continue


async def read_newest(place: Place, bus: Bus, session_id: str) -> list[Entry]:
    """Return the end of a journal in the running ledger; none before the session has begun."""
    return await end_of(_make_journals(place, bus), session_id)


def _make_journals(place: Place, bus: Bus) -> FromLedger:
    return FromLedger(bus, timeout_s=place.client_timeout_s)


async def read_body_text(bus: Bus, ref: str, *, timeout_s: float) -> str | None:
    """Return the text behind a ref; None where it was erased or is none."""
    try:
        body = await bus.request("ledger", GetBody(ref=ref), expect=Body, timeout_s=timeout_s)
        return body.data.decode()
    except UnicodeDecodeError:
        return None
    except LedgerError as fault:
        if fault.code != "not_found":
            raise
        return None
