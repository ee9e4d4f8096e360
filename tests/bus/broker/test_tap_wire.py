"""The tap's protocol: exact loss accounting, the ring, readers that join, restarts."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.broker.ring import Ring
from hobus.bus.broker.tap_record import Tap, record_from, record_of
from hobus.bus.broker.tap_wire import RingQuestion, TapAssembler, make_ring_topic, pack_live_batch, read_ring_topic
from hobus.bus.envelope import Kind, make_header
from hobus.bus.messages.base import pack


def tap(sequence, *, at=0.0, body=b"body", kind=Kind.REQUEST):
    frame = make_header(kind, f"m{sequence}", type="wo.execute", destination="ho1", key="k", trace="t", deadline_ms=5)
    return Tap(sequence, at, "delivered", frame, "ho2/1@a", "ho1/1@a", body, "")


def test_a_record_says_what_the_frame_was_with_size_and_hash():
    """Every field at its place; without the right to see it, the body is missing and its hash is not."""
    record = record_of(tap(7, at=1.5), "e1")
    assert (record.epoch, record.sequence, record.at, record.verdict, record.kind) == (
        "e1",
        7,
        1.5,
        "delivered",
        "request",
    )
    assert (record.sender, record.worker, record.destination) == ("ho2/1@a", "ho1/1@a", "ho1")
    assert (record.size, record.body) == (4, b"body")
    hidden = record_of(tap(7), "e1", with_body=False)
    assert hidden.body is None
    assert hidden.body_sha256 == hashlib.sha256(b"body").hexdigest()
    assert record_from(list(record)) == record


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=30))
def test_records_plus_losses_are_exactly_what_was_tapped(batches):
    """Whatever batches are dropped on the way: what arrived and what is said to be lost add up, in order."""
    assembler = TapAssembler(wants_ring=False)
    assembler.feed(pack_live_batch("e", [], 1))
    sequence, seen, lost, dropped = 1, [], 0, 0
    for size, arrives in batches:
        taps = [tap(sequence + n) for n in range(size)]
        sequence += size
        if not arrives:
            dropped += size
            continue
        for batch in assembler.feed(pack_live_batch("e", taps, sequence)):
            seen += [record.sequence for record in batch.records]
            lost += batch.lost
    for batch in assembler.feed(pack_live_batch("e", [], sequence)):  # where the sequence stands now
        lost += batch.lost
    assert lost == dropped
    assert seen == sorted(set(seen))
    assert len(seen) + lost == sequence - 1


def test_what_was_tapped_before_a_reader_joined_is_not_lost_to_it():
    assembler = TapAssembler(wants_ring=False)
    assert assembler.feed(pack_live_batch("e", [], 1000)) == []
    (batch,) = assembler.feed(pack_live_batch("e", [tap(1000)], 1001))
    assert (batch.lost, len(batch.records)) == (0, 1)


def test_a_new_broker_is_announced_and_its_numbers_start_anew():
    assembler = TapAssembler(wants_ring=False)
    assembler.feed(pack_live_batch("e1", [tap(500)], 501))
    (batch,) = assembler.feed(pack_live_batch("e2", [tap(1)], 2))
    assert (batch.restarted, batch.lost, batch.epoch) == (True, 0, "e2")


def test_ring_and_live_frames_join_without_gap_or_repetition():
    """Live batches that arrive before the ring's answer is complete wait, and what both hold is shown once."""
    ring = Ring(frames_max=100, bytes_max=10_000)
    ring.add([tap(n) for n in range(1, 6)])
    assembler = TapAssembler(wants_ring=True)
    assert assembler.feed(pack_live_batch("e", [tap(5)], 6)) == []
    batches = []
    for piece in ring.answer("e", since=0.0, next_sequence=6):
        batches += assembler.feed(piece)
    batches += assembler.feed(pack_live_batch("e", [tap(6), tap(7)], 8))
    assert [record.sequence for batch in batches for record in batch.records] == [1, 2, 3, 4, 5, 6, 7]
    assert sum(batch.lost for batch in batches) == 0
    assert batches[0].reaches_at == 0.0
    assert assembler.is_ring_done


def test_the_ring_is_bounded_in_frames_and_bytes_and_keeps_no_beats():
    ring = Ring(frames_max=3, bytes_max=100)
    ring.add([tap(n, kind=Kind.BEAT) for n in range(50)])
    assert len(ring) == 0
    ring.add([tap(n) for n in range(5)])
    assert len(ring) == 3
    ring.add([tap(9, body=b"x" * 99)])
    assert len(ring) == 1
    ring.add([tap(10, body=b"x" * 101)])
    assert len(ring) == 0


def test_the_ring_answers_in_pieces_what_is_young_enough():
    ring = Ring(frames_max=1000, bytes_max=10**6)
    ring.add([tap(n, at=float(n)) for n in range(1, 301)])
    pieces = list(ring.answer("e", since=101.0, next_sequence=301))
    assert len(pieces) == 4
    assembler = TapAssembler(wants_ring=True)
    (batch,) = [batch for piece in pieces for batch in assembler.feed(piece)]
    assert [record.sequence for record in batch.records] == list(range(101, 301))
    assert batch.reaches_at == 1.0


def test_an_empty_ring_answers_too():
    """A reader that asks is never left waiting."""
    (piece,) = Ring(frames_max=1, bytes_max=1).answer("e", since=0.0, next_sequence=1)
    (batch,) = TapAssembler(wants_ring=True).feed(piece)
    assert (batch.records, batch.reaches_at) == ([], 0.0)


@pytest.mark.parametrize(
    "topic", [b"", b"t", b"r", b"r:5", b"rx:", b"rx:five", b"rx:-1", b"rx:nan", b"rx:inf", b"Rx:-1", b"\xff\xfe"]
)
def test_other_topics_are_no_questions(topic):
    assert read_ring_topic(topic) is None


def test_a_ring_topic_asks_for_its_seconds():
    assert read_ring_topic(make_ring_topic("n1", 12.5)) == RingQuestion(12.5, with_bodies=False)
    assert read_ring_topic(make_ring_topic("n1", 0.0, with_bodies=True)) == RingQuestion(0.0, with_bodies=True)


@pytest.mark.parametrize("payload", [b"", b"\xc1", pack([]), pack(["live", 3]), pack({"a": 1}), pack("live")])
def test_noise_on_the_tap_is_a_value_error(payload):
    with pytest.raises(ValueError):  # noqa: PT011 - what is noise has no one wording
        TapAssembler(wants_ring=False).feed(payload)


def test_bodies_travel_only_where_they_are_asked_for():
    """A reader without that right gets size and hash; the body is not in its payload at all."""
    secret = b"the user's own words"
    plain = pack_live_batch("e", [tap(1, body=secret)], 2)
    assert secret not in plain
    assert secret in pack_live_batch("e", [tap(1, body=secret)], 2, with_bodies=True)
    ring = Ring(frames_max=9, bytes_max=999)
    ring.add([tap(1, body=secret)])
    assert secret not in b"".join(ring.answer("e", since=0.0, next_sequence=2))
    assert secret in b"".join(ring.answer("e", since=0.0, next_sequence=2, with_bodies=True))


def test_a_new_brokers_frames_before_the_reader_was_back_are_counted():
    """A broker numbers from 1: what it tapped before its first batch arrived here is lost, exactly."""
    assembler = TapAssembler(wants_ring=False)
    assembler.feed(pack_live_batch("e1", [tap(7)], 8))
    (batch,) = assembler.feed(pack_live_batch("e2", [tap(5), tap(6)], 7))
    assert (batch.restarted, batch.lost, batch.first, batch.next) == (True, 4, 1, 7)


@given(spans=st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=20), data=st.data())
def test_every_number_of_a_ring_answer_is_a_record_a_beat_or_lost(spans, data):
    """Beats are not kept and pieces may be lost on the way: the three add up to the span that the answer names."""
    ring, sequence = Ring(frames_max=10_000, bytes_max=10**6), 1
    for count, are_beats in spans:
        ring.add([tap(sequence + n, kind=Kind.BEAT if are_beats else Kind.REQUEST) for n in range(count * 10)])
        sequence += count * 10
    pieces = list(ring.answer("e", since=0.0, next_sequence=sequence))
    arriving = [piece for piece in pieces[:-1] if data.draw(st.booleans())] + pieces[-1:]
    assembler = TapAssembler(wants_ring=True)
    (batch,) = [batch for piece in arriving for batch in assembler.feed(piece)]
    assert len(batch.records) + batch.beats + batch.lost == batch.next - batch.first
    assert batch.next == sequence
    assert (batch.lost > 0) == (len(arriving) < len(pieces))


def test_a_ring_that_is_asked_again_after_a_restart_forgets_the_old_brokers_half_answer():
    old, new = Ring(frames_max=500, bytes_max=10**6), Ring(frames_max=500, bytes_max=10**6)
    old.add([tap(n) for n in range(1, 200)])
    new.add([tap(n) for n in range(1, 4)])
    assembler = TapAssembler(wants_ring=True)
    assembler.feed(next(old.answer("e1", since=0.0, next_sequence=200)))
    assembler.feed(pack_live_batch("e1", [tap(200)], 201))
    assembler.feed(pack_live_batch("e2", [tap(3)], 4))
    batches = [b for piece in new.answer("e2", since=0.0, next_sequence=4) for b in assembler.feed(piece)]
    assert [(b.epoch, [r.sequence for r in b.records], b.lost) for b in batches] == [("e2", [1, 2, 3], 0)]
    assert not any(b.restarted for b in batches)


def test_asked_how_far_the_broker_is_everything_before_that_is_read_or_lost():
    """The last numbers of all may be the missing ones: no later frame would ever tell."""
    assembler = TapAssembler(wants_ring=False)
    assembler.feed(pack_live_batch("e", [], 1))
    assembler.feed(pack_live_batch("e", [tap(1), tap(2)], 3))
    ring = Ring(frames_max=9, bytes_max=999)
    ring.add([tap(6, at=5.0)])
    (piece,) = ring.answer("e", since=5.0, next_sequence=7)
    [batch] = assembler.head(piece)
    assert (batch.records, batch.first, batch.next, batch.lost) == ([], 3, 7, 4)
    assert assembler.head(piece) == []
    with pytest.raises(ValueError, match="not an answer of the ring"):
        assembler.head(pack_live_batch("e", [], 1))
