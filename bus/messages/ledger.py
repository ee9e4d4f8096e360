"""What is said to the ledger.

An entry is what stands in the hash chain; its bodies lie beside the chain and can be erased. Body 0 of an entry is the
event's payload (a MessagePack map; of a session's event an array, `bus.record.journal`); further bodies are texts and
documents that the payload names by ref (`<submission id>/<n>`). No free text of a person, a model or a tool stands in
an entry itself.
"""

from typing import Annotated, Any, Self

from msgspec import Meta, field
from msgspec.msgpack import Decoder

from hobus.bus.messages.base import Count, Message, Record, pack
from hobus.bus.messages.failure import Failure
from hobus.bus.record.entry import (
    Ack,
    Entry,
    Packed,
    Part,
    Provenance,
    WriteEntry,
    check_part,
    pack_entry,
    read_each,
    read_written_entry,
)

__all__ = ["Ack", "Entry", "Part", "Provenance", "WriteEntry"]

STREAMS = (
    "governance",
    "ho2m",
    "ho1m",
    "prompts",
    "ho2_context_authority",
    "signals",
    "overlays",
)
"""The named streams; every other stream is `session/<session id>` (a session's journal)."""

_WRITE = Decoder(tuple[list[Packed], bool, list[Part]])
_WRITTEN = Decoder(tuple[list[Ack], list[tuple[int, bytes]]])
_FOUND = Decoder(tuple[list[Entry | None]])
_ENTRIES = Decoder(tuple[list[Entry], bool, int])
"""How the messages of entries stand on the wire, which are not maps as those of others are."""

EVERY_SESSION = "session"
"""To readers: the journals of all sessions. No stream has that name."""


def name_session_stream(session_id: str) -> str:
    return f"session/{session_id}"


class Write(Message, wire="ledger.write"):
    """Append entries, in order, atomically synced: the reply means they are durable.

    Several writes may share a frame: each part is one, with its own answer.
    """

    entries: Annotated[
        list[WriteEntry], Meta(min_length=1, description="each as an array of two: bytes, and list of bodies")
    ]
    urgent: Annotated[
        bool,
        Meta(description="false: without a waiter; may share a later write's sync, within ledger.lazy_commit_ms"),
    ] = True
    parts: Annotated[
        list[Part], Meta(description="the writes that these entries are, in order; none: they are one write")
    ] = field(default_factory=list[Part])

    def to_bytes(self) -> bytes:
        entries = [(entry.packed or pack_entry(entry), entry.bodies) for entry in self.entries]
        return pack((entries, self.urgent, self.parts))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        entries, urgent, parts = _WRITE.decode(data)
        if not entries:
            raise ValueError("entries: there is none")
        found = parts and read_each("parts", check_part, parts)
        if found and sum(part.entries for part in found) != len(entries):
            raise ValueError(f"parts: of {sum(part.entries for part in found)} entries, not {len(entries)}")
        return cls(entries=read_each("entries", read_written_entry, entries), urgent=urgent, parts=found)


class Import(Write, wire="ledger.import"):
    """Entries of sessions from another cell, unchanged, with origin `elsewhere`.

    A journal continues after its SessionLeft, or begins; until SessionArrived nobody else may write.
    """


class Written(Message, wire="ledger.written"):
    """One ack per entry, in order; a part that failed as a whole has one failure instead."""

    acks: Annotated[list[Ack], Meta(description="in the order of the entries, without those of parts that failed")]
    failures: Annotated[
        dict[int, Failure],
        Meta(description="by number of the part, from 0; as pairs of number and message"),
    ] = field(default_factory=dict[int, Failure])

    def to_bytes(self) -> bytes:
        failures = self.failures and [(part, failure.to_bytes()) for part, failure in self.failures.items()]
        return pack((self.acks, failures or ()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        acks, pairs = _WRITTEN.decode(data)
        failures = {part: Failure.from_bytes(one) for part, one in pairs} if pairs else {}
        return cls(acks=acks, failures=failures)


class Lookup(Message, wire="ledger.lookup"):
    """Find entries by submission id or once key, up to the last acknowledged entry (from the writer's own table)."""

    submission_ids: Annotated[list[str], Meta(description="ids to find")] = field(default_factory=list[str])
    once: Annotated[list[str], Meta(description="once keys to find")] = field(default_factory=list[str])
    with_bodies: Annotated[bool, Meta(description="give the bodies too")] = False


class Found(Message, wire="ledger.found"):
    """Entries in the order of the question: first submission ids, then once keys; None where nothing is."""

    entries: Annotated[list[Entry | None], Meta(description="as asked for")]

    def to_bytes(self) -> bytes:
        return pack((self.entries,))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        (entries,) = _FOUND.decode(data)
        return cls(entries=entries)


class Read(Message, wire="ledger.read"):
    """A range of one stream in order, up to the last acknowledged entry."""

    stream: Annotated[str, Meta(description="named stream, `session/<id>`, or `session`: the journals of all sessions")]
    after: Annotated[int, Meta(description="only entries with a greater sequence")] = -1
    limit: Annotated[int, Meta(ge=1, description="entries of one page, at most 64")]
    with_bodies: Annotated[bool, Meta(description="give the bodies too")] = False
    newest_first: Annotated[bool, Meta(description="from the head backwards")] = False
    before: Annotated[int | None, Meta(description="only entries with a smaller sequence; None: up to the head")] = None


class Entries(Message, wire="ledger.entries"):
    """A page; `more` says whether a further page exists beyond the last entry."""

    entries: Annotated[list[Entry], Meta(description="in the order that was asked for")]
    more: Annotated[bool, Meta(description="true: a further page exists")]
    head: Annotated[int, Meta(description="sequence of the last acknowledged entry of the ledger, -1 if empty")]

    def to_bytes(self) -> bytes:
        return pack((self.entries, self.more, self.head))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        entries, more, head = _ENTRIES.decode(data)
        return cls(entries=entries, more=more, head=head)


class Query(Message, wire="ledger.query"):
    """Entries by provenance, event type and time, from the index (at most 200 ms behind)."""

    where: Annotated[
        dict[str, Any],
        Meta(
            description="equality on stream, event_type, origin, session_id, run_seq, work_order_id, agent_id, "
            "decision, reason"
        ),
    ] = field(default_factory=dict)
    after: Annotated[int, Meta(description="only entries with a greater sequence")] = -1
    limit: Annotated[int, Meta(ge=1, description="entries of one page, at most 64")]
    newest_first: Annotated[bool, Meta(description="from the head backwards")] = False
    with_bodies: Annotated[bool, Meta(description="give the bodies too")] = False
    before: Annotated[int | None, Meta(description="only entries with a smaller sequence; None: up to the head")] = None


class Tail(Message, wire="ledger.tail"):
    """Entries after a sequence; waits up to `wait_ms` for the first one (long poll)."""

    after: Annotated[int, Meta(description="only entries with a greater sequence")]
    limit: Annotated[int, Meta(ge=1, description="entries of one page, at most 64")]
    wait_ms: Annotated[Count, Meta(description="longest wait for a first entry; 0: none")] = 0
    stream: Annotated[
        str | None, Meta(description="only this stream; `session`: the journals of all sessions; None: all")
    ] = None
    with_bodies: Annotated[bool, Meta(description="give the bodies too")] = False


class Search(Message, wire="ledger.search"):
    """Search texts of people, models and tools by words, without syntax (docs/ledger.md)."""

    words: Annotated[
        str,
        Meta(description="any of these; of a long text its beginning and end, of many words the longest and rarest"),
    ]
    session_id: Annotated[str, Meta(description="only of this session (full id); empty: of all")] = ""
    agent_id: Annotated[str, Meta(description="only of this agent; empty: of all")] = ""
    principal: Annotated[str, Meta(description="only of sessions of this principal; empty: of all")] = ""
    streams: Annotated[
        list[str], Meta(description="only of these; `session`: the journals; empty: all permitted ones")
    ] = field(default_factory=list[str])
    event_types: Annotated[list[str], Meta(description="only of entries of these types; none: of all")] = field(
        default_factory=list[str]
    )
    after: Annotated[int, Meta(description="only entries with a greater sequence")] = -1
    before: Annotated[int | None, Meta(description="only entries with a smaller sequence; None: up to the head")] = None
    since_us: Annotated[
        Count, Meta(description="only entries of this ledger time and later, microseconds since 1970")
    ] = 0
    score_min: Annotated[float, Meta(ge=0, le=1, description="only texts with at least this score")] = 0.0
    limit: Annotated[int, Meta(ge=1, description="hits, at most 50")]
    statements_first: Annotated[
        bool,
        Meta(description="texts that end with a question mark come last"),
    ] = False


class Hit(Record):
    """One found text."""

    sequence: Annotated[int, Meta(description="of its entry")]
    submission_id: Annotated[str, Meta(description="of that entry")]
    stream: Annotated[str, Meta(description="named stream or `session/<id>`")]
    event_type: Annotated[str, Meta(description="what happened, e.g. RunRequested")]
    session_id: Annotated[str, Meta(description="full id; empty: none")]
    agent_id: Annotated[str, Meta(description="empty: none")]
    at_us: Annotated[Count, Meta(description="the ledger's time, microseconds since 1970 UTC")]
    kind: Annotated[
        str, Meta(description="message, steer, reply, result (of a tool), line (that was learned), reason or failure")
    ]
    ref: Annotated[str, Meta(description="`<submission id>/<n>` of the body that holds the whole text")]
    score: Annotated[float, Meta(description="0 to 1, of its best passage (docs/ledger.md, Search)")]
    excerpt: Annotated[str, Meta(description="the best passage")]
    excerpt_at: Annotated[Count, Meta(description="where the excerpt begins in the text, in characters")]
    text_chars: Annotated[Count, Meta(description="characters of the whole text")]
    spans: Annotated[
        list[list[int]], Meta(description="words found in the excerpt, each as [start, end), in characters of it")
    ]


class Hits(Message, wire="ledger.hits"):
    """The best hits first."""

    hits: Annotated[list[Hit], Meta(description="by score, then the newest first")]
    more: Annotated[bool, Meta(description="true: more texts contain these words")]
    words: Annotated[list[str], Meta(description="words searched: without case and diacritics, unique, sorted")]
    head: Annotated[int, Meta(description="sequence of the last acknowledged entry of the ledger, -1 if empty")]
    reached: Annotated[
        int, Meta(description="sequence of the last searched entry; later ones up to head were not searched")
    ]


class GetBody(Message, wire="ledger.get_body"):
    """One body by ref."""

    ref: Annotated[str, Meta(description="`<submission id>/<n>`")]


class Body(Message, wire="ledger.body"):
    """The bytes behind a ref."""

    ref: Annotated[str, Meta(description="`<submission id>/<n>`")]
    data: Annotated[bytes, Meta(description="the bytes, exactly as written")]


class ReadLedgerStats(Message, wire="ledger.read_stats"):
    """Ask for the writer's counters."""


class LedgerStats(Message, wire="ledger.stats"):
    """Counters since start, and the head."""

    head: Annotated[int, Meta(description="sequence of the last acknowledged entry, -1 if empty")]
    chain: Annotated[bytes, Meta(description="SHA-256 chain value of the head")]
    entries: Annotated[Count, Meta(description="entries in the ledger")]
    commits: Annotated[Count, Meta(description="batches since start")]
    syncs: Annotated[Count, Meta(description="device syncs since start")]
    bytes_written: Annotated[Count, Meta(description="since start")]
    index_behind: Annotated[Count, Meta(description="entries acknowledged and not yet in the index")]
