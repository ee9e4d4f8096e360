"""What was denied, on its way into the record: counted by who and what, bounded, once per interval. Pure.

Ids and names of this system only: what a sender *claims* as type or stream is kept where it is such a name.
"""

from __future__ import annotations

from hobus.bus.messages.ledger import STREAMS, WriteEntry
from hobus.bus.record.catalog import EVENT_TYPES, is_session_stream
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import Denied

DENIED = "DENIED"


class Denials:
    """Counts until the next batch of records; beyond `kinds_max` different ones only their number is kept."""

    def __init__(self, instance: str, *, kinds_max: int) -> None:
        self._instance = instance
        self._kinds_max = kinds_max
        self._counts: dict[Denied, tuple[int, int]] = {}  # what, without how often and when -> (first at, count)
        self._made: list[WriteEntry] = []
        self._made_count = 0
        self.total = 0  # since start

    def note(self, sender: str, type_name: str, stream: str, event_type: str = "", *, now_us: int) -> None:
        """One more."""
        self.total += 1
        is_stream = stream in STREAMS or is_session_stream(stream)
        known_type = event_type if event_type in EVENT_TYPES else ""
        what = Denied(sender, 0, 0, type_name, event_type=known_type, stream=stream if is_stream else "")
        if what not in self._counts and len(self._counts) >= self._kinds_max:
            what = Denied(self._instance, 0, 0)
        first_us, count = self._counts.get(what, (now_us, 0))
        self._counts[what] = (first_us, count + 1)

    def records(self, now_us: int) -> list[WriteEntry]:
        """Of what was counted, which begins anew, behind those that are not `durable` yet, under their ids."""
        counts, self._counts = self._counts, {}
        self._made += [self._entry(what, first_us, count, now_us) for what, (first_us, count) in counts.items()]
        return list(self._made)

    def durable(self) -> None:
        """What `records` gave last stands."""
        self._made = []

    def _entry(self, what: Denied, first_us: int, count: int, now_us: int) -> WriteEntry:
        self._made_count += 1
        return WriteEntry(
            submission_id=f"{DENIED}:{self._instance}/{self._made_count}",
            stream="governance",
            event_type=DENIED,
            decision="REJECTED",
            reason="not_kept" if what.sender == self._instance else "scope",
            at_us=now_us,
            bodies=[pack_payload(what._replace(times=count, first_at_us=first_us))],
        )
