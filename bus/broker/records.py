"""Denials, dead letters and keys on their way into the ledger: counted, batched, bounded, retried while it is away.

Codes and ids only: what a frame *claims* (its type, its destination, its id) is recorded only where it is a name this
system knows or has the form of an id, so that no free text of a stranger reaches an entry.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hobus.bus import limits
from hobus.bus.catalog import CLASSES
from hobus.bus.codec import decode, encode
from hobus.bus.envelope import Header, Kind, make_header
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Write, WriteEntry, Written
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import Denied, KeyEnrolled, KeyRefused, KeyRevoked, TokenMade

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_ID = re.compile(r"[A-Za-z0-9._:@#/-]{1,200}")


class Noted(NamedTuple):
    """Something to be recorded in the ledger; with a `submission_id` a repeat adds nothing."""

    event_type: str
    decision: str
    reason: str
    facts: Denied | TokenMade | KeyEnrolled | KeyRevoked | KeyRefused
    """What happens often is counted, without its `times` and `first_at_us`, until it is written."""
    submission_id: str = ""


class RecordBook:
    """Send at most one Write per interval and one at a time; count what does not fit."""

    def __init__(self, settings: BusSettings, *, instance: str) -> None:
        self._settings = settings
        self._instance = instance
        self._interval_s = limits.RECORD_INTERVAL_MS / 1000
        self._notes: dict[Noted, tuple[int, int]] = {}  # what -> (first at, count)
        self._batch: bytes = b""  # the write that is not acknowledged yet
        self._is_sent = False
        self._entries_made = 0
        self._sends = 0
        self._next_at = 0.0
        self._wall_us = 0
        self.dropped = 0  # since start: notes that found the book full, entries that the ledger refused
        self._dropped_unsaid = 0

    def set_time(self, wall_now: float) -> None:
        """Set the wall clock of what is noted from now on."""
        self._wall_us = int(wall_now * 1_000_000)

    def note(self, event_type: str, code: str, sender: str, frame: Header | None, service: str) -> None:
        """Count one event of this kind. Dead letters are kept one by one, denials by sender, type and reason."""
        known_type = frame.type if frame is not None and frame.type in CLASSES else ""
        message_id = frame.message_id if frame is not None and event_type == "DEAD_LETTER" else ""
        facts = Denied(sender, 0, 0, known_type, service, message_id if _ID.fullmatch(message_id) else "")
        self.keep(Noted(event_type, "REJECTED" if event_type == "DENIED" else "", code, facts))

    def keep(self, noted: Noted) -> None:
        known = self._notes.get(noted)
        if known is not None:
            self._notes[noted] = (known[0], known[1] + 1)
        elif len(self._notes) < limits.RECORDS_MAX:
            self._notes[noted] = (self._wall_us, 1)
        else:
            self.dropped += 1
            self._dropped_unsaid += 1

    def next_at(self) -> float | None:
        """Return when something is due; None while there is nothing, or while the ledger has it."""
        return self._next_at if (self._notes or self._batch) and not self._is_sent else None

    def due(self, now: float) -> tuple[Header, bytes] | None:
        """Return the Write to send now: the unacknowledged one again, or a new one."""
        if self._is_sent or now < self._next_at or not (self._notes or self._batch):
            return None
        if not self._batch:
            self._batch = self._make_batch()
        self._is_sent = True
        self._sends += 1
        self._next_at = now + self._interval_s
        frame = make_header(
            Kind.REQUEST,
            f"{self._instance}:record-{self._sends}",
            type=Write.TYPE,
            destination="ledger",
            deadline_ms=self._settings.service_grace_ms,
        )
        return frame, self._batch

    def settle(self, answer: Header, body: bytes) -> None:
        """End the batch at a reply; keep it for the next interval, under the same submission ids, at a failure."""
        self._is_sent = False
        if answer.kind != Kind.REPLY:
            return
        self._batch = b""
        try:
            written = decode(Written, body, limits.BODY_MAX_BYTES)
        except RuntimeFault:
            return
        self.dropped += sum(ack.outcome == "refused" for ack in written.acks)

    def _make_batch(self) -> bytes:
        entries = [self._make_entry(note, first_us, count) for note, (first_us, count) in self._notes.items()]
        if self._dropped_unsaid:
            overflow = Noted("DENIED", "REJECTED", "not_kept", Denied(self._instance, 0, 0))
            entries.append(self._make_entry(overflow, self._wall_us, self._dropped_unsaid))
            self._dropped_unsaid = 0
        self._notes.clear()
        return encode(Write(entries=entries), limits.BODY_MAX_BYTES)

    def _make_entry(self, noted: Noted, first_us: int, count: int) -> WriteEntry:
        self._entries_made += 1
        facts = noted.facts
        if isinstance(facts, Denied | KeyRefused):
            facts = facts._replace(times=count, first_at_us=first_us)
        return WriteEntry(
            submission_id=noted.submission_id or f"{self._instance}/{self._entries_made}",
            stream="governance",
            event_type=noted.event_type,
            decision=noted.decision,
            reason=noted.reason,
            at_us=self._wall_us,
            bodies=[pack_payload(facts)],
        )
