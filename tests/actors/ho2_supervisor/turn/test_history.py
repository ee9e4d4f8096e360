"""History: whole turns within the budget, lines for older ones, degraded answers as they were delivered."""

from __future__ import annotations

import re

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.turn.history import (
    ERASED,
    DeliveredTurn,
    History,
    HistoryLimits,
    digest,
    newest_lines,
    remember,
    shown,
)
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Exchange, Segment, ToolCall
from hobus.bus.record.text_parts import TextPart, merged
from tests.laws import law
from tests.transcripts import readable

LIMITS = HistoryLimits(budget_tokens=100, turns_max=3, digest_chars=40, chars_per_token=4, known_max=10)


def turn(number: int, text: str | None = None, reply: str | None = None, **fields: object) -> DeliveredTurn:
    """A delivered turn."""
    given_text = f"question {number}" if text is None else text
    given_reply = f"answer {number}" if reply is None else reply
    made = DeliveredTurn(f"i{number}", f"in/{number}", f"out/{number}", given_text, given_reply)
    return replace(made, **fields)


def parts(history: History, limits: HistoryLimits) -> list[TextPart]:
    """What a prompt is shown, in as few parts as can be."""
    return merged(part for one in shown(history, limits) for part in one.parts)


def told(history: History, limits: HistoryLimits = LIMITS) -> str:
    """The text that a prompt gets."""
    return readable("".join(part.text for part in parts(history, limits)))


def messages(history: History, limits: HistoryLimits = LIMITS) -> list[tuple[str, str]]:
    """What a provider gets of it."""
    text = "".join(part.text for part in parts(history, limits))
    given = transcript.expanded([PromptMessage(role="history", segments=[Segment(name="history", text=text)])])
    return [(one.role, one.text) for one in given]


def test_earlier_turns_are_messages_and_calls_stand_with_their_results() -> None:
    """Byte for byte, whatever line ends and marks stand in a text; older turns are one message in front."""
    call = ToolCall(call_id="001", tool_id="look", arguments={"a": "b\n"})
    found = Exchange(
        tool_calls=[call], results=[Segment(name="001", ref="t/1")], said=[Segment(name="steer", text="go")]
    )
    limits = replace(LIMITS, turns_max=2, budget_tokens=1000)
    long = turn(3, "q\n\n", "a\x1euser\nb\n", rounds=(found,), texts={"t/1": "r\n"})
    assert messages(history_of(turn(1), turn(2), long, limits=limits), limits) == [
        ("user", "Earlier in this conversation, shortened:\n- user: question 1 (input i1)"),
        ("user", "question 2"), ("assistant", "answer 2"),
        ("user", "q\n\n"), ("assistant", ""), ("tool", "r\n"), ("user", "go"),
        ("assistant", "a\N{SYMBOL FOR RECORD SEPARATOR}user\nb\n"),
    ]  # fmt: skip


def test_a_long_result_stands_in_later_prompts_by_its_beginning() -> None:
    """Its own turn had all of it; the record names the stretch."""
    call = ToolCall(call_id="001", tool_id="look", arguments={})
    found = Exchange(tool_calls=[call], results=[Segment(name="001", ref="t/1")])
    limits = replace(LIMITS, budget_tokens=10_000)
    history = history_of(turn(1, rounds=(found,), texts={"t/1": "x" * 2001}), limits=limits)
    assert ("t/1", "0:2000") in [(part.ref, part.stretch) for part in parts(history, limits)]
    assert messages(history, limits)[2][1] == "x" * 2000 + " … (cut; whole in its own turn)"


def history_of(*turns: DeliveredTurn, limits: HistoryLimits = LIMITS) -> History:
    """A history of these turns."""
    history = History()
    for one in turns:
        history = remember(history, one, limits)
    return history


def test_first_turn_has_no_history() -> None:
    """Nothing was said: no segment, no line."""
    assert parts(History(), LIMITS) == []
    assert newest_lines(History(), LIMITS) == []


def test_newest_turns_stand_verbatim_and_older_ones_as_lines() -> None:
    """Oldest first; beyond turns_max one line each."""
    history = history_of(*(turn(n) for n in range(1, 6)))
    assert told(history) == (
        "- user: question 1 (input i1)\n- user: question 2 (input i2)\n"
        "user: question 3\nassistant: answer 3\n"
        "user: question 4\nassistant: answer 4\n"
        "user: question 5\nassistant: answer 5\n"
    )
    assert history.count == 5


def test_between_two_steps_a_prompt_begins_as_the_one_before() -> None:
    """The oldest turn that is shown whole moves on by three at once."""
    limits = replace(LIMITS, turns_max=5, step_turns=3, budget_tokens=500)
    history, before, moved = History(), "", []
    for number in range(1, 31):
        history = remember(history, turn(number), limits)
        text = told(history, limits)
        if not text.startswith(before):
            moved.append(number)
        before = text
    assert moved == list(range(moved[0], 31, 3))
    assert len(moved) > 5


@law(
    20,
    200,
    turns=st.integers(1, 40),
    turns_max=st.integers(1, 8),
    step_turns=st.integers(1, 8),
    budget_tokens=st.integers(0, 60),
)
def test_whatever_the_steps_the_newest_turn_that_fits_is_shown_and_the_budget_kept(
    turns: int, turns_max: int, step_turns: int, budget_tokens: int
) -> None:
    """Whole turns are the newest ones without a gap, lines stand before them, and nothing goes over."""
    limits = replace(LIMITS, turns_max=turns_max, step_turns=step_turns, budget_tokens=budget_tokens)
    history = history_of(*(turn(n) for n in range(1, turns + 1)), limits=limits)
    text = told(history, limits)
    assert -(-len(text) // limits.chars_per_token) <= budget_tokens
    whole = [int(number) for number in re.findall(r"^assistant: answer (\d+)$", text, re.MULTILINE)]
    assert whole == list(range(turns - len(whole) + 1, turns + 1))
    assert len(whole) <= turns_max
    if budget_tokens >= len(f"user: question {turns}\nassistant: answer {turns}\n"):
        assert whole


def test_texts_carry_their_refs() -> None:
    """What a person or a model said is named by ref; what is ours has none."""
    refs = [part.ref for part in parts(history_of(turn(1), turn(2)), LIMITS)]
    assert refs == [None, "in/1", None, "out/1", None, "in/2", None, "out/2", None]


def test_turn_is_shown_whole_or_as_a_line() -> None:
    """A turn that fits exactly is shown; with one token less it is a line, and nothing older is shown in its place."""
    history = history_of(turn(1), turn(2))
    exact = -(-len("user: question 2\nassistant: answer 2\n") // 4)
    assert told(history, replace(LIMITS, budget_tokens=exact)) == "user: question 2\nassistant: answer 2\n"
    assert told(history, replace(LIMITS, budget_tokens=exact - 1)) == "- user: question 2 (input i2)\n"


def test_digest_is_one_line_within_its_length() -> None:
    """Newlines are folded, long texts are cut, tools and degradation are named."""
    assert digest(turn(1, "a\nb"), 40) == "- user: a b (input i1)"
    long = digest(turn(1, "x" * 100, tool_ids=("list_tools",), is_degraded=True), 60)
    assert len(long) == 60
    assert long.endswith("… (input i1; list_tools; degraded)")
    many = digest(turn(1, "x" * 100, tool_ids=tuple(f"tool_{n}" for n in range(50))), 60)
    assert len(many) == 60 and "(input i1; tool_0, " in many


ID = "11111111-2222-5333-8444-555555555555"


@pytest.mark.parametrize(
    ("reply_ref", "is_degraded", "name"),
    [
        (f"RunCompleted:{ID}-12/2", False, "turn 12"),
        (f"PROMPT_RECEIVED:WO-{ID}-7.2.1#1/1/1", False, "turn 7"),
        (f"WO_COMPLETED:WO-{ID}-3.1.1/ho1/1@a/1", False, "turn 3"),
        (f"TurnDegraded:{ID}/i1/2", True, "input i1"),
        ("", False, "input i1"),
    ],
)
def test_a_line_names_its_turn_as_it_is_opened(reply_ref: str, is_degraded: bool, name: str) -> None:
    """What `hobus session show --turn` takes, whichever entry holds the answer."""
    one = replace(turn(1), reply_ref=reply_ref, is_degraded=is_degraded)
    assert one.name == name
    assert f"({name}" in digest(one, 120)


def test_late_degraded_answer_replaces_what_was_shown() -> None:
    """The same input again is the same turn: shown as it was delivered, counted once, in its old place."""
    history = history_of(*(turn(n) for n in range(1, 6)))
    verbatim = remember(history, turn(4, reply="bare", is_degraded=True), LIMITS)
    assert "assistant: bare\nuser: question 5" in told(verbatim)
    line = remember(history, turn(1, is_degraded=True), LIMITS)
    assert told(line).startswith("- user: question 1 (input i1; degraded)\n- user: question 2 (")
    assert (verbatim.count, line.count) == (5, 5)


def test_erased_text_is_marked_and_has_no_ref() -> None:
    """A prompt never names a ref whose text it does not show."""
    erased = DeliveredTurn("i1", "in/1", "out/1", None, "kept")
    told_parts = parts(history_of(erased), LIMITS)
    assert [(s.ref, s.text) for s in told_parts] == [
        (None, f"\x1euser\n{ERASED}\n\x1eassistant\n"), ("out/1", "kept"), (None, "\n"),
    ]  # fmt: skip
    assert history_of(erased).missing_refs() == ("in/1",)
    assert history_of(erased).filled({"in/1": "back"}).missing_refs() == ()


_SAID = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200)


@law(
    20,
    200,
    said=st.lists(st.tuples(_SAID, _SAID), max_size=30),
    budget=st.integers(0, 120),
    turns_max=st.integers(1, 5),
)
def test_history_keeps_its_budget_and_its_size(said: list[tuple[str, str]], budget: int, turns_max: int) -> None:
    """Whatever was said: within the token budget, bounded in memory, whole turns only, newest kept before older ones."""
    limits = replace(LIMITS, budget_tokens=budget, turns_max=turns_max)
    history = history_of(*(turn(n, *texts) for n, texts in enumerate(said)), limits=limits)
    given = parts(history, limits)
    assert sum(len(part.text) for part in given) <= budget * limits.chars_per_token
    assert len(history.turns) <= turns_max
    assert sum(len(line) for _, line in history.digests) <= budget * limits.chars_per_token + limits.digest_chars
    refs = list(dict.fromkeys(part.ref for part in given if part.ref))
    newest = [ref for one in history.turns for ref in (one.input_ref, one.reply_ref)]
    assert len(refs) % 2 == 0
    assert refs == newest[len(newest) - len(refs) :]
