"""History: whole turns within the budget, lines for older ones, degraded answers as they were delivered."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.turn.history import (
    ERASED,
    Blocks,
    DeliveredTurn,
    History,
    HistoryLimits,
    digest_turn,
    make_line,
    remember,
    show_history,
)
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Exchange, Segment, ToolCall
from hobus.bus.record.text_parts import TextPart, merge
from tests.transcripts import readable

LIMITS = HistoryLimits(budget_tokens=100, turns_max=3, digest_chars=60, chars_per_token=4, known_max=10)


def turn(number: int, text: str | None = None, reply: str | None = None, **fields: object) -> DeliveredTurn:
    """A delivered turn."""
    given_text = f"question {number}" if text is None else text
    given_reply = f"answer {number}" if reply is None else reply
    made = DeliveredTurn(f"i{number}", f"in/{number}", f"out/{number}", given_text, given_reply)
    return replace(made, **fields)


def parts(history: History, limits: HistoryLimits) -> list[TextPart]:
    """What a prompt is shown, in as few parts as can be."""
    return merge(part for one in show_history(history, limits) for part in one.parts)


def told(history: History, limits: HistoryLimits = LIMITS) -> str:
    """The text that a prompt gets."""
    return readable("".join(part.text for part in parts(history, limits)))


def messages(history: History, limits: HistoryLimits = LIMITS) -> list[tuple[str, str]]:
    """What a provider gets of it."""
    text = "".join(part.text for part in parts(history, limits))
    given = transcript.expand([PromptMessage(role="history", segments=[Segment(name="history", text=text)])])
    return [(one.role, one.text) for one in given]


def test_earlier_turns_are_messages_and_calls_stand_with_their_results() -> None:
    """Byte for byte, whatever line ends and marks stand in a text; older turns are one message in front."""
    call = ToolCall(call_id="001", tool_id="look", arguments={"a": "b\n"})
    found = Exchange(
        tool_calls=[call], results=[Segment(name="001", ref="t/1")], said=[Segment(name="steer", text="go")]
    )
    limits = replace(LIMITS, turns_max=3, budget_tokens=1000)
    long = turn(3, "q\n\n", "a\x1euser\nb\n", rounds=(found,), texts={"t/1": "r\n"})
    assert messages(history_of(turn(0), turn(1), turn(2), long, limits=limits), limits) == [
        ("user", "Earlier in this conversation, shortened:\n" + f"{line(0)}{line(1)}".rstrip()),
        ("user", "question 2"), ("assistant", "answer 2"),
        ("user", "q\n\n"), ("assistant", ""), ("tool", "r\n"), ("user", "go"),
        ("assistant", "a\N{SYMBOL FOR RECORD SEPARATOR}user\nb\n"),
    ]  # fmt: skip


LINES = tuple(Segment(name="ho3_biases", text=f"line {n}", artifact_id=f"ART-{n}") for n in (1, 2))
FACT = Segment(name="assembled_context", ref="o/1")
AROUND = {"ho3_biases": ("<p>", "</p>"), "assembled_context": ("<c>", "</c>")}


@pytest.mark.parametrize(
    ("in_force", "beside"),
    [
        ({"ART-1": "line 1", "ART-2": "line 2"}, ["<p>line 1\nline 2</p>", "<c>a fact</c>"]),
        ({"ART-2": "line 2"}, ["<p>line 2</p>", "<c>a fact</c>"]),
        ({"ART-1": "other words"}, ["<c>a fact</c>"]),
        ({}, ["<c>a fact</c>"]),
    ],
)
def test_what_stood_beside_a_message_stays_there(in_force: dict[str, str], beside: list[str]) -> None:
    """As it was shown, before the message and behind what a client told of; of memory only what is in force as it was."""
    text = "Said earlier in this conversation:\nuser: before\n\nMessage:\nnow"
    asked = turn(1, text, beside=(*LINES, FACT), texts={"o/1": "a fact"})
    limits = replace(LIMITS, budget_tokens=8000)
    history = history_of(asked, limits=limits)
    shown_parts = [part for one in show_history(history, limits, Blocks(AROUND, in_force)) for part in one.parts]
    told = transcript.expand(
        [PromptMessage(role="history", segments=[Segment(text="".join(part.text for part in shown_parts))])]
    )
    assert [one.text for one in told] == ["before", *beside, "now", "answer 1"]


@pytest.mark.parametrize(
    ("chars", "tokens", "stays"), [(1799, 8000, True), (1800, 8000, False), (299, 2000, True), (300, 2000, False)]
)
def test_more_than_a_part_of_the_budget_does_not_stay_beside_a_message(chars: int, tokens: int, stays: bool) -> None:
    """A sixteenth with what stands around it, and no more than of a tool's result: it would crowd out what was said."""
    asked = turn(1, beside=(replace(FACT, ref=None, text="x" * chars),))
    limits = replace(LIMITS, budget_tokens=tokens)
    [one] = show_history(history_of(asked, limits=limits), limits, Blocks(AROUND, {}))
    assert ("<c>" in "".join(part.text for part in one.parts)) is stays


def test_a_turn_is_made_once_for_each_prompt_that_shows_it_alike() -> None:
    """As long as the same lines are in force, and anew once they are not."""
    asked = turn(1, beside=(*LINES, FACT), texts={"o/1": "a fact"})
    first = asked.shown(Blocks(AROUND, {"ART-1": "line 1"}))
    assert asked.shown(Blocks(dict(AROUND), {"ART-1": "line 1"})) is first
    assert asked.shown(Blocks(AROUND, {"ART-2": "line 2"})).learned == ("ART-2",)
    assert asked.shown(Blocks(AROUND, {"ART-1": "line 1"})) == first


def test_what_stays_beside_messages_counts_as_they_do() -> None:
    """Turns are cut the earlier, and what is shown stays within the budget."""
    limits = replace(LIMITS, budget_tokens=1600, turns_max=100)
    fact = replace(FACT, ref=None, text="x" * 150)
    history = history_of(*(turn(n, beside=(fact,)) for n in range(40)), limits=limits)
    plain = history_of(*(turn(n) for n in range(40)), limits=limits)
    found = show_history(history, limits, Blocks(AROUND, {}))
    assert sum(len(part.text) for one in found for part in one.parts) <= 1600 * 4
    assert 1 < len(found) < len(show_history(plain, limits))


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


def line(number: int) -> str:
    """How an older turn is told of."""
    return f"- user: question {number} | assistant: answer {number} (input i{number})\n"


def whole(number: int) -> str:
    """How a newer one is shown."""
    return f"user: question {number}\nassistant: answer {number}\n"


def test_newest_turns_stand_verbatim_and_older_ones_as_lines() -> None:
    """Oldest first; over turns_max the whole ones are cut to half of that, and what is cut stands as one line each."""
    limits = replace(LIMITS, turns_max=4, budget_tokens=1000)
    seen = [told(history_of(*map(turn, range(1, count + 1)), limits=limits), limits) for count in range(1, 8)]
    assert seen[3] == "".join(map(whole, range(1, 5)))
    assert seen[4] == "".join(map(line, range(1, 4))) + whole(4) + whole(5)
    assert seen[6] == seen[4] + whole(6) + whole(7)


def test_what_no_line_has_room_for_is_counted() -> None:
    """The oldest ones, by one line in front of the others."""
    limits = replace(LIMITS, turns_max=2, budget_tokens=400)
    text = told(history_of(*map(turn, range(1, 21)), limits=limits), limits)
    assert text == "- 15 earlier turns are not shown\n" + "".join(map(line, range(16, 19))) + whole(19) + whole(20)


def test_the_conversation_of_a_full_history_is_cut_now_and_then_and_no_turn_is_forgotten() -> None:
    """Twenty turns of usual length under the shipped budget: three cuts, and each turn whole or by its line."""
    limits = HistoryLimits(budget_tokens=8000, turns_max=20, digest_chars=120, chars_per_token=4, known_max=64)
    history, before, cuts = History(), "", list[int]()
    for number in range(1, 21):
        history = remember(history, turn(number, f"q{number:02} " * 250, f"a{number:02} " * 700), limits)
        text = told(history, limits)
        assert len(re.findall(r"^assistant: ", text, re.MULTILINE)) >= 3 or number < 3
        assert re.findall(r"^(?:- user|user): q(\d+) ", text, re.MULTILINE) == [f"{n:02}" for n in range(1, number + 1)]
        if not text.startswith(before):
            cuts.append(number)
        before = text
    assert cuts == [9, 14, 19]


def chars_of(text: str) -> int:
    """What stands in a prompt for it."""
    return sum(len(part.text) for part in turn(1, text, text).verbatim)


@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=120),
    budget_tokens=st.integers(0, 1500),
    turns_max=st.integers(1, 12),
)
def test_between_two_cuts_a_prompt_begins_as_the_one_before(
    sizes: list[int], budget_tokens: int, turns_max: int
) -> None:
    """Whatever is said: never over the budget, the newest turn whole wherever it fits, and cuts far from each other."""
    limits = replace(LIMITS, turns_max=turns_max, budget_tokens=budget_tokens)
    budget, largest = budget_tokens * 4, chars_of("x" * max(sizes))
    apart = min((turns_max + 1) // 2, int(budget * 7 / 16) // largest)
    """Turns that surely fit behind what a cut leaves whole."""
    history, before, cut = History(), "", 0
    for number, size in enumerate(sizes, 1):
        history = remember(history, turn(number, "x" * size, "y" * size), limits)
        text = "".join(part.text for part in parts(history, limits))
        assert len(text) <= budget
        untold = re.match(r"- (\d+) earlier turns? (?:is|are) not shown\n", text)
        lines = re.findall(r"^- user: .* \(input i(\d+)\)$", text, re.MULTILINE)
        shown_whole = text.count("\x1euser")
        assert 0 < shown_whole <= turns_max or chars_of("x" * size) > budget
        if untold or lines or shown_whole == number:
            first = 1 + (int(untold[1]) if untold else 0)
            assert [int(name) for name in lines] == list(range(first, number + 1 - shown_whole))
        if not text.startswith(before):
            assert not cut or number - cut >= apart
            cut = number
        before = text


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=80),
    budget_tokens=st.integers(0, 1500),
    smaller=st.integers(0, 1500),
)
def test_what_is_let_go_changes_no_prompt(sizes: list[int], budget_tokens: int, smaller: int) -> None:
    """A history that keeps a line of every turn shows the same; and whoever shows less of it never shows too much."""
    limits = replace(LIMITS, turns_max=5, budget_tokens=budget_tokens)
    history = all_lines = History()
    for number, size in enumerate(sizes, 1):
        one = turn(number, "x" * size, "y" * size)
        history = remember(history, one, limits)
        all_lines = replace(history, lines=(*all_lines.lines, make_line(one, limits)))
        assert show_history(history, limits) == show_history(all_lines, limits)
        less = replace(limits, budget_tokens=min(smaller, budget_tokens))
        assert sum(len(part.text) for part in parts(history, less)) <= less.budget_tokens * 4


def test_texts_carry_their_refs() -> None:
    """What a person or a model said is named by ref; what is ours has none."""
    refs = [part.ref for part in parts(history_of(turn(1), turn(2)), LIMITS)]
    assert refs == [None, "in/1", None, "out/1", None, "in/2", None, "out/2", None]


def test_turn_is_shown_whole_or_as_a_line() -> None:
    """A turn that fits exactly is shown; with one token less it is a line, and nothing older is shown in its place."""
    long = turn(2, "x" * 400, "y" * 400)
    history = history_of(turn(1), long)
    exact = -(-long.chars // 4)
    shown_whole = f"user: {'x' * 400}\nassistant: {'y' * 400}\n"
    assert told(history, replace(LIMITS, budget_tokens=exact)) == shown_whole
    assert told(history, replace(LIMITS, budget_tokens=exact - 1)) == (
        f"- 1 earlier turn is not shown\n- user: {'x' * 13}… | assistant: {'y' * 12}… (input i2)\n"
    )


def test_digest_is_one_line_within_its_length() -> None:
    """Who said what: both beginnings; newlines are folded, long texts are cut, tools and degradation are named."""
    assert digest_turn(turn(1, "a\nb"), 60) == "- user: a b | assistant: answer 1 (input i1)"
    long = digest_turn(turn(1, "x" * 100, "y" * 100, tool_ids=("list_tools",), is_degraded=True), 90)
    assert long == f"- user: {'x' * 17}… | assistant: {'y' * 16}… (input i1; list_tools; degraded)"
    assert digest_turn(turn(1, "x" * 100, "yes"), 60) == f"- user: {'x' * 23}… | assistant: yes (input i1)"
    assert digest_turn(turn(1, "so?", "y" * 100), 60) == f"- user: so? | assistant: {'y' * 23}… (input i1)"
    many = digest_turn(turn(1, "x" * 100, tool_ids=tuple(f"tool_{n}" for n in range(50))), 60)
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
    assert f"({name}" in digest_turn(one, 120)


def test_late_degraded_answer_replaces_what_was_shown() -> None:
    """The same input again is the same turn: shown as it was delivered, counted once, in its old place."""
    history = history_of(*(turn(n) for n in range(1, 6)))
    verbatim = remember(history, turn(4, reply="bare", is_degraded=True), LIMITS)
    assert "assistant: bare\nuser: question 5" in told(verbatim)
    limits = replace(LIMITS, budget_tokens=1000)
    older = remember(history, turn(1, reply="bare", is_degraded=True), limits)
    assert told(older, limits).startswith(f"- user: question 1 | assistant: bare (input i1; degraded)\n{line(2)}user: ")
    assert (verbatim.count, older.count) == (5, 5)


def test_erased_text_is_marked_and_has_no_ref() -> None:
    """A prompt never names a ref whose text it does not show."""
    erased = DeliveredTurn("i1", "in/1", "out/1", None, "kept")
    told_parts = parts(history_of(erased), LIMITS)
    assert [(s.ref, s.text) for s in told_parts] == [
        (None, f"\x1euser\n{ERASED}\n\x1eassistant\n"), ("out/1", "kept"), (None, "\n"),
    ]  # fmt: skip
    assert history_of(erased).missing_refs() == ("in/1",)
    assert history_of(erased).filled({"in/1": "back"}, LIMITS).missing_refs() == ()


_SAID = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200)


@given(
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
    fit = budget * limits.chars_per_token / 8 / len("- user: ") + 3 * turns_max
    assert len(history.lines) <= 2 * fit
    refs = list(dict.fromkeys(part.ref for part in given if part.ref))
    newest = [ref for one in history.turns for ref in (one.input_ref, one.reply_ref)]
    assert len(refs) % 2 == 0
    assert refs == newest[len(newest) - len(refs) :]
