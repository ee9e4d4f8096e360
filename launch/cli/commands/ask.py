"""`hobus ask`: one message, one answer."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click

from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import session_id_of, shown_session
from hobus.bus.messages.session import ProcessTurn, SessionConfig, TurnResult
from hobus.launch.cli.answer_view import AnswerView, PlainView, show_end, streams_to_stdout, view_on_stdout
from hobus.launch.cli.commands.cluster_options import (
    agent_of_app,
    known_agent,
    known_wishes,
    seconds_to_wait,
    text_given,
    with_agent,
    with_app,
    with_wishes,
)
from hobus.launch.cli.commands.options import DURATION, with_home
from hobus.launch.cli.outcome import RUN_WAITING, Line, exit_code_of, warnings_about
from hobus.launch.cluster.client import cluster_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, holder
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, as_command_error, next_command, same_command
from hobus.launch.console.output import counted, is_terminal, note, note_coloured, note_lines, say
from hobus.launch.limits import JOURNAL_POLL_MS
from hobus.launch.sessions.turns import beside
from hobus.launch.sessions.watched_turn import ROLE, answer_of
from hobus.launch.sessions.which import full_session_id


@click.command()
@click.argument("text")
@click.option("--session", metavar="ID", help="Continue this session (its id or an unambiguous prefix).")
@with_agent
@with_wishes
@with_app
@click.option("--timeout", "timeout_s", type=DURATION, help="How long to wait, e.g. 90 or 2m.")
@click.option("--input-id", metavar="ID", help="Idempotency key of this message: the same key gets the same answer.")
@click.option("--json", "as_json", is_flag=True, help="Print the TurnResult as one JSON object.")
@with_home
def ask(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    text: str,
    app: Path | None,
    session: str | None,
    agent: str | None,
    template: str | None,
    model: str | None,
    timeout_s: float | None,
    input_id: str | None,
    as_json: bool,
) -> int:
    """Ask the agent one question and print the answer; TEXT `-` reads standard input.

    On a terminal the answer streams. Exit codes: 0 an answer (stderr says if it is degraded), 1 a failed turn, 5 a
    refused one. If the turn is paused or waits for an approval, stderr shows the command that continues it. If the time
    ends first, the exit code is 4; ask again under the same --input-id.
    """
    its_app = app if app is not None and holder(home) is None else None  # whose cluster ends with this command
    agent = agent_of_app(home, app, agent, session)
    place = cluster_of(home)
    config = place.snapshot.config
    wait_s = seconds_to_wait(timeout_s, config, default_ms=config.host.turn_timeout_ms)
    text = text_given(text, config.host)
    input_id = input_id or SystemClock().new_id()
    try:
        agent = known_agent(agent, place.snapshot, running_in=home)
        meant = agent or (config.host.agent_id if session is None else None)
        overrides = known_wishes(template, model, place.snapshot, agent=meant)
        turn = _turn_of(text, input_id, agent=agent, overrides=overrides)
        result = asyncio.run(_ask(place, turn, session, wait_s, as_json=as_json))
    except KeyboardInterrupt:
        goes_on = f"goes on with the next cluster here ({_up(home, its_app)})" if its_app else "goes on"
        note(f"no longer waiting; the turn {goes_on}, and its answer is kept: {_again(input_id)}")
        raise
    except RuntimeFault as fault:
        raise _unanswered(home, fault, input_id) from fault
    if as_json:
        say(result.model_dump_json())
    if result.code == RUN_WAITING:
        first = f"{_up(home, its_app)} (its cluster ends with this command), then that, then " if its_app else ""
        hint = f"{first}{_again(input_id)}; its time was {wait_s:g} s"
        raise CommandError(result.response, hint=hint, exit_code=exit_code_of(result))
    return _outcome(result, quiet=as_json)


def _unanswered(home: Home, fault: RuntimeFault, input_id: str) -> Exception:
    """Return the fault as it is said; where nobody was reached in time, with the id under which to ask again."""
    known = as_command_error(fault)
    if known is None or known.exit_code != exit_codes.UNREACHABLE:
        return fault
    return CommandError(
        known.message, hint=f"{_again(input_id)}; {next_command('ps', home.root)}", exit_code=known.exit_code
    )


def _up(home: Home, app: Path) -> str:
    return next_command(f"up {shlex.quote(str(app))} --wait", home.root)


def _again(input_id: str) -> str:
    """Return the command that gets the answer; the turn never runs twice."""
    return f"{same_command('--input-id', input_id)} (it never runs twice)"


def _turn_of(text: str, input_id: str, *, agent: str | None, overrides: SessionConfig | None) -> ProcessTurn:
    try:
        return ProcessTurn(input_id=input_id, text=text, agent_id=agent, run_overrides=overrides).checked()
    except ValueError:
        raise UsageFault("--input-id: expected 1 to 128 letters, digits and ._:@-") from None


async def _ask(place: Place, turn: ProcessTurn, session: str | None, timeout_s: float, *, as_json: bool) -> TurnResult:
    session_id = None if session is None else full_session_id(session)
    if session is not None and session_id is None:
        from hobus.launch.sessions.named import named_session  # noqa: PLC0415 - loads the record's messages

        session_id = await named_session(place, session)
    is_shown = streams_to_stdout() and not as_json
    turn = turn.model_copy(update={"session_id": session_id, "stream": is_shown})
    view = PlainView(lambda _text: None, is_terminal=False) if as_json else view_on_stdout(is_live=is_shown)
    view.begin()
    try:
        result = await _watched(place, turn, timeout_s, view, is_shown=is_shown)
    except BaseException:
        view.abandon()
        raise
    show_end(view, result)
    return result


async def _watched(
    place: Place, turn: ProcessTurn, timeout_s: float, view: AnswerView, *, is_shown: bool
) -> TurnResult:
    """Return the answer; meanwhile tell when the turn waits for somebody."""
    on_stream = view.on_frame if is_shown else None
    session_id = turn.session_id or session_id_of(ROLE, turn.input_id)
    # A terminal that shows both streams is one screen: what stands there for good goes above the answer.
    tell = view.tell if is_shown and is_terminal(sys.stderr) else note_lines
    return await beside(
        answer_of(place, turn, timeout_s=timeout_s, on_stream=on_stream),
        _followed(place, session_id, turn.input_id, tell),
    )


async def _followed(place: Place, session_id: str, input_id: str, tell: Callable[[list[Line]], None]) -> None:
    """Tell what happens in the session, from when the turn has taken a while."""
    await asyncio.sleep(JOURNAL_POLL_MS / 1000)
    from hobus.launch.sessions.notifications import (  # noqa: PLC0415
        Noticed,
        follow,
        in_shell,
    )

    await follow(place, session_id, input_id, Noticed(session_id, says=in_shell), tell)


def _outcome(result: TurnResult, *, quiet: bool) -> int:
    """Return the exit code; say anything but a success on stderr, where a pipe does not swallow it."""
    where = shown_session(result.session_id)
    if result.outcome == "error":
        where += f", input {result.input_id}"
    note_lines(warnings_about(result), behind=f"; {where}")
    if result.outcome == "success" and not quiet and is_terminal(sys.stderr):
        told = f"{where} · {result.elapsed_ms} ms · {counted(result.cost.total_tokens, 'token')}"
        note_coloured(told, "bright_black")
    return exit_code_of(result)
