"""What a client has been sent that can take nothing back."""

from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.streams import StreamDelta, StreamReset
from hobus.launch.http.openai_answers import Delivered, make_own_fields

SESSION = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"


def delta(text, index, *, attempt=1, step="s"):
    """One piece."""
    return StreamDelta(step=step, attempt=attempt, index=index, text=text)


def test_pieces_are_passed_on_and_the_end_adds_the_rest():
    """As they come; what the last piece left out comes with the answer."""
    sent = Delivered()
    assert [sent.take(delta("The led", 0)), sent.take(delta("ger", 1)), sent.finish("The ledger is intact.")] == [
        "The led", "ger", " is intact.",
    ]  # fmt: skip
    assert sent.text == "The ledger is intact."


def test_what_is_said_again_after_a_reset_is_not_sent_again():
    """A supervisor was lost: its successor writes the same answer, and only what is new goes out."""
    sent = Delivered()
    said = [sent.take(delta("The ledger", 0)), sent.take(StreamReset(reason="take_over"))]
    said += [sent.take(delta("The", 0, attempt=2)), sent.take(delta(" ledger is", 1, attempt=2))]
    assert said == ["The ledger", "", "", " is"]


def test_other_words_after_a_reset_begin_a_paragraph():
    """A draft before a tool call was no answer; what is sent is what the transcript says."""
    sent = Delivered()
    said = [
        sent.take(delta("Let me see.", 0)),
        sent.take(StreamReset(reason="tools")),
        sent.take(delta("It is", 0, step="t")),
    ]
    said.append(sent.finish("It is intact."))
    assert said == ["Let me see.", "", "\n\nIt is", " intact."] and sent.text == "".join(said)


def test_behind_a_hole_nothing_is_sent_until_the_end():
    """A piece was lost: what follows it would be no text."""
    sent = Delivered()
    assert [sent.take(delta("a", 0)), sent.take(delta("c", 2)), sent.take(delta("d", 3))] == ["a", "", ""]
    assert sent.finish("abcd") == "bcd"


@given(st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=4), st.text(max_size=12))
def test_whatever_was_said_before_the_answer_is_its_end(tries, answer):
    """Every word that was sent is kept, and the transcript ends with the whole answer."""
    sent, out = Delivered(), ""
    for attempt, pieces in enumerate(tries, start=1):
        for index, text in enumerate(pieces):
            out += sent.take(delta(text, index, attempt=attempt))
        out += sent.take(StreamReset(reason="retry"))
    out += sent.finish(answer)
    assert out == sent.text and out.endswith(answer)


def test_an_answer_without_its_template_says_so_beside_openais_own_fields():
    """As a session's that began natively; an answer with it has no such field."""
    about = {"response": "yes", "outcome": "success", "session_id": SESSION, "run_id": None, "input_id": "in-1"}
    assert "template_fault" not in make_own_fields(TurnResult(**about))
    assert make_own_fields(TurnResult(**about, template_fault="there is none"))["template_fault"] == "there is none"
