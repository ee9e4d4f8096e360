"""Drafts: what a chain of relays tells, whatever is lost, repeated or begun again on its way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.bus.streaming import Continuity, Draft


def shown(frames: list[Message]) -> str:
    """What somebody sees who believes every frame."""
    text, where = "", Continuity()
    for frame in frames:
        if isinstance(frame, StreamReset):
            text = ""
            where.forget()
        elif isinstance(frame, StreamDelta):
            match where.place(frame):
                case "next":
                    text += frame.text
                case "anew":
                    text = frame.text
                case "lost":
                    text = ""
    return text


def delta(index: int, text: str = "x", *, step: str = "WO-1", attempt: int = 1) -> StreamDelta:
    return StreamDelta(step=step, attempt=attempt, index=index, text=text)


def test_a_newcomer_is_told_what_stands_and_one_who_left_nothing_more():
    draft, early, late = Draft(step="WO-1"), list[Message](), list[Message]()
    with draft.watched(early.append):
        draft.say("one ")
        with draft.watched(late.append):
            draft.say("two ")
        assert shown(early) == shown(late) == "one two "
        draft.say("three")
    draft.say("four")
    assert shown(early) == "one two three" and shown(late) == "one two "
    assert not draft.is_watched


def test_what_was_taken_back_is_told_to_nobody_and_the_next_attempt_is_a_higher_one():
    draft, frames = Draft(run="r", step="WO-1"), list[Message]()
    with draft.watched(frames.append):
        draft.take_back("retry")
        draft.say("one")
        draft.take_back("tools")
        draft.begin("WO-1", 1)
        draft.say("two")
    assert frames == [
        StreamDelta(run="r", step="WO-1", attempt=1, index=0, text="one"),
        StreamReset(run="r", reason="tools"),
        StreamDelta(run="r", step="WO-1", attempt=2, index=0, text="two"),
    ]


def test_who_joins_a_run_that_was_taken_over_forgets_first():
    draft, frames = Draft(before="take_over"), list[Message]()
    with draft.watched(frames.append):
        draft.say("new")
    assert isinstance(frames[0], StreamReset) and frames[0].reason == "take_over"
    assert shown([delta(0, "old"), *frames]) == "new"


def test_pieces_behind_a_hole_are_not_passed_on():
    draft, frames = Draft(step="WO-1"), list[Message]()
    with draft.watched(frames.append):
        for piece in (delta(0, "a"), delta(1, "b"), delta(3, "d"), delta(4, "e")):
            draft.relay(piece)
        assert shown(frames) == "" and len(frames) == 3
        draft.relay(delta(0, "again", attempt=2))
    assert shown(frames) == "again"


def test_a_worker_that_repeats_an_order_under_the_same_numbers_begins_anew():
    """Index 0 is a beginning, whatever the numbers say."""
    draft, frames = Draft(step="WO-1"), list[Message]()
    with draft.watched(frames.append):
        draft.relay(delta(0, "a"))
        draft.relay(delta(0, "b"))
        draft.relay(delta(1, "c"))
    assert shown(frames) == "bc"


frames_of_a_writer = st.lists(
    st.one_of(
        st.builds(delta, st.integers(0, 3), st.sampled_from("abc"), attempt=st.integers(1, 2)),
        st.just(StreamReset(reason="retry")),
    ),
    max_size=30,
)


@given(frames_of_a_writer)
def test_a_chain_of_relays_shows_what_a_direct_listener_sees(written):
    """Resets, holes and repeats included: relaying changes the numbers and nothing else."""
    first, second, seen = Draft(step="WO-1"), Draft(step="WO-1"), list[Message]()
    with first.watched(second.relay), second.watched(seen.append):
        for count, frame in enumerate(written, 1):
            first.relay(frame)
            assert shown(seen) == shown(written[:count])


@given(frames_of_a_writer, st.sets(st.integers(0, 29)))
def test_a_lost_frame_shows_less_and_never_something_else(written, lost):
    """What is seen is a whole beginning of one attempt, or nothing."""
    first, seen = Draft(step="WO-1"), list[Message]()
    with first.watched(seen.append):
        for frame in written:
            first.relay(frame)
    kept = [frame for number, frame in enumerate(seen) if number not in lost or isinstance(frame, StreamReset)]
    attempts: dict[int, str] = {}
    for frame in seen:
        if isinstance(frame, StreamDelta):
            attempts[frame.attempt] = attempts.get(frame.attempt, "") + frame.text
    assert any(text.startswith(shown(kept)) for text in ["", *attempts.values()])


def test_what_stands_is_said_again_in_one_piece_and_goes_on():
    """For who took a listener's place; a relay in between takes what it had back and has the same in the end."""
    writer, relay = Draft(run="r", step="WO-1"), Draft(run="r", step="WO-1")
    frames, behind = list[Message](), list[Message]()
    writer.repeat()
    with writer.watched(relay.relay), relay.watched(behind.append):
        writer.say("one ")
        writer.say("two ")
        with writer.watched(frames.append):
            frames.clear()
            writer.repeat()
            writer.say("three")
    assert shown(frames) == shown(behind) == "one two three"
    assert [frame.text for frame in frames if isinstance(frame, StreamDelta)] == ["one two ", "three"]
