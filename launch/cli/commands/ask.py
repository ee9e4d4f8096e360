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
from hobus.bus.messages.ids import derive_session_id, shorten_session
from hobus.bus.messages.session import ProcessTurn, SessionConfig, TurnResult
from hobus.launch.cli.answer_view import AnswerView, PlainView, make_view, show_end, streams_to_stdout
from hobus.launch.cli.commands.cluster_options import (
    choose_app_agent,
    choose_timeout,
    find_known_agent,
    make_overrides,
    read_text,
    with_agent,
    with_app,
    with_wishes,
)
from hobus.launch.cli.commands.options import DURATION, with_home
from hobus.launch.cli.outcome import RUN_WAITING, Line, exit_code_of, render_warnings
from hobus.launch.cluster.client import find_cluster
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import (
    CommandError,
    UnreachableFault,
    UsageFault,
    as_command_error,
    format_next_command,
    format_same_command,
)
from hobus.launch.console.output import format_count, is_terminal, note, note_coloured, note_lines, say
from hobus.launch.limits import JOURNAL_POLL_MS
from hobus.launch.sessions.turns import run_beside
from hobus.launch.sessions.watched_turn import ROLE, answer_of
from hobus.launch.sessions.which import complete_session_id


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
    ends meanwhile, the exit code is 4; ask again under the same --input-id.
    """
    its_next = ""  # what begins the cluster again that ends with this command
    if app is not None and find_holder(home) is None:
        its_next = format_next_command(f"up {shlex.quote(str(app))} --wait", home.root)
    agent = choose_app_agent(home, app, agent, session)
    place = find_cluster(home)
    config = place.snapshot.config
    wait_s = choose_timeout(timeout_s, config, default_ms=config.host.turn_timeout_ms)
    text = read_text(text, config.host)
    input_id = SystemClock().new_id() if input_id is None else input_id
    try:
        agent = find_known_agent(agent, place.snapshot, running_in=home)
        meant = agent or (config.host.agent_id if session is None else None)
        overrides = make_overrides(template, model, place.snapshot, agent=meant)
        turn = _make_turn(text, input_id, agent=agent, overrides=overrides)
        result = asyncio.run(_ask(place, turn, session, wait_s, as_json=as_json))
    except KeyboardInterrupt:
        goes_on = f"goes on with the next cluster here ({its_next})" if its_next else "goes on"
        note(f"no longer waiting; the turn {goes_on}, and its answer is kept: {_describe_again(input_id)}")
        raise
    except (RuntimeFault, UnreachableFault) as fault:
        raise _make_unanswered(home, fault, input_id) from fault
    if as_json:
        say(result.model_dump_json())
    if result.code == RUN_WAITING:
        first = f"{its_next} (its cluster ends with this command), then that, then " if its_next else ""
        hint = f"{first}{_describe_again(input_id)}; its time was {wait_s:g} s"
        raise CommandError(result.response, hint=hint, exit_code=exit_code_of(result))
    return _tell_outcome(result, quiet=as_json)


def _make_unanswered(home: Home, fault: Exception, input_id: str) -> Exception:
    """Return the fault as it is said; where nobody was reached in time, with the id under which to ask again."""
    known = as_command_error(fault)
    if known is None or known.exit_code != exit_codes.UNREACHABLE:
        return fault
    again = _describe_again(input_id)
    is_gone = isinstance(fault, UnreachableFault)
    return CommandError(
        known.message,
        hint=f"{known.hint}, then {again}" if is_gone else f"{again}; {format_next_command('ps', home.root)}",
        exit_code=known.exit_code,
    )


def _describe_again(input_id: str) -> str:
    """Return the command that gets the answer; the turn never runs twice."""
    return f"{format_same_command('--input-id', input_id)} (it never runs twice)"


def _make_turn(text: str, input_id: str, *, agent: str | None, overrides: SessionConfig | None) -> ProcessTurn:
    try:
        return ProcessTurn(input_id=input_id, text=text, agent_id=agent, run_overrides=overrides).checked()
    except ValueError:
        raise UsageFault("--input-id: expected 1 to 128 letters, digits and ._:@-") from None


async def _ask(place: Place, turn: ProcessTurn, session: str | None, timeout_s: float, *, as_json: bool) -> TurnResult:
    session_id = None if session is None else complete_session_id(session)
    if session is not None and session_id is None:
        from hobus.launch.sessions.named import find_named_session  # noqa: PLC0415 - loads the record's messages

        session_id = await find_named_session(place, session)
    is_shown = streams_to_stdout() and not as_json
    turn = turn.model_copy(update={"session_id": session_id, "stream": is_shown})
    view = PlainView(lambda _text: None, is_terminal=False) if as_json else make_view(is_live=is_shown)
    view.begin()
    try:
        result = await _watch_turn(place, turn, timeout_s, view, is_shown=is_shown)
    except BaseException:
        view.abandon()
        raise
    show_end(view, result)
    return result


async def _watch_turn(
    place: Place, turn: ProcessTurn, timeout_s: float, view: AnswerView, *, is_shown: bool
) -> TurnResult:
    """Return the answer; meanwhile tell when the turn waits for somebody."""
    on_stream = view.on_frame if is_shown else None
    session_id = turn.session_id or derive_session_id(ROLE, turn.input_id)
    # A terminal that shows both streams is one screen: what stands there for good goes above the answer.
    tell = view.tell if is_shown and is_terminal(sys.stderr) else note_lines
    return await run_beside(
        answer_of(place, turn, timeout_s=timeout_s, on_stream=on_stream),
        _follow_session(place, session_id, turn.input_id, tell),
    )


async def _follow_session(place: Place, session_id: str, input_id: str, tell: Callable[[list[Line]], None]) -> None:
    """Tell what happens in the session, from when the turn has taken a while."""
    await asyncio.sleep(JOURNAL_POLL_MS / 1000)
    from hobus.launch.sessions.notifications import (  # noqa: PLC0415
        Noticed,
        describe_in_shell,
        follow,
    )

    await follow(place, session_id, input_id, Noticed(session_id, says=describe_in_shell), tell)


def _tell_outcome(result: TurnResult, *, quiet: bool) -> int:
    """Return the exit code; say anything but a success on stderr, where a pipe does not swallow it."""
    where = shorten_session(result.session_id)
    if result.outcome == "error":
        where += f", input {result.input_id}"
    note_lines(render_warnings(result), behind=f"; {where}")
    if result.outcome == "success" and not quiet and is_terminal(sys.stderr):
        told = f"{where} · {result.elapsed_ms} ms · {format_count(result.cost.total_tokens, 'token')}"
        note_coloured(told, "bright_black")
    return exit_code_of(result)
