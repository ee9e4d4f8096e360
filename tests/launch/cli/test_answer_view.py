"""One answer on a terminal: whatever came before it, it stands there once and nothing else of it."""

from __future__ import annotations

import io

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.base import Message
from hobus.bus.messages.streams import StreamDelta, StreamReset, StreamWaiting
from hobus.launch.cli.answer_view import RESIZED, WAITING, WHY_AGAIN, PlainView
from hobus.launch.cli.chat.live_view import LiveView
from hobus.launch.console.output import make_harmless
from hobus.launch.console.terminal import fold

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


class Screen(io.StringIO):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._monkeypatch = monkeypatch
        self.reset(40, 12)

    def reset(self, columns: int, rows: int) -> None:
        self.is_narrowed_to(columns, rows)
        self._screen = pyte.HistoryScreen(columns, rows, history=1000)
        self._screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self._screen)

    def is_narrowed_to(self, columns: int, rows: int = 12) -> None:
        self._monkeypatch.setenv("COLUMNS", str(columns))
        self._monkeypatch.setenv("LINES", str(rows))

    def is_stdout(self) -> None:
        """Whatever is printed from now on stands here; to be called in the test itself, whose output pytest redirects."""
        self._monkeypatch.setattr("sys.stdout", self)

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._stream.feed(text + "")  # as other text streams it takes no bytes
        return len(text)

    @property
    def is_cursor_hidden(self) -> bool:
        return self._screen.cursor.hidden

    @property
    def seen(self) -> list[str]:
        """What scrolled away and what stands there, without empty rows at the end."""
        columns = range(self._screen.columns)
        scrolled = ["".join(row[column].data for column in columns).rstrip() for row in self._screen.history.top]
        return "\n".join([*scrolled, *(row.rstrip() for row in self._screen.display)]).rstrip("\n").split("\n")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen(monkeypatch)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return screen


def delta(index: int, text: str, *, attempt: int = 1) -> StreamDelta:
    return StreamDelta(step="WO-1", attempt=attempt, index=index, text=text)


def view_of(screen: Screen, *frames: Message) -> LiveView:
    screen.is_stdout()
    view = LiveView()
    view.begin()
    for frame in frames:
        view.on_frame(frame)
    return view


def test_any_interleaving_of_pieces_and_resets_ends_with_the_answer_shown_once(screen):
    """Lost, repeated, foreign and taken back pieces leave no trace, on a screen of any size; told lines stand above."""
    given(st.just(screen), FRAMES, WORDS, st.integers(5, 25), st.integers(3, 8))(ends_with_the_answer)()


def ends_with_the_answer(screen, frames, answer, columns, height):
    screen.reset(columns, height)
    screen.write("you>\n")
    view, told = view_of(screen), list[str]()
    for number, frame in enumerate(frames):
        view.on_frame(frame)
        if number % 3 == 0:
            told.append(f"t{number}")
            view.tell([(told[-1], "")])
    view.finish(answer)
    screen.write("next")
    text = make_harmless(answer.rstrip("\n"))
    rows = [row.rstrip() for row in fold(text, columns - 1)] if answer.strip() else []
    assert [row for row in screen.seen if row] == [row for row in ["you>", *told, *rows, "next"] if row]


@pytest.mark.parametrize("reason", list(WHY_AGAIN))
def test_what_is_taken_back_gives_way_to_the_reason(screen, reason):
    """A person sees that something is going on, not a text that stopped."""
    view = view_of(screen)
    assert screen.seen == [WAITING]
    view.on_frame(delta(0, "one\ntwo"))
    assert screen.seen == ["one", "two"]
    view.on_frame(StreamReset(reason=reason))
    assert " ".join(screen.seen) == WHY_AGAIN[reason]
    view.on_frame(delta(0, "three", attempt=2))
    assert screen.seen == ["three"]


def test_more_than_the_screen_holds_shows_its_end_and_then_all_of_it(screen):
    """Nothing scrolls away that may have to be taken back."""
    screen.reset(20, 5)
    text = "\n".join(f"row {number}" for number in range(12))
    view = view_of(screen, delta(0, text))
    assert screen.seen == ["⋮", "row 9", "row 10", "row 11"]
    view.finish(text)
    assert screen.seen == text.split("\n")


def test_an_abandoned_answer_leaves_nothing(screen):
    screen.write("you> x\n")
    view = view_of(screen, delta(0, "one two three four five six"))
    view.abandon()
    view.on_frame(delta(1, "late"))
    assert screen.seen == ["you> x"]


def test_a_window_that_becomes_narrower_is_not_rewritten_blindly(screen):
    """What stood there stays and is said to be no answer; the answer follows whole."""
    view = view_of(screen, delta(0, "a long beginning of a line"))
    screen.is_narrowed_to(38)
    view.on_frame(delta(1, " and more"))
    view.finish("all of it")
    assert screen.seen[0].startswith("a long beginning") and screen.seen[-1] == "all of it"
    assert RESIZED[0] in " ".join(screen.seen)


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
