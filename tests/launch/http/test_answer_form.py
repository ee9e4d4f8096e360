"""Answers in a form through the door, by OpenAI's own client: chat completions and responses, streamed and whole."""

import asyncio
import json
from dataclasses import replace

import pytest
from pydantic import BaseModel

from bench.builders import shipped_snapshot
from hobus.bus.record.journal import read_event
from hobus.launch.http.openai_requests import read_schema
from hobus.launch.http.problems import Problem
from hobus.launch.sessions.http_client import HttpError
from tests.launch.http.door import SNAPSHOT, SimulatedDoor, sdk
from tests.simulation.test_answer_form import Refusing, scripted
from tests.simulation.turns import with_thinking

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "number", "schema": SCHEMA}}
FLAT = {"type": "json_schema", "name": "number", "schema": SCHEMA}


class City(BaseModel):
    """What is asked for."""

    city: str
    people: int


ASKS = [{"role": "user", "content": "city: Bern, people: 134000"}]
BERN = City(city="Bern", people=134000)


def test_the_sdk_parses_answers_and_the_conversation_goes_on(door):
    """Chat completions, whole and streamed; what was parsed is quoted back, and the same session found by it."""

    async def work():
        client = door.openai()
        first = await client.chat.completions.parse(model="ADMIN", messages=ASKS, response_format=City)
        said = [*ASKS, first.choices[0].message.model_dump(exclude={"parsed"}, exclude_none=True)]
        said.append({"role": "user", "content": "city: Thun, people: 43000"})
        async with client.chat.completions.stream(model="ADMIN", messages=said, response_format=City) as stream:
            second = await stream.get_final_completion()
        return first, second

    first, second = door.run(work())
    assert first.choices[0].message.parsed == BERN
    assert second.choices[0].message.parsed == City(city="Thun", people=43000)
    assert len({entry.provenance.session_id for entry in door.requested()}) == 1


def test_the_sdk_parses_responses(door):
    """Whole and streamed; the response says in which form it is."""

    async def work():
        client = door.openai()
        first = await client.responses.parse(model="ADMIN", input=ASKS[0]["content"], text_format=City)
        async with client.responses.stream(
            model="ADMIN", input="city: Thun, people: 1", text_format=City, previous_response_id=first.id
        ) as stream:
            events = [event async for event in stream]
            return first, events, await stream.get_final_response()

    first, events, second = door.run(work())
    assert (first.output_parsed, second.output_parsed) == (BERN, City(city="Thun", people=1))
    assert first.text.format.type == "json_schema"
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")]


def test_json_mode_is_any_object(door):
    """In both APIs; text is text."""

    async def work():
        client, asked = door.openai(), [{"role": "user", "content": "who are you?"}]
        chats = [
            await client.chat.completions.create(model="ADMIN", messages=asked, response_format={"type": kind})
            for kind in ("json_object", "text")
        ]
        response = await client.responses.create(
            model="ADMIN", input="who are you?", text={"format": {"type": "json_object"}}
        )
        return [one.choices[0].message.content for one in chats], response.output_text

    (formed, plain), response = door.run(work())
    assert json.loads(formed) == json.loads(response) == {"answer": plain}


def test_a_stream_holds_back_what_was_not_judged_yet():
    """A first answer that does not fit leaves no trace in what only grows."""
    with SimulatedDoor(providers={"offline": scripted("not at all", '{"n": 7}')}) as door:

        async def work():
            stream = await door.openai().chat.completions.create(
                model="ADMIN", messages=ASKS, response_format=FORMAT, stream=True
            )
            return [chunk.choices[0].delta.content or "" async for chunk in stream]

        assert "".join(door.run(work())) == '{"n": 7}'


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_an_answer_that_never_fits_is_an_error_with_what_is_wrong(is_streamed):
    """422, which no client asks again by itself; in a stream too, as nothing of it was sent."""
    with SimulatedDoor(providers={"offline": scripted("no", '{"n": "x"}')}) as door:

        async def work():
            with pytest.raises(sdk().UnprocessableEntityError) as refused:
                await door.openai().chat.completions.create(
                    model="ADMIN", messages=ASKS, response_format=FORMAT, stream=is_streamed
                )
            return refused.value

        refused = door.run(work())
    assert refused.code == "format_not_met" and '$.n: type "integer"' in refused.message


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_refusal_stands_in_its_own_field(is_streamed):
    """Nothing is parsed; the transcript that quotes it goes on in its session."""
    with SimulatedDoor(providers={"offline": Refusing(lambda _prompt: "I will not say.")}) as door:

        async def work():
            client = door.openai()
            if is_streamed:
                async with client.chat.completions.stream(model="ADMIN", messages=ASKS, response_format=City) as stream:
                    chat = await stream.get_final_completion()
                async with client.responses.stream(model="ADMIN", input="x", text_format=City) as stream:
                    response = await stream.get_final_response()
            else:
                chat = await client.chat.completions.parse(model="ADMIN", messages=ASKS, response_format=City)
                response = await client.responses.parse(model="ADMIN", input="x", text_format=City)
            message = chat.choices[0].message.model_dump(exclude={"parsed"}, exclude_none=True)
            said = [*ASKS, message, {"role": "user", "content": "why?"}]
            await client.chat.completions.create(model="ADMIN", messages=said)
            item = response.output[0].model_dump(exclude_none=True)
            given = [{"role": "user", "content": "x"}, item, {"role": "user", "content": "why?"}]
            await client.responses.create(model="ADMIN", input=given)
            return chat.choices[0].message, response

        message, response = door.run(work())
        sessions = [entry.provenance.session_id for entry in door.requested()]
    assert (message.content or None, message.refusal, message.parsed) == (None, "I will not say.", None)
    [part] = response.output[0].content
    assert (part.type, part.refusal, response.output_parsed) == ("refusal", "I will not say.", None)
    assert sessions[:2] == sessions[2:]


def test_a_degraded_answer_is_words_and_told_as_a_refusal():
    """Nobody parses it; its outcome says what it is."""
    with SimulatedDoor() as door:
        client = door.openai()
        first = door.run(client.chat.completions.create(model="ADMIN", messages=ASKS))
        door.cluster.world.kill(door.cluster.oldest("ho2"))
        found = door.run(
            client.chat.completions.create(
                model="ADMIN",
                messages=ASKS,
                response_format=FORMAT,
                extra_headers={"X-Hobus-Session": first.session_id},
            )
        )
    assert found.outcome == "degraded"
    assert found.choices[0].message.content is None and "reduced mode" in found.choices[0].message.refusal


LIMITS = SNAPSHOT.config.sessions
DEEP = {"type": "object"}
for _ in range(70):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ("json", "response_format"),
        ({}, "response_format"),
        ({"type": "grammar"}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": {}}}, "response_format.json_schema.name"),
        ({"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}, "response_format.json_schema.name"),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "strict": 1}},
         "response_format.json_schema.strict"),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "description": 1}},
         "response_format.json_schema.description"),
        *(({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}, "response_format.json_schema.schema")
          for schema in ({"type": "array"}, {"type": 1}, {"$ref": "#/x"}, {"description": "x" * 40_000}, DEEP)),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_is_refused_by_its_field(wanted, param):
    """400, before a session begins for it."""
    with pytest.raises(Problem) as refused:
        read_schema(wanted, "response_format", is_nested=True)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_a_description_is_part_of_the_schema():
    """The model reads it; one of the schema's own goes before it."""
    described = FLAT | {"description": "a number", "strict": True}
    assert read_schema(described, "text.format", is_nested=False) == {"description": "a number", **SCHEMA}


def test_wrong_forms_over_http_begin_nothing(door):
    """Both APIs, the field of the other one too, and the native turn and session."""
    bad = {"type": "array"}

    async def work():
        async with door.http() as http:
            session = (await http.post("/v1/sessions", json={})).json()["session_id"]
            chat, response = {"model": "ADMIN", "messages": ASKS}, {"model": "ADMIN", "input": "x"}
            nested = {"type": "json_schema", "json_schema": {"name": "a", "schema": bad}}
            return [
                await http.post("/v1/chat/completions", json=chat | {"response_format": nested}),
                await http.post("/v1/chat/completions", json=chat | {"text": {"format": FLAT}}),
                await http.post("/v1/responses", json=response | {"text": {"format": FLAT | {"schema": bad}}}),
                await http.post("/v1/responses", json=response | {"response_format": FORMAT}),
                await http.post(
                    f"/v1/sessions/{session}/turns", json={"text": "x", "run_overrides": {"output_schema": bad}}
                ),
                await http.post("/v1/sessions", json={"session_config": {"output_schema": bad}}),
            ]

    found = door.run(work())
    assert [(one.status_code, one.json()["error"]["param"]) for one in found] == [
        (400, "response_format.json_schema.schema"), (400, "text"), (400, "text.format.schema"),
        (400, "response_format"), (400, "run_overrides.output_schema"), (400, "session_config.output_schema"),
    ]  # fmt: skip
    assert door.requested() == []


def test_the_same_key_with_another_form_is_another_request(door):
    """409, as with other words."""

    async def work():
        client, headers = door.openai(), {"Idempotency-Key": "k-1"}
        about = {"model": "ADMIN", "messages": ASKS, "extra_headers": headers}
        first = await client.chat.completions.create(**about, response_format=FORMAT | {})
        again = await client.chat.completions.create(**about, response_format=FORMAT)
        with pytest.raises(sdk().ConflictError) as refused:
            await client.chat.completions.create(**about, response_format={"type": "json_object"})
        return first, again, refused.value

    first, again, refused = door.run(work())
    assert first.id == again.id and refused.code == "input_conflict"


def test_our_own_client_asks_for_a_form(door):
    """Whole and streamed: the response is the text of an object."""

    async def work():
        async with door.client() as client:
            schema = City.model_json_schema()
            asked = await client.ask(ASKS[0]["content"], output_schema=schema)
            pieces = [piece async for piece in client.stream(ASKS[0]["content"], output_schema=schema)]
            with pytest.raises(HttpError) as refused:
                await client.ask("x", output_schema={"type": "array"})
            return asked, pieces[-1].result, refused.value

    asked, streamed, refused = door.run(work())
    assert City.model_validate_json(asked.response) == City.model_validate_json(streamed.response) == BERN
    assert refused.status == 400


# --- at once, and elsewhere -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "is_streamed"),
    [
        pytest.param("chat", False, id="chat, whole"),
        pytest.param("responses", True, id="responses, streamed"),
        pytest.param("chat", True, id="chat, streamed", marks=pytest.mark.slow),
        pytest.param("responses", False, id="responses, whole", marks=pytest.mark.slow),
    ],
)
def test_two_requests_with_one_transcript_at_once_are_both_answered(api, is_streamed):
    """OpenAI's requests know no session: one goes on in the transcript's, the other in one of its own, with its history."""
    with SimulatedDoor(with_thinking(shipped_snapshot(), 200)) as door:

        async def ask(said):
            client = door.openai()
            if api == "responses":
                answer = await client.responses.create(model="ADMIN", input=said, stream=is_streamed)
                if not is_streamed:
                    return answer.output_text
                return [event async for event in answer][-1].response.output_text
            answer = await client.chat.completions.create(model="ADMIN", messages=said, stream=is_streamed)
            if not is_streamed:
                return answer.choices[0].message.content
            return "".join([chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices])

        async def work():
            said = [{"role": "user", "content": "hello there"}]
            said += [{"role": "assistant", "content": await ask(said)}]
            said += [{"role": "user", "content": "what did I ask before?"}]
            return await asyncio.gather(ask(said), ask(said))

        one, two = door.run(work())
        sessions = [entry.provenance.session_id for entry in door.requested()]
    assert "hello there" in one
    assert two
    assert len(sessions) == 3 and len(set(sessions)) == 2


def test_a_named_session_is_one_at_a_time(door):
    """Who names it means it: another turn of it at once is refused as before."""

    async def work():
        client = door.openai()
        first = await client.chat.completions.create(model="ADMIN", messages=ASKS)
        about = {"model": "ADMIN", "messages": ASKS, "extra_headers": {"X-Hobus-Session": first.session_id}}
        return await asyncio.gather(
            *(client.chat.completions.create(**about) for _ in range(2)), return_exceptions=True
        )

    found = door.run(work())
    assert [getattr(one, "code", "answered") for one in found if isinstance(one, sdk().ConflictError)] == ["run_active"]


def test_a_model_that_names_another_agent_than_the_sessions_is_refused():
    """By header, and by the response before; a model of a provider, and the agent itself, are not."""
    agent = SNAPSHOT.agents["ADMIN"]
    agents = {"ADMIN": agent, "OTHER": agent.model_copy(update={"agent_id": "OTHER"})}

    async def work():
        client = door.openai()
        newest = await client.responses.create(model="ADMIN", input="hello")
        about, refused = {"extra_headers": {"X-Hobus-Session": newest.session_id}}, []
        for ask in (
            client.chat.completions.create(model="OTHER", messages=ASKS, **about),
            client.responses.create(model="OTHER", input="hello", **about),
            client.responses.create(model="OTHER", input="hello", previous_response_id=newest.id),
            client.chat.completions.create(model="OTHER", messages=ASKS, stream=True, **about),
        ):
            with pytest.raises(sdk().BadRequestError) as error:
                await ask
            refused.append(error.value)
        for name in ("offline/offline-rules-1", "ADMIN"):
            newest = await client.responses.create(model=name, input="hello", previous_response_id=newest.id)
        return newest, refused

    with SimulatedDoor(replace(SNAPSHOT, agents=agents)) as door:
        newest, refused = door.run(work())
        assert len(door.requested()) == 3
    assert newest.outcome == "success"
    assert [(one.code, one.param) for one in refused] == [("agent_mismatch", "model")] * 4


def test_the_provider_that_a_first_request_names_is_its_sessions():
    """What goes on with it names the agent alone: no text of it goes to another provider."""

    async def work():
        client = door.openai()
        await client.chat.completions.create(model="ADMIN/offline/offline-rules-1", messages=ASKS)
        await client.responses.create(model="offline/offline-rules-1", input="hello")

    with SimulatedDoor(SNAPSHOT) as door:
        door.run(work())
        begun = [read_event(entry) for entry in door.cluster.entries() if entry.event_type == "SESSION_START"]
    named = [(one.event.session_config.provider, one.event.session_config.model) for one in begun]
    assert named == [(None, "offline/offline-rules-1"), ("offline", "offline-rules-1")]


def test_a_session_whose_provider_is_not_there_does_not_begin(door):
    """404 at once, with those that there are."""

    async def work():
        async with door.http() as http:
            return await http.post("/v1/sessions", json={"session_config": {"provider": "nobody"}})

    answer = door.run(work())
    assert answer.status_code == 404
    assert "no provider 'nobody' (named by the session)" in answer.json()["error"]["message"]
    assert "there are offline" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"text": " "}, 400, "invalid_input"),
        ({"text": "x", "run_overrides": {"provider": "nobody"}}, 404, "PROVIDER_NOT_FOUND"),
        ({"text": "another", "input_id": "in-1"}, 409, "input_conflict"),
    ],
)
def test_a_native_stream_tells_a_fault_before_its_first_event_as_its_status(door, body, status, code):
    """As without `stream`; the headers name the turn."""

    async def work():
        async with door.http() as http:
            session = (await http.post("/v1/sessions", json={})).json()["session_id"]
            path = f"/v1/sessions/{session}/turns"
            if "input_id" in body:
                await http.post(path, json={"text": "hello", "input_id": body["input_id"]})
            return [await http.post(path, json=body | {"stream": is_streamed}) for is_streamed in (False, True)]

    whole, streamed = door.run(work())
    assert (whole.status_code, streamed.status_code) == (status, status)
    assert streamed.json()["error"]["code"] == whole.json()["error"]["code"] == code
    assert {"x-hobus-session", "x-hobus-input"} <= streamed.headers.keys()
