"""What was read of the record to explain a turn, and how one entry of it is read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hobus.bus.messages.ledger import Entry
from hobus.bus.record.catalog import read_body
from hobus.config.snapshot import Snapshot
from hobus.launch.sessions.provenance import Configuration

ERASED = "(erased, or not in this record)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read of the record."""

    turn: Sequence[Entry]
    """The turn's own entries, with their bodies."""
    session: Sequence[Entry]
    """Those of its session, in which its texts stand."""
    elsewhere: Sequence[Entry] = ()
    """Those of other sessions that its prompts quote; of a consolidation's excerpts."""
    memory: Sequence[Entry]
    """Streams `signals` and `overlays`, of all agents."""
    snapshot: Snapshot | None = None
    """What the turn ran under."""
    fault: str = "the record lacks the configuration that the turn ran under"
    """Why there is none."""
    configurations: Mapping[str, Configuration] = field(default_factory=dict[str, Configuration])
    """Configuration digest -> the files of it, of any version of the program."""


def body_of(entry: Entry) -> Any:
    """The typed payload; None for what has none, was erased, or is of another version."""
    try:
        return read_body(entry)
    except ValueError:
        return None
