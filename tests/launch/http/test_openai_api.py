"""The door as OpenAI's own client meets it, over the whole simulated cluster."""

import asyncio
from dataclasses import replace

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.work_order import Sampling
from hobus.bus.record.journal import read_event
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptSent
from tests.launch.http.door import SimulatedDoor, sdk

pytestmark = pytest.mark.slow

ASKED = "what packages are installed?"


def test_a_completion_is_a_session_turn(door):
    """Words, usage, outcome, and a run in the record."""

    async def work():
        return await door.openai().chat.completions.create(model="ADMIN", messages=[{"role": "user", "content": ASKED}])

    answer = door.run(work())
    assert "PKG-" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    assert answer.outcome == "success"
    assert [entry.provenance.session_id for entry in door.requested()] == [answer.session_id]


def test_a_transcript_goes_on_in_its_session_and_a_changed_one_does_not(door):
    """Exactly the messages as delivered: the same session, at any door; one word off, or a branch: a new one."""

    async def work():
        client = door.openai()
        messages = [{"role": "user", "content": ASKED}]
        first = await client.chat.completions.create(model="ADMIN", messages=messages)
        said = [*messages, {"role": "assistant", "content": first.choices[0].message.content}]
        again = [*said, {"role": "user", "content": "what did I ask before?"}]
        second = await door.openai(app=1).chat.completions.create(model="ADMIN", messages=again)
        branch = await client.chat.completions.create(model="ADMIN", messages=again)
        changed = [{"role": "user", "content": ASKED + " "}, *again[1:]]
        other = await client.chat.completions.create(model="ADMIN", messages=changed)
        stranger = await door.openai("bob").chat.completions.create(model="ADMIN", messages=again)
        return first, second, branch, other, stranger

    door.apps.append(door.open())
    first, second, branch, other, stranger = door.run(work())
    assert second.session_id == first.session_id
    assert ASKED in second.choices[0].message.content
    assert len({first.session_id, branch.session_id, other.session_id, stranger.session_id}) == 4


UUID = "0b7a4c7e-8f0e-4c8e-9a53-2a54b6a0f0aa"


@pytest.mark.parametrize(
    ("named", "principal"),
    [
        ({"user": "bob"}, "key/alice/bob"),
        ({"extra_body": {"safety_identifier": "bob"}}, "key/alice/bob"),
        ({"extra_headers": {"X-OpenWebUI-User-Id": UUID}}, f"key/alice/{UUID}"),
        ({"extra_headers": {"X-Hobus-User": "carol"}, "user": "bob"}, "key/alice/carol"),
        ({"user": ""}, "key/alice"),
        ({"user": "Bob <bob@example.org>"}, "key/alice/u-cee807a550a0fc43ed59a2a3fafe81f7"),
    ],
)
def test_a_user_whom_a_client_names_is_a_principal_below_its_key(door, named, principal):
    """By OpenAI's fields or a header: what is asked is that person's, and no other user of the key goes on with it."""

    async def work():
        said = [{"role": "user", "content": ASKED}]
        first = await door.openai().chat.completions.create(model="ADMIN", messages=said, **named)
        said = [*said, {"role": "assistant", "content": first.choices[0].message.content}]
        said = [*said, {"role": "user", "content": "hello"}]
        again = await door.openai().chat.completions.create(model="ADMIN", messages=said, **named)
        other = await door.openai().chat.completions.create(model="ADMIN", messages=said, user="somebody-else")
        return first.session_id, again.session_id, other.session_id

    first, again, other = door.run(work())
    assert first == again != other
    asked = [read_event(entry).event for entry in door.requested()]
    assert [one.principal for one in asked[:2]] == [f"client/{principal}"] * 2
    began = next(entry for entry in door.cluster.entries() if entry.event_type == "SESSION_START")
    assert read_event(began).event.principal == principal


def test_a_transcript_does_not_go_on_with_another_agent():
    """Whoever names another agent gets that one, in a session of its own, with the history; and goes on there."""
    shipped = shipped_snapshot()
    agent = shipped.agents["ADMIN"]
    snapshot = replace(shipped, agents={"ADMIN": agent, "OTHER": agent.model_copy(update={"agent_id": "OTHER"})})

    async def work(door):
        said, found = [], []
        for model in ("ADMIN", "OTHER", "OTHER", "ADMIN"):
            said = [*said, {"role": "user", "content": "hello"}]
            answer = await door.openai().chat.completions.create(model=model, messages=said)
            said = [*said, {"role": "assistant", "content": answer.choices[0].message.content}]
            found.append(answer.session_id)
        return found

    with SimulatedDoor(snapshot) as door:
        first, second, third, fourth = door.run(work(door))
    assert second == third and len({first, second, fourth}) == 3


def test_a_stream_is_the_answer_in_pieces_and_can_be_gone_on_with(door):
    """What came in pieces is the transcript that the next message is recognised by."""

    async def work():
        client = door.openai()
        stream = await client.chat.completions.create(
            model="ADMIN", messages=[{"role": "user", "content": ASKED}], stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        second = await client.chat.completions.create(
            model="ADMIN",
            messages=[
                {"role": "user", "content": ASKED}, {"role": "assistant", "content": text},
                {"role": "user", "content": "what did I ask before?"},
            ],
        )  # fmt: skip
        return chunks, text, second

    chunks, text, second = door.run(work())
    assert "PKG-" in text
    assert len([chunk for chunk in chunks if chunk.choices]) >= 3
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-2].outcome == "success"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0
    assert second.session_id == chunks[0].session_id


def test_who_still_waits_when_a_door_has_no_more_time_is_told_so(door):
    """Whole, streamed, native, and whoever comes late: the words of the protocol, and when to ask again."""
    said = {"model": "ADMIN", "messages": [{"role": "user", "content": ASKED}]}

    async def work():
        http, closing = door.http(), door.doors[0]
        asked = [
            asyncio.ensure_future(http.post("/v1/chat/completions", json=said | {"stream": is_streamed}))
            for is_streamed in (False, True)
        ]
        while closing.turns_under_way < 2:
            await asyncio.sleep(0.001)
        closing.give_up()
        return [await one for one in asked] + [await http.post("/v1/chat/completions", json=said)]

    whole, streamed, late = door.run(work())
    for one in (whole, streamed, late):
        assert (one.status_code, one.json()["error"]["code"]) == (503, "door_closing")
        assert one.headers["retry-after"] == "1"


def test_what_is_wrong_before_the_first_piece_has_its_status_in_a_stream_too(door):
    """Both APIs: a blank message, other words under a key, a key with too many turns; openai raises what it is."""

    async def work():
        client, found = door.openai(), []
        key = {"Idempotency-Key": "k"}
        await client.responses.create(model="ADMIN", input=ASKED, extra_headers=key)
        await client.chat.completions.create(
            model="ADMIN", messages=[{"role": "user", "content": ASKED}], extra_headers=key
        )
        for text, headers, expected in ((" ", {}, sdk().BadRequestError), ("hello", key, sdk().ConflictError)):
            with pytest.raises(expected) as chat:
                await client.chat.completions.create(
                    model="ADMIN", messages=[{"role": "user", "content": text}], stream=True, extra_headers=headers
                )
            with pytest.raises(expected) as response:
                await client.responses.create(model="ADMIN", input=text, stream=True, extra_headers=headers)
            found += [chat.value.code, response.value.code]
        return found

    assert door.run(work()) == ["invalid_input", "invalid_input", "input_conflict", "input_conflict"]


def test_what_can_be_no_turn_leaves_no_session(door):
    """Blank, also behind other messages, or larger than a turn may be: refused with the field, nothing recorded."""
    most = door.doors[0].config.host.prompt_max_bytes
    earlier = {"role": "user", "content": "my name is Zaphod"}

    async def work():
        async with door.http() as http:
            said = [" ", "", [{"type": "text", "text": " "}], "x" * (most + 1)]
            asked = [[{"role": "user", "content": one}] for one in said] + [[earlier, {"role": "user", "content": " "}]]
            chats = [await http.post("/v1/chat/completions", json={"model": "ADMIN", "messages": one}) for one in asked]
            blank = await http.post("/v1/responses", json={"model": "ADMIN", "input": " "})
            return [(one.status_code, one.json()["error"]["param"]) for one in (*chats, blank)]

    found = door.run(work())
    assert found == [*[(400, "messages")] * 3, (413, "messages"), (400, "messages"), (400, "input")]
    assert not [entry for entry in door.cluster.entries() if entry.stream.startswith("session/")]


def test_every_message_behind_a_previous_response_reaches_the_turn(door):
    """Also those before the last one; beside results of calls there can be none."""

    async def work():
        client = door.openai()
        first = await client.responses.create(model="ADMIN", input=ASKED)
        given = [{"role": "user", "content": "my name is Zaphod"}, {"role": "user", "content": "hello"}]
        await client.responses.create(model="ADMIN", input=given, previous_response_id=first.id)
        result = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
        with pytest.raises(sdk().BadRequestError) as refused:
            await client.responses.create(model="ADMIN", input=[given[0], result], previous_response_id=first.id)
        return refused.value.code

    assert door.run(work()) == "unsupported_parameter"
    told = [body for entry in door.requested() for body in entry.bodies]
    assert any(b"Zaphod" in (body or b"") for body in told)


def test_the_same_key_gets_the_same_answer_once(door):
    """A retry under one Idempotency-Key, also at another door, is the same turn; another text under it is a conflict."""

    async def work():
        key = {"Idempotency-Key": "order 66"}
        said = [{"role": "user", "content": ASKED}]
        one = await door.openai().chat.completions.create(model="ADMIN", messages=said, extra_headers=key)
        two = await door.openai(app=1).chat.completions.create(model="ADMIN", messages=said, extra_headers=key)
        bobs = await door.openai("bob").chat.completions.create(model="ADMIN", messages=said, extra_headers=key)
        other = [{"role": "user", "content": "is the ledger intact?"}]
        with pytest.raises(sdk().ConflictError) as conflict:
            await door.openai().chat.completions.create(model="ADMIN", messages=other, extra_headers=key)
        return one, two, bobs, conflict.value

    door.apps.append(door.open())
    one, two, bobs, conflict = door.run(work())
    assert (one.id, one.choices[0].message.content) == (two.id, two.choices[0].message.content)
    assert bobs.session_id != one.session_id
    assert len(door.requested()) == 2
    assert conflict.code == "input_conflict"


@pytest.mark.parametrize("own", [{}, {"Idempotency-Key": "ORDER 66"}], ids=["no key", "a key"])
def test_an_input_id_that_was_told_is_a_key_for_its_turn(door, own):
    """Who is told to ask again under an input id asks for that turn and not for another one."""

    async def work():
        said = [{"role": "user", "content": ASKED}]
        create = door.openai().chat.completions.with_raw_response.create
        first = await create(model="ADMIN", messages=said, extra_headers=own)
        key = {"Idempotency-Key": first.headers["x-hobus-input"]}
        return first.parse(), (await create(model="ADMIN", messages=said, extra_headers=key)).parse()

    one, two = door.run(work())
    assert (one.id, one.session_id) == (two.id, two.session_id)
    assert len(door.requested()) == 1


def test_the_same_key_gets_the_same_answer_after_the_conversation_has_gone_on(door):
    """A late retry of an earlier message: its own answer, in its session, and nothing is asked again; in both APIs."""

    async def work():
        client, said, asked = door.openai(), [], []
        for number in range(2):
            said = [*said, {"role": "user", "content": f"hello {number}"}]
            headers = {"Idempotency-Key": f"k{number}"}
            asked.append({"model": "ADMIN", "messages": said, "extra_headers": headers})
            answer = await client.chat.completions.create(**asked[-1])
            said = [*said, {"role": "assistant", "content": answer.choices[0].message.content}]
            asked[-1] = (asked[-1], answer)
        again = [await client.chat.completions.create(**one) for one, _answer in asked]
        first = await client.responses.create(model="ADMIN", input="hello", extra_headers={"Idempotency-Key": "r0"})
        second = {
            "model": "ADMIN", "input": "and you?", "previous_response_id": first.id,
            "extra_headers": {"Idempotency-Key": "r1"},
        }  # fmt: skip
        two = await client.responses.create(**second)
        await client.responses.create(model="ADMIN", input="bye", previous_response_id=two.id)
        return (
            [answer.id for _one, answer in asked],
            [one.id for one in again],
            two.id,
            (await client.responses.create(**second)).id,
        )

    ids, again, two, repeated = door.run(work())
    assert again == ids and repeated == two
    assert len(door.requested()) == 5


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"model": "nobody"}, 404, "model_not_found"),
        ({"n": 2}, 400, "unsupported_parameter"),
        ({"response_format": {"type": "grammar"}}, 400, "unsupported_parameter"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "invalid_input"),
        ({"messages": []}, 400, "invalid_input"),
        ({"messages": [{"role": "user", "content": "   "}]}, 400, "invalid_input"),
        ({"max_tokens": -1}, 400, "invalid_input"),
        ({"extra_headers": {"X-Hobus-Session": "SES-nothing"}}, 404, "session_not_found"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_by_name(door, more, status, code):
    """In OpenAI's shape, and nothing is run."""

    async def work():
        asked = {"model": "ADMIN", "messages": [{"role": "user", "content": ASKED}]} | more
        with pytest.raises(sdk().APIStatusError) as refused:
            await door.openai().chat.completions.create(**asked)
        return refused.value

    refused = door.run(work())
    assert (refused.status_code, refused.code) == (status, code)
    assert door.requested() == []


def test_what_is_not_kept_is_named(door):
    """This is no native turn: a client is told what of its own was left out."""

    async def work():
        return await door.openai().chat.completions.with_raw_response.create(
            model="offline/offline-rules-1", messages=[{"role": "user", "content": ASKED}], presence_penalty=1,
            extra_body={"attention_template": "ATT-NOPE-001", "min_p": 0.1, "made_up": {}, "bad\nname": 1, "top_k": None},
        )  # fmt: skip

    answer = door.run(work())
    assert answer.headers["x-hobus-ignored"] == "attention_template,made_up,min_p,presence_penalty"
    assert answer.headers["x-hobus-outcome"] == "success"


def test_of_metadata_a_sessions_id_is_used_and_the_rest_named(door):
    """A client that keeps its own facts there is told that nobody reads them."""
    messages = [{"role": "user", "content": ASKED}]

    async def work(metadata):
        return await door.openai().chat.completions.with_raw_response.create(
            model="ADMIN", messages=messages, metadata=metadata
        )

    first = door.run(work({"chat": "7"}))
    session_id = first.headers["x-hobus-session"]
    assert first.headers["x-hobus-ignored"] == "metadata.chat"
    for metadata, ignored in (({"session_id": session_id}, None), ({"session_id": session_id, "a": "b"}, "metadata.a")):
        again = door.run(work(metadata))
        assert (again.headers["x-hobus-session"], again.headers.get("x-hobus-ignored")) == (session_id, ignored)


def test_what_is_not_kept_is_named_at_any_depth(door):
    """Of messages, their parts and calls, of options; what is read is not among them."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "first", "name": "anna"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
        {"role": "user", "content": [{"type": "text", "text": ASKED, "cache_control": {"type": "ephemeral"}}]},
    ]

    async def work():
        client = door.openai()
        chat = await client.chat.completions.with_raw_response.create(model="ADMIN", messages=messages, stream=False)
        asked = {"effort": "low", "summary": "auto"}
        reply = await client.responses.with_raw_response.create(
            model="ADMIN", input=ASKED, reasoning=asked, text={"verbosity": "low"}
        )
        tools = [{"type": "function", "function": {"name": "look"}}]
        errand = await client.chat.completions.with_raw_response.create(
            model="ADMIN", messages=[{"role": "user", "content": "### Task: a title"}], tools=tools
        )
        return [one.headers["x-hobus-ignored"] for one in (chat, reply, errand)]

    named = ["messages.content.cache_control,messages.name", "reasoning.summary,text.verbosity", "tools"]
    assert door.run(work()) == named


@pytest.mark.parametrize("takes", [True, False])
def test_how_an_answer_is_drawn_is_the_caller_s_where_the_agent_takes_it(takes):
    """An evaluation at 0 runs at 0; what its contract alone says, or the offline model has no use for, is named."""
    shipped = shipped_snapshot()
    agent = shipped.agents["ADMIN"].model_copy(update={"takes_sampling": takes})

    async def work(door):
        return await door.openai().chat.completions.with_raw_response.create(
            model="ADMIN",
            messages=[{"role": "user", "content": "hello"}],
            temperature=0.0,
            top_p=0.5,
            seed=7,
            stop="END",
        )

    with SimulatedDoor(replace(shipped, agents={"ADMIN": agent})) as door:
        answer = door.run(work(door))
        sent = [
            read_payload(PromptSent, entry) for entry in door.cluster.entries() if entry.event_type == "PROMPT_SENT"
        ]
    asked = [one for one in sent if one.contract_id == "PRC-SYNTHESIZE-001"]
    wanted = Sampling(temperature=0.0, top_p=0.5, seed=7, stop=["END"])
    assert asked and all(one.sampling == (wanted if takes else None) for one in asked)
    assert all((one.temperature == 0.0) is takes for one in asked)
    assert answer.headers.get("x-hobus-ignored", "") == "temperature,top_p,seed,stop"


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
@pytest.mark.parametrize("more", [0, 1])
def test_a_cap_above_the_contracts_is_said_to_be_cut(field, more):
    """The contract's holds; a client that asked for a longer answer reads so."""
    snapshot = shipped_snapshot()
    cap = snapshot.contracts["PRC-SYNTHESIZE-001"].boundary.max_tokens + more

    async def work(door):
        client = door.openai()
        if field == "max_output_tokens":
            return await client.responses.with_raw_response.create(model="ADMIN", input="hello", max_output_tokens=cap)
        hello = [{"role": "user", "content": "hello"}]
        return await client.chat.completions.with_raw_response.create(model="ADMIN", messages=hello, **{field: cap})

    with SimulatedDoor(snapshot) as door:
        answer = door.run(work(door))
    assert answer.headers.get("x-hobus-ignored") == (field if more else None)


@pytest.mark.parametrize(
    "drawn",
    [
        {"temperature": 0, "top_p": 0, "seed": 0, "stop": "\n"},
        {"temperature": 2, "top_p": 1, "seed": -(2**63), "stop": ["\n\n", " ", "a", "b"]},
        {"seed": -5},
        {"seed": 2**63 - 1, "stop": None},
    ],
)
def test_every_value_that_openai_takes_is_taken_to_the_prompt(door, drawn):
    """Zero is a value, seeds are any 64 bits, and a line's end is what many answers stop at."""
    body = {"model": "ADMIN", "messages": [{"role": "user", "content": "hello"}], **drawn}
    said = {"model": "ADMIN", "input": "hello", **{name: drawn[name] for name in drawn if name != "stop"}}

    async def work():
        async with door.http() as http:
            responses = await http.post("/v1/responses", json=said)
            return responses, await http.post("/v1/chat/completions", json=body)

    assert [answer.status_code for answer in door.run(work())] == [200, 200]
    sent = [read_payload(PromptSent, entry) for entry in door.cluster.entries() if entry.event_type == "PROMPT_SENT"]
    asked = [one.sampling for one in sent if one.contract_id == "PRC-SYNTHESIZE-001"][-1]
    stop = drawn.get("stop") or []
    assert asked == Sampling(**{**drawn, "stop": [stop] if isinstance(stop, str) else stop})


@pytest.mark.parametrize(
    ("said", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": -0.1}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"stop": ["a"] * 5}, "stop"),
    ],
)
def test_what_no_model_draws_by_is_refused(door, said, param):
    """400, which names the field."""

    async def work():
        body = {"model": "ADMIN", "messages": [{"role": "user", "content": "hello"}], **said}
        async with door.http() as http:
            return await http.post("/v1/chat/completions", json=body)

    answer = door.run(work())
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_responses_go_on_from_the_one_before(door):
    """`previous_response_id` names the session; only its newest response can be gone on from."""

    async def work():
        client = door.openai()
        one = await client.responses.create(model="ADMIN", input=ASKED)
        stream = await client.responses.create(
            model="ADMIN", input="what did I ask before?", previous_response_id=one.id, stream=True
        )
        events = [event async for event in stream]
        with pytest.raises(sdk().ConflictError) as branch:
            await client.responses.create(model="ADMIN", input="hello", previous_response_id=one.id)
        with pytest.raises(sdk().NotFoundError):
            await door.openai("bob").responses.create(model="ADMIN", input="hello", previous_response_id=one.id)
        return one, events, branch.value

    one, events, branch = door.run(work())
    assert "PKG-" in one.output_text
    whole = events[-1].response
    assert whole.status == "completed" and ASKED in whole.output_text
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert whole.session_id == one.session_id
    assert branch.code == "not_the_newest"


def test_models_are_agents_and_routes(door):
    """What a client may name."""

    async def work():
        return [row.id for row in (await door.openai().models.list()).data]

    assert door.run(work()) == ["ADMIN", "offline/offline-rules-1"]


def test_without_a_key_nothing_is_said(door):
    """401, in OpenAI's shape."""

    async def work():
        with pytest.raises(sdk().AuthenticationError) as refused:
            await door.openai("mallory").models.list()
        return refused.value

    assert door.run(work()).code == "invalid_api_key"


def test_a_chat_clients_errand_is_one_call_of_the_model_and_leaves_no_session_open(door):
    """No tools, not even the client's own, context, classification or lesson; the next message is no turn of its session.

    Words alone are no errand.
    """

    async def work(text, **more):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        answer = await door.openai().chat.completions.create(model="ADMIN", messages=messages, **more)
        said = [*messages, {"role": "assistant", "content": answer.choices[0].message.content}]
        said += [{"role": "user", "content": "and what did I ask before?"}]
        return answer, await door.openai().chat.completions.create(model="ADMIN", messages=said)

    theirs = {"tools": [{"type": "function", "function": {"name": "look"}}], "tool_choice": "required"}
    title = f"### Task:\nSuggest a title.\n<chat_history>\n{ASKED}\n</chat_history>"
    errand, behind = door.run(work(title, **theirs))
    told, behind_told = door.run(work(f"What does '### Task:' mean? And {ASKED}"))
    entries = door.cluster.entries()

    def of(answer, *types):
        about = [one for one in entries if one.provenance.session_id == answer.session_id]
        return [one for one in about if one.event_type in types]

    assert errand.choices[0].message.content and errand.choices[0].message.tool_calls is None
    assert errand.outcome == "success"
    (sent,) = of(errand, "PROMPT_SENT")
    assert read_payload(PromptSent, sent).tools == ()
    assert not of(errand, "CONTEXT_ASSEMBLED", "HO3_SIGNAL")
    assert len(of(errand, "SESSION_END")) == 1
    assert behind.session_id != errand.session_id
    assert len(of(told, "PROMPT_SENT")) > 1 and of(told, "HO3_SIGNAL") and not of(told, "SESSION_END")
    assert behind_told.session_id == told.session_id


@pytest.mark.parametrize(("said", "heard"), [(r"so \ud83d there", "so � there"), (r"so \ud83d\ude00", "so 😀")])
def test_half_a_character_of_a_message_is_replaced(door, said, heard):
    """A client that cut its history in the middle of an emoji is answered; two halves are one."""

    async def work():
        body = '{"model": "ADMIN", "messages": [{"role": "user", "content": "SAID"}]}'.replace("SAID", said)
        async with door.http() as http:
            return await http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})

    assert door.run(work()).status_code == 200
    [asked] = door.requested()
    assert asked.bodies[-1] == heard.encode()
