"""A record as bytes and back: bounded, without texts, and only between two runs."""

from __future__ import annotations

import hashlib
import json
import random
import zlib

import pytest
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.session import journal, snapshot
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn, History
from hobus.bus.messages.base import unpack
from hobus.bus.messages.session import SessionConfig
from hobus.bus.record.journal import Recorded
from tests.actors.ho2_supervisor.journals import at
from tests.actors.ho2_supervisor.lives import LIMITS, SESSION, Life, from_snapshot

TURN = ["request", "run", "complete"]


def lived(turns: int) -> Life:
    """A session of that many turns."""
    life = Life(random.Random(turns).choice)
    for name in ["take over", "start"]:
        while life.move(name) == [] and not life.state.tenure:
            pass
    while life.record.turn_count < turns:
        for name in TURN:
            assert life.move(name) == []
    return life


def test_packed_record_is_bounded_whatever_the_age() -> None:
    """Ten turns or a hundred: the numbers in it get longer, nothing else."""
    sizes = [len(snapshot.pack_record(lived(turns).record)) for turns in (10, 100)]
    assert sizes[1] < 1.1 * sizes[0]


def test_texts_are_refs_in_the_packed_record() -> None:
    """What a user or a model said stands where it was recorded, and, as lines, in a body of its own."""
    life = lived(8)
    event, bodies = snapshot.make_snapshot(life.record, "STATE_SNAPSHOT:x/1.1", at(5))
    packed = zlib.decompress(bodies[0])
    assert packed == snapshot.pack_record(life.record) and b"question" not in packed
    assert b"answer" not in packed.replace(b"answered", b"")
    assert len(unpack(zlib.decompress(bodies[1]))) == len(life.record.history.lines) > 0
    assert (event.after, event.record_version) == (life.record.head, snapshot.VERSION)


def test_the_packed_record_keeps_its_bytes() -> None:
    """A snapshot that was written before reads as what it was, and is written so again (`snapshot.VERSION`)."""
    packed = snapshot.pack_record(lived(8).record)
    assert hashlib.sha256(packed).hexdigest() == "2119faf99ae2bfd739b62a50818d0488e005b434d8b27731c9f2f3bac80f8942"


def test_fields_of_a_sessions_schema_keep_the_order_in_which_they_were_written() -> None:
    record = lived(8).record
    schema = {"type": "object", "properties": {"thought": {}, "answer": {}}}
    record.state = replace(record.state, session_config=SessionConfig(output_schema=schema))
    packed = snapshot.Packed.model_validate(unpack(snapshot.pack_record(record)))
    assert json.dumps(packed.state.session_config.output_schema) == json.dumps(schema)


def test_a_snapshot_takes_little_beside_the_entries_that_it_stands_for() -> None:
    """What each input repeats is there once."""
    life = lived(60)
    _, bodies = snapshot.make_snapshot(life.record, "STATE_SNAPSHOT:x/1.1", at(5))
    assert len(bodies[0]) < len(snapshot.pack_record(life.record)) / 2


@pytest.mark.parametrize(
    "body",
    [b"", b"x", zlib.compress(b""), zlib.compress(b"\xc1"), zlib.compress(bytes(10_000_000)), zlib.compress(b"a")[:-1],
     zlib.compress(b"a") + b"more"],
)  # fmt: skip
def test_a_record_that_does_not_inflate_to_one_is_named(body: bytes) -> None:
    """Nothing, garbage, a value cut short, something behind it, and one that would take a thousand times its length."""
    life = lived(3)
    event, _ = snapshot.make_snapshot(life.record, "STATE_SNAPSHOT:x/1.1", at(5))
    forged = event.model_copy(update={"record_hash": hashlib.sha256(body).hexdigest()})
    entry = Recorded("STATE_SNAPSHOT:x/1.1", journal.make_envelope(life.state, forged), (b"", body, b""))
    fault = snapshot.read_packed(entry, event.after)
    assert isinstance(fault, str) and "does not read" in fault


def test_snapshot_is_due_at_rest_alone() -> None:
    """Never within a run, never while a command is undecided, never before the session has started."""
    life = lived(3)
    assert snapshot.is_due(life.record, life.record.since_snapshot)
    assert not snapshot.is_due(life.record, life.record.since_snapshot + 1)
    assert not snapshot.is_due(SessionRecord(SESSION, LIMITS), 0)
    while life.state.received_command is None:
        life.move("received")
    assert not snapshot.is_due(life.record, 0)
    life.move("rejected")
    while life.state.run_id is None:
        life.move("request")
    assert not snapshot.is_due(life.record, 0)
    with pytest.raises(ValueError, match="active"):
        snapshot.pack_record(life.record)


def test_follow_ups_words_are_in_its_turn_and_in_its_line() -> None:
    """They stand in the command's entry, long before the run: a fold of the journal has them in time all the same."""
    life = lived(1)
    while not life.state.pending_follow_up:
        life.move("received")
        life.move("applied")
        life.move("rejected")
    assert list(life.record.follow_ups.values()) == ["words"] * len(life.state.pending_follow_up)
    life.pick = lambda options: options[0]
    for name in [*TURN, "snapshot", *TURN, *TURN]:
        assert life.move(name) == []
    assert any("words" in line.text for line in life.record.history.lines)
    number = next(n for n, entry in enumerate(life.entries) if entry.event_type == "STATE_SNAPSHOT")
    assert from_snapshot(life.entries, number).history == life.record.history


def test_digest_that_was_worked_out_later_is_no_part_of_the_fold() -> None:
    """Of an input that only the host answered the journal has none; two owners pack the same bytes."""
    record = lived(1).record
    before = snapshot.pack_record(record)
    for known in record.inputs.values():
        if known.run_seq is None:
            known.digest = "learned"
    assert snapshot.pack_record(record) == before


def test_turns_whose_texts_are_missing_pack_to_the_same_bytes() -> None:
    """A fold that has read its texts, and one that has not yet."""
    record = lived(3).record
    before = snapshot.pack_record(record)
    blank = tuple(
        DeliveredTurn(t.input_id, t.input_ref, t.reply_ref, None, None, t.tool_ids, t.is_degraded)
        for t in record.history.turns
    )
    record.history = History(blank, record.history.lines, record.history.count)
    assert snapshot.pack_record(record) == before
