"""The standard streams of a tool process: each call prints into a pipe of its own, and finds them as the first one did.

A program that a call leaves running keeps the pipe that it was started with; a thread that it leaves prints into its
call's pipe, too, as far as it prints by `sys.stdout` and `sys.stderr`. In a shared process this holds for the tasks and
`asyncio.to_thread` of a call alone: what is printed by the descriptors is nobody's. Standard library alone.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import os
import socket
import sys
import threading
from collections.abc import Generator

_INPUT, _OUTPUT, _ERROR = 0, 1, 2
_Identity = tuple[int, int] | None
_earlier: dict[threading.Thread, io.FileIO] = {}
"""Threads of calls that are over, and the pipes of these."""
_of_call: contextvars.ContextVar[io.FileIO | None] = contextvars.ContextVar("_of_call", default=None)
"""In a shared process: the pipe of the call that runs."""


class _Printed(io.TextIOWrapper):
    """A standard stream that writes line by line, so that what was printed before a kill is there."""

    def __init__(self, descriptor: int) -> None:
        raw = io.FileIO(descriptor, "w", closefd=False)
        super().__init__(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)

    def write(self, text: str, /) -> int:
        """Write into the pipe of the call that prints: one among others, or one whose thread is left behind."""
        own = _of_call.get() or (_earlier.get(threading.current_thread()) if _earlier else None)
        if own is None or own.closed:
            return super().write(text)
        own.write(text.encode("utf-8", "backslashreplace"))
        return len(text)


class StandardStreams:
    """Until the first call, output and error are the worker's, to show why a process cannot start."""

    def __init__(self, line: int, *others: int) -> None:
        """Take over the streams. `line`: the socket by which pipes come; `others`: what else the next call needs."""
        self._line = socket.socket(fileno=line)
        self._needed = (_INPUT, _OUTPUT, _ERROR, line, *others)
        self._were: list[_Identity] = []
        self._in: io.TextIOWrapper | None = None
        self._out, self._err = _Printed(_OUTPUT), _Printed(_ERROR)
        self._is_shared = False

    def share(self) -> None:
        """Run calls beside each other from now on; prints of unknown calls go into the pipe that comes now."""
        self.begin()
        self._is_shared = True

    def begin(self) -> io.FileIO | None:
        """Take the next call's pipe and return it if calls share the process; end the process if its worker is gone."""
        byte, pipes, _flags, _address = socket.recv_fds(self._line, 1, 1)
        if not byte or not pipes:
            os._exit(0)
        if self._is_shared:
            return io.FileIO(pipes[0], "w")
        _remember_threads()
        os.dup2(pipes[0], _OUTPUT)
        os.dup2(pipes[0], _ERROR)
        os.close(pipes[0])
        if not (_is_open(self._out) and _is_open(self._err)):
            self._out, self._err = _Printed(_OUTPUT), _Printed(_ERROR)
        self._in = io.TextIOWrapper(io.BufferedReader(io.FileIO(_INPUT, closefd=False)), encoding="utf-8")
        sys.stdin = sys.__stdin__ = self._in  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self._out  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._err  # type: ignore[misc]
        self._were = [identity(descriptor) for descriptor in self._needed]
        return None

    @contextlib.contextmanager
    def of_call(self, pipe: io.FileIO | None) -> Generator[None]:
        """Print into the call's own pipe within this context."""
        with pipe or contextlib.nullcontext():
            _of_call.set(pipe)
            yield

    def flush(self) -> None:
        """Flush what was printed before the result is told, whatever the tool made of these streams."""
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), self._out, self._err):
            with contextlib.suppress(BaseException):
                stream.flush()  # type: ignore[union-attr] - whatever it is

    @property
    def are_whole(self) -> bool:
        """Return whether another call may follow: no descriptor was closed or replaced, and some are left."""
        return self._were == [identity(descriptor) for descriptor in self._needed] and _are_left()


def _remember_threads() -> None:
    """Give threads that the last call left behind its pipe, which is standard output's still."""
    pipes = set(_earlier.values())
    for thread in [one for one in _earlier if not one.is_alive()]:
        del _earlier[thread]
    for pipe in pipes - set(_earlier.values()):
        pipe.close()
    new = [one for one in threading.enumerate() if one is not threading.main_thread() and one not in _earlier]
    if new:
        pipe = io.FileIO(os.dup(_OUTPUT), "w")
        _earlier.update(dict.fromkeys(new, pipe))


def identity(descriptor: int) -> _Identity:
    """Return which open file a descriptor is; None where it is none."""
    try:
        state = os.fstat(descriptor)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _are_left() -> bool:
    """Return whether the next call's pipe can be opened."""
    try:
        os.closerange(first := os.dup(_OUTPUT), first + 1)
    except OSError:
        return False
    return True


def _is_open(stream: io.TextIOWrapper) -> bool:
    try:
        return not stream.closed
    except ValueError:  # detached from its descriptor
        return False
