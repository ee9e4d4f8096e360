"""Answers from the ring take their share of the broker's time and no more, one after the other."""

from __future__ import annotations

from hobus.bus import limits
from hobus.bus.broker.ring import Replays, Ring


def replays(ms_per_s=100, answers_max=10):
    """None on its way, of an empty ring."""
    return Replays(Ring(frames_max=1, bytes_max=1), ms_per_s=ms_per_s, answers_max=answers_max)


def run(made, *, start, seconds, cost_s):
    """Asks for a piece as often as it is time; when each of them began."""
    now, began = start, []
    while made.next_at is not None and max(now, made.next_at) < start + seconds:
        now = max(now, made.next_at)
        if made.next_piece(now) is not None:
            began.append(now)
            now += cost_s
            made.took(cost_s, now)
    return began


def test_whoever_asks_without_end_gets_its_share_of_each_second():
    """Ten milliseconds each: what a second leaves at once, then ten pieces in each second."""
    made = replays(ms_per_s=limits.TAP_REPLAY_MS)
    assert made.begin(b"t", iter([b"x"] * 1000))
    began = run(made, start=50.0, seconds=10, cost_s=0.01)
    share = limits.TAP_REPLAY_MS / 1000
    for at in began:
        spent = sum(0.01 for other in began if at <= other < at + 1)
        assert spent <= 2 * share + 0.02
    assert 10 * share <= len(began) * 0.01 <= 11 * share + 0.02


def test_after_a_quiet_second_one_answer_is_sent_at_once():
    """The share of that second, without a pause."""
    made = replays()
    assert made.begin(b"t", iter([b"x"] * 9))
    began = run(made, start=50.0, seconds=10, cost_s=0.01)
    assert (len(began), began[-1] < 50.1) == (9, True)
    assert made.next_at is None


def test_who_asked_first_is_answered_first_and_in_full():
    """Those who ask and leave, again and again, take nothing from it."""
    made = replays()
    assert made.begin(b"first", iter([b"1", b"2"]))
    sent = []
    for number in range(3):
        made.begin(b"leaves%d" % number, iter([b"x"]))
        sent.append(made.next_piece(1.0))
        if number < 2:
            made.drop(b"leaves%d" % number)
    assert sent == [(b"first", b"1"), (b"first", b"2"), (b"leaves2", b"x")]
    assert (made.next_piece(1.0), len(made)) == (None, 0)


def test_an_answer_that_nobody_waits_for_is_not_made():
    """Dropped in the middle; not one more piece of it is encoded."""
    made = replays()
    pieces = iter([b"1", b"2"])
    made.begin(b"t", pieces)
    made.next_piece(1.0)
    made.drop(b"t")
    made.drop(b"unknown")
    assert (made.next_piece(1.0), made.next_at, list(pieces)) == (None, None, [b"2"])


def test_asked_again_it_begins_anew_and_there_are_not_more_than_so_many():
    """The same topic is one answer; one more than the limit has to wait for another time."""
    made = replays(answers_max=2)
    assert made.begin(b"a", iter([b"old", b"old"]))
    assert made.begin(b"b", iter([b"b"]))
    assert made.begin(b"a", iter([b"new"]))
    assert not made.begin(b"c", iter([b"c"]))
    assert [made.next_piece(1.0) for _ in range(3)] == [(b"a", b"new"), (b"b", b"b"), None]
    assert made.begin(b"c", iter([b"c"]))
