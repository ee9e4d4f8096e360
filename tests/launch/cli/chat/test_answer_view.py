"""One answer on a terminal: whatever came before it, it stands there once and nothing else of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta, StreamReset, StreamWaiting
from hobus.launch.cli.chat.answer_view import WAITING, WHY_AGAIN, AnswerView, PlainView
from hobus.launch.cli.chat.cells import printable, rows_of
from tests.launch.cli.chat.terminal import Terminal

WORDS = st.text(alphabet=st.sampled_from("ab \n日🙂"), max_size=30)
FRAMES = st.lists(
    st.one_of(
        st.builds(
            StreamDelta, step=st.sampled_from(["WO-1", "WO-2"]), attempt=st.integers(1, 2), index=st.integers(0, 4),
            text=WORDS,
        ),
        st.builds(StreamReset, reason=st.sampled_from(list(WHY_AGAIN))),
        st.builds(StreamWaiting, waiting=st.sampled_from([None, "Paused", "WaitingInput"])),
    ),
    max_size=25,
)  # fmt: skip


def delta(index: int, text: str, *, attempt: int = 1) -> StreamDelta:
    """One piece."""
    return StreamDelta(step="WO-1", attempt=attempt, index=index, text=text)


def shown(frames: list[Message], answer: str, *, columns: int = 20, rows: int = 6) -> Terminal:
    """The terminal after these frames and this answer."""
    terminal = Terminal(columns, rows)
    terminal.write("you>\n")
    view = AnswerView(terminal)
    view.begin()
    for frame in frames:
        view.on_frame(frame)
    view.finish(answer)
    terminal.write("next")
    return terminal


def rows(answer: str, columns: int) -> list[str]:
    """The answer as it stands."""
    text = printable(answer.rstrip("\n"))
    return [row.rstrip() for row in rows_of(text, columns - 1)] if answer.strip() else []


@given(FRAMES, WORDS, st.integers(5, 25), st.integers(3, 8))
def test_any_interleaving_of_pieces_and_resets_ends_with_the_answer_shown_once(frames, answer, columns, height):
    """Lost, repeated, foreign and taken back pieces leave no trace, on a screen of any size, scrolled or not."""
    terminal = shown(frames, answer, columns=columns, rows=height)
    assert terminal.seen == ["you>", *rows(answer, columns), "next"]


@given(st.lists(WORDS, min_size=1, max_size=10), st.integers(5, 25), st.integers(3, 8))
def test_an_answer_that_was_streamed_whole_is_the_same_as_one_that_was_not(pieces, columns, height):
    """The pieces together are the answer."""
    frames: list[Message] = [delta(index, text) for index, text in enumerate(pieces)]
    answer = "".join(pieces)
    assert shown(frames, answer, columns=columns, rows=height).seen == shown([], answer, columns=columns).seen


def test_pieces_are_seen_as_they_come_and_written_once():
    """Words appear behind each other; the end adds a newline and nothing else."""
    terminal = Terminal()
    view = AnswerView(terminal)
    view.begin()
    assert terminal.seen[-1:] == [WAITING]
    view.on_frame(delta(0, "Hello"))
    assert terminal.seen[-1:] == ["Hello"]
    before = len(terminal.written)
    view.on_frame(delta(1, " you"))
    assert terminal.written[before:] == " you" and terminal.seen == ["Hello you"]
    before = len(terminal.written)
    view.finish("Hello you")
    assert terminal.written[before:] == "\n"


@pytest.mark.parametrize("reason", list(WHY_AGAIN))
def test_what_is_taken_back_gives_way_to_the_reason(reason):
    """A person sees that something is going on, not a text that stopped."""
    terminal = Terminal(columns=60)
    view = AnswerView(terminal)
    view.on_frame(delta(0, "one\ntwo"))
    view.on_frame(StreamReset(reason=reason))
    assert terminal.seen == [WHY_AGAIN[reason]]
    view.on_frame(delta(0, "three", attempt=2))
    assert terminal.seen == ["three"]


def test_a_hole_shows_nothing_until_the_answer():
    """Text with a piece missing is not shown as if it were whole."""
    terminal = Terminal()
    view = AnswerView(terminal)
    view.on_frame(delta(0, "one"))
    view.on_frame(delta(2, "three"))
    view.on_frame(delta(3, "four"))
    assert terminal.seen == [WAITING]


def test_more_than_the_screen_holds_shows_its_end_and_then_all_of_it():
    """Nothing scrolls away that may have to be taken back."""
    terminal = Terminal(columns=20, rows=5)
    view = AnswerView(terminal)
    text = "\n".join(f"row {number}" for number in range(12))
    view.on_frame(delta(0, text))
    assert terminal.seen == ["⋮", "row 9", "row 10", "row 11"]
    view.finish(text)
    assert terminal.seen == text.split("\n")


def test_an_abandoned_answer_leaves_nothing():
    """Ctrl-C while it was written."""
    terminal = Terminal()
    terminal.write("you> x\n")
    view = AnswerView(terminal)
    view.begin()
    view.on_frame(delta(0, "one two three four five six"))
    view.abandon()
    view.on_frame(delta(1, "late"))
    assert terminal.seen == ["you> x"]


def test_a_window_that_becomes_narrower_is_not_rewritten_blindly():
    """What stood there stays and is said to be no answer; the answer follows whole."""
    terminal = Terminal(columns=80)
    view = AnswerView(terminal)
    view.on_frame(delta(0, "a long beginning of a line"))
    terminal.columns = 70
    view.on_frame(delta(1, " and its end"))
    view.finish("a long beginning of a line and its end")
    assert terminal.seen[0] == "a long beginning of a line" and "no answer" in terminal.seen[1]
    assert terminal.seen[2:] == ["a long beginning of a line and its end"]


def test_a_pipe_gets_the_answer_and_nothing_else():
    """Neither pieces nor waiting; byte for byte, with one newline at its end."""
    written: list[str] = []
    view = PlainView(written.append, is_terminal=False)
    view.begin()
    view.on_frame(delta(0, "one"))
    view.finish("the \x1b[1manswer")
    assert written == ["the \x1b[1manswer\n"]


def test_a_terminal_that_cannot_be_rewritten_gets_no_command_from_an_answer():
    """TERM=dumb: the answer alone, and nothing in it that is no text."""
    written: list[str] = []
    PlainView(written.append, is_terminal=True).finish("a\x1b[1mb")
    assert written == ["a\N{REPLACEMENT CHARACTER}[1mb\n"]


@given(st.lists(st.one_of(FRAMES.filter(bool).map(lambda frames: frames[0]), WORDS), max_size=20), st.integers(3, 8))
def test_what_is_typed_meanwhile_leaves_nothing_and_what_is_told_stands(happened, height):
    """A line that is typed is the last row as long as it is; told lines stand in order above the answer, once each."""
    terminal = Terminal(20, height)
    view = AnswerView(terminal)
    view.begin()
    told = list[str]()
    for number, one in enumerate(happened):
        if isinstance(one, Message):
            view.on_frame(one)
        else:
            view.show_typed(one)
        if number % 3 == 0:
            told.append(f"told {number}")
            view.tell([(told[-1], "")])
    view.finish("the answer")
    terminal.write("next")
    assert terminal.seen == [*told, "the answer", "next"]


def test_the_typed_line_is_the_last_row_and_its_end_is_what_is_seen_of_a_long_one():
    """Below the answer that grows; an empty one is no row."""
    terminal = Terminal(20, 6)
    view = AnswerView(terminal)
    view.begin()
    view.show_typed("/ste")
    view.on_frame(delta(0, "Hello"))
    assert terminal.seen == ["Hello", "you> /ste"]
    view.show_typed("/steer " + "x" * 30 + "end")
    assert terminal.seen[-1].endswith("xend") and len(terminal.seen) == 2
    view.show_typed("")
    assert terminal.seen == ["Hello"]
