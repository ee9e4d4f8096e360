"""`hobus chat`: a conversation in a terminal, or over a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import derive_session_id, shorten_session
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.cli.answer_view import PlainView, make_view, streams_to_stdout
from hobus.launch.cli.chat.meanwhile import Meanwhile
from hobus.launch.cli.chat.run_commands import NAMES as RUN_NAMES
from hobus.launch.cli.chat.run_commands import is_run_command
from hobus.launch.cli.chat.slash import LEAVING, NAMES, is_whole_command, run_slash
from hobus.launch.cli.chat.talk import Talk, TypedLine, read_typed
from hobus.launch.cli.commands.cluster_options import (
    choose_app_agent,
    choose_timeout,
    find_known_agent,
    make_overrides,
    with_agent,
    with_wishes,
)
from hobus.launch.cli.commands.options import DURATION, with_home
from hobus.launch.cli.outcome import Line, choose_worst, exit_code_of, render_about, render_fault, render_warnings
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, as_command_error, format_next_here
from hobus.launch.console.output import as_json as json_text
from hobus.launch.console.output import is_terminal, note, note_coloured, note_lines, say, style
from hobus.launch.sessions.named import find_named_session
from hobus.launch.sessions.turns import check_text, run_beside
from hobus.launch.sessions.watched_turn import ROLE

_DIM = "bright_black"
_NOTHING_WAITED_FOR: list[Line] = [("nothing is waited for", _DIM)]


@click.command()
@click.argument("app", required=False, type=click.Path(path_type=Path))
@click.option("--session", metavar="ID", help="Continue this session (its id or an unambiguous prefix).")
@with_agent
@with_wishes
@click.option("--no-stream", is_flag=True, help="Show only whole answers.")
@click.option("--timeout", "timeout_s", type=DURATION, help="How long to wait for each answer, e.g. 90 or 2m.")
@click.option("--json", "as_json", is_flag=True, help="One TurnResult per line; nothing else on standard output.")
@with_home
def chat(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    app: Path | None,
    session: str | None,
    agent: str | None,
    template: str | None,
    model: str | None,
    no_stream: bool,
    timeout_s: float | None,
    as_json: bool,
) -> int:
    """Talk with the agent. The session stays when you leave.

    With APP, a Python file, its first agent answers. If no cluster runs, start one and stop it afterwards.

    In a terminal answers stream. Ctrl-C stops waiting, Ctrl-D leaves, /help lists commands. While a turn runs you can
    type: /steer, /pause, /cancel and the like act at once, a message waits for its end. Over a pipe each line is one
    turn, and standard output has only answers; the output of a command such as /cost goes to standard error. The exit
    code is that of the worst turn.
    """
    agent = choose_app_agent(home, app, agent, session)
    is_live = streams_to_stdout() and not no_stream and not as_json
    talk = Talk(home, agent_id=agent, timeout_s=timeout_s, is_streamed=is_live)
    place = talk.place()
    agent = talk.agent_id = find_known_agent(agent, place.snapshot, running_in=home)
    config = place.snapshot.config
    meant = agent or (config.host.agent_id if session is None else None)
    talk.overrides = make_overrides(template, model, place.snapshot, agent=meant)
    choose_timeout(timeout_s, config, default_ms=config.host.turn_timeout_ms)
    if session is not None:
        talk.session_id = asyncio.run(find_named_session(place, session))
    if is_terminal(sys.stdin) and is_terminal(sys.stdout) and not as_json:
        return _run_in_terminal(talk, home)
    return asyncio.run(_run_over_pipe(talk, is_live=is_live, as_json=as_json))


# --- in a terminal ----------------------------------------------------------------------------------------------------


class _Conversation:
    """Take lines of a terminal, one after the other; whatever goes wrong is said, and the chat goes on."""

    def __init__(self, talk: Talk, home: Home) -> None:
        from hobus.launch.cli.chat import prompt  # noqa: PLC0415 - a pipe needs none, and it takes a tenth of a second

        self._talk = talk
        self._prompt = prompt.make_terminal_prompt(
            self._interrupt, history=home.chat_history, commands=[*NAMES, *RUN_NAMES]
        )
        self._new_view = partial(prompt.PromptView, self._prompt)
        self._tell = partial(prompt.tell, self._prompt)
        self._waiting: asyncio.Timeout | None = None  # for what a line asked for; Ctrl-C ends it
        self._to_confirm = ""  # the statement that the last answer asks about

    async def hold(self) -> None:
        talk = self._talk
        where = f"continues {shorten_session(talk.session_id)}" if talk.session_id else "a new session"
        self._tell([(f"hobus chat · {where} · /help lists commands, Ctrl-D leaves", _DIM)])
        await run_beside(self._answer_all(), self._read())

    async def _read(self) -> None:
        """Read lines; whoever presses Ctrl-D leaves behind all that was typed before."""
        with suppress(EOFError):
            while True:
                self._talk.sayings.add(await self._prompt.read())
        self._talk.sayings.add("/quit")

    async def _answer_all(self) -> None:
        talk = self._talk
        if talk.session_id is not None:
            self._tell(await talk.found())
        while (said := await talk.sayings.first()).text not in LEAVING:
            talk.sayings.lines.popleft()
            await self._handle(said)

    def _interrupt(self) -> None:
        if self._waiting is None:
            self._tell([("Ctrl-D leaves", _DIM)])
        else:
            self._waiting.reschedule(0)

    async def _handle(self, said: TypedLine) -> None:
        try:
            async with asyncio.timeout(None) as self._waiting:
                await self._do(said)
                while self._talk.follow_ups and self._talk.unfetched is None:
                    turn = self._talk.follow_ups.popleft()
                    self._tell([(f"you> {turn.text}", _DIM)])
                    await self._show(turn)
        except TimeoutError:
            self._tell(_on_interrupt(self._talk))
        except (RuntimeFault, CommandError) as error:
            self._tell(render_fault(error))
        finally:
            self._waiting = None

    async def _do(self, said: TypedLine) -> None:
        talk, name = self._talk, said.text.split(maxsplit=1)[0]
        asked, self._to_confirm = self._to_confirm, ""
        if asked and said.text.lower() == "y":
            self._tell(await run_slash(f"/memory confirm {asked}", talk))
        elif said.is_run_command or said.is_sent:
            self._tell(await talk.command(said))
        elif said.is_message:
            check_text(said.text, talk.place().snapshot.config.host)
            await self._show(talk.make_turn(said.text))
        elif name != "/wait":
            self._tell(await run_slash(said.text, talk))
        elif talk.unfetched is not None:
            await self._show(talk.unfetched, is_fresh=False)
        elif not talk.follow_ups:
            self._tell(_NOTHING_WAITED_FOR)

    async def _show(self, turn: ProcessTurn, *, is_fresh: bool = True) -> None:
        talk, view = self._talk, self._new_view()
        try:
            result = await talk.answer(turn, view, Meanwhile(talk, view, is_fresh=is_fresh).others)
        except (RuntimeFault, CommandError) as error:
            kept = f"the turn may go on: /wait asks for its answer (input {turn.input_id})"
            self._tell([*render_fault(error), (kept, _DIM)])
            return
        self._tell(render_about(result))
        if result.remembered is not None and result.remembered.state == "pending":
            self._to_confirm = result.remembered.artifact_id
            self._tell([("y confirms it", "yellow")])
        if result.code == "run_active" and talk.unfetched is not None:
            self._tell([("the message before it is still being answered: /wait", _DIM)])


def _run_in_terminal(talk: Talk, home: Home) -> int:
    from hobus.launch.cli.chat.prompt import restore_terminal  # noqa: PLC0415 - as above

    async def hold() -> None:
        await _Conversation(talk, home).hold()

    with restore_terminal():
        asyncio.run(hold())
    if talk.session_id is not None:
        say(
            style(
                f"{format_next_here(f'chat --session {shorten_session(talk.session_id)}')} continues this session", _DIM
            )
        )
    return exit_codes.OK


def _on_interrupt(talk: Talk) -> list[Line]:
    if talk.unfetched is None:
        return [("stopped", _DIM)]
    return [
        ("no longer waiting; the turn goes on, and its answer is kept: /wait fetches it", "yellow"),
        (f"/cancel ends it (input {talk.unfetched.input_id})", _DIM),
    ]


# --- over a pipe ------------------------------------------------------------------------------------------------------


async def _run_over_pipe(talk: Talk, *, is_live: bool, as_json: bool) -> int:
    """Print answers in order, on standard output; what else is to be said, on standard error."""
    if sys.stdin is None:
        note("standard input is closed: nothing was asked")
        return exit_codes.OK
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        note("one line, one message; Ctrl-D ends")
    pipe = _Pipe(talk, is_live=is_live, as_json=as_json)
    for line in read_lines_in(sys.stdin.buffer, talk.place().snapshot.config.host.prompt_max_bytes):
        if line is not None and line.strip() in LEAVING:
            break
        await pipe.handle(line)
    if not pipe.codes:
        note("no message came: nothing was asked")
    return choose_worst(pipe.codes)


def read_lines_in(file: BinaryIO, max_bytes: int) -> Iterator[str | None]:
    """Each line that is not blank, without its end; None for one that is too long, which is skipped."""
    at_once = max_bytes + len("\r\n") + 1
    is_rest = False
    while data := file.readline(at_once):
        line = data.rstrip(b"\r\n")
        if not is_rest and len(line) > max_bytes:
            yield None
        elif not is_rest and line.strip():
            yield line.decode("utf-8", "surrogateescape")
        is_rest = len(data) == at_once and not data.endswith(b"\n")


class _Pipe:
    """One line after the other; `codes` are the exit codes of all of them."""

    def __init__(self, talk: Talk, *, is_live: bool, as_json: bool) -> None:
        self._talk = talk
        self._is_live = is_live
        self._as_json = as_json
        self.codes: list[int] = []

    async def handle(self, line: str | None) -> None:
        """Handle a turn or a command, and the answers to what it was followed up with. Raises what ends them all."""
        name = line.strip() if line is not None and is_whole_command(line) else ""
        if line is not None and is_run_command(line):
            await self._tell_command(self._talk.command(read_typed(line)))
        elif name == "/wait" and self._talk.unfetched is not None:
            await self._ask(self._talk.unfetched)
        elif name == "/wait":
            note_lines(_NOTHING_WAITED_FOR)
            self.codes.append(exit_codes.OK)
        elif name:
            await self._tell_command(run_slash(name, self._talk))
        else:
            await self._ask(line)
        while self._talk.follow_ups:
            await self._ask(self._talk.follow_ups.popleft())

    async def _tell_command(self, told: Awaitable[list[Line]]) -> None:
        """Tell what a command says, which is no answer. Raises as a turn does."""
        try:
            note_lines(await told)
        except (RuntimeFault, CommandError) as error:
            self.codes.append(_tell_error(_require_turn_fault(error)))
        else:
            self.codes.append(exit_codes.OK)

    async def _ask(self, asked: ProcessTurn | str | None) -> None:
        """Ask. Raises what ends them all: the cluster cannot be reached."""
        view = PlainView(lambda _text: None, is_terminal=False) if self._as_json else make_view(is_live=self._is_live)
        try:
            turn = asked if isinstance(asked, ProcessTurn) else _make_turn(self._talk, asked)
            result = await self._talk.answer(turn, view, Meanwhile(self._talk, view, is_piped=True).others)
        except (RuntimeFault, CommandError) as error:
            self._write_unanswered(_require_turn_fault(error))
        else:
            self._write_answer(result)

    def _write_answer(self, result: TurnResult) -> None:
        if self._as_json:
            say(result.model_dump_json())
        else:
            note_lines(render_warnings(result), behind=f"; {shorten_session(result.session_id)}")
        self.codes.append(exit_code_of(result))

    def _write_unanswered(self, error: CommandError) -> None:
        """Write a result for a line that could not be sent, so that results and messages correspond."""
        if self._as_json:
            say(json_text(_make_unsent(self._talk, error)))
        else:
            _tell_error(error)
        self.codes.append(error.exit_code)


def _tell_error(error: CommandError) -> int:
    note_coloured(f"error: {error.message}", "red")
    if error.hint:
        note(f"  next: {error.hint}")
    return error.exit_code


def _make_turn(talk: Talk, line: str | None) -> ProcessTurn:
    limits = talk.place().snapshot.config.host
    if line is None:
        raise CommandError(
            f"the message has more than {limits.prompt_max_bytes} bytes (host.prompt_max_bytes)",
            hint="send a shorter one; nothing was sent",
            exit_code=exit_codes.USAGE,
        )
    check_text(line, limits)
    return talk.make_turn(line)


def _require_turn_fault(error: RuntimeFault | CommandError) -> CommandError:
    """Return the error, if the next line may fare better; else raise it, to end the command."""
    known = as_command_error(error)
    if known is None or known.exit_code == exit_codes.UNREACHABLE:
        raise error
    return known


def _make_unsent(talk: Talk, error: CommandError) -> dict[str, Any]:
    """Return a result's fields; `session_id` is null where the first message was refused, which begins no session."""
    input_id = SystemClock().new_id()
    result = TurnResult(
        response=error.message,
        outcome="error",
        session_id=talk.session_id or derive_session_id(ROLE, input_id),
        run_id=None,
        input_id=input_id,
        code="invalid_input",
    )
    return {**result.model_dump(mode="json"), "session_id": talk.session_id}
