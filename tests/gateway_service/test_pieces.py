"""Frames of a streamed answer: few, whole, and never more than a record would take."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta
from hobus.bus.streaming import Draft
from hobus.gateway_service.limits import FRAMES_PER_S
from hobus.gateway_service.pieces import Pieces


def frames_of(said: list[tuple[float, str]], *, interval_s: float, chars_max: int = 100) -> list[str]:
    """Texts of the frames when a provider says these pieces at these times, then ends, before any timer fires."""
    draft, frames, now = Draft(step="WO-1"), list[Message](), 0.0
    with draft.watched(frames.append):
        pieces = Pieces(draft, lambda: now, set(), interval_s=interval_s, chars_left=chars_max)
        for at, text in said:
            now = at
            pieces.add(text)
        pieces.flush()
    return [frame.text for frame in frames if isinstance(frame, StreamDelta)]


async def test_the_first_piece_goes_out_at_once_and_the_others_once_per_interval():
    said = [(0.0, "a"), (0.001, "b"), (0.002, "c"), (0.03, "d"), (0.04, "e")]
    assert frames_of(said, interval_s=0.02) == ["a", "bcd", "e"]
    assert frames_of(said, interval_s=0.0) == ["a", "b", "c", "d", "e"]


async def test_more_than_a_record_takes_is_not_sent_on():
    """A provider that never ends fills nobody's memory."""
    assert frames_of([(0.0, "abc"), (1.0, "def"), (2.0, "ghi")], interval_s=0.0, chars_max=4) == ["abc", "d"]


async def test_a_piece_that_is_no_text_of_the_wire_fails_nothing():
    assert frames_of([(0.0, "a\ud800b")], interval_s=0.0) == ["a?b"]


async def test_many_answers_at_once_speak_less_often_each():
    now, frames, speaking = 0.0, list[Message](), set[Pieces]()
    drafts = [Draft(step=f"WO-{number}") for number in range(1000)]
    with ExitStack() as stack:
        for draft in drafts:
            stack.enter_context(draft.watched(frames.append))
        all_of_them = [Pieces(draft, lambda: now, speaking, interval_s=0.02, chars_left=10_000) for draft in drafts]
        for tick in range(200):
            now = tick * 0.025
            for pieces in all_of_them:
                pieces.add("w")
        for pieces in all_of_them:
            pieces.flush()
            pieces.close()
    said = [frame.text for frame in frames if isinstance(frame, StreamDelta)]
    assert (sum(map(len, said)), speaking) == (200_000, set())
    assert len(said) < 2000 + 5 * 2 * FRAMES_PER_S


async def test_what_is_held_goes_out_when_its_interval_is_over():
    draft, frames = Draft(step="WO-1"), list[Message]()
    loop = asyncio.get_running_loop()
    with draft.watched(frames.append):
        pieces = Pieces(draft, loop.time, set(), interval_s=0.01, chars_left=100)
        pieces.add("a")
        pieces.add("b")
        await asyncio.sleep(0.05)
        assert [frame.text for frame in frames if isinstance(frame, StreamDelta)] == ["a", "b"]
        pieces.add("c")
        pieces.add("d")
        pieces.close()
        await asyncio.sleep(0.05)
        assert [frame.text for frame in frames if isinstance(frame, StreamDelta)] == ["a", "b", "c"]
