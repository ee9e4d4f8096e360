"""A command in a terminal of its own: what a person types into it, and what is seen of it."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from hobus.launch.launcher.children import environment
from tests.launch.cli.chat.terminal import Terminal

_MODES = re.compile(r"\x1b\[\?\d+[hl]")
_UNFINISHED = re.compile(r"\x1b(\[[\d;?]*)?\Z")
TIMEOUT_S = 60.0


class Typing:
    """A running command in its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, columns: int, rows: int) -> None:
        self.process = process
        self.master = master
        self.terminal = Terminal(columns, rows, breaks_rows=True)
        self._rest = ""  # of a command that came in two parts
        self.moments: list[str] = []  # the last row after each piece of output

    @property
    def text(self) -> str:
        """All that is seen so far."""
        return "\n".join(self.terminal.seen)

    def type(self, line: str) -> None:
        """A line and Return."""
        os.write(self.master, line.encode() + b"\r")

    def press(self, letter: str) -> None:
        """Ctrl and a letter."""
        os.write(self.master, bytes([ord(letter.upper()) - 64]))

    def until(self, words: str, count: int = 1) -> None:
        """Returns when the words are seen so often."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.text.count(words) < count:
            assert time.monotonic() < deadline, f"{words!r} is not {count} times in:\n{self.text}"
            if not self._read(0.05) and self.process.poll() is not None:
                self._read(0.1)
                assert self.text.count(words) >= count, self.text

    def leave(self) -> int:
        """Ctrl-D at the next prompt; its exit code."""
        self.at_prompt()
        self.press("d")
        return self.end()

    def at_prompt(self) -> None:
        """Waits until the chat does: what is typed before that may be echoed above the prompt."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.terminal.lines[-1].strip() != "you>":
            assert time.monotonic() < deadline and self.process.poll() is None, self.text
            self._read(0.05)

    def end(self) -> int:
        """Its exit code; everything that it wrote is read."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.wait(1)

    def _read(self, wait_s: float) -> bool:
        if not select.select([self.master], [], [], wait_s)[0]:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # nobody holds the other end any more
            return False
        while data and data[-1] >= 0x80 and not _is_whole(data):  # a character that was cut in two
            data += os.read(self.master, 1)
        text = self._rest + data.decode()
        cut = _UNFINISHED.search(text)
        text, self._rest = (text, "") if cut is None else (text[: cut.start()], cut.group())
        self.terminal.write(_MODES.sub("", text).replace("\a", ""))
        self.moments.append(self.terminal.lines[-1])
        return bool(data)


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def typing(
    *words: str,
    columns: int = 80,
    rows: int = 24,
    env: dict[str, str] | None = None,
    stdin: IO[bytes] | int | None = None,
    stdout: IO[bytes] | int | None = None,
    inputrc: Path | None = None,
) -> Generator[Typing]:
    """`hobus WORDS` with a terminal for every stream that is not given."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "hobus", *words],
        stdin=slave if stdin is None else stdin,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
        env=environment() | {"TERM": "xterm", "NO_COLOR": "1", "INPUTRC": str(inputrc or os.devnull)} | (env or {}),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - Ctrl-C comes from there
    )
    os.close(slave)
    typed = Typing(process, master, columns, rows)
    try:
        yield typed
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
