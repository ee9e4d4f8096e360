"""`hobus chat`: a conversation in a terminal, or over a pipe."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from bus.clock import SystemClock
from bus.errors import RuntimeFault
from bus.messages.ids import session_id_of, shown_session
from bus.messages.session import ProcessTurn, TurnResult
from launch import exit_codes
from launch.chat.answer_view import PlainView
from launch.chat.outcome import Line, exit_code_of, lines_about, warnings_about, worst
from launch.chat.piped import lines_of
from launch.chat.showing import streams_to_stdout, view_on_stdout
from launch.chat.slash import is_command, is_whole_command, told
from launch.chat.talk import Talk
from launch.chat.typed import Typed, restored, unechoed
from launch.commands.options import seconds_to_wait, with_home
from launch.door import ROLE, named_session
from launch.errors import CommandError
from launch.faults import as_command_error
from launch.home import Home
from launch.output import as_json as json_text
from launch.output import colours, is_terminal, note, say, styled
from launch.turns import check_text

_DIM = "bright_black"
_NOTHING_WAITED_FOR: list[Line] = [("nothing is waited for", _DIM)]


@click.command()
@click.option("--session", metavar="ID", help="Continue this session (its id or an unambiguous prefix).")
@click.option("--no-stream", is_flag=True, help="Show answers only when they are whole.")
@click.option("--timeout", "timeout_s", type=float, help="Seconds to wait for each answer.")
@click.option("--json", "as_json", is_flag=True, help="One TurnResult per line; nothing else on standard output.")
@with_home
def chat(*, home: Home, session: str | None, no_stream: bool, timeout_s: float | None, as_json: bool) -> int:
    """Talk with the agent; the session stays when you leave.

    In a terminal answers are shown as they are written; Ctrl-C stops waiting, Ctrl-D leaves, /help lists commands. Over
    a pipe each line is one turn and standard output holds the answers alone; the exit code is that of the worst turn. A
    line that is a command, such as /cost, is none there: what it tells goes to standard error.
    """
    is_live = streams_to_stdout() and not no_stream and not as_json
    talk = Talk(home, session_id=None, timeout_s=timeout_s, is_streamed=is_live)
    place = talk.place()
    config = place.snapshot.config
    seconds_to_wait(timeout_s, config, default_ms=config.host.turn_timeout_ms)
    if session is not None:
        talk.session_id = asyncio.run(named_session(place, session))
    if is_terminal(sys.stdin) and is_terminal(sys.stdout) and not as_json:
        with restored():
            return _in_terminal(talk, home, is_live=is_live)
    return _over_pipe(talk, is_live=is_live, as_json=as_json)


# --- in a terminal ----------------------------------------------------------------------------------------------------


def _in_terminal(talk: Talk, home: Home, *, is_live: bool) -> int:
    config = talk.place().snapshot.config
    prompt = "\001\x1b[1m\002you>\001\x1b[0m\002 " if colours() else "you> "
    typed = Typed(home.chat_history, lines_max=config.launcher.chat_history_lines, prompt=prompt)
    where = f"continues {shown_session(talk.session_id)}" if talk.session_id else "a new session"
    _tell([(f"hobus chat · {where} · /help lists commands, Ctrl-D leaves", _DIM)])
    while True:
        try:
            line = typed.read()
        except EOFError:
            say()
            break
        except KeyboardInterrupt:
            _tell([("", _DIM), ("Ctrl-D leaves", _DIM)])
            continue
        if line.strip() == "/quit":
            break
        _handle(talk, line, is_live=is_live)
    if talk.session_id is not None:
        _tell([(f"hobus chat --session {shown_session(talk.session_id)} continues this session", _DIM)])
    return exit_codes.OK


def _handle(talk: Talk, line: str, *, is_live: bool) -> None:
    """One typed line; whatever goes wrong is said, and the chat goes on."""
    name = line.split(maxsplit=1)[0] if line.strip() else ""
    try:
        if not name:
            return
        if is_command(line) and name != "/wait":
            _tell(told(name, talk))
        elif is_command(line) and talk.unfetched is None:
            _tell(_NOTHING_WAITED_FOR)
        else:
            _show_turn(talk, line, is_live=is_live)
    except KeyboardInterrupt:
        _tell(_interrupted(talk))
    except (RuntimeFault, CommandError) as error:
        _tell(_failed(error))


def _show_turn(talk: Talk, line: str, *, is_live: bool) -> None:
    turn = talk.unfetched if is_command(line) else None
    if turn is None:
        check_text(line, talk.place().snapshot.config.host)
        turn = talk.turn_of(line.strip())
    try:
        with unechoed():
            result = talk.answer(turn, view_on_stdout(is_live=is_live))
    except (RuntimeFault, CommandError) as error:
        _tell([*_failed(error), (f"the turn may go on: /wait asks for its answer (input {turn.input_id})", _DIM)])
        return
    _tell(lines_about(result))
    if result.code == "run_active" and talk.unfetched is not None:
        _tell([("the message before it is still being answered: /wait", _DIM)])


def _interrupted(talk: Talk) -> list[Line]:
    if talk.unfetched is None:
        return [("stopped", _DIM)]
    return [
        ("not waiting any more; the turn goes on, and its answer is kept: /wait fetches it", "yellow"),
        (f"input {talk.unfetched.input_id}", _DIM),
    ]


def _failed(error: RuntimeFault | CommandError) -> list[Line]:
    known = error if isinstance(error, CommandError) else as_command_error(error)
    if known is None:
        return [(str(error), "red")]
    return [(known.message, "red"), *([(f"next: {known.hint}", _DIM)] if known.hint else [])]


def _tell(lines: list[Line]) -> None:
    for text, colour in lines:
        say(styled(text, colour))


# --- over a pipe ------------------------------------------------------------------------------------------------------


def _over_pipe(talk: Talk, *, is_live: bool, as_json: bool) -> int:
    """Answers in order, on standard output; what else is to be said, on standard error."""
    if sys.stdin is None:
        note("standard input is closed: nothing was asked")
        return exit_codes.OK
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        note("one line, one message; Ctrl-D ends")
    codes: list[int] = []
    for line in lines_of(sys.stdin.buffer, talk.place().snapshot.config.host.prompt_max_bytes):
        name = line.strip() if line is not None and is_whole_command(line) else ""
        if name == "/quit":
            return worst(codes)
        if name and (name != "/wait" or talk.unfetched is None):
            codes.append(_piped_command(talk, name))
        else:
            codes.append(_json_turn(talk, line) if as_json else _plain_turn(talk, line, is_live=is_live))
    if not codes:
        note("no message came: nothing was asked")
    return worst(codes)


def _piped_command(talk: Talk, name: str) -> int:
    """The exit code of a command; what it tells is no answer. Raises as a turn does."""
    try:
        lines = _NOTHING_WAITED_FOR if name == "/wait" else told(name, talk)
    except (RuntimeFault, CommandError) as error:
        return _said(_of_this_turn(error))
    for text, colour in lines:
        note(styled(text, colour, to_stderr=True))
    return exit_codes.OK


def _said(error: CommandError) -> int:
    note(styled(f"error: {error.message}", "red", to_stderr=True))
    return error.exit_code


def _plain_turn(talk: Talk, line: str | None, *, is_live: bool) -> int:
    """The exit code of one line. Raises what ends them all: the cluster cannot be reached."""
    try:
        result = talk.answer(_turn_of(talk, line), view_on_stdout(is_live=is_live))
    except (RuntimeFault, CommandError) as error:
        return _said(_of_this_turn(error))
    for text, colour in warnings_about(result):
        note(styled(f"{text}; {shown_session(result.session_id)}", colour, to_stderr=True))
    return exit_code_of(result)


def _json_turn(talk: Talk, line: str | None) -> int:
    """The same; a line that could not be sent has a result too, so that results and messages correspond."""
    try:
        result = talk.answer(_turn_of(talk, line), PlainView(lambda _text: None, is_terminal=False))
    except (RuntimeFault, CommandError) as error:
        known = _of_this_turn(error)
        say(json_text(_unsent(talk, known)))
        return known.exit_code
    say(result.model_dump_json())
    return exit_code_of(result)


def _turn_of(talk: Talk, line: str | None) -> ProcessTurn:
    limits = talk.place().snapshot.config.host
    if line is not None and is_whole_command(line) and talk.unfetched is not None:
        return talk.unfetched  # /wait: nothing else comes here
    if line is None:
        raise CommandError(
            f"the message has more than {limits.prompt_max_bytes} bytes (host.prompt_max_bytes)",
            hint="send a shorter one; nothing was sent",
            exit_code=exit_codes.USAGE,
        )
    check_text(line, limits)
    return talk.turn_of(line)


def _of_this_turn(error: RuntimeFault | CommandError) -> CommandError:
    """The error, if the next line may fare better; else it ends the command."""
    known = error if isinstance(error, CommandError) else as_command_error(error)
    if known is None or known.exit_code == exit_codes.UNREACHABLE:
        raise error
    return known


def _unsent(talk: Talk, error: CommandError) -> dict[str, Any]:
    """A result's fields; `session_id` is null where the first message was refused, which begins no session."""
    input_id = SystemClock().new_id()
    result = TurnResult(
        response=error.message,
        outcome="error",
        session_id=talk.session_id or session_id_of(ROLE, input_id),
        run_id=None,
        input_id=input_id,
        code="invalid_input",
    )
    return {**result.model_dump(mode="json"), "session_id": talk.session_id}
