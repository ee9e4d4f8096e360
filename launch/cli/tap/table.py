"""Frames as a table that grows: columns of a fixed width, narrowed or left out where the terminal is narrow. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.messages.ids import TurnRef, shorten_session
from hobus.bus.text import shorten
from hobus.launch.console.output import format_size, format_zone, join_styled, make_printable, style
from hobus.launch.filters.tap_fields import shorten_instance

_ASKS = ("request", "post", "cancel")
_KIND_COLOURS = {
    "request": "cyan",
    "reply": "green",
    "failure": "red",
    "stream": "magenta",
    "post": "blue",
    "cancel": "yellow",
}
_VERDICT_COLOURS = {
    "denied": "red",
    "malformed": "red",
    "dead": "red",
    "lost": "red",
    "expired": "yellow",
    "failed": "yellow",
    "late": "yellow",
    "cancelled": "yellow",
    "queued": "yellow",
    "control": "bright_black",
}


class Column(NamedTuple):
    """A column; the higher `rank`, the wider a terminal must be to show it (0: always shown)."""

    heading: str
    width: int
    rank: int = 0
    is_right: bool = False


COLUMNS = (
    Column("SEQ", 7, 5, is_right=True),
    Column("TIME", 12, 4),
    Column("KIND", 7, 2),
    Column("TYPE", 23),
    Column("FROM", 9, 1),
    Column("TO", 9, 1),
    Column("VERDICT", 9, 3),
    Column("SIZE", 6, 6, is_right=True),
    Column("TURN", 16),
    Column("MS", 7, 4, is_right=True),
    Column("ID", 24, 7),
)
"""What is said, and in whose turn, is why anybody looks; then who tells whom, whether it answers, what came of it."""
_KIND, _TYPE, _VERDICT = 2, 3, 6
_TYPE_LEAST, _TYPE_USUAL = 12, 16
"""Cells of a type: at least; and as many as tell most of them apart, before further columns."""
_GAP = 2


class TapTable:
    """Rows of one width; `width` None: nothing is cut, as for a pipe."""

    def __init__(self, *, width: int | None, utc: bool, with_latency: bool) -> None:
        self._utc = utc
        self._is_cut = width is not None
        columns = [number for number, column in enumerate(COLUMNS) if column.heading != "MS" or with_latency]
        self._columns = columns if width is None else _choose_fitting(columns, width)
        self._widths = {number: COLUMNS[number].width for number in columns}
        least = sum(self._widths[number] + _GAP for number in self._columns) - _GAP
        if width is not None and least > width:
            self._widths[_TYPE] = max(_TYPE_LEAST, self._widths[_TYPE] - (least - width))

    def heading(self, now: float) -> str:
        """Return the first line; the times of day are of the zone of `now`."""
        where = {"TIME": f"TIME {'UTC' if self._utc else format_zone(now)}"}
        cells = [where.get(column.heading, column.heading) for column in COLUMNS]
        return self._format_line(cells, {}, bold=True)

    def row(self, record: TapRecord, turn: TurnRef, latency_ms: float | None) -> str:
        to = (record.worker or record.destination) if record.kind in _ASKS else record.destination
        verdict = f"{record.verdict}:{record.code}" if record.code else record.verdict
        cells = [
            str(record.sequence),
            self.time(record.at),
            record.kind,
            record.type,
            shorten_instance(record.sender),
            shorten_instance(to),
            verdict if record.lane == "broker" else f"{verdict} {record.lane}",
            format_size(record.size),
            format_turn(turn),
            "" if latency_ms is None else f"{latency_ms:.1f}",
            record.correlation_id or record.message_id,
        ]
        colours = {
            _KIND: _KIND_COLOURS.get(record.kind, "bright_black"),
            _VERDICT: _VERDICT_COLOURS.get(record.verdict),
        }
        return self._format_line(cells, colours)

    def time(self, at: float) -> str:
        moment = datetime.fromtimestamp(at, UTC)
        return (moment if self._utc else moment.astimezone()).strftime("%H:%M:%S.%f")[:-3]

    def _format_line(self, cells: Sequence[str], colours: dict[int, str | None], *, bold: bool = False) -> str:
        padded: list[tuple[str, str | None]] = []
        for number in self._columns:
            width, text = self._widths[number], make_printable(cells[number])
            text = shorten(text, width) if self._is_cut else text
            aligned = text.rjust(width) if COLUMNS[number].is_right else text.ljust(width)
            padded.append((aligned, colours.get(number)))
        while not padded[-1][0].strip():
            padded.pop()
        *others, (last, colour) = padded
        parts = [part for text, one in others for part in (style(text, one, bold=bold), " " * _GAP)]
        return join_styled(*parts, style(last.rstrip(), colour, bold=bold))


def format_turn(turn: TurnRef) -> str:
    """Return `SES-<8 hex>-<run>`, or without a run while none is known."""
    if not turn.session_id:
        return "-"
    return f"{shorten_session(turn.session_id)}-{turn.run_seq or '?'}"


def _choose_fitting(columns: Sequence[int], width: int) -> list[int]:
    """Return what is never left out, and of the rest what still fits, the lowest rank first."""
    kept: list[int] = []
    for number in sorted(columns, key=lambda number: COLUMNS[number].rank):
        wanted = [*kept, number]
        needed = sum((_TYPE_USUAL if one == _TYPE else COLUMNS[one].width) + _GAP for one in wanted) - _GAP
        if not COLUMNS[number].rank or needed <= width:
            kept = wanted
    return sorted(kept)
