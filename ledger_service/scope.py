"""Who may read what: one table by role (who may write what is `bus/record/catalog.py`). Pure.

A role is that of the stamped sender (`<role>/<n>@<epoch>`), never of the payload. What is not in the table is denied.
"""

from __future__ import annotations

from collections.abc import Sequence

from hobus.bus.messages.ledger import EVERY_SESSION, STREAMS
from hobus.bus.record.catalog import EVENT_TYPES, KINDS, SEARCHED_STREAMS, SESSION, stream_kind

_EVERYTHING = frozenset({*STREAMS, SESSION})

_STREAMS_OF = {
    event_type: frozenset(row.stream for row in KINDS if row.event_type == event_type) for event_type in EVENT_TYPES
}

READS: dict[str, frozenset[str]] = {
    "operator": _EVERYTHING,
    "launcher": _EVERYTHING,
    "ledger": _EVERYTHING,
    "ho2": frozenset({SESSION, "ho2m", "ho1m", "prompts"}),  # prompts: the texts that its journal names by ref
    "ho1": frozenset({"ho1m", "prompts"}),  # its bodies by ref alone (BY_REF): a receipt, and the answer that it names
    "gateway": frozenset({"prompts"}),
    "ho3": frozenset({"signals", "overlays"}),
    "host": frozenset({SESSION}),
    "http": frozenset({SESSION}),  # of a session it shows its client the events
}
"""role -> streams whose entries and bodies it reads. A role without a line (door, broker) reads nothing."""

BY_REF: dict[str, dict[str, frozenset[str]]] = {
    "ho1": {"ho1m": frozenset({"WO_COMPLETED", "WO_FAILED", "WO_LATE"}), "prompts": frozenset({"PROMPT_RECEIVED"})}
}
"""role -> stream -> event types whose bodies it gets one by one alone, by exact id, once key or ref: never a page."""

LISTS: dict[str, frozenset[str]] = {"ho1": _EVERYTHING}
"""role -> streams whose entries it lists besides, without their bodies: for an executor's `query_ledger` tool."""

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
}
"""role -> streams whose texts it may search by words. Nobody else may: a search tells what was said by anybody."""

OF_ONE = frozenset({"ho2"})
"""Roles that search one session's texts, or one agent's, and name it."""


def searched_by(role: str, streams: Sequence[str], *, names_one: bool) -> frozenset[str]:
    """Which kinds of streams this role has searched when it asks for these (none: for all); none: it may not.

    `names_one`: the question names a session or an agent.
    """
    may = SEARCHES.get(role, frozenset())
    if role in OF_ONE and not names_one:
        return frozenset()
    wanted = frozenset(streams) or may
    return wanted if wanted <= may else frozenset()


def may_read(role: str, stream: str | None, *, with_bodies: bool, event_type: str = "") -> bool:
    """Whether this role may ask for pages of this stream's entries.

    None: for those of all streams; of an event type, for those of all streams that have such entries.
    """
    readable = READS.get(role, frozenset())
    readable = readable - BY_REF.get(role, {}).keys() if with_bodies else readable | LISTS.get(role, frozenset())
    if stream is None:
        return readable >= _STREAMS_OF.get(event_type, _EVERYTHING)
    return (SESSION if stream == EVERY_SESSION else stream_kind(stream)) in readable


def may_read_entry(role: str, stream: str, event_type: str, *, with_bodies: bool) -> bool:
    """Whether this role may have this one entry, found by its id or its once key."""
    if role in READS and (stream, event_type) in SHARED:
        return True
    if (stream, event_type) in ENTRIES.get(role, ()):
        return True
    if with_bodies and event_type in BY_REF.get(role, {}).get(stream, ()):
        return True
    return may_read(role, stream, with_bodies=with_bodies)
