"""Who may read what: one table by role (who may write what is `bus/record/catalog.py`); and what was denied. Pure.

A role is that of the stamped sender (`<role>/<n>@<epoch>`), never of the payload. What is not in the table is denied.
Denials go into the record counted by who and what, bounded, once per interval. Ids and names of this system only: what
a sender *claims* as type or stream is kept where it is such a name.
"""

from __future__ import annotations

from collections.abc import Sequence

from hobus.bus.messages.ledger import EVERY_SESSION, STREAMS, WriteEntry
from hobus.bus.record.catalog import EVENT_TYPES, KINDS, SEARCHED_STREAMS, SESSION, get_stream_kind, is_session_stream
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import Denied

_EVERYTHING = frozenset({*STREAMS, SESSION})

_STREAMS_OF = {
    event_type: frozenset(row.stream for row in KINDS if row.event_type == event_type) for event_type in EVENT_TYPES
}

READS: dict[str, frozenset[str]] = {
    "operator": _EVERYTHING,
    "launcher": _EVERYTHING,
    "ledger": _EVERYTHING,
    "ho2": frozenset({SESSION, "ho2m", "ho1m", "prompts"}),  # prompts: the texts that its journal names by ref
    "ho1": frozenset({"ho1m"}),  # its bodies one by one alone (BY_REF): receipts
    "gateway": frozenset({"prompts"}),
    "ho3": frozenset({"signals", "overlays"}),
    "host": frozenset({SESSION}),
    "http": frozenset({SESSION}),  # of a session it shows its client the events
}
"""role -> streams whose entries and bodies it reads. A role without a line (door, broker) reads nothing."""

BY_REF: dict[str, dict[str, frozenset[str]]] = {
    "ho1": {"ho1m": frozenset({"WO_COMPLETED", "WO_FAILED", "WO_LATE"})},
    "gateway": {"ho1m": frozenset({"WO_COMPLETED"}), "governance": frozenset({"TURN_IMAGE"})},  # images
}
"""role -> stream -> event types whose bodies it gets one by one alone, by exact id, once key or ref: never a page."""

LISTS: dict[str, frozenset[str]] = {"ho1": _EVERYTHING, "ho2": _EVERYTHING}
"""role -> streams whose entries it lists besides, without their bodies.

For an executor's `query_ledger` tool, and for stages of attention templates that ask for facts of the record.
"""

SHARED = frozenset({("governance", "CONFIG_SNAPSHOT")})
"""Entries, by stream and type, that every role with a line in READS reads: the configuration that it runs under."""

ENTRIES: dict[str, frozenset[tuple[str, str]]] = {
    "host": frozenset({("ho2m", "CONSOLIDATION_DUE")}),
    "http": frozenset({("governance", "TRANSCRIPT_DELIVERED")}),
}
"""role -> entries, by stream and type, that it reads besides, one by one by their ids.

What the host answers again names what CONSOLIDATION_DUE says; the HTTP door finds the session of a transcript.
"""


SEARCHES: dict[str, frozenset[str]] = {
    "operator": frozenset(SEARCHED_STREAMS),
    "ho2": frozenset({SESSION}),
    "ho1": frozenset({SESSION}),  # its `search` tool, which names the session of its call
}
"""role -> streams whose texts it may search by words. Nobody else may: a search tells what was said by anybody."""

OF_ONE = frozenset({"ho1", "ho2"})
"""Roles that search one session's texts, or one agent's, and name it."""


def list_searched(role: str, streams: Sequence[str], *, names_one: bool) -> frozenset[str]:
    """Return which of these kinds of streams (none: all) this role has searched; none: it may not.

    `names_one`: the question names a session or an agent.
    """
    may = SEARCHES.get(role, frozenset())
    if role in OF_ONE and not names_one:
        return frozenset()
    wanted = frozenset(streams) or may
    return wanted if wanted <= may else frozenset()


def may_read(role: str, stream: str | None, *, with_bodies: bool, event_type: str = "") -> bool:
    """Return whether this role may ask for pages of this stream's entries.

    None: for those of all streams; of an event type, for those of all streams that have such entries.
    """
    readable = READS.get(role, frozenset())
    readable = readable - BY_REF.get(role, {}).keys() if with_bodies else readable | LISTS.get(role, frozenset())
    if stream is None:
        return readable >= _STREAMS_OF.get(event_type, _EVERYTHING)
    return (SESSION if stream == EVERY_SESSION else get_stream_kind(stream)) in readable


def may_read_entry(role: str, stream: str, event_type: str, *, with_bodies: bool) -> bool:
    """Return whether this role may have this one entry, found by its id or its once key."""
    if role in READS and (stream, event_type) in SHARED:
        return True
    if (stream, event_type) in ENTRIES.get(role, ()):
        return True
    if with_bodies and event_type in BY_REF.get(role, {}).get(stream, ()):
        return True
    return may_read(role, stream, with_bodies=with_bodies)


DENIED = "DENIED"


class Denials:
    """Count denials until the next batch of records; beyond `kinds_max` different ones only their number is kept."""

    def __init__(self, instance: str, *, kinds_max: int) -> None:
        self._instance = instance
        self._kinds_max = kinds_max
        self._counts: dict[Denied, tuple[int, int]] = {}  # what, without how often and when -> (first at, count)
        self._made: list[WriteEntry] = []
        self._made_count = 0
        self.total = 0  # since start

    def note(self, sender: str, type_name: str, stream: str, event_type: str = "", *, now_us: int) -> None:
        self.total += 1
        is_stream = stream in STREAMS or is_session_stream(stream)
        known_type = event_type if event_type in EVENT_TYPES else ""
        what = Denied(sender, 0, 0, type_name, event_type=known_type, stream=stream if is_stream else "")
        if what not in self._counts and len(self._counts) >= self._kinds_max:
            what = Denied(self._instance, 0, 0)
        first_us, count = self._counts.get(what, (now_us, 0))
        self._counts[what] = (first_us, count + 1)

    def records(self, now_us: int) -> list[WriteEntry]:
        """Return records of what was counted, behind those not yet `durable`, under their ids; count anew."""
        counts, self._counts = self._counts, {}
        self._made += [self._make_entry(what, first_us, count, now_us) for what, (first_us, count) in counts.items()]
        return list(self._made)

    def durable(self) -> None:
        """Note that what `records` gave last stands."""
        self._made = []

    def _make_entry(self, what: Denied, first_us: int, count: int, now_us: int) -> WriteEntry:
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
