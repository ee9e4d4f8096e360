"""Answers of the ring: exact whatever happens meanwhile, nothing held for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.broker import ring as ring_module
from hobus.bus.broker.ring import Ring
from hobus.bus.broker.tap_record import Tap
from hobus.bus.broker.tap_wire import TapAssembler, pack_live_batch
from hobus.bus.envelope import Kind, make_header


def tap(sequence, *, body=b"body", kind=Kind.REQUEST):
    """One tapped frame; its number is also its time."""
    return Tap(
        sequence, float(sequence), "delivered", make_header(kind, f"m{sequence}"), "ho2/1@a", "ho1/1@a", body, ""
    )


def sequences(pieces):
    """What a reader of these pieces gets: numbers, and how many it knows to be lost."""
    assembler = TapAssembler(wants_ring=True)
    (batch,) = [batch for piece in pieces for batch in assembler.feed(piece)]
    return [record.sequence for record in batch.records], batch.lost


def test_an_answer_reaches_to_the_question_whatever_comes_before_its_first_piece():
    """What is tapped after the question comes live."""
    ring = Ring(frames_max=4096, bytes_max=10**7)
    ring.add([tap(1), tap(2)])
    answer = ring.answer("e", since=0.0, next_sequence=3)
    ring.add([tap(3)])
    assert sequences(answer) == ([1, 2], 0)


@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=20),
    frames_max=st.integers(1, 300),
    since=st.integers(0, 200),
    body=st.sampled_from((b"", b"x" * 3_000, b"x" * 10_000)),
)
def test_frames_that_leave_the_ring_before_their_turn_are_counted_as_lost(sizes, frames_max, since, body):
    """Between two pieces the ring goes on: what came is in order and once, and the rest is a number. Pieces are small."""
    ring = Ring(frames_max=frames_max, bytes_max=10**8)
    ring.add([tap(n, body=body) for n in range(1, 301)])
    kept = min(frames_max, 300)
    wanted = list(range(max(301 - kept, since), 301))
    answer, pieces, number = ring.answer("e", since=float(since), next_sequence=301, with_bodies=True), [], 301
    for size in [0, *sizes, *[0] * 400]:
        ring.add([tap(number + n) for n in range(size)])
        number += size
        piece = next(answer, None)
        if piece is None:
            break
        pieces.append(piece)
        assert len(piece) < ring_module._PIECE_BYTES + len(body) + 64 * 400
    seen, lost = sequences(pieces)
    assert seen == sorted(set(seen))
    assert set(seen) <= set(wanted)
    assert len(seen) + lost == len(wanted)
    assert number > 301 or lost == 0


@pytest.mark.parametrize("between", [0, 40])
@pytest.mark.parametrize("arrived", [0, 1, 2, 3])
def test_a_reader_whose_connection_broke_asks_again_and_has_everything_once(arrived, between):
    ring = Ring(frames_max=200, bytes_max=10**7)
    ring.add([tap(n) for n in range(1, 201)])
    assembler = TapAssembler(wants_ring=True)
    pieces = list(ring.answer("e", since=0.0, next_sequence=201))
    batches = [batch for piece in pieces[:arrived] for batch in assembler.feed(piece)]
    ring.add([tap(200 + n) for n in range(1, between + 1)])
    again = ring.answer("e", since=0.0, next_sequence=201 + between)
    batches += [batch for piece in again for batch in assembler.feed(piece)]
    batches += assembler.feed(pack_live_batch("e", [tap(201 + between)], 202 + between))
    (answer, live) = batches
    assert [record.sequence for record in answer.records] == list(range(1 + between, 201 + between))
    assert (answer.lost, answer.beats, live.lost) == (0, 0, 0)
