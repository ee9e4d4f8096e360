"""What servers really send, each case a row: what the one reader makes of it, whole and in pieces."""

from __future__ import annotations

import json
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.builders import prompt
from hobus.bus.json_text import mend
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment, ToolCall
from hobus.config.sections.gateway import AnthropicProvider, OpenAIProvider
from hobus.gateway_service import pricing
from hobus.gateway_service.limits import ARGUMENTS_MAX_CHARS, WRITTEN_MAX_CHARS
from hobus.gateway_service.providers.http import anthropic_wire, openai_wire
from hobus.gateway_service.providers.http.reader import AnswerReader, ErrorSaid
from hobus.gateway_service.providers.http.retry_after import retry_after_ms
from hobus.gateway_service.providers.http.thinking import SpokenText
from hobus.gateway_service.providers.http.wire import ToolNames

NAMES = ToolNames(["add", "look"])
NO_CALLS: list[Any] = []


def whole(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A whole completion."""
    return {"choices": [{"finish_reason": finish, "message": message}], **more}


def chunks(*deltas: dict[str, Any], finish: str = "stop", usage: Any = None) -> list[dict[str, Any]]:
    """The chunks of a stream."""
    said = [{"object": "chat.completion.chunk", "choices": [{"delta": delta}]} for delta in deltas]
    end = {"object": "chat.completion.chunk", "choices": [{"delta": {}, "finish_reason": finish}]}
    return [*said, end, {"object": "chat.completion.chunk", "choices": [], "usage": usage}]


def piece(name: str | None, arguments: Any, *, index: Any = None, id: str | None = None) -> dict[str, Any]:  # noqa: A002
    """A piece of a call, or all of it."""
    given = {"index": index, "id": id}
    function = {"name": name, "arguments": arguments}
    kept = {key: value for key, value in function.items() if value is not None or key == "arguments"}
    return {**{key: value for key, value in given.items() if value is not None}, "function": kept}


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    """A message or delta with these calls."""
    return {"tool_calls": list(pieces)}


def read(wire: Any, events: list[Any], content: SpokenText | None = None) -> tuple[Any, str, AnswerReader]:
    """The response, what was told on the way, and the reader."""
    reader = AnswerReader(wire.read, NAMES, "m", content or SpokenText())
    told = "".join([reader.add(event) for event in events])
    return reader.ended(), told, reader


A, B = ("add", {"a": 1}), ("look", {"b": 2})
A_TEXT, B_TEXT = '{"a": 1}', '{"b": 2}'


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (chunks(calls(piece("add", '{"a"', index=0, id="1")), calls(piece(None, ": 1}", index=0)),
                calls(piece("look", B_TEXT, index=1, id="2"))), [A, B]),
        (chunks(calls(piece("add", A_TEXT, index=0, id="1")), calls(piece("look", B_TEXT, index=0, id="2"))), [A, B]),
        (chunks(calls(piece("add", A_TEXT, index=0, id="1")), calls(piece("add", '{"a": 2}', index=0, id="2"))),
         [A, ("add", {"a": 2})]),
        (chunks(calls(piece("add", A_TEXT, index=0), piece("add", '{"a": 2}', index=0))), [A, ("add", {"a": 2})]),
        (chunks(calls(piece("add", A_TEXT, index=0, id="1")), calls(piece("add", '{"a": 2}', index=0, id="1"))),
         [A, ("add", {"a": 2})]),
        (chunks(calls(piece("a", "", index=0, id="1")), calls(piece("d", "", index=0)), calls(piece("dit", "", index=0)),
                calls(piece(None, A_TEXT, index=0))), [("addit", {"a": 1})]),
        (chunks(calls(piece("ad", "", index=0, id="1")), calls(piece("d", A_TEXT, index=0))), [A]),
        (chunks(calls(piece("add", "", index=0)), calls(piece("look", "", index=0))), [("add", {}), ("look", {})]),
        (chunks(calls(piece("add", "", index=0, id="1")), calls(piece("add", "", index=0, id="2"))),
         [("add", {}), ("add", {})]),
        (chunks(calls(piece("add", '{"a"', index=0, id="1")), calls(piece("add", ": 1}", index=0, id="1"))), [A]),
        (chunks(calls(piece("add", A_TEXT, index=0, id="1")), calls(piece("add", "", index=0, id="1"))), [A]),
        (chunks(calls(piece("add", A_TEXT)), calls(piece("look", B_TEXT))), [A, B]),
        (chunks(calls(piece("add", '{"a"')), calls(piece(None, ": 1}")), calls(piece("look", B_TEXT))), [A, B]),
        (chunks(calls(piece("add", '{"a"', id="1")), calls(piece("look", '{"b"', id="2")),
                calls(piece(None, ": 1}", id="1")), calls(piece(None, ": 2}", id="2"))), [A, B]),
        (chunks(calls(piece("add", A_TEXT, index=3, id="1")), calls(piece("look", B_TEXT, index=7, id="2"))), [A, B]),
        (chunks(calls(piece("add", '{"a"', index=0)), calls(piece(None, ": 1}", index=1))), [A]),
        (chunks(calls(piece("add", A_TEXT, index=0, id="")), calls(piece("look", B_TEXT, index=1, id=""))), [A, B]),
        (chunks(calls(piece("add", A_TEXT, index=0, id="x")), calls(piece("look", B_TEXT, index=1, id="x"))), [A, B]),
        ([whole(calls(piece("add", A_TEXT, id="x"), piece("add", A_TEXT, id="x")))], [A, A]),
        ([whole(calls(piece("add", A_TEXT, index=0), piece("look", B_TEXT, index=0)))], [A, B]),
        ([whole({"content": None, "function_call": {"name": "add", "arguments": A_TEXT}})], [A]),
        ([whole(calls({"id": 7, "name": "add", "arguments": {"a": 1}}))], [A]),
        ([whole(calls(piece("add", {"a": 1})))], [A]),
        ([whole(calls(piece("add", json.dumps(A_TEXT))))], [A]),
        ([whole(calls(piece("add", "")))], [("add", {})]),
        ([whole(calls(piece("add", None)))], [("add", {})]),
        ([whole(calls(piece("add", "null")))], [("add", {})]),
        ([whole(calls(piece("add", '""')))], [("add", {})]),
        ([whole(calls(piece("add", '{"a": "x \\ud83d"}')))], [("add", {"a": "x �"})]),
        (chunks(calls(piece("add", '{"a": "\ud83d', index=0)), calls(piece(None, '\ude00"}', index=0))),
         [("add", {"a": "😀"})]),
    ],
    ids=[
        "as documented", "all at index 0", "one tool twice at index 0", "at index 0 without ids", "at index 0 and one id",
        "a name in three pieces", "a name in two pieces", "two names at index 0", "without arguments at index 0", "name and id in each piece", "an empty last piece", "no index", "no index, in pieces",
        "by id, interleaved", "gaps", "a piece at a wrong index", "empty ids", "double ids", "double ids, whole",
        "double indexes, whole", "function_call", "flat, and a number as id", "an object", "JSON in a string",
        "empty", "none", "null", "an empty string in a string", "half a character", "halves over pieces",
    ],
)  # fmt: skip
def test_every_call_is_read(events, expected):
    """However a server numbers it, cuts it up or writes its arguments: none is merged, lost or made up."""
    response, _told, _reader = read(openai_wire, events)
    assert [(call.tool_id, call.arguments) for call in response.tool_calls] == expected
    assert not any(call.fault for call in response.tool_calls) and response.finish_reason == "tool_calls"
    json.dumps([call.model_dump() for call in response.tool_calls]).encode()


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ('{"a": 1,', "no JSON: Expecting property name enclosed in double quotes, at its end, behind 8 characters"),
        ('{"a": x}', "no JSON: Expecting value, at character 7 of 8"),
        ("[1]", "are a list, not an object"),
        ("7", "are a number, not an object"),
        ("true", "are a truth value, not an object"),
        ('"add"', "no JSON"),
        ('{"a": NaN}', "no JSON"),
        ('{"a": 1e999}', "no JSON"),
        ('{"a": 18446744073709551616}', "no JSON"),
        ('{"a":' * 50_000, "no JSON"),
        ('{"a":' * 200 + "1" + "}" * 200, "nested too deeply"),
        ('{"a": "' + "x" * ARGUMENTS_MAX_CHARS + '"}', f"at most {ARGUMENTS_MAX_CHARS} are taken"),
    ],
    ids=lambda value: value[:12],
)
def test_what_a_model_wrote_wrong_is_said_of_the_call_and_fails_nothing(arguments, fault):
    """The provider did its work; the model is told, in the place of a result."""
    (call,) = read(openai_wire, [whole(calls(piece("add", arguments)), usage={"prompt_tokens": 3})])[0].tool_calls
    assert call.arguments == {} and fault in call.fault


def test_a_call_that_names_no_tool_is_the_models_mistake():
    """Not the provider's."""
    (call,) = read(openai_wire, [whole(calls(piece(None, "{}")))])[0].tool_calls
    assert (call.tool_id, call.fault) == ("", "it names no tool")


THINKS = "<think>hm, \nseven?</think>\n\nIt is 7."


@pytest.mark.parametrize(
    ("texts", "content", "thought"),
    [
        ([THINKS], "It is 7.", "hm, \nseven?"),
        (list(THINKS), "It is 7.", "hm, \nseven?"),
        (["\n " + THINKS], "It is 7.", "hm, \nseven?"),
        (["hm, seven?</think>It is 7."], "It is 7.", "hm, seven?"),
        (list("hm, seven?\n</think>\n\nIt is 7."), "It is 7.", "hm, seven?\n"),
        (["<think>and so on and"], "", "and so on and"),
        (list("<think>and so on </thi"), "", "and so on </thi"),
        (["<think></think>\n\nIt is 7."], "It is 7.", ""),
        (["<think>a</think>\n<think>b</think> is a block"], "<think>b</think> is a block", "a"),
        (["<think>a <think>b</think> c</think> 7"], "c</think> 7", "a <think>b"),
        (list("Sure.\n<think>hm</think>\n7"), "Sure.\n<think>hm</think>\n7", ""),
        (list("Write `<think>x</think>` or\n```\n<think>\nx\n</think>\n```"),
         "Write `<think>x</think>` or\n```\n<think>\nx\n</think>\n```", ""),
        (list("Close it:\n```\nhm\n</think>\n7\n```\n"), "Close it:\n```\nhm\n</think>\n7\n```\n", ""),
        (["the end (</think>), or </think>."], "the end (</think>), or </think>.", ""),
        (list("I write `</think>` then.\n</think>\n\n7"), "7", "I write `</think>` then.\n"),
        (["a tag: `</think>` ends it"], "a tag: `</think>` ends it", ""),
        (list("the tag </think> ends it"), "the tag </think> ends it", ""),
        (list("so it is. </think>\n\n7"), "7", "so it is. "),
        (["so <think> is a tag"], "so <think> is a tag", ""),
        (list("  1 < 2 and <thi"), "  1 < 2 and <thi", ""),
        (["7 \ud83d"], "7 �", ""),
        (["7 \ud83d", "\ude00!"], "7 😀!", ""),
        (["7 \ud83d", "x \ude00"], "7 �x �", ""),
    ],
)  # fmt: skip
def test_what_is_only_thought_is_no_part_of_an_answer(texts, content, thought):
    """Whole tags, half of them, cut anywhere; and no half of a character leaves the reader."""
    response, told, reader = read(openai_wire, chunks(*({"content": text} for text in texts)))
    assert (response.content, "".join(reader.content.thought)) == (content, thought)
    assert told == content or reader.content.has_closed_alone or content.startswith(told)
    if len(texts) == 1:
        assert read(openai_wire, [whole({"content": texts[0]})])[0].content == content


_PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<",
        "</thi",
        "nk>",
        "`",
        "```",
        '"',
        "(",
        ".",
        " ",
        "\n",
        "a",
        "7 is it",
        "\ud83d",
        "\ude00",
    ]
)


@given(st.lists(_PIECES, max_size=12).map("".join), st.lists(st.integers(0, 40), max_size=12), st.booleans())
def test_however_an_answer_is_cut_it_is_read_alike_and_no_word_of_it_is_lost(text, cuts, is_known):
    """What is said and what is thought are all of it, but for the tags between and blanks around them."""
    places = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    whole_text, in_pieces = SpokenText(closes_alone=is_known), SpokenText(closes_alone=is_known)
    told = whole_text.add(text) + whole_text.close()
    told_in_pieces = "".join([*map(in_pieces.add, pieces), in_pieces.close()])
    said, thought = "".join(whole_text.said), "".join(whole_text.thought)
    assert ("".join(in_pieces.said), "".join(in_pieces.thought)) == (said, thought)
    assert in_pieces.has_closed_alone == whole_text.has_closed_alone
    assert whole_text.has_closed_alone or told == told_in_pieces == said
    meant = mend(text)
    if not meant.lstrip().startswith("<think>") and not whole_text.has_closed_alone:
        assert (said, thought) == (meant, "")
    elif whole_text.has_closed_alone:
        before, _, behind = meant.partition(f"{thought}</think>")
        assert not before and "<think>" not in thought and said == behind.lstrip()
    else:
        block, closing, behind = meant.lstrip().removeprefix("<think>").partition("</think>")
        assert (thought, said) == (block, behind.lstrip() if closing else "")


def test_a_model_known_to_close_alone_says_nothing_before_it_has_thought():
    """What it writes before the tag can be told from an answer by nothing else."""
    events = chunks(*({"content": text} for text in ("hm", ", seven?", "</thi", "nk>It is", " 7.")))
    assert read(openai_wire, events, SpokenText(closes_alone=True))[:2][1] == "It is 7."
    response, told, _ = read(openai_wire, chunks({"content": "7"}), SpokenText(closes_alone=True))
    assert (response.content, told) == ("7", "")


@pytest.mark.parametrize(
    ("text", "finish", "content"),
    [
        ("hm, seven?\n</think>\n\nIt is", "length", "It is"),
        ("hm, sev", "length", ""),
        ("<think>hm</think>It is", "length", "It is"),
        ("It is 7.", "stop", "It is 7."),
    ],
)
def test_a_model_that_thinks_first_says_nothing_where_it_is_cut_in_that(text, finish, content):
    """What ends by itself without a closing was no thinking."""
    response, told, reader = read(openai_wire, chunks({"content": text}, finish=finish), SpokenText(thinks_first=True))
    assert response.content == content and told in ("", content)
    assert bool(content) or reader.thought_chars == len(text)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_beside_the_content_is_kept_for_its_model_and_never_said(name):
    """Some providers refuse the calls of a message without it; no other model is given it."""
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    events = chunks({name: "hm, "}, {name: "seven"}, calls({**piece("add", A_TEXT, id="1"), **extra}))
    response, told, reader = read(openai_wire, events)
    assert (response.content, told, reader.thought_chars) == ("", "", 9)
    (call,) = response.tool_calls
    config = OpenAIProvider.model_construct(max_tokens_field="max_tokens", structured="none", omit=[])
    asked = prompt(messages=[PromptMessage(role="assistant", tool_calls=[call])])
    for model_id, is_given in (("m", True), ("another", False)):
        sent = openai_wire.make_request(asked, model_id, ToolNames.of(asked), config, stream=False)["messages"][0]
        assert (sent.get(name) == "hm, seven", "extra_content" in sent["tool_calls"][0]) == (is_given, is_given)


def test_anthropics_thinking_is_given_back_with_its_signature():
    """Before the calls, as it came, in pieces or whole."""
    block = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    use = {"type": "tool_use", "id": "1", "name": "add", "input": {}}
    events: list[Any] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_start", "index": 1, "content_block": use},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": A_TEXT}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    ]
    at_once = {"content": [block, {**use, "input": {"a": 1}}], "stop_reason": "tool_use", "usage": {}}
    config = AnthropicProvider.model_construct(structured="none", omit=[])
    for way in (events, [at_once]):
        response, _told, reader = read(anthropic_wire, way)
        (call,) = response.tool_calls
        assert (call.arguments, reader.thought_chars, response.content) == ({"a": 1}, 2, "")
        messages = [
            PromptMessage(role="user", segments=[Segment(text="x")]),
            PromptMessage(role="assistant", tool_calls=[call]),
        ]
        asked = prompt(messages=messages)
        for model_id, blocks in (("m", [block]), ("another", [])):
            sent = anthropic_wire.make_request(asked, model_id, ToolNames.of(asked), config, stream=False)["messages"][
                1
            ]
            assert [one for one in sent["content"] if one["type"] == "thinking"] == blocks


@pytest.mark.parametrize(
    ("usage", "counted", "is_estimated"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, (9, 2), False),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None, True),
        ({"prompt_tokens": None, "completion_tokens": None}, None, True),
        ({"prompt_tokens": "many", "completion_tokens": -1}, None, True),
        ({"prompt_tokens": 10**30, "completion_tokens": True}, None, True),
        ({}, None, True),
        (None, None, True),
    ],
)
def test_a_usage_that_says_nothing_is_estimated_and_marked(usage, counted, is_estimated):
    """So that budgets bind: no answer is for nothing."""
    asked = prompt(text="x" * 400)
    response, _told, reader = read(openai_wire, [whole({"content": "y" * 40}, usage=usage)])
    found = pricing.with_usage(asked, response, 4, thought_chars=reader.thought_chars)
    expected = counted or (pricing.estimate_input_tokens(asked, 4), 10)
    assert (found.input_tokens, found.output_tokens, found.usage_is_estimated) == (*expected, is_estimated)


def test_a_usage_of_zeros_at_the_end_of_a_stream_takes_nothing_back():
    """What was counted before it holds."""
    events = chunks({"content": "7"}, usage={"prompt_tokens": 0, "completion_tokens": 0})
    events[0]["usage"] = {"prompt_tokens": 9, "completion_tokens": 2}
    response = read(openai_wire, events)[0]
    assert (response.input_tokens, response.output_tokens) == (9, 2)


EMPTY = {"refusal": False, "tool_calls": {}, "function_call": [], "reasoning_content": ""}


@pytest.mark.parametrize(
    ("wire", "answer"),
    [
        (openai_wire, whole({"content": "7", **EMPTY}, error=False)),
        (
            openai_wire,
            whole({"content": "7"}, usage={"prompt_tokens_details": [], "completion_tokens_details": "none"}),
        ),
        (openai_wire, whole({"content": "7"}, x_groq="none")),
        (openai_wire, whole({"content": "7", "tool_calls": [None, {}, {"id": "1", "function": {"name": ""}}]})),
        (openai_wire, whole({"content": {"type": "text", "text": "7"}})),
        (openai_wire, whole({"content": ["7", None, {"type": "output_text", "text": ""}]})),
        (openai_wire, {"choices": [{"text": "7", "finish_reason": "stop"}]}),
        (anthropic_wire, {"content": "7", "usage": [], "error": None}),
        (anthropic_wire, {"content": ["7", {"type": "text", "text": None}], "stop_reason": "end_turn"}),
    ],
)
def test_an_answer_that_is_there_is_read_whatever_stands_beside_it(wire, answer):
    """All that is empty is absent, in whatever form; no usage is why an answer fails; a content may be one text, or parts."""
    response = AnswerReader(wire.read, NAMES).whole(answer)
    assert (response.content, response.tool_calls, response.finish_reason or "stop") == ("7", [], "stop")


def test_a_streams_call_with_nothing_in_it_is_none():
    """Some parsers begin one with every answer."""
    events = chunks({"content": "", **calls(piece("", "", index=0, id=""))}, {"content": "7"})
    assert read(openai_wire, events)[0].tool_calls == [] and read(openai_wire, events)[1] == "7"


def test_a_message_of_anthropics_is_read_past_what_its_server_ran_itself_and_ends_with_its_stop():
    """Also where it does not say why it stopped."""
    begun = {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {}}
    events = [
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "7"}},
        {"type": "message_stop"},
    ]
    response = read(anthropic_wire, events)[0]
    assert (response.content, response.tool_calls, response.finish_reason) == ("7", [], "stop")


def test_thinking_among_the_parts_of_a_content_is_thinking():
    """As Mistral's models have it."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    response, told, reader = read(
        openai_wire, chunks({"content": [thought]}, {"content": [{"type": "text", "text": "7"}]})
    )
    assert (response.content, told, reader.thought_chars) == ("7", "7", 2)
    assert read(openai_wire, [whole({"content": [thought]})])[2].thought_chars == 2


@pytest.mark.parametrize(
    ("wire", "answer"),
    [
        (openai_wire, {"error": {"code": 502, "message": "GPU"}}),
        (openai_wire, {"id": "1", "choices": [], "error": {"message": "GPU"}}),
        (openai_wire, {"choices": [{"finish_reason": "error", "message": {}, "error": {"message": "GPU"}}]}),
        (openai_wire, {"error": "GPU"}),
        (openai_wire, {"object": "error", "message": "GPU"}),
        (openai_wire, {"detail": "GPU"}),
        (openai_wire, {"errors": [{"message": "GPU"}]}),
        (anthropic_wire, {"type": "error", "error": {"type": "overloaded_error", "message": "GPU"}}),
        (anthropic_wire, {"error": {"message": "GPU"}}),
    ],
)
def test_an_error_in_the_place_of_an_answer_is_the_providers_own(wire, answer):
    """Whatever the status says."""
    with pytest.raises(ErrorSaid) as caught:
        AnswerReader(wire.read, NAMES).whole(answer)
    assert "GPU" in json.dumps(caught.value.body)


@pytest.mark.parametrize(
    ("wire", "said", "meant"),
    [
        (openai_wire, "length", "length"), (openai_wire, "MAX_TOKENS", "length"), (openai_wire, "SAFETY", "content_filter"),
        (openai_wire, "content_filter", "content_filter"), (openai_wire, "eos", "stop"), (openai_wire, "odd", "odd"),
        (anthropic_wire, "max_tokens", "length"), (anthropic_wire, "model_context_window_exceeded", "window"),
        (anthropic_wire, "refusal", "refusal"), (anthropic_wire, "pause_turn", "pause"), (anthropic_wire, "end_turn", "stop"),
    ],
)  # fmt: skip
def test_why_an_answer_ends_is_said_in_one_language(wire, said, meant):
    """Whoever cut it."""
    answer = whole({"content": "x"}, said) if wire is openai_wire else {"content": [], "stop_reason": said}
    assert AnswerReader(wire.read, NAMES).whole(answer).finish_reason == meant


@pytest.mark.parametrize("block", [{"type": "thinking", "thinking": ""}, {"type": "redacted_thinking", "data": "x"}])
def test_an_answer_of_thinking_that_is_not_shown_is_all_thinking(block):
    """All its tokens went there, though nobody sees a word of it."""
    usage = {"input_tokens": 9, "output_tokens": 40}
    answer = {"content": [block], "stop_reason": "max_tokens", "usage": usage}
    response = AnswerReader(anthropic_wire.read, NAMES).whole(answer)
    assert (response.finish_reason, response.reasoning_tokens) == ("length", 40)
    answer["content"] = [block, {"type": "text", "text": "seven"}]
    assert AnswerReader(anthropic_wire.read, NAMES).whole(answer).reasoning_tokens == 0


@pytest.mark.parametrize("length", [10, WRITTEN_MAX_CHARS + 1])
def test_a_model_is_told_what_it_wrote_where_that_is_no_json(length):
    """Its call stands in the next prompt with no arguments at all: without this it would not know what to mend."""
    wrote = "{" + "b" * (length - 1)
    (call,) = AnswerReader(openai_wire.read, NAMES).whole(whole(calls(piece("add", wrote)))).tool_calls
    assert call.arguments == {} and f"It wrote: {wrote[:WRITTEN_MAX_CHARS]}" in call.fault
    assert call.fault.endswith(" …") is (length > WRITTEN_MAX_CHARS)
    assert len(call.fault) < WRITTEN_MAX_CHARS + 200


def test_a_refusal_is_told_once_it_is_whole():
    """A stream of an answer cannot take it back."""
    response, told, _ = read(openai_wire, chunks({"content": ""}, {"refusal": "I will "}, {"refusal": "not."}))
    assert (response.content, response.finish_reason, told) == ("I will not.", "refusal", "")


NOW = 1_700_000_000.0
SENT = formatdate(NOW, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.0001"}, 1),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1" + "0" * 400}, None),
        ({"retry-after": "99999999999"}, 2**31),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": formatdate(1_700_000_030, usegmt=True), "date": SENT}, 30_000),
        ({"retry-after": formatdate(1_600_000_000, usegmt=True), "date": SENT}, None),
        ({"x-ratelimit-reset-requests": "1s"}, 1000),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360_000),
        ({"x-ratelimit-reset-tokens": "120ms"}, 120),
        ({"X-RateLimit-Reset-Tokens": "2m59.56s"}, 179_560),
        ({"x-ratelimit-reset": str(int(NOW) + 30)}, 30_000),
        ({"x-ratelimit-reset": str((int(NOW) + 30) * 1000)}, 30_000),
        ({"x-ratelimit-reset": "30"}, 30_000),
        ({"anthropic-ratelimit-requests-reset": "2023-11-14T22:13:50Z"}, 30_000),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "9",
          "x-ratelimit-reset-tokens": "20s", "x-ratelimit-remaining-tokens": "0"}, 20_000),
        ({"x-ratelimit-reset-requests": "8s", "x-ratelimit-reset-tokens": "20s"}, 8000),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "20s"}, 2000),
        ({"retry-after": "soon", "x-ratelimit-reset-tokens": "never"}, None),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30_000),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 -0000"}, 30_000),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT", "date": "Tue, 14 Nov 2023 22:13:40 GMT"}, 10_000),
    ],
)  # fmt: skip
def test_when_a_limit_is_reset_is_read_however_it_is_said(headers, expected):
    """A duration, seconds, a moment; a date without the server's own counts from here."""
    assert retry_after_ms(headers, NOW) == expected


def test_a_broken_call_is_sent_back_in_a_form_that_every_server_takes():
    """Its arguments are an object; what is wrong stands in its result."""
    call = ToolCall(call_id="1", tool_id="", arguments={}, fault="it names no tool")
    asked = prompt(messages=[PromptMessage(role="assistant", tool_calls=[call])])
    config = OpenAIProvider.model_construct(max_tokens_field="max_tokens", structured="none", omit=[])
    sent = openai_wire.make_request(asked, "m", ToolNames.of(asked), config, stream=False)["messages"][0]
    assert sent["tool_calls"][0]["function"] == {"name": "_", "arguments": "{}"}
