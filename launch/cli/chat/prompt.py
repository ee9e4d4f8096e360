"""The line that a person types: open at all times, below what is provisional; all that stands for good goes above both.

Editing, history, completion and pasted texts are prompt_toolkit's; a terminal that takes no commands has its own lines.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.search import accept_search

from hobus.bus.messages.base import Message
from hobus.launch.cli.answer_view import Provisional, say_answer, say_rows
from hobus.launch.cli.outcome import Line
from hobus.launch.console import terminal
from hobus.launch.console.output import can_be_commanded, colours, make_harmless, measure_window

_PRIVATE = 0o600
_READ_AT_ONCE = 1 << 16
_YOU = "you> "
_DIM = "ansibrightblack"


class ChatPrompt(Protocol):
    """Where lines are typed, and what is said stands."""

    async def read(self) -> str:
        """Return the next message, which may have several lines. Raises EOFError at Ctrl-D."""
        ...

    def show(self, provisional: Provisional | None) -> None:
        """Show this above the line until something else is shown; None: nothing."""
        ...

    def say(self, write: Callable[[], None]) -> None:
        """Let what this writes to standard output stand for good, in the order of the calls."""
        ...


class LinePrompt:
    """Lines of a terminal that takes no commands: it edits and echoes them itself."""

    def __init__(self) -> None:
        self._is_open = False

    async def read(self) -> str:
        self._is_open = True
        sys.stdout.write(_YOU)
        sys.stdout.flush()
        descriptor = sys.stdin.fileno()
        await _on_readable(descriptor)
        self._is_open = False
        data = os.read(descriptor, _READ_AT_ONCE)
        if not data:
            raise EOFError
        return data.decode("utf-8", "surrogateescape").rstrip("\r\n")

    def show(self, provisional: Provisional | None) -> None:
        """Show nothing."""

    def say(self, write: Callable[[], None]) -> None:
        """Print below the line that is open, which is begun anew."""
        sys.stdout.write("\n" if self._is_open else "")
        write()
        sys.stdout.write(_YOU if self._is_open else "")
        sys.stdout.flush()


async def _on_readable(descriptor: int) -> None:
    """There is something to read, or the end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


class EditedPrompt:
    """Lines of any other terminal."""

    def __init__(self, on_interrupt: Callable[[], None], history: History, commands: Sequence[str]) -> None:
        self._provisional: Provisional | None = None
        output = Vt100_Output.from_pty(sys.stdout)
        output.enable_cpr = False  # a terminal need not say where its cursor is: a prompt begins where nothing stands
        self._session: PromptSession[str] = PromptSession(
            self._render_above, history=history, completer=_Commands(commands), complete_while_typing=False,
            key_bindings=_make_keys(on_interrupt), multiline=True,
            enable_suspend=True, prompt_continuation=" " * len(_YOU), erase_when_done=True,
            color_depth=None if colours() else ColorDepth.DEPTH_1_BIT, input=_Keyboard(sys.stdin),
            output=output,
        )  # fmt: skip

    async def read(self) -> str:
        """Return what Return ended; it stands above from then on, or its end where it is longer than the screen."""
        line = await self._session.prompt_async(handle_sigint=False)
        if line.strip():
            columns, rows = measure_window()
            echo = terminal.cut_last_rows(make_harmless(_YOU + line), columns - 1, rows)
            self.say(lambda: say_rows("\n".join(echo), None))
        return line

    def show(self, provisional: Provisional | None) -> None:
        self._provisional = provisional
        self._session.app.invalidate()

    def say(self, write: Callable[[], None]) -> None:
        """Print above the line that is open, without losing a key of it."""
        run_in_terminal(write)

    def _render_above(self) -> StyleAndTextTuples:
        you: StyleAndTextTuples = [("bold" if colours() else "", _YOU)]
        if self._provisional is None:
            return you
        columns, rows = measure_window()
        typed = len(self._session.default_buffer.document.lines)
        shown, is_answer = self._provisional.rows(columns - 1, rows - 1 - typed)
        return [("" if is_answer or not colours() else _DIM, "\n".join(shown) + "\n"), *you]


class PromptView:
    """One answer above the line that is open."""

    def __init__(self, prompt: ChatPrompt) -> None:
        self._prompt = prompt
        self._provisional = Provisional()

    def begin(self) -> None:
        self._prompt.show(self._provisional)

    def on_frame(self, message: Message) -> None:
        self._provisional.take(message)
        self._prompt.show(self._provisional)

    def tell(self, lines: Sequence[Line]) -> None:
        tell(self._prompt, lines)

    def finish(self, answer: str) -> None:
        """Print for good; nothing is provisional any more."""

        def write() -> None:
            self._prompt.show(None)
            say_answer(answer)

        self._prompt.say(write)

    def abandon(self) -> None:
        self._prompt.show(None)


def tell(prompt: ChatPrompt, lines: Sequence[Line]) -> None:
    def write() -> None:
        for text, colour in lines:
            say_rows(text, colour or None)

    if lines:
        prompt.say(write)


def make_terminal_prompt(on_interrupt: Callable[[], None], *, history: Path, commands: Sequence[str]) -> ChatPrompt:
    """Return the prompt that this terminal can have; `on_interrupt`: Ctrl-C; `commands`: what Tab completes."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, on_interrupt)
    if not can_be_commanded():
        return LinePrompt()
    return EditedPrompt(on_interrupt, ChatHistory(history), commands)


class ChatHistory(FileHistory):
    """Messages that were typed; what cannot be remembered is still said."""

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


class _Commands(Completer):
    """Complete the command that a line begins with."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        typed = document.text_before_cursor
        names = [name for name in self._names if typed.startswith("/") and name.startswith(typed)]
        return (Completion(name, -len(typed)) for name in names)


class _Keyboard(Vt100Input):
    """Read keys that come while something is written above the line after that, without an echo into it."""

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()

    def detach(self) -> AbstractContextManager[None]:
        return nullcontext()


def _make_keys(on_interrupt: Callable[[], None]) -> KeyBindings:
    """Return key bindings: Return ends a message, Alt-Return a line of it; a pasted text keeps its own."""
    keys = KeyBindings()

    typing = ~is_searching  # while the history is searched, these keys end that alone

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=is_searching)
    def _(event: KeyPressEvent) -> None:
        """Put what was found as a line just typed: whoever types on goes on behind it."""
        accept_search()
        found = event.app.current_buffer
        found.cursor_position = len(found.text)

    @keys.add("escape", "enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add(Keys.Vt100MouseEvent)
    def _(event: KeyPressEvent) -> None:
        """Pass over colours that somebody types or pastes: nobody asked for the mouse."""

    @keys.add("c-c", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.reset()
        on_interrupt()

    return keys


_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NO_PASTE_MARKS = b"\x1b[?2004l"


@contextmanager
def restore_terminal() -> Generator[None]:
    """Restore the terminal however this ends, by a signal too; the signal then ends the process."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (termios.error, OSError, ValueError):
        yield
        return

    def restore() -> None:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)

    def end(number: int, _frame: FrameType | None) -> None:
        restore()
        with suppress(OSError):
            if can_be_commanded():  # line editing asks a terminal to mark what is pasted
                os.write(1, _NO_PASTE_MARKS)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    was = {one: signal.signal(one, end) for one in _ENDS if signal.getsignal(one) is not signal.SIG_IGN}
    try:
        yield
    finally:
        restore()
        for one, handler in was.items():
            signal.signal(one, handler)
