"""What is said to the ledger. Source: spec page "The ledger".

An entry is what stands in the hash chain; its bodies lie beside the chain and can be erased. Body 0 of an entry is the
event's payload (MessagePack map); further bodies are texts and documents that the payload names by ref
(`<submission id>/<n>`). No free text of a person, a model or a tool stands in an entry itself.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from bus.messages.base import Count, Message, Record
from bus.messages.ids import ID_MAX_CHARS

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

EVERY_SESSION = "session"
"""To readers: the journals of all sessions. No stream has that name."""


def session_stream(session_id: str) -> str:
    """The stream that is this session's journal."""
    return f"session/{session_id}"


class Provenance(Record):
    """Who and what an entry is about; empty string where it does not apply."""

    agent_id: str = Field(default="", description="a configured agent")
    agent_class: str = Field(default="", description="class of the agent; empty: none")
    framework_id: str = Field(default="", description="`FMWK-<nnn>` of the agent; empty: none")
    package_id: str = Field(default="", description="package that owns the agent; empty: none")
    session_id: str = Field(default="", description="full id; empty: none")
    run_seq: Count = Field(default=0, description="number of the run in its session, from 1; 0: none")
    round_seq: Count = Field(default=0, description="number of the round in its run, from 1; 0: none")
    work_order_id: str = Field(default="", description="the order that this is about; empty: none")
    tier: str = Field(default="", description="hot, ho2 or ho1; empty: none")


class WriteEntry(Record):
    """One entry as its writer submits it; the ledger adds sequence, origin, ledger time, body hashes and chain."""

    submission_id: str = Field(min_length=1, max_length=ID_MAX_CHARS, description="the write's idempotency key")
    stream: str = Field(min_length=1, max_length=80, description="one of STREAMS or session/<uuid>")
    event_type: str = Field(min_length=1, max_length=64, description="what happened, e.g. PROMPT_SENT")
    decision: str = Field(default="", max_length=32, description="e.g. DEGRADED, ACCEPTED, REJECTED")
    reason: str = Field(default="", max_length=64, description="a reason code, never free text")
    provenance: Provenance = Provenance()
    parents: list[str] = Field(default_factory=list[str], description="submission ids that caused this entry")
    trace: str = Field(default="", max_length=200, description="id that ties the entries of one turn together")
    at_us: Count = Field(description="the writer's time, microseconds since 1970 UTC")
    bodies: list[bytes] = Field(default_factory=list[bytes], description="body 0 is the payload")
    prev: str | None = Field(
        default=None, description="session streams: submission id of the stream's head, '' if empty"
    )
    tenure: Count | None = Field(default=None, description="session streams: n of the writer's TookOver")
    once: str | None = Field(default=None, max_length=ID_MAX_CHARS, description="only the first entry of a key commits")


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
    code: str = Field(
        default="", description="refused: head_mismatch, tenure_mismatch, conflict, invalid, too_large, denied"
    )
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
    urgent: bool = Field(
        default=True,
        description="false: nobody waits for the reply; it may share the sync of a later write, within "
        "ledger.lazy_commit_ms",
    )


class Written(Message):
    """One ack per entry, in order."""

    TYPE: ClassVar[str] = "ledger.written"

    acks: list[Ack]


class Entry(Record):
    """One committed entry as readers get it."""

    sequence: Count = Field(description="position in the ledger, from 0")
    submission_id: str = Field(description="the key under which its writer submitted it")
    origin: str = Field(description="stamped instance that wrote it")
    stream: str = Field(description="named stream or `session/<id>`")
    event_type: str = Field(description="what happened, e.g. PROMPT_SENT")
    decision: str = Field(description="e.g. DEGRADED; empty: none")
    reason: str = Field(description="a reason code; empty: none")
    provenance: Provenance
    parents: list[str] = Field(description="submission ids that caused this entry")
    trace: str = Field(description="id that ties the entries of one turn together")
    at_us: Count = Field(description="the writer's time, microseconds since 1970 UTC")
    ledger_at_us: Count = Field(description="the ledger's time, microseconds since 1970 UTC")
    body_hashes: list[bytes] = Field(description="SHA-256 of salt + body, one per body")
    body_lengths: list[int] = Field(description="bytes of each body")
    prev: str | None = Field(description="session streams: submission id of the stream's head before it")
    tenure: Count | None = Field(description="session streams: tenure of the writer; None elsewhere")
    once: str | None = Field(description="key of which only the first entry commits")
    chain: bytes = Field(description="SHA-256 chain value after this entry")
    bodies: list[bytes | None] = Field(
        default_factory=list[bytes | None], description="empty unless asked for; None where erased"
    )


class Lookup(Message):
    """Find entries by submission id or once key, up to the last acknowledged entry (from the writer's own table)."""

    TYPE: ClassVar[str] = "ledger.lookup"

    submission_ids: list[str] = Field(default_factory=list[str], description="ids to find")
    once: list[str] = Field(default_factory=list[str], description="once keys to find")
    with_bodies: bool = Field(default=False, description="give the bodies too")


class Found(Message):
    """Entries in the order of the question: first submission ids, then once keys; None where nothing is."""

    TYPE: ClassVar[str] = "ledger.found"

    entries: list[Entry | None]


class Read(Message):
    """A range of one stream in order, up to the last acknowledged entry."""

    TYPE: ClassVar[str] = "ledger.read"

    stream: str = Field(description="named stream, `session/<id>`, or `session`: the journals of all sessions")
    after: int = Field(default=-1, description="only entries with a greater sequence")
    limit: int = Field(ge=1, description="entries of one page, at most ledger.read_entries_max")
    with_bodies: bool = Field(default=False, description="give the bodies too")
    newest_first: bool = Field(default=False, description="from the head backwards")
    before: int | None = Field(default=None, description="only entries with a smaller sequence; None: up to the head")


class Entries(Message):
    """A page; `more` says whether a further page exists beyond the last entry."""

    TYPE: ClassVar[str] = "ledger.entries"

    entries: list[Entry]
    more: bool = Field(description="true: a further page exists")
    head: int = Field(description="sequence of the last acknowledged entry of the ledger, -1 if empty")


class Query(Message):
    """Entries by provenance, event type and time, from the index (at most 200 ms behind)."""

    TYPE: ClassVar[str] = "ledger.query"

    where: dict[str, Any] = Field(
        default_factory=dict,
        description="equality on stream, event_type, origin, session_id, run_seq, work_order_id, agent_id, decision, "
        "reason",
    )
    after: int = Field(default=-1, description="only entries with a greater sequence")
    limit: int = Field(ge=1, description="entries of one page, at most ledger.read_entries_max")
    newest_first: bool = Field(default=False, description="from the head backwards")
    with_bodies: bool = Field(default=False, description="give the bodies too")


class Tail(Message):
    """Entries after a sequence; waits up to `wait_ms` for the first one (long poll), so that a follower never spins."""

    TYPE: ClassVar[str] = "ledger.tail"

    after: int = Field(description="only entries with a greater sequence")
    limit: int = Field(ge=1, description="entries of one page, at most ledger.read_entries_max")
    wait_ms: Count = Field(default=0, description="longest wait for a first entry; 0: none")
    stream: str | None = Field(
        default=None, description="only this stream; `session`: the journals of all sessions; None: all"
    )
    with_bodies: bool = Field(default=False, description="give the bodies too")


class GetBody(Message):
    """One body by ref."""

    TYPE: ClassVar[str] = "ledger.get_body"

    ref: str = Field(description="`<submission id>/<n>`")


class Body(Message):
    """The bytes behind a ref."""

    TYPE: ClassVar[str] = "ledger.body"

    ref: str = Field(description="`<submission id>/<n>`")
    data: bytes = Field(description="the bytes, exactly as written")


class ReadLedgerStats(Message):
    """Ask for the writer's counters."""

    TYPE: ClassVar[str] = "ledger.read_stats"


class LedgerStats(Message):
    """Counters since start, and the head."""

    TYPE: ClassVar[str] = "ledger.stats"

    head: int = Field(description="sequence of the last acknowledged entry, -1 if empty")
    chain: bytes = Field(description="SHA-256 chain value of the head")
    entries: Count = Field(description="entries in the ledger")
    commits: Count = Field(description="batches since start")
    syncs: Count = Field(description="device syncs since start")
    bytes_written: Count = Field(description="since start")
    index_behind: Count = Field(description="entries acknowledged and not yet in the index")
