"""Who may write what, and read what: one table by role. Pure. Source: spec page "The ledger", the record table.

A role is that of the stamped sender (`<role>/<n>@<epoch>`), never of the payload. What is not in the table is denied: a
new kind of record gets its line here, with its writer, before anybody can write it.
"""

from __future__ import annotations

from typing import get_args

from bus.messages.ledger import EVERY_SESSION, STREAMS, WriteEntry
from bus.messages.session import ENTRY_NAMES, SessionEventKind
from ledger_service.admission import TURN_DEGRADED, is_session_stream
from ledger_service.naming import is_well_named, may_claim

SESSION = "session"
"""Stands in this table for every session's journal."""


def _journal_types() -> frozenset[str]:
    """What a session's owner records: every event of a session but the one that the host appends."""
    kinds: list[str] = [cls.model_fields["kind"].default for cls in get_args(get_args(SessionEventKind)[0])]
    return frozenset(ENTRY_NAMES.get(kind, kind) for kind in kinds) - {TURN_DEGRADED}


WRITES: dict[str, dict[str, frozenset[str]]] = {
    "ho2": {
        SESSION: _journal_types(),
        "ho2m": frozenset(
            {
                "WO_CHAIN_COMPLETE",
                "WO_QUALITY_GATE",
                "ESCALATION",
                "BUDGET_WARNING",
                "MEMORY_WARNING",
                "CONSOLIDATION_DUE",
                "OWNERS_SETTLED",
                "WO_DISPATCHED",  # of consolidations, which belong to no session's order
            }
        ),
        "ho2_context_authority": frozenset({"CONTEXT_ASSEMBLED"}),
        "ho1m": frozenset({"WO_FAILED"}),  # of an order that was lost
    },
    "ho1": {"ho1m": frozenset({"TOOL_STARTED", "WO_COMPLETED", "WO_FAILED", "WO_LATE"})},
    "gateway": {
        "prompts": frozenset(
            {
                "PROMPT_SENT",
                "PROMPT_RECEIVED",
                "PROMPT_FAILED",
                "PROMPT_REJECTED",
                "BUDGET_ALLOCATED",
                "BUDGET_RELEASED",
                "BREAKER_CHANGED",
                "BUDGET_SNAPSHOT",
                "BUDGET_WARNING",
            }
        )
    },
    "ho3": {
        "signals": frozenset({"HO3_SIGNAL"}),
        "overlays": frozenset(
            {
                "HO3_OVERLAY",
                "HO3_OVERLAY_DEACTIVATED",
                "HO3_OVERLAY_WEIGHT_UPDATED",
                "HO3_CONSOLIDATION_FAILED",
            }
        ),
    },
    "host": {SESSION: frozenset({TURN_DEGRADED}), "governance": frozenset({"DEGRADATION"})},
    "broker": {
        "governance": frozenset(
            {"DENIED", "DEAD_LETTER", "TOKEN_CREATED", "KEY_ENROLLED", "KEY_REFUSED", "KEY_REVOKED"}
        )
    },
    "launcher": {"governance": frozenset({"CONFIG_SNAPSHOT"})},
    "http": {
        # which session a client's own list of messages is; which keys it goes by
        "governance": frozenset({"TRANSCRIPT_DELIVERED", "HTTP_KEY_CREATED", "HTTP_KEY_REVOKED"})
    },
    "operator": {"governance": frozenset({"TAP_BODIES_READ", "TAP_BODIES_CLOSED"})},  # who looked at what was said
    "ledger": {"governance": frozenset({"RECOVERED", "WRITE_CONFLICT", "DENIED"})},
}
"""role -> stream -> event types. A role without a line (door) writes nothing."""

WRITTEN_TYPES = frozenset(kind for streams in WRITES.values() for kinds in streams.values() for kind in kinds)
"""Every event type that somebody writes."""

_EVERYTHING = frozenset({*STREAMS, SESSION})

_STREAMS_OF = {
    event_type: frozenset(stream for of in WRITES.values() for stream, kinds in of.items() if event_type in kinds)
    for event_type in WRITTEN_TYPES
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

EVENT_TYPES = frozenset(name for streams in WRITES.values() for names in streams.values() for name in names)
"""Every type that this system writes; nothing else that a sender claims as a type is a name."""


def may_write(role: str, stream: str, event_type: str) -> bool:
    """Whether this role is the writer of such entries."""
    return event_type in WRITES.get(role, {}).get(_kind_of(stream), ())


def may_write_entry(role: str, entry: WriteEntry, sender: str) -> bool:
    """Whether this stamped sender may write this entry: its kind, under its id, under its once key."""
    return (
        may_write(role, entry.stream, entry.event_type)
        and is_well_named(entry, sender)
        and may_claim(role, entry, sender)
    )


def may_read(role: str, stream: str | None, *, with_bodies: bool, event_type: str = "") -> bool:
    """Whether this role may ask for pages of this stream's entries.

    None: for those of all streams; of an event type, for those of all streams that have such entries.
    """
    readable = READS.get(role, frozenset())
    readable = readable - BY_REF.get(role, {}).keys() if with_bodies else readable | LISTS.get(role, frozenset())
    if stream is None:
        return readable >= _STREAMS_OF.get(event_type, _EVERYTHING)
    return (SESSION if stream == EVERY_SESSION else _kind_of(stream)) in readable


def may_read_entry(role: str, stream: str, event_type: str, *, with_bodies: bool) -> bool:
    """Whether this role may have this one entry, found by its id or its once key."""
    if role in READS and (stream, event_type) in SHARED:
        return True
    if (stream, event_type) in ENTRIES.get(role, ()):
        return True
    if with_bodies and event_type in BY_REF.get(role, {}).get(stream, ()):
        return True
    return may_read(role, stream, with_bodies=with_bodies)


def _kind_of(stream: str) -> str:
    """The stream's line in the tables; a name that no stream has is nobody's."""
    if is_session_stream(stream):
        return SESSION
    return stream if stream in STREAMS else ""
