"""The stable JSON shape of what `hobus tap -f jsonl` prints, one object per line. Described in docs/tap.md. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.messages.ids import TurnRef


def iso_utc(at: float) -> str:
    """A time in UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def frame_document(
    record: TapRecord, turn: TurnRef, *, body: Any = None, has_body: bool = False, latency_ms: float | None = None
) -> dict[str, Any]:
    """A frame. `body` is there only where it was asked for and reached the reader; else size and hash stand alone."""
    document: dict[str, Any] = {
        "epoch": record.epoch,
        "sequence": record.sequence,
        "at": record.at,
        "time": iso_utc(record.at),
        "lane": record.lane,
        "verdict": record.verdict,
        "code": record.code,
        "kind": record.kind,
        "type": record.type,
        "sender": record.sender,
        "destination": record.destination,
        "worker": record.worker,
        "session": turn.session_id,
        "turn": turn.run,
        "input": turn.input_id,
        "message_id": record.message_id,
        "correlation_id": record.correlation_id,
        "causation_id": record.causation_id,
        "key": record.key,
        "trace": record.trace,
        "deadline_ms": record.deadline_ms,
        "attempt": record.attempt,
        "sensitive": record.sensitive,
        "size": record.size,
        "body_sha256": record.body_sha256,
    }
    if has_body:
        document["body"] = body
    if latency_ms is not None:
        document["latency_ms"] = latency_ms
    return document


def note_document(note: str, **facts: Any) -> dict[str, Any]:
    """What is said between frames: `note` names it."""
    return {"note": note, **facts}
