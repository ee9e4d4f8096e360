"""Earlier turns that a prompt goes on from: what the gateway fills in, and what it asks for."""

from __future__ import annotations

import random

import pytest

from bench.builders import order
from bench.builders import prompt as built
from hobus.bus.errors import BusError
from hobus.bus.limits import TOOLS_KEPT_MAX_BYTES
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import Prompt, PromptMessage, hash_tools
from hobus.bus.messages.work_order import Segment, ToolSpec, WorkOrder
from hobus.gateway_service import histories
from hobus.gateway_service.histories import Histories, SharedParts

FIRST = "\x1euser\nfirst\n\x1eassistant\nanswer\n"
SECOND = FIRST + "\x1euser\nsecond\n\x1eassistant\nanswer\n"


def asked(text: str) -> WorkOrder:
    """An order that shows these turns."""
    return order(input_context=[Segment(name=transcript.NAME, ref="r/1", text=text)])


def prompt(given: WorkOrder, session_id: str = "s") -> Prompt:
    segments = [one for one in given.input_context if one.name == transcript.NAME]
    message = PromptMessage(role="history", segments=segments)
    return built(messages=[message], session_id=session_id, history_after=given.history_after)


def test_a_prompt_brings_what_was_added_and_gets_all_of_it():
    """The same text for the next order of a turn, a longer one for the next turn's; a call made again gets the same."""
    kept = Histories(chars_max=1000)
    assert kept.whole(prompt(asked(FIRST))).messages[0].text == FIRST
    same = transcript.goes_on(asked(FIRST), transcript.tell_transcript(asked(FIRST)))
    assert same.input_context[0].text == ""
    longer = transcript.goes_on(asked(SECOND), transcript.tell_transcript(asked(FIRST)))
    assert FIRST + longer.input_context[0].text == SECOND
    assert kept.whole(prompt(same)).messages[0].text == FIRST
    for _ in range(2):
        filled = kept.whole(prompt(longer))
        assert (filled.messages[0].text, filled.messages[0].segments[0].ref) == (SECOND, "r/1")


@pytest.mark.parametrize("last", [None, transcript.tell_transcript(asked("\x1euser\nother\n"))])
def test_what_begins_otherwise_is_brought_whole(last):
    """Turns that went out of the window, were erased, or belong to nobody: no word of theirs is relied on."""
    assert transcript.goes_on(asked(SECOND), last) == asked(SECOND)


def test_what_the_gateway_has_not_is_asked_for():
    """After a restart, where room went to other sessions, and where another text stands: never a wrong one."""
    longer = transcript.goes_on(asked(SECOND), transcript.tell_transcript(asked(FIRST)))
    full = Histories(chars_max=len(FIRST))
    full.whole(prompt(asked(FIRST)))
    full.whole(prompt(asked(FIRST), session_id="other"))
    wrong = Histories(chars_max=1000)
    wrong.whole(prompt(asked(FIRST.replace("first", "forged"))))
    for kept in (Histories(chars_max=1000), full, wrong):
        with pytest.raises(BusError) as raised:
            kept.whole(prompt(longer))
        assert (raised.value.code, raised.value.retryable) == (transcript.UNKNOWN, True)
        assert kept.whole(prompt(asked(SECOND))).messages[0].text == SECOND


def told(*names: str, description: str = "reads") -> Prompt:
    """A prompt as it arrives, with these tools."""
    tools = [ToolSpec(tool_id=name, description=description, parameters={"type": "object"}) for name in names]
    return Prompt.model_validate_json(built(tools=tools).model_dump_json())


def test_prompts_that_tell_the_same_tools_hold_them_once():
    shared, first, second = SharedParts(), told("a", "b"), told("a", "c", "d")
    for prompt in (first, second):
        shared.share(prompt)
    assert second == told("a", "c", "d")
    assert second.tools[0] is first.tools[0]


def test_a_tool_that_is_described_otherwise_stays_as_it_was_told():
    shared, old, new, next_one = (
        SharedParts(),
        told("a"),
        told("a", description="writes"),
        told("a", description="writes"),
    )
    for prompt in (old, new, next_one):
        shared.share(prompt)
    assert (old.tools[0].description, new.tools[0].description) == ("reads", "writes")
    assert next_one.tools[0] is new.tools[0]


def naming(*names: str, description: str = "reads") -> Prompt:
    """The same, left out and named by their digest."""
    whole = told(*names, description=description)
    return whole.model_copy(update={"tools": [], "tools_digest": hash_tools(whole.tools)})


def test_tools_that_a_prompt_names_are_put_in():
    """Named again by what it has put in, in whatever order they came; one that never came is asked for."""
    shared, whole = SharedParts(), told("a", "b")
    shared.share(whole.model_copy(update={"tools_digest": hash_tools(whole.tools)}))
    for _ in range(2):
        named = naming("a", "b")
        shared.share(named)
        assert named.tools == whole.tools
    for other in (naming("b", "a"), naming("a"), naming("a", "b", description="writes")):
        with pytest.raises(BusError) as raised:
            shared.share(other)
        assert (raised.value.code, raised.value.retryable, other.tools) == (transcript.UNKNOWN, True, [])


def test_tools_are_kept_by_what_they_are_and_not_by_what_they_are_called():
    """A wrong digest puts no tools into another's prompt, and takes none from it."""
    shared, named = SharedParts(), naming("a")
    shared.share(told("forged").model_copy(update={"tools_digest": named.tools_digest}))
    with pytest.raises(BusError):
        shared.share(named)
    whole = told("a")
    shared.share(whole.model_copy(update={"tools_digest": b"wrong"}))
    shared.share(named)
    assert named.tools == whole.tools


def test_few_sets_of_tools_are_kept_and_no_large_one(monkeypatch):
    monkeypatch.setattr(histories, "TOOLS_KEPT_MAX", 2)
    shared = SharedParts()
    for name in "abc":
        shared.share(told(name).model_copy(update={"tools_digest": b""}))
    with pytest.raises(BusError):
        shared.share(naming("a"))
    shared.share(naming("b"))
    assert hash_tools(told("a", description="x" * TOOLS_KEPT_MAX_BYTES).tools) is None
    assert hash_tools([]) is None


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_digest_says_a_prompt_has_the_tools_that_it_means_or_is_asked_again(seed, monkeypatch):
    """Right, another set's, nobody's, none, with tools or without, of more sets than are kept."""
    monkeypatch.setattr(histories, "TOOLS_KEPT_MAX", 3)
    draw, shared, kept = random.Random(seed), SharedParts(), dict[bytes, list[ToolSpec]]()
    sets = [told(*draw.sample("abcd", count), description=draw.choice("xy")) for count in (0, 1, 1, 2, 2, 3, 4)]
    for _ in range(200):
        brought = draw.choice(sets).tools if draw.random() < 0.5 else []
        digest = draw.choice((hash_tools(draw.choice(sets).tools), hash_tools(brought), draw.randbytes(32), None))
        prompt = built(tools=list(brought), tools_digest=digest)
        if not brought and digest is not None and digest not in kept:
            with pytest.raises(BusError):
                shared.share(prompt)
            assert prompt.tools == []
            continue
        shared.share(prompt)
        assert prompt.tools == (brought or kept.get(digest, []))
        if digest is not None:
            used = hash_tools(prompt.tools)
            kept.pop(used, None)
            kept[used] = prompt.tools
            kept = dict(list(kept.items())[-3:])


def test_prompts_of_one_contract_hold_its_instructions_and_schema_once():
    """Only what is equal: each keeps its own words."""
    shared = SharedParts()

    def arrived(words: str) -> Prompt:
        segments = [Segment(name="system", text="Be kind."), Segment(name="about", text=words)]
        made = built(
            messages=[PromptMessage(role="system", segments=segments)],
            output_schema={"type": "object", "properties": {"a": {"type": "string"}}},
        )
        made = Prompt.model_validate_json(made.model_dump_json())
        shared.share(made)
        return made

    first, second = arrived("ann"), arrived("bob")
    one, other = first.messages[0].segments, second.messages[0].segments
    assert one[0] is other[0] and [part.text for part in one + other] == ["Be kind.", "ann", "Be kind.", "bob"]
    assert first.output_schema == second.output_schema
    assert (first.output_schema or {})["properties"] is (second.output_schema or {})["properties"]
