"""What is said to the ledger. Source: spec page "The ledger".

An entry is what stands in the hash chain; its bodies lie beside the chain and can be erased. Body 0 of an entry is the
event's payload (MessagePack map); further bodies are texts and documents that the payload names by ref
(`<submission id>/<n>`). No free text of a person, a model or a tool stands in an entry itself.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from bus.messages.base import Count, Message, Record

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


def session_stream(session_id: str) -> str:
    """The stream that is this session's journal."""
    return f"session/{session_id}"


class Provenance(Record):
    """Who and what an entry is about; empty string where it does not apply."""

    agent_id: str = ""
    agent_class: str = ""
    framework_id: str = ""
    package_id: str = ""
    session_id: str = ""
    run_seq: Count = 0
    round_seq: Count = 0
    work_order_id: str = ""
    tier: str = ""


class WriteEntry(Record):
    """One entry as its writer submits it; the ledger adds sequence, origin, ledger time, body hashes and chain."""

    submission_id: str = Field(min_length=1, max_length=400, description="the write's idempotency key")
    stream: str = Field(min_length=1, max_length=80, description="one of STREAMS or session/<uuid>")
    event_type: str = Field(min_length=1, max_length=64)
    decision: str = Field(default="", max_length=32, description="e.g. DEGRADED, ACCEPTED, REJECTED")
    reason: str = Field(default="", max_length=64, description="a reason code, never free text")
    provenance: Provenance = Provenance()
    parents: list[str] = Field(default_factory=list[str], description="submission ids that caused this entry")
    trace: str = Field(default="", max_length=200)
    at_us: Count = Field(description="the writer's time, microseconds since 1970 UTC")
    bodies: list[bytes] = Field(default_factory=list[bytes], description="body 0 is the payload")
    prev: str | None = Field(default=None, description="session streams: submission id of the stream's head, '' if empty")
    tenure: Count | None = Field(default=None, description="session streams: n of the writer's TookOver")
    once: str | None = Field(default=None, max_length=400, description="only the first entry of a key commits")


class Ack(Record):
    """What became of one entry of a Write."""

    outcome: Literal["committed", "known", "lost", "refused"] = Field(
        description="committed: now durable; known: this submission id was there already, same content; lost: another "
        "entry holds the once key; refused: nothing was added"
    )
    sequence: int = Field(description="of the committed, known or winning entry; -1 if refused")
    submission_id: str = Field(description="of the entry named by `sequence`, else of the refused write")
    origin: str = Field(default="", description="stamped instance that wrote the entry named by `sequence`")
    event_type: str = Field(default="", description="of the entry named by `sequence`")
    code: str = Field(default="", description="refused: head_mismatch, tenure_mismatch, conflict, invalid, too_large")
    head: str = Field(default="", description="refused on a session stream: the current head's submission id")
    tenure: int = Field(default=0, description="refused on a session stream: the current tenure")

    @property
    def is_first(self) -> bool:
        """Whether this write's own entry stands in the record (now, or by an earlier delivery of the same write)."""
        return self.outcome in ("committed", "known")


class Write(Message):
    """Append entries, in order, atomically synced: the reply means they are durable."""

    TYPE: ClassVar[str] = "ledger.write"

    entries: list[WriteEntry] = Field(min_length=1)


class Written(Message):
    """One ack per entry, in order."""

    TYPE: ClassVar[str] = "ledger.written"

    acks: list[Ack]


class Entry(Record):
    """One committed entry as readers get it."""

    sequence: Count
    submission_id: str
    origin: str
    stream: str
    event_type: str
    decision: str
    reason: str
    provenance: Provenance
    parents: list[str]
    trace: str
    at_us: Count
    ledger_at_us: Count
    body_hashes: list[bytes] = Field(description="SHA-256 of salt + body, one per body")
    body_lengths: list[int]
    prev: str | None
    tenure: Count | None
    once: str | None
    chain: bytes = Field(description="SHA-256 chain value after this entry")
    bodies: list[bytes | None] = Field(
        default_factory=list[bytes | None], description="empty unless asked for; None where erased"
    )


class Lookup(Message):
    """Find entries by submission id or once key, up to the last acknowledged entry (from the writer's own table)."""

    TYPE: ClassVar[str] = "ledger.lookup"

    submission_ids: list[str] = Field(default_factory=list[str])
    once: list[str] = Field(default_factory=list[str])
    with_bodies: bool = False


class Found(Message):
    """Entries in the order of the question: first submission ids, then once keys; None where nothing is."""

    TYPE: ClassVar[str] = "ledger.found"

    entries: list[Entry | None]


class Read(Message):
    """A range of one stream in order, up to the last acknowledged entry."""

    TYPE: ClassVar[str] = "ledger.read"

    stream: str
    after: int = Field(default=-1, description="only entries with a greater sequence")
    limit: int = Field(ge=1, le=10_000)
    with_bodies: bool = False
    newest_first: bool = False


class Entries(Message):
    """A page; `more` says whether a further page exists beyond the last entry."""

    TYPE: ClassVar[str] = "ledger.entries"

    entries: list[Entry]
    more: bool
    head: int = Field(description="sequence of the last acknowledged entry of the ledger, -1 if empty")


class Query(Message):
    """Entries by provenance, event type and time, from the index (at most 200 ms behind)."""

    TYPE: ClassVar[str] = "ledger.query"

    where: dict[str, Any] = Field(
        default_factory=dict,
        description="equality on stream, event_type, origin, session_id, run_seq, work_order_id, agent_id, decision, reason",
    )
    after: int = -1
    limit: int = Field(ge=1, le=10_000)
    newest_first: bool = False
    with_bodies: bool = False


class Tail(Message):
    """Entries after a sequence; waits up to `wait_ms` for the first one (long poll), so that a follower never spins."""

    TYPE: ClassVar[str] = "ledger.tail"

    after: int
    limit: int = Field(ge=1, le=10_000)
    wait_ms: Count = 0
    stream: str | None = None
    with_bodies: bool = False


class GetBody(Message):
    """One body by ref."""

    TYPE: ClassVar[str] = "ledger.get_body"

    ref: str


class Body(Message):
    """The bytes behind a ref."""

    TYPE: ClassVar[str] = "ledger.body"

    ref: str
    data: bytes


class ReadLedgerStats(Message):
    """Ask for the writer's counters."""

    TYPE: ClassVar[str] = "ledger.read_stats"


class LedgerStats(Message):
    """Counters since start, and the head."""

    TYPE: ClassVar[str] = "ledger.stats"

    head: int
    chain: bytes
    entries: Count
    commits: Count
    syncs: Count
    bytes_written: Count
    index_behind: Count = Field(description="entries acknowledged and not yet in the index")
