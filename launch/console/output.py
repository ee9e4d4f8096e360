"""How commands print: tables for people, JSON for programs, colour only on a terminal (and never with NO_COLOR)."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from typing import Any

import click

from hobus.bus.text import cut

STATE_COLOURS = {
    "ready": "green",
    "success": "green",
    "degraded": "yellow",
    "starting": "cyan",
    "draining": "cyan",
    "backoff": "yellow",
    "lost": "red",
    "failed": "red",
    "error": "red",
    "stopped": "bright_black",
}


_COMMANDS = re.compile(
    r"(\x1b\[(?:0|1|3[0-7]|9[0-7])m)"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
"""Codes of `styled`, or one character of C0, DEL, C1, of another direction or line, or half of a pair."""

_CELL_MAX_CHARS = 240
_TAKES_NO_COMMANDS = ("", "dumb", "unknown")


_DEBUG: ContextVar[bool] = ContextVar("this command shows what a defect of its own is looked for with", default=False)


def debug_if_asked(arguments: Sequence[str]) -> None:
    """From now on `wants_debug` is true if these words of the command, or HOBUS_DEBUG, ask for it."""
    _DEBUG.set("--debug" in arguments or bool(os.environ.get("HOBUS_DEBUG")))


def wants_debug() -> bool:
    """Whether tracebacks, and what the command itself logs, are shown."""
    return _DEBUG.get()


def can_be_commanded() -> bool:
    """Whether a terminal, if there is one, understands commands: colours, and rows that are written anew."""
    return os.environ.get("TERM", "") not in _TAKES_NO_COMMANDS


def is_terminal(stream: object) -> bool:
    """Whether a standard stream is there and a terminal; a closed one is neither."""
    try:
        return bool(stream is not None and stream.isatty())  # type: ignore[attr-defined]
    except ValueError:
        return False


def colours(*, to_stderr: bool = False) -> bool:
    """Whether the stream that is printed to shows colours."""
    if os.environ.get("NO_COLOR") or not can_be_commanded():
        return False
    return is_terminal(sys.stderr if to_stderr else sys.stdout)


def styled(text: str, colour: str | None, *, bold: bool = False, to_stderr: bool = False) -> str:
    """The text in this colour where colours are shown."""
    # Not `bold=False`: that is a code too, and none that `shown` lets through.
    return click.style(text, fg=colour, bold=bold or None) if colours(to_stderr=to_stderr) else text


def shown(text: str, *, coloured: bool) -> str:
    """The text as everybody is shown it: what would command a terminal, or turn words around, is escaped as in JSON.

    So JSON keeps its meaning. Line ends and tabs stay; with `coloured` the few codes that `styled` makes do.
    """
    return _COMMANDS.sub(lambda found: found[0] if coloured and found[1] else f"\\u{ord(found[0][0]):04x}", text)


def say(text: str = "") -> None:
    """One line on stdout."""
    click.echo(shown(text, coloured=colours()))


def always_encodable() -> None:
    """What a stream's encoding has not is escaped, in the C locale too: nobody's text ends a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def unheard() -> None:
    """The reader of standard output went away: nobody is told any more, and the end of the process raises nothing."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lives until the process ends


def note(text: str) -> None:
    """One line on stderr: what a program that reads stdout must not see."""
    click.echo(shown(text, coloured=colours(to_stderr=True)), err=True)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, coloured: int | None = None, empty: str = ""
) -> None:
    """Left-aligned columns; the cells of column `coloured` get the colour of the state that they name.

    `empty` is said in place of a table without rows; where it is not given, the headings stand alone.
    """
    cells = [list(headings), *([cell(str(value)) for value in row] for row in rows)]
    if empty and len(cells) == 1:
        say(empty)
        return
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    for number, row in enumerate(cells):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if number == 0:
            padded = [styled(cell, None, bold=True) for cell in padded]
        elif coloured is not None:
            state = row[coloured].split(" ", 1)[0].split("(", 1)[0]
            padded[coloured] = styled(padded[coloured], STATE_COLOURS.get(state))
        say("  ".join(padded).rstrip())


def cell(text: str) -> str:
    """The text as a listing shows it: in one line, not longer than anybody reads, marked where it is cut."""
    return cut(printable(text), _CELL_MAX_CHARS)


def printable(text: str) -> str:
    """The text in one line: no character in it moves the cursor, ends the line or colours what follows."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)


def as_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text; bytes as hexadecimal, models and dataclasses by the names of their fields, keys in their own order."""
    return json.dumps(plain(value), ensure_ascii=False, indent=indent, default=_fields)


def _fields(value: Any) -> Any:
    return plain(asdict(value) if is_dataclass(value) else value.model_dump(mode="json"))  # type: ignore[arg-type]


def plain(value: Any) -> Any:
    """The value with every bytes object as hexadecimal text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def duration(seconds: float) -> str:
    """A length of time as people say it: `0.4 s`, `12 s`, `3 m`, `5 h`, `2 d`."""
    if seconds < 10:  # noqa: PLR2004 - tenths are shown below ten seconds
        return f"{max(0.0, seconds):.1f} s"
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def size(count: int) -> str:
    """A number of bytes as people say it: `812 B`, `38 M`."""
    amount = float(count)
    for unit in ("B", "K", "M", "G"):
        if amount < 1024 or unit == "G":  # noqa: PLR2004 - the step between units
            return f"{int(amount)} {unit}"
        amount /= 1024
    raise AssertionError
