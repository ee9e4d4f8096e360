"""What is chosen of what is tapped, and where every frame went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.broker.ring import Ring
from hobus.bus.broker.tap_record import Tap
from hobus.bus.broker.tap_wire import TapAssembler, pack_live_batch
from hobus.bus.envelope import Kind, make_header
from hobus.launch.cli.tap.choice import Chooser, Replies, TurnBook
from hobus.launch.filters.tap_fields import tap_filter
from tests.launch.cli.tap.batches import batch, is_exact
from tests.launch.filters.frames import frame


def chooser(*texts: str, **options) -> Chooser:
    return Chooser(tap_filter(texts), TurnBook(None), lambda: 160.0, **({"with_routine": False} | options))


def tapped(sequence: int) -> Tap:
    """Every third frame is a beat, every second one is of ho1."""
    kind = Kind.BEAT if sequence % 3 == 0 else Kind.REQUEST
    head = make_header(kind, f"m{sequence}", type="bus.beat" if kind == Kind.BEAT else "wo.execute")
    return Tap(sequence, 1.0, "delivered", head, f"ho{1 + sequence % 2}/1@a", "", b"", "")


@given(
    steps=st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), max_size=25),
    with_ring=st.booleans(),
    count=st.none() | st.integers(1, 20),
)
def test_every_number_is_shown_filtered_lost_or_a_beat(steps, with_ring, count):
    """Whatever is dropped, whenever the broker restarts, wherever the reader stops: the account is exact."""
    assembler, found = TapAssembler(wants_ring=with_ring), chooser("sender=ho1", count=count)
    epoch, following, ring = 1, 8, Ring(frames_max=100, bytes_max=1000)
    ring.add([tapped(number) for number in range(1, 8)])
    payloads = [pack_live_batch("e1", [], following)]
    if with_ring:
        payloads += ring.answer("e1", since=0.0, next_sequence=following)
    for size, arrives, restarts in steps:
        if restarts:
            epoch, following = epoch + 1, 1
        taps = [tapped(following + number) for number in range(size)]
        following += size
        if arrives:
            payloads.append(pack_live_batch(f"e{epoch}", taps, following))
    for payload in payloads:
        for one in assembler.feed(payload):
            if found.choose(one).is_last:
                break
        else:
            continue
        break
    account = found.account
    assert all(is_exact(one) for one in account.epochs)
    assert all(min(one.shown, one.filtered, one.lost, one.beats, one.left_out) >= 0 for one in account.epochs)
    assert all(one.left_out == 0 for one in account.epochs)
    if count is not None:
        assert account.shown <= count
    if with_ring and account.epochs and not (count is not None and account.shown == count):
        assert account.epochs[0].first == 1


def test_a_restart_is_told_with_an_account_for_each_life():
    """Numbers begin anew and are never mixed."""
    found = chooser()
    found.choose(batch([7, 8]))
    found.choose(batch([4], epoch="f", first=1, lost=3, restarted=True))
    assert found.account.lines() == [
        "3 frames shown, 0 filtered out, 3 lost; the broker restarted once",
        "  #7 to #8 of broker e: 2 shown, 0 filtered out, 0 lost",
        "  #1 to #4 of broker f: 1 shown, 0 filtered out, 3 lost",
    ]


def test_routine_is_left_out_and_counted():
    beats = batch([1, 2], kind="beat", type="bus.beat")
    found = chooser()
    assert found.choose(beats).chosen == []
    assert (found.account.shown, found.account.filtered) == (0, 2)
    assert len(chooser(with_routine=True).choose(beats).chosen) == 2


def test_answers_of_shown_requests_are_shown_with_their_latency():
    """Though the filter does not mean them; an answer to something else is not, and each answer counts once."""
    found = chooser("kind=request", replies=Replies(None))
    asked = frame(message_id="q", at=100.0, sequence=1)
    queued = asked._replace(verdict="queued")
    answer = frame(kind="reply", message_id="r", correlation_id="q", at=100.25, sequence=3)
    piece = answer._replace(kind="stream", at=100.125)
    stray = answer._replace(correlation_id="other")
    records = [queued, asked._replace(at=100.1), piece, stray, answer, answer]
    chosen = found.choose(batch(range(1, 7))._replace(records=records)).chosen
    assert [(one.record.kind, one.latency_ms) for one in chosen] == [
        ("request", None),
        ("request", None),
        ("stream", 125.0),
        ("reply", 250.0),
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_ring_cut_short_counts_the_beats_before_the_cut(count):
    """Numbers that the ring does not keep are between those that were shown, not behind them."""
    found = chooser(count=count)
    ring = batch([2, 5, 9], first=2, beats=5, reaches_at=1.0)
    found.choose(ring)
    (account,) = found.account.epochs
    assert is_exact(account)
    assert account.last == (2, 5, 9)[count - 1]
