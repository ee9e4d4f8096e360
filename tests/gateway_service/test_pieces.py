"""Frames of a streamed answer: few, whole, and never more than a record would take."""

from __future__ import annotations

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta
from hobus.bus.streaming import Draft
from hobus.gateway_service.pieces import Pieces


def frames_of(said: list[tuple[float, str]], *, interval_s: float, chars_max: int = 100) -> list[str]:
    """Texts of the frames when a provider says these pieces at these times, then ends."""
    draft, frames, now = Draft(step="WO-1"), list[Message](), 0.0
    with draft.watched(frames.append):
        pieces = Pieces(draft, lambda: now, interval_s=interval_s, chars_max=chars_max)
        for at, text in said:
            now = at
            pieces.add(text)
        pieces.flush()
    return [frame.text for frame in frames if isinstance(frame, StreamDelta)]


def test_the_first_piece_goes_out_at_once_and_the_others_once_per_interval():
    """Nothing is left behind: the end sends what is held."""
    said = [(0.0, "a"), (0.001, "b"), (0.002, "c"), (0.03, "d"), (0.04, "e")]
    assert frames_of(said, interval_s=0.02) == ["a", "bcd", "e"]
    assert frames_of(said, interval_s=0.0) == ["a", "b", "c", "d", "e"]


def test_more_than_a_record_takes_is_not_sent_on():
    """A provider that never ends fills nobody's memory."""
    assert frames_of([(0.0, "abc"), (1.0, "def"), (2.0, "ghi")], interval_s=0.0, chars_max=4) == ["abc", "d"]


def test_a_piece_that_is_no_text_of_the_wire_fails_nothing():
    """A lone surrogate is shown as something else; the reply decides."""
    assert frames_of([(0.0, "a\ud800b")], interval_s=0.0) == ["a?b"]
