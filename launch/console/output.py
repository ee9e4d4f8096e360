"""How commands print: tables for people, JSON for programs, colour only on a terminal (and never with NO_COLOR).

All that is said goes through `joined`, which lets no character through that commands a terminal, except in what
`styled` made. Tables of a terminal are rich's (`terminal.py`), which is imported only there; a pipe gets plain columns.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hobus.bus.text import cut

STATE_COLOURS = {
    "ready": "green",
    "success": "green",
    "degraded": "yellow",
    "starting": "cyan",
    "draining": "cyan",
    "backoff": "yellow",
    "stalled": "red",
    "lost": "red",
    "failed": "red",
    "error": "red",
    "stopped": "bright_black",
}


COMMANDS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
"""One character of C0, DEL, C1, of another direction or line, or half of a pair: what commands a terminal."""

_DIRECTIONS = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_CELL_MAX_CHARS = 240

_TAKES_NO_COMMANDS = ("", "dumb", "unknown")


_DEBUG: ContextVar[bool] = ContextVar("this command shows what a defect of its own is looked for with", default=False)


_JSON: ContextVar[bool] = ContextVar("a program reads this command", default=False)


def as_asked(arguments: Sequence[str]) -> None:
    """Set `wants_debug` and `wants_json` by these words of the command, or HOBUS_DEBUG."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    _DEBUG.set("--debug" in options or bool(os.environ.get("HOBUS_DEBUG")))
    _JSON.set("--json" in options)


def wants_debug() -> bool:
    """Return whether tracebacks, and what the command itself logs, are shown."""
    return _DEBUG.get()


def wants_json() -> bool:
    """Return whether a program reads: the document on standard output, an error as a line of JSON on standard error."""
    return _JSON.get()


def can_be_commanded() -> bool:
    """Return whether a terminal, if there is one, understands commands: colours, and rows that are written anew."""
    return os.environ.get("TERM", "") not in _TAKES_NO_COMMANDS


def is_terminal(stream: object) -> bool:
    """Return whether a standard stream is there and a terminal; a closed one is neither."""
    try:
        return bool(stream is not None and stream.isatty())  # type: ignore[attr-defined]
    except ValueError:
        return False


def colours(*, to_stderr: bool = False) -> bool:
    """Return whether the stream shows colours; FORCE_COLOR makes any show them, NO_COLOR none."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return can_be_commanded() and is_terminal(sys.stderr if to_stderr else sys.stdout)


class Styled(str):
    """Text with hobus's own colours around what was escaped before."""

    __slots__ = ()


def style(text: str, colour: str | None, *, bold: bool = False, to_stderr: bool = False) -> str:
    """Return the text in this colour where colours are shown; pass it to `joined`, `say` or `note` as a part."""
    if not colours(to_stderr=to_stderr):
        return text
    from click import style  # noqa: PLC0415 - processes of a cluster import this module and never print

    return Styled(style(escape(text), fg=colour, bold=bold or None))  # not `bold=False`: that is a code too


def escape(text: str) -> str:
    """Return the text with everything that would command a terminal, or turn words around, escaped as in JSON.

    So JSON keeps its meaning. Line ends and tabs stay.
    """
    return COMMANDS.sub(lambda found: f"\\u{ord(found[0][0]):04x}", text)


def escape_line(text: str) -> str:
    """Return the text as `escaped` has it, line ends and tabs too, so that its writer makes no line of hobus's own."""
    return escape(text).replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")


def join_styled(*parts: str) -> Styled:
    """Return one text of these, each escaped unless `styled` or this function made it."""
    return Styled("".join(part if isinstance(part, Styled) else escape(part) for part in parts))


def say(*parts: str) -> None:
    from click import echo  # noqa: PLC0415 - as above

    echo(join_styled(*parts), color=colours())


def escape_unencodable() -> None:
    """Escape what a stream's encoding lacks, in the C locale too: nobody's text ends a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def go_silent(*, to_stderr: bool = False) -> None:
    """Go silent, as the reader of a stream went away: the end of the process raises nothing."""
    nobody = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lives until the process ends
    if to_stderr:
        sys.stderr = nobody
    else:
        sys.stdout = nobody


def note(*parts: str) -> None:
    """Print one line on stderr: what a program that reads stdout must not see. That nobody can read it ends nothing."""
    from click import echo  # noqa: PLC0415 - as above

    try:
        echo(join_styled(*parts), err=True, color=colours(to_stderr=True))
    except OSError:  # its reader went away, or the disk is full
        go_silent(to_stderr=True)


def tell_progress(monotonic: Callable[[], float], what: str, total: int | None = None) -> Callable[[int], None]:
    """Return what takes how far long work is, and tells it on stderr every two seconds, where a person looks."""
    said_at = monotonic()

    def tell_count(count: int) -> None:
        nonlocal said_at
        if is_terminal(sys.stderr) and monotonic() - said_at >= _TOLD_EVERY_S:
            said_at = monotonic()
            note(f"{what} {format_thousands(count)}" + (f" of {format_thousands(total)}" if total else ""))

    return tell_count


def say_prose(begin: str, text: str, colour: str | None = None, *, bold: bool = False, to_stderr: bool = False) -> None:
    """Print, like `say` and `note`, what is read and not copied: a terminal gets rows that end between words.

    Each begins where the text does, behind `begin`; an end of a line in the text stays one.
    """
    out, stream = (note, sys.stderr) if to_stderr else (say, sys.stdout)
    margin = len(_CODES.sub("", begin))
    rows = _fold_rows(text, margin, stream)
    for number, row in enumerate(rows):
        out(" " * margin if number else begin, style(row, colour, bold=bold, to_stderr=to_stderr))


def _fold_rows(text: str, margin: int, stream: object) -> list[str]:
    """Return the text; for a terminal folded to what is left of its width beside the margin."""
    room = measure_window()[0] - margin
    if not is_terminal(stream) or room < _PROSE_CELLS:
        return [text]
    # By name: whoever writes into a pipe needs none of it.
    rows: list[str] = importlib.import_module("hobus.launch.console.terminal").fold(escape(text), room)
    return rows or [""]


_CODES = re.compile(r"\x1b\[[0-9;]*m")
_TOLD_EVERY_S = 2.0
_PROSE_CELLS = 20
"""With less room than that, words are broken wherever the terminal breaks them."""


def note_coloured(text: str, colour: str | None) -> None:
    note(style(text, colour, to_stderr=True))


def note_lines(lines: Iterable[tuple[str, str]], *, behind: str = "") -> None:
    """Print each of these texts on stderr in its colour, with the same words behind it."""
    for text, colour in lines:
        note_coloured(f"{text.removesuffix('.') if behind else text}{behind}", colour)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    coloured: int | None = None,
    empty: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Print left-aligned columns; the cells of column `coloured` get the colour of the state that they name.

    A terminal gets what fits its width: cells are broken into rows, then columns left out that are named in `spare`,
    the first of them first, which is said below. Anything else gets every character. `empty` is said in place of a
    table without rows; where it is not given, the headings stand alone.
    """
    cells = [[make_printable(str(value)) for value in row] for row in rows]
    if empty and not cells:
        say(empty)
        return
    for line in make_table_lines(headings, cells, coloured=coloured, spare=spare):
        say(line)


def make_table_lines(
    headings: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    coloured: int | None = None,
    spare: Sequence[str] = (),
    is_styled: bool = True,
) -> Sequence[str]:
    """Return the lines of a table of printable texts, as `table` prints them; not `is_styled`: without colours."""
    if is_terminal(sys.stdout):
        terminal = importlib.import_module("hobus.launch.console.terminal")
        columns = measure_window()[0] - (not is_styled)  # who shows texts leaves the last cell free
        found: Sequence[str] = terminal.make_table_lines(
            headings, cells, coloured=coloured, spare=spare, columns=columns
        )
    else:
        found = _make_plain_lines([list(headings), *cells], coloured)
    return found if is_styled else [_CODES.sub("", line) for line in found]


def _make_plain_lines(cells: Sequence[Sequence[str]], coloured: int | None) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for number, row in enumerate(cells):
        last = max((column for column, cell in enumerate(row) if cell), default=0)
        parts: list[str] = []
        for column, cell in enumerate(row[: last + 1]):
            padded = cell.rstrip() if column == last else f"{cell.ljust(widths[column])}  "
            is_state = number > 0 and column == coloured
            parts.append(style(padded, choose_state_colour(cell) if is_state else None, bold=number == 0))
        lines.append(join_styled(*parts))
    return lines


def choose_state_colour(cell: str) -> str | None:
    return STATE_COLOURS.get(cell.split(" ", 1)[0].split("(", 1)[0])


def measure_window() -> tuple[int, int]:
    """Return columns and rows of the terminal, now: the window's own, not what a variable remembers of another one."""
    with suppress(OSError, ValueError, AttributeError):
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        if columns and rows:
            return columns, rows
    return shutil.get_terminal_size()


def format_cell(text: str) -> str:
    """Return the text in one line, not longer than anybody reads, marked where it is cut."""
    return cut(make_printable(text), _CELL_MAX_CHARS)


def make_printable(text: str) -> str:
    """Return the text in one line: no character in it moves the cursor, ends the line or colours what follows."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)


def make_harmless(text: str) -> str:
    """Return the text without what commands a terminal: of control characters only newlines are left."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    return COMMANDS.sub("\N{REPLACEMENT CHARACTER}", _DIRECTIONS.sub("", text))


def format_thousands(count: int) -> str:
    """Return a number as people read it: `1,284`."""
    return f"{count:,}"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return `1 model call`, `1,200 model calls`, `2 processes`; `plural` where it is not the noun and an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_money(cost_usd: float | None) -> str:
    """Return an amount; what is not known is said to be unknown."""
    if cost_usd is None:
        return "price unknown"
    return "$0" if cost_usd == 0 else f"${cost_usd:.4f}" if cost_usd < 1 else f"${cost_usd:,.2f}"


def shorten_path(path: Path) -> str:
    """Return the path from the directory of this command, where it lies below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def format_clock_time(at: float) -> str:
    """Return the local time of day, to the millisecond, of seconds since 1970; `zone` says where that is."""
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S.%f")[:-3] if at else "--:--:--.---"


def format_minute(at: float) -> str:
    """Return `2026-11-25 13:45`, local time."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def say_zone(now: float) -> None:
    """Print above a listing without headings which zone its times are of; to people alone, whatever reads a pipe."""
    if is_terminal(sys.stdout):
        note_coloured(f"times are {format_zone(now)}", "bright_black")


def format_zone(at: float) -> str:
    """Return the time zone of `format_clock_time`: `UTC`, else what is to be taken off: `+02:00`."""
    here = datetime.fromtimestamp(at).astimezone()
    return "UTC" if not here.utcoffset() else here.isoformat()[-len("+02:00") :]


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON text; bytes as hexadecimal, models, structs and dataclasses by their fields, in their own order."""
    return json.dumps(make_plain(value), ensure_ascii=False, indent=indent, default=_list_fields)


def _list_fields(value: Any) -> Any:
    if (names := getattr(value, "__struct_fields__", None)) is not None:
        return make_plain({name: getattr(value, name) for name in names})
    return make_plain(asdict(value) if is_dataclass(value) else value.model_dump(mode="json"))  # type: ignore[arg-type]


def make_plain(value: Any) -> Any:
    """Return the value with every bytes object as hexadecimal text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): make_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [make_plain(item) for item in value]
    return value


def format_duration(seconds: float) -> str:
    """Return a length of time as people say it: `0.4 s`, `12 s`, `3 m`, `5 h`, `2 d`."""
    if seconds < 10:  # noqa: PLR2004 - tenths are shown below ten seconds
        return f"{max(0.0, seconds):.1f} s"
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def format_size(count: int) -> str:
    """Return a number of bytes as people say it: `812 B`, `38 M`."""
    amount = float(count)
    for unit in ("B", "K", "M", "G"):
        if amount < 1024 or unit == "G":  # noqa: PLR2004 - the step between units
            return f"{int(amount)} {unit}"
        amount /= 1024
    raise AssertionError
