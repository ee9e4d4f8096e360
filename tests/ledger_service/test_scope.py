"""Who may write what, and read what: the table, and the ledger that holds every request against it."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from hobus.bus.catalog import ROLES
from hobus.bus.errors import BusError
from hobus.bus.messages.ledger import EVERY_SESSION, STREAMS, GetBody, Lookup, Query, Read, Tail
from hobus.bus.record.catalog import EVENT_TYPES, KINDS, find_kind, read_body
from hobus.bus.record.payloads.governance import Denied
from hobus.bus.sim.disk import SimDisk
from hobus.ledger_service import service
from hobus.ledger_service.scope import READS, may_read, may_read_entry
from tests.ledger_service.rig import SESSION, call, medium, running, take_over, write

JOURNAL = {
    "SESSION_START", "SESSION_END", "TookOver", "RunRequested", "RunStarted", "RunAttached", "HostCommandReceived",
    "HostCommandApplied", "HostCommandRejected", "LifecycleChanged", "StepStarted", "WO_DISPATCHED", "OrderEnded",
    "ToolBatchIssued", "ToolReceipt", "LeaseIssued", "TimePassed", "RunCompleted", "RunFailed",
    "RunCancelled", "STATE_SNAPSHOT", "INTENT_DECLARED", "INTENT_SUPERSEDED", "INTENT_CLOSED", "INTENT_CONFLICT",
    "SessionLeft",
}  # fmt: skip
"""What the record table names for HO2 on a session's stream."""

RECORD_TABLE = {
    **{(SESSION, name): {"ho2"} for name in JOURNAL},
    (SESSION, "TurnDegraded"): {"host"},
    (SESSION, "SessionArrived"): {"operator"},
    ("ho2m", "WO_QUALITY_GATE"): {"ho2"},
    ("ho2m", "ESCALATION"): {"ho2"},
    ("ho2m", "BUDGET_WARNING"): {"ho2"},
    ("ho2m", "MEMORY_WARNING"): {"ho2"},
    ("ho2m", "OWNERS_SETTLED"): {"ho2"},
    ("ho2m", "CONSOLIDATION_DUE"): {"ho2"},
    ("ho2m", "WO_DISPATCHED"): {"ho2"},
    ("ho2_context_authority", "CONTEXT_ASSEMBLED"): {"ho2"},
    ("ho2_context_authority", "PROJECTION_COMPUTED"): {"ho2"},
    ("ho2_context_authority", "PROJECTION_SHADOW_COMPARE"): {"ho2"},
    ("ho1m", "TOOL_STARTED"): {"ho1"},
    ("ho1m", "WO_COMPLETED"): {"ho1", "ho2"},
    ("ho1m", "WO_FAILED"): {"ho1", "ho2"},
    ("ho1m", "WO_LATE"): {"ho1"},
    **{("prompts", f"PROMPT_{name}"): {"gateway"} for name in ("SENT", "RECEIVED", "FAILED", "REJECTED")},
    ("prompts", "BUDGET_ALLOCATED"): {"gateway"},
    ("prompts", "BUDGET_RELEASED"): {"gateway"},
    ("prompts", "BREAKER_CHANGED"): {"gateway"},
    ("prompts", "BUDGET_SNAPSHOT"): {"gateway"},
    ("prompts", "BUDGET_WARNING"): {"gateway"},
    ("signals", "HO3_SIGNAL"): {"ho3"},
    ("overlays", "HO3_OVERLAY"): {"ho3"},
    ("overlays", "HO3_OVERLAY_DEACTIVATED"): {"ho3"},
    ("overlays", "HO3_OVERLAY_ACTIVATED"): {"ho3"},
    ("overlays", "HO3_OVERLAY_CONFIRMED"): {"ho3"},
    ("overlays", "HO3_OVERLAY_WEIGHT_UPDATED"): {"ho3"},
    ("overlays", "HO3_CONSOLIDATION_FAILED"): {"ho3"},
    ("governance", "DEGRADATION"): {"host"},
    ("governance", "DENIED"): {"broker", "ledger"},
    ("governance", "DEAD_LETTER"): {"broker"},
    ("governance", "TOKEN_CREATED"): {"broker"},
    ("governance", "KEY_ENROLLED"): {"broker"},
    ("governance", "KEY_REFUSED"): {"broker"},
    ("governance", "KEY_REVOKED"): {"broker"},
    ("governance", "CONFIG_SNAPSHOT"): {"launcher"},
    ("governance", "OPERATOR_COMMAND"): {"launcher"},
    ("governance", "TAP_BODIES_READ"): {"operator"},
    ("governance", "TAP_BODIES_CLOSED"): {"operator"},
    ("governance", "RECOVERED"): {"ledger"},
    ("governance", "WRITE_CONFLICT"): {"ledger"},
    ("governance", "TRANSCRIPT_DELIVERED"): {"http"},
    ("governance", "TURN_IMAGE"): {"http"},
    ("governance", "HTTP_KEY_CREATED"): {"http"},
    ("governance", "HTTP_KEY_REVOKED"): {"http"},
}


def test_writers_are_those_of_the_record_table_and_nobody_else():
    streams = [*STREAMS, SESSION, "session/x", "session", "nowhere", ""]
    types = {*EVENT_TYPES, *(name for _, name in RECORD_TABLE), "ANYTHING", ""}
    for stream in streams:
        for event_type in sorted(types):
            writers = {role for role in (*ROLES, "stranger", "") if find_kind(role, stream, event_type) is not None}
            assert writers == RECORD_TABLE.get((stream, event_type), set()), (stream, event_type)
    assert {role for row in KINDS for role in row.writers} <= set(ROLES) and set(READS) <= set(ROLES)


@pytest.mark.parametrize(
    ("role", "streams"),
    [
        *((role, {*STREAMS, SESSION}) for role in ("operator", "launcher", "ledger")),
        ("ho2", {SESSION, "ho2m", "ho1m", "prompts"}),
        ("ho1", set[str]()),  # bodies one by one alone
        ("gateway", {"prompts"}),
        ("host", {SESSION}),
        ("ho3", {"signals", "overlays"}),
        ("http", {SESSION}),
        *((role, set[str]()) for role in ("door", "broker", "stranger")),
    ],
)
def test_readers_read_their_own_streams(role: str, streams: set[str]):
    every = [*STREAMS, SESSION, "nowhere", "session/x"]
    journals = SESSION in streams
    assert may_read(role, EVERY_SESSION, with_bodies=True) == journals
    assert may_read(role, EVERY_SESSION, with_bodies=False) == (journals or role == "ho1")
    assert {stream for stream in every if may_read(role, stream, with_bodies=True)} == streams
    assert may_read(role, None, with_bodies=True) == (streams == {*STREAMS, SESSION})
    listed = {*STREAMS, SESSION} if role in ("ho1", "ho2") else streams
    assert {stream for stream in every if may_read(role, stream, with_bodies=False)} == listed
    assert may_read(role, None, with_bodies=False) == (listed == {*STREAMS, SESSION})
    assert may_read_entry(role, "governance", "CONFIG_SNAPSHOT", with_bodies=True) == (role in READS)


SESSION_ID = SESSION.removeprefix("session/")
TAKEN, CONFIG = f"TookOver:{SESSION_ID}/1", "CONFIG_SNAPSHOT:sha256:1"
END, SENT, GOT = "WO_COMPLETED:WO-1/ho1/1@1", "PROMPT_SENT:WO-1#1/1", "PROMPT_RECEIVED:WO-1#1/1"
DEGRADED = f"DEGRADATION:{SESSION_ID}/in-1"


@asynccontextmanager
async def _ledger():
    """A session, an order's end, a prompt and a configuration, each of its writer; the denials' interval has passed."""
    async with running(SimDisk(medium())) as ledger:
        for role, entry in (
            ("ho2", write(TAKEN, SESSION, event_type="TookOver", prev="", tenure=1)),
            ("ho1", write(END, once="end:WO-1")),
            ("gateway", write(SENT, "prompts", event_type="PROMPT_SENT")),
            ("gateway", write(GOT, "prompts", event_type="PROMPT_RECEIVED")),
            ("launcher", write(CONFIG, "governance", event_type="CONFIG_SNAPSHOT", body=b"snapshot")),
            ("host", write(DEGRADED, "governance", event_type="DEGRADATION")),
        ):
            (ack,) = await ledger.write(entry, sender=f"{role}/1@1")
            assert ack.outcome == "committed"
        yield ledger


async def _denials(ledger):
    await ledger.bus.release()
    found = await ledger.read("governance", with_bodies=True)
    return [(e, read_body(e)) for e in found if e.event_type == "DENIED"]


@pytest.mark.parametrize("role", ["door", "operator", "ho3", "ho1", "gateway"])
async def test_nobody_writes_into_the_record_of_another(role: str):
    """The four forgeries that a plain client could commit: an answer, junk that bricks, a take-over, a budget."""
    async with _ledger() as ledger:
        before = len(await ledger.all())
        forged = [
            write("f1", SESSION, event_type="TurnDegraded", once="turn:s/in-2"),
            write("f2", SESSION, event_type="TurnDegraded", once="whatever", body=b"junk"),
            take_over(2, TAKEN),
            write("f3", "ho1m" if role == "gateway" else "prompts", event_type="BUDGET_ALLOCATED"),
        ]
        acks = await ledger.write(*forged, sender=f"{role}/7@9")
        assert [(ack.outcome, ack.code, ack.submission_id) for ack in acks] == [
            ("refused", "denied", entry.submission_id) for entry in forged
        ]
        assert {(ack.head, ack.tenure) for ack in acks} == {("", 0)}  # and it learns nothing of the session
        assert len(await ledger.all()) == before


async def test_a_refused_entry_stands_in_its_place_among_the_others():
    """Per entry, in order: what the sender may write is committed."""
    async with _ledger() as ledger:
        a, b = "WO_COMPLETED:WO-1/ho1/2@9", "WO_COMPLETED:WO-2/ho1/2@9"
        entries = [write("x", "prompts"), write(a), write("y", "ho1m", event_type="ANYTHING"), write(b)]
        acks = await ledger.write(*entries, sender="ho1/2@9")
        assert [(ack.code or ack.outcome, ack.submission_id) for ack in acks] == [
            ("denied", "x"), ("committed", a), ("denied", "y"), ("committed", b),
        ]  # fmt: skip


async def test_denials_are_recorded_with_a_count_and_without_content():
    """Many of one kind are one record; a claimed type or stream that is no name of this system is left out."""
    async with _ledger() as ledger:
        for n in range(50):
            await ledger.write(write(f"t{n}", "prompts", event_type="PROMPT_SENT", body=b"secret"), sender="door/1@9")
        await ledger.write(write("v", "a poem", event_type="another poem"), sender="door/1@9")
        recorded = await _denials(ledger)
        assert [(e.origin, e.decision, e.reason) for e, _ in recorded] == [("ledger/1@1", "REJECTED", "scope")] * 2
        assert [payload._replace(first_at_us=0) for _, payload in recorded] == [
            Denied("door/1@9", 50, 0, "ledger.write", event_type="PROMPT_SENT", stream="prompts"),
            Denied("door/1@9", 1, 0, "ledger.write"),
        ]
        assert ledger.service.counters()["denied"] == 51


async def test_denials_are_bounded_per_interval(monkeypatch):
    """Beyond `DENIED_MAX` different ones their number alone is kept; the next interval counts anew."""
    monkeypatch.setattr(service, "DENIED_MAX", 3)
    async with _ledger() as ledger:
        for n in range(10):
            await ledger.write(write("x"), sender=f"door/{n}@9")
        assert [(e.reason, p.sender, p.times) for e, p in await _denials(ledger)] == [
            ("scope", "door/0@9", 1), ("scope", "door/1@9", 1), ("scope", "door/2@9", 1), ("not_kept", "ledger/1@1", 7),
        ]  # fmt: skip
        await ledger.write(write("x"), sender="door/4@9")
        assert [p.sender for _, p in (await _denials(ledger))[4:]] == ["door/4@9"]


async def test_denials_that_were_not_recorded_yet_are_when_the_ledger_stops():
    device = medium()
    async with running(SimDisk(device)) as ledger:
        await ledger.write(write("x"), sender="door/1@9")
    async with running(SimDisk(device)) as ledger:
        assert [entry.event_type for entry in await ledger.read("governance")] == ["DENIED"]


async def test_a_read_outside_the_scope_is_denied_by_name():
    questions = [
        ("door", Read(stream=SESSION, limit=1)),
        ("door", Tail(after=-1, limit=1)),
        ("door", Query(limit=1)),
        ("door", Lookup(submission_ids=["not there"])),
        ("door", GetBody(ref=f"{CONFIG}/0")),
        ("http", Read(stream="prompts", limit=1)),
        ("http", Read(stream="governance", limit=1)),
        ("http", Tail(after=-1, limit=1)),
        ("http", Query(limit=1)),
        ("http", Query(where={"event_type": "TRANSCRIPT_DELIVERED"}, limit=1)),
        ("http", Lookup(submission_ids=[SENT])),
        ("http", GetBody(ref=f"{SENT}/0")),
        ("http", GetBody(ref=f"{DEGRADED}/0")),
        ("door", Tail(stream=EVERY_SESSION, after=-1, limit=1)),
        ("gateway", Tail(stream=EVERY_SESSION, after=-1, limit=1)),
        ("broker", Read(stream="governance", limit=1)),
        ("host", Read(stream="prompts", limit=1)),
        ("host", Lookup(once=["end:WO-1"])),
        ("host", GetBody(ref=f"{SENT}/0")),
        ("gateway", Read(stream="ho1m", limit=1)),
        ("gateway", GetBody(ref=f"{DEGRADED}/0")),
        ("ho2", Read(stream="governance", limit=1, with_bodies=True)),
        ("ho2", Tail(after=-1, limit=1, with_bodies=True)),
        ("ho2", Query(where={"event_type": "CONTEXT_ASSEMBLED"}, limit=1, with_bodies=True)),
        ("ho2", GetBody(ref=f"{DEGRADED}/0")),
        ("ho1", Query(where={}, limit=1, with_bodies=True)),
        ("ho1", Query(where={"stream": SESSION}, limit=1, with_bodies=True)),
        ("ho1", GetBody(ref=f"{TAKEN}/0")),
        ("ho1", GetBody(ref=f"{SENT}/0")),
        ("ho1", GetBody(ref=f"{GOT}/0")),
        ("ho1", Lookup(submission_ids=[SENT], with_bodies=True)),
        *(("ho1", Read(stream=stream, limit=1, with_bodies=True)) for stream in ("prompts", "ho1m")),
        *(("ho1", Tail(after=-1, stream=stream, limit=1, with_bodies=True)) for stream in ("prompts", "ho1m")),
        *(("ho1", Query(where={"stream": stream}, limit=1, with_bodies=True)) for stream in ("prompts", "ho1m")),
    ]
    async with _ledger() as ledger:
        for number, (role, question) in enumerate(questions):
            shown = f"{role}: {question!r}"
            try:
                answered = await _ask(ledger, question, role)
            except BusError as error:
                denied = error
            else:
                raise AssertionError(f"{shown} was answered: {answered!r}")
            assert denied.code == "denied" and not denied.retryable, shown
            assert f"role {role} may not read" in denied.detail and question.TYPE in denied.detail, shown
            recorded = [(p.sender, p.type) for _, p in await _denials(ledger)]
            assert recorded[number:] == [(f"{role}/1@1", question.TYPE)], shown


async def test_what_each_role_needs_is_answered():
    questions = [
        ("operator", Tail(after=-1, limit=9, with_bodies=True)),
        ("ho2", Read(stream=SESSION, limit=9, with_bodies=True)),
        ("ho2", Query(limit=9)),
        ("ho2", Query(where={"event_type": "DEGRADATION"}, limit=9)),
        ("ho2", GetBody(ref=f"{SENT}/0")),
        ("host", Read(stream=SESSION, limit=9)),
        ("http", Read(stream=SESSION, limit=9, with_bodies=True)),
        ("http", Tail(stream=EVERY_SESSION, after=-1, limit=9)),
        ("host", Lookup(once=["turn:none"], with_bodies=True)),
        ("host", GetBody(ref=f"{CONFIG}/0")),
        ("ho1", Lookup(once=["end:WO-1"], with_bodies=True)),
        ("ho1", GetBody(ref=f"{CONFIG}/0")),
        ("ho1", Read(stream="prompts", limit=9)),
        ("ho1", Query(limit=9)),
        ("gateway", Read(stream="prompts", limit=9, with_bodies=True)),
        ("gateway", GetBody(ref=f"{CONFIG}/0")),
    ]
    async with _ledger() as ledger:
        for role, question in questions:
            assert await _ask(ledger, question, role) is not None, (role, question)
            assert await _denials(ledger) == [], (role, question)


async def _ask(ledger, question, role: str):
    handler = {
        Read: ledger.service.on_read, Tail: ledger.service.on_tail, Query: ledger.service.on_query,
        Lookup: ledger.service.on_lookup, GetBody: ledger.service.on_get_body,
    }[type(question)]  # fmt: skip
    return await handler(question, call(f"{role}/1@1"))


async def test_long_polls_of_one_principal_are_bounded_and_keep_out_nobody(monkeypatch):
    """Beyond `PRINCIPAL_TAILS_MAX` busy, by whichever connection; another one waits and is told."""
    monkeypatch.setattr(service, "PRINCIPAL_TAILS_MAX", 2)
    async with _ledger() as ledger:
        head = (await ledger.all())[-1].sequence
        poll = Tail(after=head, limit=9, wait_ms=60_000)
        parked = [asyncio.ensure_future(ledger.service.on_tail(poll, call("operator/1@1"))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusError, match="long polls of") as busy:
            await ledger.service.on_tail(poll, call("operator/1.1@1"))  # another connection of the same client
        assert busy.value.code == "busy" and busy.value.retryable
        assert (await ledger.service.on_tail(Tail(after=head, limit=9), call("operator/1@1"))).entries == []
        ledger.bus.principal = "client/2"
        parked.append(asyncio.ensure_future(ledger.service.on_tail(poll, call("operator/2@1"))))
        await asyncio.sleep(0)
        ledger.bus.principal = "client/1"
        parked[0].cancel()
        await asyncio.sleep(0)
        parked.append(asyncio.ensure_future(ledger.service.on_tail(poll, call("operator/1@1"))))
        await asyncio.sleep(0)
        await ledger.write(write("next"))
        pages = await asyncio.gather(*parked[1:])
        assert [[entry.submission_id for entry in page.entries] for page in pages] == [["next"]] * 3


@pytest.mark.parametrize("role", ROLES)
def test_the_host_reads_candidates_of_an_answer_and_nothing_else_of_that_stream(role: str):
    """One kind of entry, found by its key: it completes an answer that the host reads from the session's stream."""
    reads_stream = may_read(role, "ho2m", with_bodies=True)
    assert may_read_entry(role, "ho2m", "CONSOLIDATION_DUE", with_bodies=True) == (reads_stream or role == "host")
    assert may_read_entry(role, "ho2m", "WO_DISPATCHED", with_bodies=True) == reads_stream
