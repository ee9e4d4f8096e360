"""A user's mistake or a condition of the machine, said in three parts: what, where, and the next command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path

from hobus.launch.console import exit_codes


class CommandError(Exception):
    """End a command with one clear message and an exit code, never with a traceback."""

    exit_code = exit_codes.FAILED

    def __init__(self, message: str, *, hint: str = "", exit_code: int | None = None, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code
        self.code = code or exit_codes.MEANINGS.get(self.exit_code, "failed")
        """For programs: the code of the fault behind it, else what the exit code means in one word."""


class UsageFault(CommandError):
    """What was asked for is no such thing, or not what the configuration allows: exit code 2."""

    exit_code = exit_codes.USAGE


class UnreachableFault(CommandError):
    """Nobody who could answer was reached: exit code 4."""

    exit_code = exit_codes.UNREACHABLE


class RefusedFault(CommandError):
    """Understood, and not done as things stand: exit code 5."""

    exit_code = exit_codes.REFUSED


DEFAULT_HOME = ".hobus"
"""The home of a command that names none, in its current directory."""


def format_next_command(command: str, home: Path) -> str:
    """Return a line that can be pasted into this shell; a home that it would take anyway is left out."""
    return f"hobus {command}{format_home_option(home)}"


def format_home_option(home: Path) -> str:
    """Return ` --home DIR`; nothing where `hobus` alone means this home."""
    is_meant_anyway = not os.environ.get("HOBUS_HOME") and home == Path.cwd() / DEFAULT_HOME
    return "" if is_meant_anyway else f" --home {shlex.quote(str(home))}"


_HOME: ContextVar[Path | None] = ContextVar("home of this command", default=None)
_WORDS: ContextVar[tuple[str, ...]] = ContextVar("words of this command", default=())
_LINE_MAX_CHARS = 400


def is_about(home: Path) -> None:
    """Make `format_next_here` name this home from now on; called once by each command, and by a launcher."""
    _HOME.set(home)


def format_next_here(command: str) -> str:
    """Return the next command where no home is at hand: for the home that this command is about."""
    home = _HOME.get()
    return f"hobus {command}" if home is None else format_next_command(command, home)


def was_given(words: Sequence[str]) -> None:
    """Begin `format_same_command` with these words from now on; called once by each command."""
    _WORDS.set(tuple(words))


def format_same_command(option: str, value: str) -> str:
    """Return the command as it was given, with this option: a line for a shell, or what to do where that is long."""
    words = list(_WORDS.get())
    home = _HOME.get()
    added = [] if option in words else [option, value]
    if home is not None and not any(word == "--home" or word.startswith("--home=") for word in words):
        added += ["--home", str(home)]
    end = words.index("--") if "--" in words else len(words)
    line = shlex.join(["hobus", *words[:end], *added, *words[end:]])
    if not words or len(line) > _LINE_MAX_CHARS or not line.isprintable():
        return f"the same command again, with {option} {value}"
    return line


def make_os_fault(error: OSError, *, doing: str) -> CommandError:
    """Return what the operating system refused, as a sentence that names the path and the fix."""
    path = error.filename or ""
    where = f" ({path})" if path else ""
    reason = error.strerror or type(error).__name__
    hint = {
        28: "free some space on that disk, then run the same command again",  # ENOSPC
        30: "that file system is read-only: choose another directory with --home DIR",  # EROFS
        20: "a file stands where a directory is needed: choose another one with --home DIR",  # ENOTDIR
        13: "check who owns the directory, or choose another one with --home DIR",  # EACCES
    }.get(error.errno or 0, "")
    return CommandError(f"{doing}: {reason}{where}", hint=hint)


UNREACHABLE_CODES = frozenset({"no_route", "peer_lost", "expired", "unavailable", "busy"})


def as_command_error(error: BaseException) -> CommandError | None:
    """Return the same fault for a person at a terminal; None for anything that is not an expected fault."""
    from hobus.bus.errors import VERDICT_CODES, ConfigError, RuntimeFault  # noqa: PLC0415 - most commands meet none

    if not isinstance(error, RuntimeFault):
        return error if isinstance(error, CommandError) else None
    step = str(error.facts.get("next", ""))
    if isinstance(error, ConfigError):
        return UsageFault(
            error.detail, hint=step or f"fix it, then: {format_next_here('config check')}", code=error.code
        )
    if error.code == "other_format":
        return CommandError(error.detail, exit_code=exit_codes.INTEGRITY, code=error.code)  # it says what to do
    if error.code == "damaged":
        hint = format_next_here("ledger verify")
        return CommandError(error.detail, hint=hint, exit_code=exit_codes.INTEGRITY, code=error.code)
    if error.code == "unknown_artifact":
        return UsageFault(error.detail, hint=format_next_here("memory overlays --all"), code=error.code)
    if error.code in UNREACHABLE_CODES:
        return UnreachableFault(str(error), hint=step or format_next_here("ps"), code=error.code)
    refused = error.code in VERDICT_CODES
    return CommandError(str(error), exit_code=exit_codes.REFUSED if refused else exit_codes.FAILED, code=error.code)
