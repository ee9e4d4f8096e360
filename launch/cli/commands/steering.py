"""`hobus session steer|followup|pause|resume|cancel|approve|deny|end`: what people say to a session's run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click

from hobus.bus.messages import session as events
from hobus.bus.messages.ids import shorten_session
from hobus.bus.messages.session import (
    Command,
    CommandVerdict,
    EndSession,
    HeldCall,
    ProcessTurn,
    SessionClosed,
    TurnResult,
)
from hobus.launch.cli.commands.cluster_options import choose_timeout, read_text
from hobus.launch.cli.commands.options import DURATION, Output, with_home, with_json
from hobus.launch.cli.outcome import exit_code_of, render_warnings
from hobus.launch.cluster.client import connect_bus, find_cluster
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import (
    RefusedFault,
    UnreachableFault,
    UsageFault,
    format_next_here,
    format_same_command,
)
from hobus.launch.console.output import format_count, format_money, note, note_lines, say, style
from hobus.launch.sessions.commands import Fences, draw_id, make_host_command, send_command
from hobus.launch.sessions.journal import FromLedger, end_of, find_begun
from hobus.launch.sessions.named import find_named_session
from hobus.launch.sessions.notifications import describe_asked
from hobus.launch.sessions.refusals import make_refused
from hobus.launch.sessions.summary import LAST, fold_standing
from hobus.launch.sessions.watched_turn import ROLE, answer_of
from hobus.launch.sessions.which import make_no_such, run_number

PROGRAM = "cli"
EPOCH_MAX = 2**63 - 1
"""No frame carries a greater number."""


class Sending:
    """One invocation: to which session, under which fences and id, and how the verdict is told."""

    def __init__(  # noqa: PLR0913 - one per option
        self, *, home: Home, given: str, run: str | None, epoch: int | None, command_id: str | None,
        timeout_s: float | None, as_json: bool,
    ) -> None:  # fmt: skip
        self.place = find_cluster(home)
        config = self.place.snapshot.config
        self.wait_s = choose_timeout(timeout_s, config, default_ms=config.launcher.client_timeout_ms)
        self.given, self.as_json = given, as_json
        self._run, self._epoch = run, epoch
        self._command_id = draw_id(PROGRAM) if command_id is None else command_id

    async def session_id(self) -> str:
        """Return the full id of the session. Raises CommandError."""
        return await find_named_session(self.place, self.given, called="SESSION")

    async def send(self, session_id: str, command: Command, *, suffix: str = "") -> CommandVerdict:
        """Return the verdict on one command; `suffix` keeps several of an invocation apart. Raises CommandError."""
        fences = Fences(None if self._run is None else run_number(self._run, session_id), self._epoch)
        try:
            sent = make_host_command(session_id, command, fences, f"{self._command_id}{suffix}")
        except ValueError:
            raise UsageFault("--command-id: expected 1 to 100 letters, digits and ._:@-") from None
        try:
            return await send_command(self.place, session_id, sent, timeout_s=self.wait_s)
        except UnreachableFault as fault:
            raise UnreachableFault(fault.message, hint=f"{self.again()}; {fault.hint}", code=fault.code) from fault

    def again(self) -> str:
        """Return the command that gets the same verdict, or answer, again."""
        return f"{format_same_command('--command-id', self._command_id)} (it is applied once)"


def _add_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object."),
        click.option("--timeout", "timeout_s", type=DURATION, help="How long to try, e.g. 90 or 2m."),
        click.option("--command-id", metavar="ID", help="Idempotency key; a retry under it is applied once."),
        click.option(
            "--epoch", type=click.IntRange(min=0, max=EPOCH_MAX), metavar="N", help="Apply only in this session epoch."
        ),
        click.option("--run", metavar="RUN", help="Apply only to the active run with this number."),
        click.argument("given", metavar="SESSION"),
    ):
        command = option(command)
    return with_home(command)


def _tell(verdict: CommandVerdict, what: str, *, as_json: bool) -> int:
    """Return the exit code; tell a refusal on stderr, also beside its JSON."""
    if as_json:
        say(verdict.model_dump_json())
    if verdict.outcome == "rejected":
        raise make_refused(verdict)
    if not as_json:
        run = "no run" if verdict.run_id is None else f"run {verdict.run_id.run_seq} is {verdict.lifecycle}"
        again = "; it was applied before" if verdict.is_repeat else ""
        where = f"{shorten_session(verdict.session_id)}, {run}, epoch {verdict.session_epoch}"
        say(style("applied", "green"), f": {what}{again}; {where}")
    return exit_codes.OK


def _send_one(command: Command, what: str, options: dict[str, Any]) -> int:
    sending = Sending(**options)

    async def send() -> CommandVerdict:
        return await sending.send(await sending.session_id(), command)

    return _tell(asyncio.run(send()), what, as_json=sending.as_json)


def _read_text(words: tuple[str, ...], home: Home) -> str:
    return read_text(" ".join(words), find_cluster(home).snapshot.config.host)


# --- words ----------------------------------------------------------------------------------------------------------


@click.command()
@_add_options
@click.argument("words", nargs=-1, required=True, metavar="TEXT")
def steer(*, words: tuple[str, ...], **options: Any) -> int:
    """Tell the active run something; its next model round sees it. TEXT `-` reads standard input."""
    return _send_one(events.Steer(text=_read_text(words, options["home"])), "its next round sees it", options)


@click.command()
@_add_options
@click.option("--wait", "is_waited_for", is_flag=True, help="Wait for the answer and print it.")
@click.argument("words", nargs=-1, required=True, metavar="TEXT")
def followup(*, words: tuple[str, ...], is_waited_for: bool, **options: Any) -> int:
    """Queue a message that begins the next run when this one ends. TEXT `-` reads standard input.

    With --wait, --timeout includes the answer (default: host.turn_timeout_ms), and --json prints the TurnResult.
    """
    text = _read_text(words, options["home"])
    sending = Sending(**options)

    async def send() -> tuple[CommandVerdict, TurnResult | None]:
        verdict = await sending.send(await sending.session_id(), events.FollowUp(text=text))
        if not is_waited_for or verdict.outcome == "rejected" or verdict.input_id is None:
            return verdict, None
        host = sending.place.snapshot.config.host
        wait_s = options["timeout_s"] or host.turn_timeout_ms / 1000
        turn = ProcessTurn(session_id=verdict.session_id, input_id=verdict.input_id, text=text)
        return verdict, await answer_of(sending.place, turn, timeout_s=wait_s, waits_for_its_turn=True)

    # What is sent may be under way, or queued: a waiting that ends takes nothing back.
    try:
        verdict, result = asyncio.run(send())
    except KeyboardInterrupt:
        if is_waited_for:
            note(f"no longer waiting; the turn goes on, and its answer is kept: {sending.again()}")
        raise
    if result is None:
        return _tell(verdict, f"queued as input {verdict.input_id}", as_json=sending.as_json)
    if sending.as_json:
        say(result.model_dump_json())
    elif result.outcome != "error":
        say(result.response)
    note_lines(render_warnings(result), behind=f"; {shorten_session(result.session_id)}")
    return exit_code_of(result)


# --- the run --------------------------------------------------------------------------------------------------------


@click.command()
@_add_options
def pause(**options: Any) -> int:
    """Pause the run at its next step; started work still finishes."""
    return _send_one(events.Pause(), "it pauses at its next step", options)


@click.command()
@_add_options
def resume(**options: Any) -> int:
    """Resume a paused run."""
    return _send_one(events.Resume(), "it goes on", options)


@click.command()
@_add_options
@click.option("--reason", metavar="WORDS", help="Why; it is recorded.")
def cancel(*, reason: str | None, **options: Any) -> int:
    """Cancel the run: stop its model call and tools, ignore late results."""
    return _send_one(events.Cancel(reason=reason), "the run ends", options)


# --- approvals ------------------------------------------------------------------------------------------------------


@click.command()
@_add_options
@click.argument("call", required=False, metavar="[CALL]")
@click.option("--all", "is_all", is_flag=True, help="All waiting calls.")
def approve(*, call: str | None, is_all: bool, **options: Any) -> int:
    """Approve the tool call CALL, by default the one that waits.

    CALL is the name that was shown. It includes a digest of tool and arguments, so it never approves another call.
    """
    return _decide(call, is_all, options, lambda held: events.Approve(call_id=held.call_id), "may run")


@click.command()
@_add_options
@click.argument("call", required=False, metavar="[CALL]")
@click.option("--all", "is_all", is_flag=True, help="All waiting calls.")
@click.option("--reason", metavar="WORDS", help="Why; it is recorded.")
def deny(*, call: str | None, is_all: bool, reason: str | None, **options: Any) -> int:
    """Refuse a tool call that waits for approval, and tell the model. CALL as for `approve`."""
    return _decide(call, is_all, options, lambda held: events.Deny(call_id=held.call_id, reason=reason), "is not run")


def _decide(
    call: str | None, is_all: bool, options: dict[str, Any], made: Callable[[HeldCall], Command], what: str
) -> int:
    sending = Sending(**options)
    if call is not None and is_all:
        raise UsageFault("CALL and --all: name a call, or all of them")

    async def send() -> list[tuple[HeldCall, CommandVerdict]]:
        session_id = await sending.session_id()
        calls = await _find_meant(sending.place, session_id, call, is_all=is_all)
        return [
            (one, await sending.send(session_id, made(one), suffix=f".{one.call_id}" if len(calls) > 1 else ""))
            for one in calls
        ]

    code = exit_codes.OK
    for one, verdict in asyncio.run(send()):
        code = max(code, _tell(verdict, f"call {one.call_id} {describe_asked(one)} {what}", as_json=sending.as_json))
    return code


async def _find_meant(place: Place, session_id: str, call: str | None, *, is_all: bool) -> list[HeldCall]:
    """Return the calls that are meant. Raises CommandError where it is not clear which."""
    held = await read_held_calls(place, session_id)
    if call is not None:
        # What is not waiting goes to the session all the same: its refusal is the answer, and stands in the record.
        return [next((one for one in held if one.call_id == call), HeldCall(call_id=call, tool_id=""))]
    if not held:
        raise RefusedFault(
            f"no tool call of {shorten_session(session_id)} waits for an approval",
            hint=format_next_here(f"session show {shorten_session(session_id)}"),
        )
    if len(held) > 1 and not is_all:
        which = ", ".join(f"{one.call_id} {one.tool_id}" for one in held)
        raise UsageFault(
            f"{len(held)} tool calls wait for an approval: {which}", hint="name one of them, or give --all"
        )
    return held


async def read_held_calls(place: Place, session_id: str) -> list[HeldCall]:
    """Return what waits for an approval now, as the journal says. Raises CommandError for an unknown session."""
    async with connect_bus(place, "operator") as bus:
        entries = await end_of(FromLedger(bus, timeout_s=place.client_timeout_s), session_id)
    if not entries:
        raise make_no_such(session_id, called="SESSION")
    return fold_standing(entries).held_calls()


# --- the session ----------------------------------------------------------------------------------------------------


@click.command()
@click.argument("given", metavar="SESSION")
@click.option("--reason", default="operator", show_default=True, metavar="WORDS", help="Why; it is recorded.")
@with_json
def end(*, home: Home, given: str, reason: str) -> Output:
    """End a session for good; cancel its run first."""
    place = find_cluster(home)
    closed = asyncio.run(end_session(place, given, reason))
    count, tokens = closed.turn_count, closed.total_tokens  # None: it was closed all the same, as the record says
    after = ""
    if count is not None and tokens is not None:
        used = f"{format_count(tokens, 'token')} of ended calls, {format_money(closed.cost_usd)}"
        after = f" after {format_count(count, 'answered turn')}: {used}"
    ended = f"{shorten_session(closed.session_id)} ended{after}"
    return Output(closed, lambda: say(ended), indent=None)


async def end_session(place: Place, given: str, reason: str) -> SessionClosed:
    """Close the session, so that the record says so: the host's word alone would not do."""
    timeout_s = place.client_timeout_s
    async with connect_bus(place, "operator") as bus:
        session_id = await find_begun(FromLedger(bus, timeout_s=timeout_s), given, called="SESSION")
    async with connect_bus(place, ROLE) as bus:
        closed = await bus.request(
            "host", EndSession(session_id=session_id, reason=reason), expect=SessionClosed, timeout_s=timeout_s
        )
    async with connect_bus(place, "operator") as bus:
        entries, _ = await FromLedger(bus, timeout_s=timeout_s).newest(session_id, LAST)
    if all(entry.event_type != "SESSION_END" for entry in entries):
        raise UnreachableFault(
            f"{shorten_session(session_id)} was not ended: no supervisor took it",
            hint=f"{format_next_here('ps')}, then run the same command again",
        )
    return closed
