"""The end of a log file, as people read it, and the reason that a process left there for not being ready."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hobus.bus.text import shorten
from hobus.launch.console.output import format_clock_time
from hobus.launch.logs.lines import LogLine, read_line, render_line

_BYTES_PER_LINE = 400
"""Read per line that is asked for: a line of JSON with a sentence in it."""

_REASON_LINES = 160
_REASON_CHARS = 300
_BOX = " \t|+-"
"""What Python draws around the traceback of a group of exceptions."""


def measure_log(path: Path) -> int:
    """Return how long a log is by now: what follows is of whoever writes to it next. 0 when there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def tail(path: Path, lines: int, *, start: int = 0) -> list[str]:
    """Return the last lines of a log, none that begins before byte `start`; empty when there is none."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            begin = start if start <= end else 0  # it was moved aside meanwhile: all of the new one is of this run
            file.seek(max(begin, end - _BYTES_PER_LINE * lines))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]


def find_reason(path: Path, *, start: int) -> str:
    """Return why the process that began to write at byte `start` ended, by its own last words; '' when it said nothing.

    That is its last record of level `error`, or the last line of a traceback.
    """
    lines = [said for line in tail(path, _REASON_LINES, start=start) if (said := line.strip(_BOX))]
    if lines and not lines[-1].startswith("{"):
        return shorten(lines[-1], _REASON_CHARS)
    for line in reversed(lines):
        record = read_line(line, actor="", earlier_at=0.0).record
        if record.get("level") == "error" and (said := _read_said(record)):
            return shorten(said, _REASON_CHARS)
    return ""


def _read_said(record: Mapping[str, Any]) -> str:
    return str(record.get("reason") or ": ".join(str(record[key]) for key in ("code", "detail") if record.get(key)))


def read_incarnation(path: Path, actor: str, instance: str, lines: int) -> list[str]:
    read = read_lines(tail(path, lines), actor)
    return [render_for_people(line) for line in cut_to_incarnation(read, instance)]


def read_lines(texts: Sequence[str], actor: str) -> list[LogLine]:
    """Return these lines of one file; the rest of a line whose begin is cut off is left out."""
    found: list[LogLine] = []
    for text in texts:
        found.append(read_line(text, actor=actor, earlier_at=found[-1].at if found else 0.0))
    if found and not found[0].record and found[0].text.endswith("}"):
        del found[0]
    return found


def cut_to_incarnation(lines: Sequence[LogLine], instance: str) -> list[LogLine]:
    """Return lines from this incarnation's first record on; without one, what follows the last record of another."""
    named = [line.record.get("instance") for line in lines]
    if instance in named:
        return list(lines[named.index(instance) :])
    others = [number for number, name in enumerate(named) if name]
    return list(lines[others[-1] + 1 :] if others else lines)


def render_for_people(line: LogLine) -> str:
    """Return the line that `hobus logs` prints, without colours."""
    return render_line(line, format_clock_time, lambda text, _colour: text)
