"""Answers that are not whole, through the door by OpenAI's own client: said in its words, streamed and whole."""

import pytest

from tests.launch.http.door import SimulatedDoor, sdk
from tests.simulation.test_model_mistakes import Ending

pytestmark = pytest.mark.slow

ASKS = [{"role": "user", "content": "tell me"}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


@pytest.mark.parametrize("form", [None, SCHEMA], ids=["words", "form"])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("reason", "finish", "incomplete"),
    [
        ("stop", "stop", None),
        ("length", "length", "max_output_tokens"),
        ("pause", "length", "max_output_tokens"),
        ("too_large", "length", "max_output_tokens"),
        ("window", "length", "max_output_tokens"),
        ("content_filter", "content_filter", "content_filter"),
    ],
)
def test_why_an_answer_is_cut_is_said_as_openai_does(reason, finish, incomplete, is_streamed, form):
    """`finish_reason` of a completion, status and reason of a response; beside them what people read."""
    text = '{"half": "of it' if reason != "stop" else '{"half": 1}'
    with SimulatedDoor(providers={"offline": Ending(text, reason)}) as door:

        async def work():
            client = door.openai()
            more = {} if form is None else {"response_format": form}
            if not is_streamed:
                chat = await client.chat.completions.create(model="ADMIN", messages=ASKS, **more)
                response = await client.responses.create(model="ADMIN", input="tell me")
                return chat.choices[0].finish_reason, chat.choices[0].message.content, chat.model_extra, response
            chunks = await client.chat.completions.create(model="ADMIN", messages=ASKS, stream=True, **more)
            seen = [chunk async for chunk in chunks]
            said = "".join(chunk.choices[0].delta.content or "" for chunk in seen)
            events = [event async for event in await client.responses.create(model="ADMIN", input="x", stream=True)]
            assert events[-1].type == ("response.incomplete" if incomplete else "response.completed")
            return seen[-1].choices[0].finish_reason, said, seen[-1].model_extra, events[-1].response

        found, said, ours, response = door.run(work())
    assert (found, said, "not whole" in ours.get("note", "")) == (finish, text, incomplete is not None)
    assert (response.status, response.output_text) == ("incomplete" if incomplete else "completed", text)
    assert (response.incomplete_details and response.incomplete_details.reason) == incomplete
    assert response.output[0].status == response.status


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_refusal_without_a_word_is_an_error_that_says_so(is_streamed):
    """422: no client asks it again by itself."""
    with SimulatedDoor(providers={"offline": Ending("", "refusal")}) as door:

        async def work():
            with pytest.raises(sdk().UnprocessableEntityError) as refused:
                await door.openai().chat.completions.create(model="ADMIN", messages=ASKS, stream=is_streamed)
            return refused.value

        refused = door.run(work())
    assert refused.code == "answer_cut" and "the model refused to answer" in refused.message


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_the_words_of_a_refusal_are_one(is_streamed):
    """`message.refusal`, and a part `refusal`; no content that would be taken for an answer, and kept in the transcript."""
    no = "I will not say."
    with SimulatedDoor(providers={"offline": Ending(no, "refusal")}) as door:

        async def work():
            client = door.openai()
            if not is_streamed:
                chat = (await client.chat.completions.create(model="ADMIN", messages=ASKS)).choices[0].message
                response = await client.responses.create(model="ADMIN", input="tell me")
                return chat.content, chat.refusal, response
            chunks = await client.chat.completions.create(model="ADMIN", messages=ASKS, stream=True)
            seen = [chunk.choices[0].delta async for chunk in chunks]
            events = [event async for event in await client.responses.create(model="ADMIN", input="x", stream=True)]
            content = "".join(delta.content or "" for delta in seen) or None
            return content, "".join(delta.refusal or "" for delta in seen), events[-1].response

        content, refusal, response = door.run(work())
    (part,) = response.output[0].content
    assert (content, refusal, part.type, part.refusal) == (None, no, "refusal", no)
