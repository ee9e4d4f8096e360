"""A command in a terminal of its own: what a person types into it, and what is seen of it."""

from __future__ import annotations

import codecs
import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyte

from bench.cluster import begun

TIMEOUT_S = 60.0
_SCROLLED_MAX = 10_000


class Typing:
    def __init__(self, process: subprocess.Popen[bytes], master: int, columns: int, rows: int) -> None:
        self.process = process
        self.master = master
        self.screen = pyte.HistoryScreen(columns, rows, history=_SCROLLED_MAX)
        self.written = ""
        self.moments: list[str] = []  # all that is seen, after each piece of output
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def seen(self) -> list[str]:
        """The rows that scrolled away and those of the screen, down to the last one with anything in it."""
        columns = range(self.screen.columns)
        scrolled = ["".join(row[column].data for column in columns).rstrip() for row in self.screen.history.top]
        rows = [*scrolled, *(row.rstrip() for row in self.screen.display)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def text(self) -> str:
        return "\n".join(self.seen)

    def type(self, line: str) -> None:
        os.write(self.master, line.encode() + b"\r")

    def paste(self, text: str) -> None:
        """A text as a terminal marks what is pasted, without Return."""
        data = b"\x1b[200~" + text.encode() + b"\x1b[201~"
        while data:  # a terminal takes in some thousands of bytes at once
            if select.select([], [self.master], [], 0.05)[1]:
                data = data[os.write(self.master, data[:1024]) :]
            self._read(0)

    def resize(self, columns: int, rows: int, *, reflows: bool = False) -> None:
        """Another size of the window; `reflows`: most terminals break rows anew that do not fit any more, and the cursor with them."""
        self.watch(0.5)
        before, cursor = [row.rstrip() for row in self.screen.display], self.screen.cursor
        self.screen.resize(rows, columns)
        if reflows:
            shown: list[str] = []
            place = ""
            for number, row in enumerate(before[: cursor.y + 1]):
                if number == cursor.y:
                    below, right = divmod(max(0, cursor.x - 1), columns)
                    place = f"\x1b[{len(shown) + below + 1};{right + 1 + (cursor.x > 0)}H"
                shown += [row[at : at + columns] for at in range(0, max(1, len(row)), columns)]
            self.screen.reset()
            self._stream.feed("\r\n".join(shown) + place)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, letter: str) -> None:
        os.write(self.master, bytes([ord(letter.upper()) - 64]))

    def until(self, words: str, count: int = 1) -> None:
        """Returns when the words are seen so often, however the rows break between them."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._count(words) < count:
            assert time.monotonic() < deadline, f"{words!r} is not {count} times in:\n{self.text}"
            if not self._read(0.05) and self.process.poll() is not None:
                self._read(0.1)
                assert self._count(words) >= count, self.text

    def watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._read(0.05)

    def _count(self, words: str) -> int:
        return " ".join(self.text.split()).count(words.strip())

    def leave(self) -> int:
        """Ctrl-D at the next prompt; its exit code."""
        self.at_prompt()
        self.press("d")
        return self.end()

    def at_prompt(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not self.seen or self.seen[-1] != "you>":
            assert time.monotonic() < deadline and self.process.poll() is None, self.text
            self._read(0.05)

    def end(self) -> int:
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
            text = self._decoder.decode(os.read(self.master, 1 << 16))
        except OSError:  # nobody holds the other end any more
            return False
        self.written += text
        self._stream.feed(text)
        self.moments.append(self.text)
        return True


@contextmanager
def typing(
    *words: str,
    columns: int = 80,
    rows: int = 24,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    stdin: IO[bytes] | int | None = None,
    stdout: IO[bytes] | int | None = None,
) -> Generator[Typing]:
    """`hobus WORDS` with a terminal for every stream that is not given."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = begun(
        *words,
        stdin=slave if stdin is None else stdin,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
        env={"TERM": "xterm", "NO_COLOR": "1"} | (env or {}),
        cwd=cwd,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),  # Ctrl-C comes from there
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
