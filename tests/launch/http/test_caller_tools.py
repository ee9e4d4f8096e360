"""Tools of the client through the door, by OpenAI's own client: chat completions and responses, streamed and whole."""

import json

import pytest

from hobus.bus.messages.session import CallerCall
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from hobus.launch.http import openai_answers, openai_requests, transcript
from hobus.launch.http.problems import Problem
from hobus.launch.http.transcript import Called, TranscriptMessage
from tests.launch.http.door import sdk

pytestmark = pytest.mark.slow

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather of a city.", "parameters": CITY}
TOOLS = [{"type": "function", "function": WEATHER}]
FLAT = [{"type": "function", **WEATHER}]
ASKS = 'use get_weather {"city": "Bern"}'


def sessions(door):
    """The sessions of the inputs that the record has, in order."""
    return [entry.provenance.session_id for entry in door.requested()]


def test_a_call_is_handed_to_the_client_and_its_result_answered(door):
    """One session, found by its transcript; what else the client may say of itself is its own."""

    async def work():
        client = door.openai()
        said = [{"role": "system", "content": "be brief"}, {"role": "user", "content": ASKS}]
        first = await client.chat.completions.create(model="ADMIN", messages=said, tools=TOOLS)
        [call] = first.choices[0].message.tool_calls
        asking = first.choices[0].message.model_dump(exclude_none=True)
        asking["tool_calls"][0]["function"]["arguments"] = json.dumps(json.loads(call.function.arguments), indent=1)
        said += [asking, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        second = await client.chat.completions.create(model="ADMIN", messages=said, tools=TOOLS)
        said += [second.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "thanks"}]
        third = await client.chat.completions.create(model="ADMIN", messages=said, tools=TOOLS)
        return first, call, second, third

    first, call, second, third = door.run(work())
    assert first.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Bern"})
    assert first.choices[0].message.content is None
    assert second.choices[0].finish_reason == "stop"
    assert second.choices[0].message.content == "get_weather: sunny"
    assert sessions(door) == [first.session_id] * 3
    assert third.session_id == first.session_id


def test_a_streamed_call_comes_with_its_arguments_and_goes_on_at_any_door(door):
    """The SDK puts it together; the transcript that counts has the call in it."""

    async def work():
        said = [{"role": "user", "content": ASKS}]
        stream = await door.openai().chat.completions.create(model="ADMIN", messages=said, tools=TOOLS, stream=True)
        chunks = [chunk async for chunk in stream]
        [delta] = [chunk.choices[0].delta.tool_calls[0] for chunk in chunks if chunk.choices[0].delta.tool_calls]
        said += [
            {"role": "assistant", "content": "", "tool_calls": [delta.model_dump(exclude={"index"})]},
            {"role": "tool", "tool_call_id": delta.id, "content": "sunny"},
        ]
        stream = await door.openai(app=1).chat.completions.create(
            model="ADMIN", messages=said, tools=TOOLS, stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        return chunks, delta, text

    door.apps.append(door.open())
    chunks, delta, text = door.run(work())
    assert (delta.index, delta.function.name, delta.type) == (0, "get_weather", "function")
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert text == "get_weather: sunny"
    assert sessions(door) == [chunks[0].session_id] * 2


@pytest.mark.parametrize("is_named", [False, True], ids=["by transcript", "by the response before"])
def test_responses_hand_out_calls(door, is_named):
    """Items of their own, whole and streamed; results are items too."""

    async def work():
        client = door.openai()
        first = await client.responses.create(model="ADMIN", input=ASKS, tools=FLAT)
        [item] = first.output
        result = {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}
        given = [result] if is_named else [{"role": "user", "content": ASKS}, item.model_dump(), result]
        stream = await client.responses.create(
            model="ADMIN", input=given, tools=FLAT, stream=True,
            previous_response_id=first.id if is_named else sdk().omit,
        )  # fmt: skip
        second = [event async for event in stream]
        stream = await client.responses.create(model="ADMIN", input=ASKS, tools=FLAT, stream=True)
        return first, item, second, [event async for event in stream]

    first, item, second, streamed = door.run(work())
    assert (first.output_text, item.type, item.name) == ("", "function_call", "get_weather")
    assert json.loads(item.arguments) == {"city": "Bern"}
    assert second[-1].response.output_text == "get_weather: sunny"
    assert [event.sequence_number for event in second] == list(range(len(second)))
    assert sessions(door)[:2] == [first.session_id] * 2
    assert [event.type for event in streamed] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.function_call_arguments.delta", "response.function_call_arguments.done",
        "response.output_item.done", "response.completed",
    ]  # fmt: skip
    [whole] = streamed[-1].response.output
    assert whole.model_dump() == streamed[-2].item.model_dump()


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ("auto", None),
        ("none", None),
        ("required", "get_weather"),
        ({"type": "function", "function": {"name": "get_time"}}, "get_time"),
    ],
)
def test_the_choice_of_a_tool_is_kept(door, choice, called):
    """What has to be called is called, whatever the message says; where none may be, none is offered."""
    tools = [*TOOLS, {"type": "function", "function": {"name": "get_time", "parameters": CITY}}]

    async def work():
        said = [{"role": "user", "content": "hello"}]
        return await door.openai().chat.completions.create(
            model="ADMIN", messages=said, tools=tools, tool_choice=choice
        )

    message = door.run(work()).choices[0].message
    assert [call.function.name for call in message.tool_calls or ()] == ([called] if called else [])


@pytest.mark.parametrize("arguments", ['{"city": "Bern"}', "", "no JSON"])
def test_calls_that_a_client_tells_of_reach_the_model_as_calls_with_their_results(door, monkeypatch, arguments):
    """By their ids, in the order of the calls; what cannot be read as a call is told in words."""
    asked = []
    monkeypatch.setattr(OfflineProvider, "complete", hear(asked, OfflineProvider.complete))

    async def work():
        calls = [
            {"id": f"call_{name}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
            for name in "xy"
        ]
        said = [
            {"role": "user", "content": ASKS},
            {"role": "assistant", "content": "I look.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_y", "content": "rainy"},
            {"role": "tool", "tool_call_id": "call_x", "content": "sunny"},
        ]
        return await door.openai().chat.completions.create(model="ADMIN", messages=said, tools=TOOLS)

    assert door.run(work()).outcome == "success"
    told = [
        (one.role, one.text, [(call.provider_call_id, call.arguments) for call in one.tool_calls], one.tool_call_id)
        for one in asked[-1].messages
        if one.role != "system"
    ]
    if arguments == "no JSON":
        text = "I look. [asked for get_weather no JSON as call_x] [asked for get_weather no JSON as call_y]"
        assert told[1:3] == [("assistant", text, [], ""), ("user", "tool (call_y): rainy", [], "")]
    else:
        given = json.loads(arguments or "{}")
        assert told == [
            ("user", ASKS, [], ""),
            ("assistant", "I look.", [("call_x", given), ("call_y", given)], ""),
            ("tool", "sunny", [], "001"),
            ("tool", "rainy", [], "002"),
            ("user", "Go on with these results.", [], ""),
        ]


def test_what_a_model_says_beside_calls_for_its_client_stands_in_later_prompts(door, monkeypatch):
    """Two rounds of the client's calls in one turn; what comes after begins with the same messages."""
    asked, calling, complete = [], [], OfflineProvider.complete

    async def told(self, prompt, **how):
        response = await complete(self, prompt, **how)
        calling.extend([response] if response.tool_calls else [])
        rounds = sum(one.role == "tool" for one in prompt.messages)
        if not calling or rounds > 1 or prompt.messages[-1].text == "thanks":
            return response
        return calling[0].model_copy(update={"content": f"I look, {rounds}."})

    monkeypatch.setattr(OfflineProvider, "complete", hear(asked, told))

    async def work():
        said, client = [{"role": "user", "content": ASKS}], door.openai()
        for message in (None, None, {"role": "user", "content": "thanks"}, None):
            answer = await client.chat.completions.create(model="ADMIN", messages=said, tools=TOOLS)
            said.append(answer.choices[0].message.model_dump(exclude_none=True))
            calls = answer.choices[0].message.tool_calls or ()
            said += [{"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls]
            said += [message] if message else []

    door.run(work())
    assert len(set(sessions(door))) == 1
    shown = [[(one.role, one.text) for one in prompt.messages if one.role != "system"] for prompt in asked]
    last = shown[-1]
    assert [text for role, text in last if role == "assistant"][:2] == ["I look, 0.", "I look, 1."]
    assert last[-1] == ("user", "thanks") and shown[3] == last[: len(shown[3])]


def hear(asked, complete):
    """A model's call that also says what it is asked."""

    async def heard(self, prompt, **how):
        asked.append(prompt)
        return await complete(self, prompt, **how)

    return heard


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter"),
        ({"tools": [{"type": "function", "function": {"name": 1}}]}, "invalid_input"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "invalid_input"),
        ({"tools": [{"type": "function", "function": {"name": "list_tools"}}]}, "tool_name_taken"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "invalid_input"),
        ({"tools": TOOLS, "tool_choice": {"type": "allowed_tools"}}, "unsupported_parameter"),
        ({"tool_choice": "required"}, "invalid_input"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "invalid_input"),
    ],
)
def test_tools_that_cannot_be_are_refused_by_name(door, more, code):
    """400, in OpenAI's shape."""

    async def work():
        asked = {"model": "ADMIN", "messages": [{"role": "user", "content": ASKS}]} | more
        with pytest.raises(sdk().BadRequestError) as refused:
            await door.openai().chat.completions.create(**asked)
        return refused.value

    assert door.run(work()).code == code


def test_results_that_do_not_fit_a_named_session_are_refused(door):
    """Nothing is open in it."""

    async def work():
        client = door.openai()
        first = await client.chat.completions.create(model="ADMIN", messages=[{"role": "user", "content": "hello"}])
        with pytest.raises(sdk().BadRequestError) as refused:
            await client.chat.completions.create(
                model="ADMIN", messages=[{"role": "tool", "tool_call_id": "call_x", "content": "1"}],
                extra_headers={"X-Hobus-Session": first.session_id},
            )  # fmt: skip
        return refused.value

    refused = door.run(work())
    assert (refused.code, "open" in refused.message) == ("invalid_input", True)


def test_native_turns_bring_tools_and_results(door):
    """The TurnResult as it is."""

    async def work():
        async with door.http() as client:
            session = (await client.post("/v1/sessions", json={})).json()["session_id"]
            tool = {"tool_id": "get_weather", "description": "", "parameters": CITY}
            asked = {"text": ASKS, "run_overrides": {"caller_tools": [tool]}}
            first = (await client.post(f"/v1/sessions/{session}/turns", json=asked)).json()
            [call] = first["caller_calls"]
            given = {"results": [{"tool_call_id": call["tool_call_id"], "content": "sunny"}]}
            return call, (await client.post(f"/v1/sessions/{session}/turns", json=given)).json()

    call, second = door.run(work())
    assert (call["name"], call["arguments"]) == ("get_weather", {"city": "Bern"})
    assert second["response"] == "get_weather: sunny"


def test_a_transcript_is_known_by_what_its_calls_mean():
    """Arguments that a client wrote anew are the same; another value, id or result is another transcript."""

    def hashed(arguments='{"a": 1, "b": 2}', call_id="call_1", result="x"):
        said = [
            TranscriptMessage("user", "q"), TranscriptMessage("assistant", "", (Called(call_id, "f", arguments),)),
            TranscriptMessage("tool", result, call_id=call_id),
        ]  # fmt: skip
        return transcript.derive_transcript_id("alice", said)

    assert hashed() == hashed('{"b":2,"a":1}')
    assert len({hashed(), hashed("{}"), hashed("no json"), hashed(call_id="call_2"), hashed(result="y")}) == 5


def test_results_are_what_a_transcript_ends_with():
    """In their order; a message behind them is what is answered."""
    said = [
        TranscriptMessage("user", "q"),
        TranscriptMessage("tool", "1", call_id="a"),
        TranscriptMessage("tool", "2", call_id="b"),
    ]
    assert [(one.tool_call_id, one.content) for one in openai_requests.list_results(said)] == [("a", "1"), ("b", "2")]
    assert openai_requests.list_results([*said, TranscriptMessage("user", "and?")]) == []


def test_arguments_are_json_text():
    """Which clients read."""
    call = CallerCall(tool_call_id="call_1", name="f", arguments={"city": "Zürich"})
    assert openai_answers.make_tool_calls([call])[0]["function"] == {"name": "f", "arguments": '{"city": "Zürich"}'}
    with pytest.raises(Problem):
        openai_requests.read_tools([7], None)
