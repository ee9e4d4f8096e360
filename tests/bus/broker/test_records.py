"""Denials and dead letters reach the ledger: batched, bounded, retried, codes and ids only."""

from __future__ import annotations

from hobus.bus import limits
from hobus.bus.codec import decode, encode
from hobus.bus.envelope import Kind, make_header
from hobus.bus.messages.ledger import Ack, Write, Written
from hobus.bus.record.catalog import read_body
from tests.bus.broker.rig import BIG, Rig


def writes(rig, ledger):
    """(request id, Write) of each write since the last look."""
    return [
        (got.header.message_id, decode(Write, got.body, BIG))
        for got in rig.got(ledger)
        if got.header.kind == Kind.REQUEST
    ]


def acknowledge(rig, ledger, message_id, write, outcome="committed"):
    """The ledger answers this write."""
    acks = [Ack(outcome=outcome, sequence=1, submission_id=entry.submission_id) for entry in write.entries]
    rig.reply(ledger, message_id, encode(Written(acks=acks), BIG), "ledger.written")


def deny(rig, peer, number):
    """One frame that the policy denies."""
    rig.ask(peer, f"x{number}", "gateway", "ledger.write", body=b"the user's secret text")


def test_denials_are_counted_into_one_entry_per_sender_and_reason(rig):
    ledger, ho1 = rig.worker("ledger/1@a"), rig.client("ho1/1@a")
    for number in range(50):
        deny(rig, ho1, number)
    rig.advance(0.6)
    ((message_id, write),) = writes(rig, ledger)
    assert message_id.startswith("broker/1@e1:")
    (entry,) = write.entries
    assert (entry.stream, entry.event_type, entry.decision, entry.reason) == (
        "governance",
        "DENIED",
        "REJECTED",
        "unknown_type",
    )
    assert entry.submission_id == "broker/1@e1/1"
    payload = read_body(entry)
    assert (payload.sender, payload.times, payload.type) == ("ho1/1@a", 50, "ledger.write")
    acknowledge(rig, ledger, message_id, write)
    rig.advance(2)
    assert writes(rig, ledger) == []


def test_no_text_of_a_frame_reaches_an_entry(rig):
    ledger, ho1 = rig.worker("ledger/1@a"), rig.client("ho1/1@a")
    private = "my password is hunter2"
    rig.frame(
        ho1,
        make_header(
            Kind.REQUEST, private, type=private, destination=private, key=private, trace=private, deadline_ms=1000
        ),
        private.encode(),
    )
    rig.frame(ho1, make_header(Kind.REPLY, private, correlation_id=private, type=private))
    rig.garbage(ho1)
    rig.advance(0.6)
    ((_, write),) = writes(rig, ledger)
    assert len(write.entries) == 3
    assert b"hunter2" not in encode(write, BIG)


def test_garbage_and_refused_hellos_are_recorded(rig):
    ledger, ho1 = rig.worker("ledger/1@a"), rig.client("ho1/1@a")
    rig.garbage(ho1)
    rig.garbage(b"stranger")
    rig.hello("ho1/2@a", protocol=9)
    rig.advance(0.6)
    ((_, write),) = writes(rig, ledger)
    noted = {(entry.reason, read_body(entry).sender) for entry in write.entries}
    assert noted == {("malformed", "ho1/1@a"), ("malformed", "unbound"), ("bad_protocol", "unbound")}


def test_a_write_is_kept_and_sent_again_while_the_ledger_is_away(rig):
    """Same submission ids, so that a write whose ack was lost adds nothing twice."""
    ho1 = rig.client("ho1/1@a")
    deny(rig, ho1, 1)
    rig.advance(10)
    ledger = rig.worker("ledger/1@a", state="starting")
    rig.ready(ledger)
    rig.advance(1)
    ((_, first),) = writes(rig, ledger)
    rig.lost(ledger)
    ledger = rig.worker("ledger/1@b", state="starting")
    rig.ready(ledger)
    rig.advance(1)
    ((again_id, again),) = writes(rig, ledger)
    assert [entry.submission_id for entry in again.entries] == [entry.submission_id for entry in first.entries]
    acknowledge(rig, ledger, again_id, again)
    rig.advance(2)
    assert writes(rig, ledger) == []


def test_what_comes_while_a_write_is_on_its_way_waits_for_the_next(rig):
    ledger, ho1 = rig.worker("ledger/1@a"), rig.client("ho1/1@a")
    deny(rig, ho1, 1)
    rig.advance(0.1)
    ((message_id, write),) = writes(rig, ledger)
    deny(rig, ho1, 2)
    rig.advance(2)
    assert writes(rig, ledger) == []
    acknowledge(rig, ledger, message_id, write)
    rig.advance(0.6)
    ((_, second),) = writes(rig, ledger)
    assert second.entries[0].submission_id == "broker/1@e1/2"


def test_the_book_is_bounded_and_says_what_it_did_not_keep(monkeypatch):
    monkeypatch.setattr(limits, "RECORDS_MAX", 2)
    rig = Rig()
    peers = [rig.client(f"ho1/{number}@a") for number in range(5)]
    for peer in peers:
        deny(rig, peer, 1)
    ledger = rig.worker("ledger/1@a")
    rig.advance(1)
    ((_, write),) = writes(rig, ledger)
    assert [entry.reason for entry in write.entries] == ["unknown_type", "unknown_type", "not_kept"]
    assert read_body(write.entries[2]).times == 3


def test_dead_letters_are_recorded_one_by_one_with_their_ids():
    rig = Rig(attempts_max=1)
    ledger, ho2 = rig.worker("ledger/1@a"), rig.client("ho2/1@a")
    for number in range(2):
        worker = rig.worker(f"ho1/{number}@a")
        rig.order(ho2, f"WO-{number}")
        rig.lost(worker)
    rig.advance(0.6)
    ((_, write),) = writes(rig, ledger)
    assert [(entry.event_type, entry.reason) for entry in write.entries] == [("DEAD_LETTER", "attempts_exhausted")] * 2
    assert [read_body(entry).message_id for entry in write.entries] == ["WO-0", "WO-1"]


def test_refused_entries_are_given_up_and_counted(rig):
    """The ledger's refusal is final: sending the same again could not help."""
    ledger, ho1 = rig.worker("ledger/1@a"), rig.client("ho1/1@a")
    deny(rig, ho1, 1)
    rig.advance(0.1)
    ((message_id, write),) = writes(rig, ledger)
    acknowledge(rig, ledger, message_id, write, "refused")
    rig.advance(2)
    assert writes(rig, ledger) == []
    assert rig.core._records.dropped == 1
