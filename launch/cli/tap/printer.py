"""Prints chosen frames, and between them what a reader must know: the reach of the ring, losses, restarts.

As rows, or as JSON in the stable shape that docs/tap.md describes. A reader that reads nothing is waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hobus.bus import catalog
from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.broker.tap_wire import TapBatch
from hobus.bus.codec import decode
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import name_fields
from hobus.bus.messages.ids import TurnRef, format_iso
from hobus.launch.cli.tap.choice import Choice, Chosen
from hobus.launch.cli.tap.table import TapTable
from hobus.launch.console.output import as_json, format_count, format_duration, join_styled, say, style


@dataclass(slots=True)
class Printer:
    """Print chosen frames. `table` None: JSON, one object per line."""

    table: TapTable | None
    with_bodies: bool
    asked_since_s: float | None = None
    now_s: float = 0.0
    failure: OSError | None = None
    """Why nothing more can be written."""
    _is_headed: bool = False

    def print(self, choice: Choice) -> int:
        """Print everything of one batch; return how many of its chosen frames went out whole."""
        lines = self._render_notes(choice.batch)
        ends: list[int] = []  # of each frame: lines up to its last one
        for one in choice.chosen:
            if self.table is not None and not self._is_headed:
                self._is_headed = True
                lines.append(self.table.heading(self.now_s))
            lines += self._render_lines(one)
            ends.append(len(lines))
        written = 0
        try:
            for line in lines:
                say(line)
                written += 1
        except OSError as error:
            self.failure = error
        return bisect_right(ends, written)

    def _render_lines(self, one: Chosen) -> list[str]:
        record = one.record
        has_body = self.with_bodies and record.body is not None
        body = decode_body(record) if has_body else None
        if self.table is None:
            document = make_frame_document(record, one.turn, body=body, has_body=has_body, latency_ms=one.latency_ms)
            return [join_styled(as_json(document))]
        row = self.table.row(record, one.turn, one.latency_ms)
        return [row, join_styled(f"        {as_json(body)}")] if has_body else [row]

    def _render_notes(self, batch: TapBatch) -> list[str]:
        notes: list[str] = []
        if batch.reaches_at is not None:
            notes.append(self._reach(batch.reaches_at))
        if batch.restarted:
            text = f"the broker restarted as {batch.epoch}: what the one before tapped last is unknown"
            notes.append(self._note(text, note_document("restarted", epoch=batch.epoch)))
        if batch.lost:
            before = batch.records[0].sequence if batch.records else batch.next
            text = f"!!! lost {format_count(batch.lost, 'frame')} before #{before}: "
            text += (
                "tapped by the new broker before this tap was connected to it"
                if batch.restarted
                else "this tap was too slow; what mattered of them is in the record: hobus ledger show"
            )
            document = note_document("lost", count=batch.lost, epoch=batch.epoch, before=before)
            notes.append(self._note(text, document))
        return notes

    def _reach(self, reaches_at: float) -> str:
        document = note_document("ring", reaches_at=reaches_at, time=format_iso(reaches_at) if reaches_at else None)
        if self.table is None or not reaches_at:
            return self._note("the ring is empty", document)
        ago_s = self.now_s - reaches_at
        text = f"the ring reaches back to {self.table.time(reaches_at)}, {format_duration(ago_s)} ago"
        if self.asked_since_s is not None and ago_s < self.asked_since_s:
            text += ", less than what was asked for"
        return self._note(text, document)

    def _note(self, text: str, document: dict[str, Any]) -> str:
        return join_styled(as_json(document) if self.table is None else style(text, "yellow"))


def decode_body(record: TapRecord) -> Any:
    """Return the decoded body; its bytes in hexadecimal where its type is unknown."""
    cls = catalog.CLASSES.get(record.type)
    if record.body is None:
        return None
    if cls is not None:
        with suppress(RuntimeFault):
            return name_fields(decode(cls, record.body, max(1, len(record.body))))
    return record.body.hex()


def make_frame_document(
    record: TapRecord, turn: TurnRef, *, body: Any = None, has_body: bool = False, latency_ms: float | None = None
) -> dict[str, Any]:
    """Return a frame; `body` only where it was asked for and reached the reader, else size and hash alone."""
    document: dict[str, Any] = record._asdict()
    del document["body"]
    document |= {"time": format_iso(record.at), "session": turn.session_id, "turn": turn.run, "input": turn.input_id}
    if has_body:
        document["body"] = body
    if latency_ms is not None:
        document["latency_ms"] = latency_ms
    return document


def note_document(note: str, **facts: Any) -> dict[str, Any]:
    """Return what is said between frames: `note` names it."""
    return {"note": note, **facts}
