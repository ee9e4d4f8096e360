"""Both official SDKs against real servers on loopback: what is asked, and what becomes of the answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from bench.builders import prompt
from bench.gateway.servers import (
    ANTHROPIC,
    DONE,
    KEY,
    OPENAI,
    USAGE_PIECE,
    completion,
    head,
    instance,
    message,
    piece,
    serving,
    sse,
    whole,
)
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import PromptMessage, ToolSpec
from hobus.bus.messages.work_order import Sampling, Segment, ToolCall
from hobus.bus.port import Anew, Used
from hobus.gateway_service import limits
from hobus.gateway_service.providers.http import openai_wire
from hobus.gateway_service.providers.http.reader import AnswerReader
from tests.gateway_service.servers import answering, by_path, message_events, streaming

SCHEMA = {
    "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False,
}  # fmt: skip
TOOL = ToolSpec(tool_id="time.now", description="the time", parameters={"type": "object", "properties": {}})


def said(role, text, **more) -> PromptMessage:
    """One message."""
    return PromptMessage(role=role, segments=[Segment(text=text)], **more)


TRANSCRIPT = [
    said("system", "be brief"),
    said("user", "what time is it"),
    said(
        "assistant",
        "",
        tool_calls=[ToolCall(call_id="001", provider_call_id="c-7", tool_id="time.now", arguments={"tz": "UTC"})],
    ),
    said("tool", "noon", tool_call_id="001"),
    said(
        "assistant", "", tool_calls=[ToolCall(call_id="001", provider_call_id="c-7", tool_id="time.now", arguments={})]
    ),
    said("tool", "one", tool_call_id="001"),
]


def _key_of(headers: dict[str, str]) -> str:
    return (headers.get("x-api-key") or headers["authorization"]).removeprefix("Bearer ")


async def ask(provider, wanted=None, *, on_delta=None, timeout_s=5.0):
    """One call."""
    await provider.prepare()
    return await provider.complete(wanted or prompt(), model_id="tiny", timeout_s=timeout_s, on_delta=on_delta)


@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC])
async def test_a_key_file_that_was_written_anew_counts_from_the_next_call_on(kind, tmp_path):
    """Without a restart; where it holds no key for a moment, the one that it held is used."""
    path = tmp_path / "key"
    async with serving(answering(completion() if kind == OPENAI else message())) as server:
        provider = instance(kind, server.url, key=f"file:{path}")
        for text in ("sk-first", "sk-second", "", "sk-third"):
            path.write_text(text)
            path.chmod(0o600)
            await provider.complete(prompt(), model_id="tiny", timeout_s=5.0)
    sent = [_key_of(request.headers) for request in server.requests]
    assert sent == ["sk-first", "sk-second", "sk-second", "sk-third"]


@pytest.mark.parametrize(("kind", "wanted"), [(OPENAI, "required"), (ANTHROPIC, {"type": "any"})])
async def test_a_call_that_is_required_is_asked_for_in_the_providers_words(kind, wanted):
    """Without that word nothing is said, so that a server that does not know it is not troubled."""
    reply = completion() if kind == OPENAI else message()
    async with serving(answering(reply)) as server:
        provider = instance(kind, server.url)
        await ask(provider, prompt(tools=[TOOL], tool_choice="required"))
        await ask(provider, prompt(tools=[TOOL]))
    assert [request.json.get("tool_choice") for request in server.requests] == [wanted, None]


async def test_openai_is_asked_with_everything_that_the_prompt_says():
    """Model, cap, temperature, effort, tools, schema, transcript and key, once; no id of ours that it would refuse."""
    async with serving(answering(completion())) as server:
        wanted = prompt(
            messages=TRANSCRIPT, tools=[TOOL], temperature=0.3, reasoning_effort="High", output_schema=SCHEMA,
            structured_output=True, sampling=Sampling(temperature=0.3, top_p=0.5, seed=7, stop=["END"]),
        )  # fmt: skip
        await ask(instance(OPENAI, server.url), wanted)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "tiny",
        "max_tokens": 100,
        "temperature": 0.3,
        "top_p": 0.5,
        "seed": 7,
        "stop": ["END"],
        "reasoning_effort": "high",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}},
        "tools": [
            {
                "type": "function",
                "function": {"name": "time_now", "description": "the time", "parameters": TOOL.parameters},
            }
        ],
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "what time is it"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c-7", "type": "function", "function": {"name": "time_now", "arguments": '{"tz":"UTC"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c-7", "content": "noon"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1_001", "type": "function", "function": {"name": "time_now", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1_001", "content": "one"},
        ],
    }


@pytest.mark.parametrize(
    ("kind", "reply", "wanted"),
    [(OPENAI, completion(), {"top_p": 0.0, "seed": 0}), (ANTHROPIC, message(), {"top_p": 0.0})],
)
async def test_zero_is_a_value_by_which_an_answer_is_drawn(kind, reply, wanted):
    """It is sent; what nobody said is not."""
    async with serving(answering(reply)) as server:
        await ask(instance(kind, server.url), prompt(sampling=Sampling(top_p=0, seed=0)))
        await ask(instance(kind, server.url), prompt(sampling=Sampling(temperature=0)))
    drawn = [
        {name: one.json[name] for name in ("top_p", "seed", "stop") if name in one.json} for one in server.requests
    ]
    assert drawn == [wanted, {}]


async def test_anthropic_is_asked_with_everything_that_the_prompt_says():
    """The same in its words: the system apart, results of a round in one message, a schema and an effort."""
    async with serving(answering(message())) as server:
        wanted = prompt(
            messages=TRANSCRIPT, tools=[TOOL], temperature=1.5, reasoning_effort="Low", output_schema=SCHEMA,
            structured_output=True, sampling=Sampling(top_p=0.5, seed=7, stop=["END"]),
        )  # fmt: skip
        await ask(instance(ANTHROPIC, server.url), wanted)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert KEY in request.headers["authorization"] + request.headers.get("x-api-key", "")
    assert request.json == {
        "model": "tiny",
        "max_tokens": 100,
        "temperature": 1.0,
        "top_p": 0.5,
        "stop_sequences": ["END"],
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        "tools": [{"name": "time_now", "description": "the time", "input_schema": TOOL.parameters}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "what time is it"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c-7", "name": "time_now", "input": {"tz": "UTC"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c-7", "content": "noon"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_1_001", "name": "time_now", "input": {}}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_1_001",
                        "content": "one",
                        "cache_control": {"type": "ephemeral"},
                    },
                ],
            },
        ],
    }


async def test_earlier_turns_are_kept_by_anthropic_and_what_one_side_says_in_a_row_is_one_message_for_openai():
    """The mark stands behind what the next prompt begins with as well; context comes anew with each turn."""
    turns = [PromptMessage(role="user", segments=[Segment(name="history", text="a")]),
             PromptMessage(role="assistant", segments=[Segment(name="history", text="b")]),
             PromptMessage(role="user", segments=[Segment(name="x", text="<context>")]),
             PromptMessage(role="user", segments=[Segment(name="y", text="c")])]  # fmt: skip
    async with serving(answering(message())) as server:
        await ask(instance(ANTHROPIC, server.url), prompt(messages=turns))
    kept = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    assert server.requests[0].json["messages"][1] == {"role": "assistant", "content": [kept]}
    assert str(server.requests[0].json).count("cache_control") == 1
    async with serving(answering(completion())) as server:
        await ask(instance(OPENAI, server.url), prompt(messages=turns))
    said = [(one["role"], one["content"]) for one in server.requests[0].json["messages"]]
    parts = [{"type": "text", "text": "<context>"}, {"type": "text", "text": "c"}]
    assert said == [("user", "a"), ("assistant", "b"), ("user", parts)]
    async with serving(answering(completion())) as server:
        await ask(instance(OPENAI, server.url, omit=["text_parts"]), prompt(messages=turns))
    assert server.requests[0].json["messages"][-1] == {"role": "user", "content": "<context>\n\nc"}


@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_an_instance_without_a_key_sends_none_whatever_the_surroundings_hold(kind, monkeypatch):
    """A key in the shell of whoever starts it goes to no server that was not given it."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID"):
        monkeypatch.setenv(name, "sk-of-the-shell")
    async with serving(answering(completion() if kind is OPENAI else message())) as server:
        await ask(instance(kind, server.url, key=None))
    assert "authorization" not in server.requests[0].headers and "x-api-key" not in server.requests[0].headers
    assert "sk-of-the-shell" not in json.dumps(server.requests[0].headers)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [(OPENAI, completion("hello")), (OPENAI, completion([{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}])),
     (ANTHROPIC, message([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}]))],
    ids=["openai", "parts", "anthropic"],
)  # fmt: skip
async def test_a_whole_answer_carries_text_reason_and_usage(kind, answer):
    """Input counts what came from a cache, too; cached and thought tokens are parts of it."""
    async with serving(answering(answer)) as server:
        response = await ask(instance(kind, server.url))
    assert (response.outcome, response.content) == ("SUCCESS", "hello")
    assert response.finish_reason == "stop"
    usage = response.input_tokens, response.output_tokens, response.cached_tokens, response.reasoning_tokens
    assert usage == (20, 9, 8, 4) and not response.usage_is_estimated


@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_a_streamed_answer_is_told_as_it_comes_and_ends_as_a_whole_one(kind):
    """Pieces in order, together the content; usage, reason and tool calls at the end."""
    if kind is OPENAI:
        behave = streaming(
            [
                piece(role="assistant", content=""), piece(content="hel"), piece(content="lo"),
                piece(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "time_now", "arguments": ""}}]),
                piece(tool_calls=[{"index": 0, "function": {"arguments": '{"tz":'}}]),
                piece(tool_calls=[{"index": 0, "function": {"arguments": '"UTC"}'}}]),
                piece("tool_calls"), USAGE_PIECE,
            ],
            end=DONE,
        )  # fmt: skip
    else:
        behave = streaming(
            message_events(
                ({"type": "thinking", "thinking": ""}, [{"type": "thinking_delta", "thinking": "hm"}]),
                ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "hel"}, {"type": "text_delta", "text": "lo"}]),
                ({"type": "tool_use", "id": "c1", "name": "time_now", "input": {}},
                 [{"type": "input_json_delta", "partial_json": '{"tz":'}, {"type": "input_json_delta", "partial_json": '"UTC"}'}]),
                stop="tool_use",
            )
        )  # fmt: skip
    told: list[str] = []
    async with serving(behave) as server:
        response = await ask(instance(kind, server.url), prompt(tools=[TOOL]), on_delta=told.append)
    assert server.requests[0].json["stream"] is True
    assert told == ["hel", "lo"] and response.content == "hello"
    (call,) = response.tool_calls
    assert (call.provider_call_id, call.tool_id, call.arguments) == ("c1", "time.now", {"tz": "UTC"})
    assert response.finish_reason == "tool_calls"
    assert (response.input_tokens, response.output_tokens, response.cached_tokens, response.reasoning_tokens) == (
        20,
        9,
        8,
        4,
    )


async def test_a_usage_that_is_not_told_is_estimated_and_said_to_be():
    """Some servers stream without one: the answer is not free, and nobody takes the figure for the provider's."""
    async with serving(streaming([piece(content="hello you"), piece("stop")], end=DONE)) as server:
        response = await ask(instance(OPENAI, server.url, omit=["stream_options"]), prompt(text="x" * 40), on_delta=len)
    assert "stream_options" not in server.requests[0].json
    assert (response.usage_is_estimated, response.input_tokens, response.output_tokens) == (True, 10, 2)


@pytest.mark.parametrize(
    ("structured", "wanted"),
    [("json_object", {"type": "json_object", "schema": SCHEMA}), ("none", None)],
)
async def test_a_server_is_asked_for_a_schema_in_the_way_it_knows(structured, wanted):
    """`structured` of the instance decides."""
    async with serving(answering(completion("{}"))) as server:
        ask_for = prompt(output_schema=SCHEMA, structured_output=True)
        await ask(instance(OPENAI, server.url, structured=structured, omit=["temperature"]), ask_for)
    assert server.requests[0].json.get("response_format") == wanted
    assert "temperature" not in server.requests[0].json


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {}, "additionalProperties": False}}}, True),
        ({"anyOf": [{"type": "object"}]}, False),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"], "additionalProperties": False,
          "$defs": {"a": {"type": "object"}}}, False),
        ({"properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"], "additionalProperties": False}, False),
        ({"properties": {"default": {"type": "string"}}, "required": ["default"], "additionalProperties": False}, True),
    ],
    ids=["a definition", "open choice", "open definition", "a word it refuses", "a key of that name"],
)  # fmt: skip
def test_a_schema_is_strict_only_if_openai_takes_it_as_such(schema, is_strict):
    """It refuses a strict one with any word that it does not know, and the whole request with it."""
    assert openai_wire.keeps_strictly(schema) is is_strict


async def test_an_object_of_any_keys_is_json_mode():
    """The plainest that there is, which servers without schemas know too."""
    async with serving(answering(completion("{}"))) as server:
        await ask(instance(OPENAI, server.url), prompt(output_schema={"type": "object"}, structured_output=True))
    assert server.requests[0].json["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_a_refusal_is_its_words_and_says_what_it_is(kind, streamed):
    """One finish reason for it, whoever refuses."""
    if kind is OPENAI:
        whole = completion(message={"content": None, "refusal": "not that"})
        events, end = [piece(refusal="not "), piece(refusal="that"), piece("stop"), USAGE_PIECE], DONE
    else:
        whole = message([{"type": "text", "text": "not that"}], stop_reason="refusal")
        deltas = [{"type": "text_delta", "text": text} for text in ("not ", "that")]
        events, end = message_events(({"type": "text", "text": ""}, deltas), stop="refusal"), b""
    async with serving(streaming(events, end=end) if streamed else answering(whole)) as server:
        response = await ask(instance(kind, server.url), on_delta=len if streamed else None)
    assert (response.content, response.finish_reason) == ("not that", "refusal")


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "number", "minimum": 0}}},
            {"type": "object", "additionalProperties": False,
             "properties": {"a": {"type": "number", "description": "{minimum: 0}"}}},
        ),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, None),
        ({"type": "object", "properties": {"a": True}}, None),
        ({"type": "object"}, None),
        ({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}}, None),
    ],
    ids=["open", "two types", "anything", "any object", "any keys inside"],
)  # fmt: skip
async def test_anthropic_is_asked_for_a_schema_in_the_form_that_it_takes(schema, sent):
    """Closed objects, other bounds in words, as its SDK has it; one that has no such form is not asked for."""
    async with serving(answering(message())) as server:
        await ask(instance(ANTHROPIC, server.url), prompt(output_schema=schema, structured_output=True))
    assert server.requests[0].json.get("output_config", {}).get("format", {}).get("schema") == sent


@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_the_models_of_a_server_are_listed(kind):
    """For `hobus provider check`: no prompt is sent."""
    listed = {"data": [{"id": "tiny", "max_model_len": 4096}, {"id": "big"}], "has_more": False}
    async with serving(by_path(models=answering(listed))) as server:
        provider = instance(kind, server.url)
        assert await provider.models(timeout_s=5) == {"big": None, "tiny": 4096}
    assert server.requests[0].method == "GET" and server.requests[0].path == "/v1/models"


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ({"max_model_len": 4096}, 4096), ({"context_length": 8192}, 8192), ({"context_window": 131072}, 131072),
        ({"max_input_tokens": 200000}, 200000), ({"meta": {"n_ctx": 2048, "n_ctx_train": 8192}}, 2048),
        ({"meta": {"n_ctx_train": 8192}}, 8192), ({}, None), ({"max_model_len": "big"}, None), ({"meta": None}, None),
    ],
)  # fmt: skip
async def test_a_server_is_asked_for_the_windows_of_its_models(said, window):
    """Once, and whoever comes first waits for it; a model that it does not tell of has none."""
    async with serving(by_path(models=answering({"data": [{"id": "tiny", **said}]}))) as server:
        provider = instance(OPENAI, server.url)
        firsts = [provider.window(name) for name in ("tiny", "other", "tiny")]
        assert await asyncio.gather(*firsts) == [window, None, window]
        assert (await provider.window("tiny"), len(server.requests)) == (window, 1)
        await provider.close()


async def test_a_list_that_does_not_come_holds_the_first_calls_up_for_a_moment_alone(monkeypatch):
    """They go on without it, and later ones have what came."""
    monkeypatch.setattr(limits, "LIST_WAIT_MS", 20)
    comes = asyncio.Event()

    async def list_late(_request, writer):
        await comes.wait()
        writer.write(whole({"data": [{"id": "tiny", "max_model_len": 4096}]}))
        await writer.drain()

    async with serving(list_late) as server:
        provider = instance(OPENAI, server.url)
        assert await provider.window("tiny") is None
        comes.set()
        await provider._looking
        assert await provider.window("tiny") == 4096
        await provider.close()


@pytest.mark.parametrize(("status", "asked"), [(404, 1), (503, 2)])
async def test_a_server_that_lists_nothing_is_asked_again_only_if_it_could_not(status, asked):
    """It may be starting; one without a list will have none."""
    async with serving(by_path(models=answering({}, status))) as server:
        provider = instance(OPENAI, server.url)
        for _ in range(2):
            assert await provider.window("tiny") is None
            await provider._looking
        assert len(server.requests) == asked


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_an_answer_that_repeats_the_key_is_told_and_recorded_without_it(kind, streamed):
    """In any of its texts, in whatever case; what was cut in two while it came is whole at the end."""
    half, arguments = len(KEY) // 2, {KEY: [f"a {KEY.upper()}"]}
    if kind is OPENAI:
        call = {
            "index": 0,
            "id": KEY,
            "type": "function",
            "function": {"name": KEY, "arguments": json.dumps(arguments)},
        }
        whole = completion(KEY, message={"tool_calls": [call]}, choice={"finish_reason": KEY})
        pieces = [
            piece(content=KEY),
            piece(content=KEY[:half]),
            piece(content=KEY[half:]),
            piece(KEY, tool_calls=[call]),
        ]
        behave = streaming([*pieces, USAGE_PIECE], end=DONE) if streamed else answering(whole)
    else:
        block = {"type": "tool_use", "id": KEY, "name": KEY, "input": arguments}
        whole = message([{"type": "text", "text": KEY}, block], stop_reason=KEY)
        deltas = [{"type": "text_delta", "text": text} for text in (KEY, KEY[:half], KEY[half:])]
        blocks = ({"type": "text", "text": ""}, deltas), (block, [])
        behave = streaming(message_events(*blocks, stop=KEY)) if streamed else answering(whole)
    told: list[str] = []
    async with serving(behave) as server:
        response = await ask(instance(kind, server.url), on_delta=told.append if streamed else None)
    assert KEY not in repr(response).lower() and response.content.startswith("(hidden)")
    (found,) = response.tool_calls
    assert (found.tool_id, found.arguments) == ("(hidden)", {"(hidden)": ["a (hidden)"]})
    assert told[:1] == ["(hidden)"] * streamed


async def test_a_short_key_is_no_secret_and_no_word_of_an_answer_is_hidden_for_it():
    """Local servers want to see `EMPTY`, or `ollama`."""
    async with serving(answering(completion("an empty answer"))) as server:
        provider = instance(OPENAI, server.url)
        provider.given = lambda: {"THE_KEY": "EMPTY"}
        assert (await ask(provider)).content == "an empty answer"


@pytest.mark.slow
@pytest.mark.parametrize("usage", ["told", "untold", "anthropic"])
async def test_an_answer_that_is_whole_does_not_wait_for_the_end_of_its_connection(usage):
    """A server that says no `[DONE]` and keeps the connection open takes nothing back by that."""
    if usage == "anthropic":
        events = message_events(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "hello"}]))
    else:
        events = [piece(content="hello"), piece("stop"), *([USAGE_PIECE] if usage == "told" else [])]
    told = streaming(events)

    async def behave(request, writer):
        await told(request, writer)
        await asyncio.sleep(60)

    async with serving(behave) as server:
        provider = instance(ANTHROPIC if usage == "anthropic" else OPENAI, server.url)
        async with asyncio.timeout(20):
            response = await ask(provider, on_delta=len, timeout_s=2)
    assert response.content == "hello" and response.usage_is_estimated is (usage == "untold")


@pytest.mark.parametrize(
    "words",
    [
        {"error": {"message": "error parsing tool call: raw='{\"a\":1,', err=unexpected end of JSON input"}},
        {"error": {"code": 500, "message": "Failed to parse tool call arguments as JSON: [json.exception]"}},
        {"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}},
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_its_server_cannot_read_is_the_models_mistake(words, streamed):
    """As one that came and cannot be read: the model is told, and no provider has failed."""
    wanted = prompt(tools=[TOOL])
    async with serving(answering(words, 500)) as server:
        provider = instance(OPENAI, server.url)
        answer = await ask(provider, wanted, on_delta=(lambda _: None) if streamed else None)
    (call,) = answer.tool_calls
    assert (answer.outcome, call.tool_id) == ("SUCCESS", "time.now") and "answered 500" in call.fault
    async with serving(answering(words, 500)) as server:
        with pytest.raises(GatewayError, match="it failed"):
            await ask(instance(OPENAI, server.url))


async def test_a_stream_may_begin_with_what_is_no_choice():
    """Azure tells of its filter first; whole, such an answer is none."""
    first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": []}
    async with serving(streaming([first, piece(content="7"), piece("stop")], end=DONE)) as server:
        assert (await ask(instance(OPENAI, server.url), on_delta=lambda _: None)).content == "7"
    async with serving(answering(first)) as server:
        with pytest.raises(GatewayError, match="no choices"):
            await ask(instance(OPENAI, server.url))


@pytest.mark.parametrize("cut", [0, 1, 3])
async def test_a_byte_order_mark_before_a_stream_is_none_of_it(cut):
    """Wherever the network cuts it."""
    told = b"\xef\xbb\xbf" + sse(piece(content="7")) + sse(piece("stop")) + DONE

    async def behave(_request, writer):
        writer.write(head(content_type="text/event-stream"))
        for part in (told[:cut], told[cut:]):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(behave) as server:
        assert (await ask(instance(OPENAI, server.url), on_delta=lambda _: None)).content == "7"


@pytest.mark.parametrize("quiet", [b"data:\n\n", b": ping\n\n", b"id: 7\n\n", b"retry: 3000\n\n", b"event: ping\n\n"])
async def test_an_event_that_says_nothing_is_passed_over(quiet):
    """A server shows by it that it lives."""

    async def behave(_request, writer):
        writer.write(head(content_type="text/event-stream") + quiet + sse(piece(content="7")) + quiet)
        writer.write(sse(piece("stop")) + quiet + DONE)
        await writer.drain()

    async with serving(behave) as server:
        assert (await ask(instance(OPENAI, server.url), on_delta=lambda _: None)).content == "7"


async def test_a_stream_that_says_it_is_done_is_whole_though_it_does_not_say_why():
    """Cut off before that word, or done without a word of an answer, it is no answer."""
    said = [piece(content="se"), piece(content="ven")]
    async with serving(streaming(said, end=DONE)) as server:
        answer = await ask(instance(OPENAI, server.url), on_delta=lambda _: None)
        assert (answer.content, answer.finish_reason) == ("seven", "stop")
    for events, end in ((said, b""), ([piece(content="")], DONE), ([], DONE)):
        async with serving(streaming(events, end=end)) as server:
            with pytest.raises(GatewayError, match="ended before it was finished"):
                await ask(instance(OPENAI, server.url), on_delta=lambda _: None)


async def test_a_model_streams_again_after_an_answer_that_closed_thinking_that_it_never_opened():
    """It is held back for as long as its newest answer did so."""
    texts = ["hm\n</think>\n\n7", "plain", "plain"]

    async def behave(request, writer):
        pieces = [piece(content=letter) for letter in texts[len(server.requests) - 1]]
        await streaming([*pieces, piece("stop")], end=DONE)(request, writer)

    async with serving(behave) as server:
        provider, told = instance(OPENAI, server.url), []
        for _ in texts:
            told.append([])
            await ask(provider, on_delta=told[-1].append)
    assert (told[1], len(told[2])) == ([], len("plain"))
    assert [type(one) for one in told[0]].count(Anew) == 1
    last = max(place for place, one in enumerate(told[0]) if isinstance(one, Anew))
    assert ("".join(told[0][:last]).strip(), "".join(told[0][last:])) == ("hm", "7")


UNPRICED = dict.fromkeys(("input_usd_per_million", "output_usd_per_million", "cached_usd_per_million"))


async def test_a_stream_of_a_model_that_thinks_first_tells_nothing_of_its_thinking():
    """Not even the first one, as its row says so."""
    said = [piece(content=letter) for letter in "hm\n</think>\n\n7!"]
    async with serving(streaming([*said, piece("stop")], end=DONE)) as server:
        row = {"model_id": "tiny", "sees": False, "thinks_first": True, **UNPRICED}
        provider, told = instance(OPENAI, server.url, models=[row]), []
        answer = await ask(provider, on_delta=told.append)
    assert ("".join(told), answer.content) == ("7!", "7!")


THINKS = ({"type": "thinking", "thinking": ""}, [{"type": "thinking_delta", "thinking": "t" * 40}])
STARTED = [event for event in message_events(THINKS) if event[0] != "ping"][:3]


@pytest.mark.parametrize(
    ("kind", "events", "used"),
    [
        (ANTHROPIC, STARTED[:1], (20, 1, 8)),
        (ANTHROPIC, STARTED, (20, 10, 8)),
        (OPENAI, [piece(content="x" * 40), {"choices": [], "usage": {"prompt_tokens": 7}}], (7, 10, 0)),
        (OPENAI, [piece(content="x" * 40)], (2, 10, 0)),
        (OPENAI, [piece(content="<think>" + "t" * 40)], (2, 10, 0)),
    ],
)
async def test_a_stream_that_is_given_up_says_what_it_has_used(monkeypatch, kind, events, used):
    """What its provider said of that by then, thoughts included; the rest by its length."""
    is_read, heard, left = asyncio.Event(), list[str](), [*events]
    add = AnswerReader.add

    def count(self, event):
        left.pop()
        if not left:
            is_read.set()
        return add(self, event)

    async def behave(request, writer):
        await streaming(events)(request, writer)
        await asyncio.Event().wait()

    monkeypatch.setattr(AnswerReader, "add", count)
    async with serving(behave) as server:
        call = asyncio.ensure_future(ask(instance(kind, server.url), on_delta=heard.append))
        await is_read.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert isinstance(told := heard[-1], Used) and told == ""
    assert tuple(told.tokens.values()) == used
