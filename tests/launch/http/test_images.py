"""Images in a person's message as OpenAI's own client sends them, over the simulated cluster and a model that sees."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.limits import IMAGES_TURNS
from hobus.bus.record.payload import unpack_payload
from hobus.bus.record.payloads.prompts import SentRequest
from hobus.gateway_service.providers.http import openai_wire
from hobus.launch.http import limits
from tests.gateway_service.rig import Scripted, answered
from tests.launch.http.door import SimulatedDoor, sdk

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n" + b"a" * 60
GIF = b"GIF89a" + b"b" * 30
FREE = {"input_usd_per_million": 0.0, "output_usd_per_million": 0.0, "cached_usd_per_million": 0.0}


def snapshot():
    """The shipped one, with a provider of a model that sees and one that does not; nothing is classified."""
    shipped = shipped_snapshot()
    values = shipped.config.model_dump()
    values["gateway"]["providers"]["eyes"] = {
        "kind": "openai", "base_url": "http://127.0.0.1:1/v1", "key": None, "any_model": False, "concurrency_max": None,
        "max_tokens_field": "max_tokens", "structured": "none", "omit": [],
        "models": [{"model_id": "see-1", "sees": True, **FREE}, {"model_id": "blind-1", "sees": False, **FREE}],
    }  # fmt: skip
    return replace(shipped, config=type(shipped.config).model_validate(values))


def url(data=PNG, kind="image/png"):
    """A data URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def part(address):
    """An image of a chat message."""
    return {"type": "image_url", "image_url": {"url": address}}


def asking(*addresses, text="what is this?"):
    """A message with images."""
    return {"role": "user", "content": [{"type": "text", "text": text}, *map(part, addresses)]}


async def act(prompt):
    """Says how many images its last message has; classifies where that is asked."""
    if prompt.contract_id.startswith("PRC-CLASSIFY"):
        return answered('{"speech_act": "question", "ambiguity": "low"}')
    seen = [image.data for message in prompt.messages for image in message.images]
    return answered(f"I see {len(seen)}.")


@pytest.fixture
def made():
    """A door with a model that sees, and what that was sent."""
    eyes = Scripted(act, provider_id="eyes")
    with SimulatedDoor(snapshot(), providers={"eyes": eyes, "offline": Scripted(act)}) as door:
        yield door, eyes


def chat(door, messages, model="eyes/see-1", **more):
    """One completion."""

    async def work():
        return await door.openai().chat.completions.create(model=model, messages=messages, **more)

    return door.run(work())


def answers_of(eyes):
    """The prompts of answers, without classifications."""
    return [one for one in eyes.prompts if not one.contract_id.startswith("PRC-CLASSIFY")]


def test_a_model_that_sees_is_shown_the_images_and_the_record_has_each_once(made):
    """In order, with their sentences in the text; by ref in the journal and in what was sent."""
    door, eyes = made
    answer = chat(door, [asking(url(), url(GIF, "image/gif"), url(kind="image/png;charset=utf-8"))])
    assert answer.choices[0].message.content == "I see 2."
    [sent] = answers_of(eyes)
    asked = sent.messages[-1]
    assert [image.data for image in asked.images] == [PNG, GIF]
    assert asked.text.startswith("what is this?\n[image ") and f", image/png, {len(PNG)} bytes]" in asked.text
    kept = [entry for entry in door.cluster.entries() if entry.event_type == "TURN_IMAGE"]
    assert [entry.bodies[1] for entry in kept] == [PNG, GIF]
    assert {entry.provenance.session_id for entry in kept} == {answer.session_id}
    refs = [f"{entry.submission_id}/1" for entry in kept]
    requests = [
        unpack_payload(SentRequest, entry.bodies[1])
        for entry in door.cluster.entries()
        if entry.event_type == "PROMPT_SENT"
    ]
    assert [list(one.images) for one in requests if one.images] == [refs]
    told = json.dumps(
        openai_wire.make_request(sent, "m", openai_wire.ToolNames.of(sent), EYES, stream=False)["messages"][-1]
    )
    assert told.count('"image_url"') == 4 and url() in told
    assert '{"type": "text", "text": "what is this?"}' in told and "[image " not in told


EYES = snapshot().config.gateway.providers["eyes"]


def test_responses_take_images_and_a_later_turn_is_shown_them_too(made):
    """The transcript with the image goes on in its session, whose record has the image once."""
    door, eyes = made

    async def work():
        client = door.openai()
        said = [{"role": "user", "content": [
            {"type": "input_text", "text": "what is this?"}, {"type": "input_image", "image_url": url()},
        ]}]  # fmt: skip
        first = await client.responses.create(model="eyes/see-1", input=said)
        said += [{"role": "assistant", "content": first.output_text}, {"role": "user", "content": "and its colour?"}]
        return first, await client.responses.create(model="eyes/see-1", input=said)

    first, second = door.run(work())
    assert (first.output_text, second.output_text) == ("I see 1.", "I see 1.")
    assert second.session_id == first.session_id
    later = answers_of(eyes)[-1]
    assert f"image/png, {len(PNG)} bytes]" in "".join(message.text for message in later.messages[:-1])
    assert [entry.event_type for entry in door.cluster.entries()].count("TURN_IMAGE") == 1


def raw(door, messages, model="eyes/see-1", **headers):
    """One completion's words, its session, and what was not taken of it."""

    async def work():
        client = door.openai()
        more = {"extra_headers": headers}
        answer = await client.chat.completions.with_raw_response.create(model=model, messages=messages, **more)
        said = answer.parse().choices[0].message.content
        return said, answer.headers["x-hobus-session"], answer.headers.get("x-hobus-ignored", "")

    return door.run(work())


BEFORE = [asking(url()), {"role": "assistant", "content": "ok"}]
LATER = {"role": "user", "content": "and its colour?"}


def test_images_of_earlier_messages_are_shown_also_in_a_new_session(made):
    """As chat clients go on elsewhere; what is shown with the question is told apart by the sentences in the text."""
    door, eyes = made
    second = {**asking(url(GIF, "image/gif"), text="and this?")}
    said, _, ignored = raw(door, [*BEFORE, second, {"role": "assistant", "content": "ok"}, LATER])
    assert (said, ignored) == ("I see 2.", "")
    [sent] = answers_of(eyes)
    assert [image.data for image in sent.messages[-1].images] == [PNG, GIF]
    texts = "\n".join(message.text for message in sent.messages)
    assert all(image.name in texts for image in sent.messages[-1].images)


def test_where_an_earlier_image_is_not_shown_the_answer_says_so(made):
    """Of a model that does not see, and of an image that lies too far back; the text still says that it was there."""
    door, eyes = made
    said, _, ignored = raw(door, [*BEFORE, LATER], "eyes/blind-1")
    assert (said, ignored) == ("I see 0.", "messages.images")
    assert "[image " in "".join(message.text for message in answers_of(eyes)[-1].messages)
    chatted = [*BEFORE, *[LATER, {"role": "assistant", "content": "ok"}] * IMAGES_TURNS, LATER]
    assert raw(door, chatted)[::2] == ("I see 0.", "messages.images")
    assert raw(door, chatted[:2] + chatted[4:])[::2] == ("I see 1.", "")


def test_a_session_is_asked_on_about_its_picture(made):
    """For some messages, also by a successor of its supervisor; then the sentence alone is left."""
    door, _ = made
    said, session_id, _ = raw(door, [asking(url())])
    seen = [said]
    for number in range(IMAGES_TURNS + 1):
        if number == 1:
            door.cluster.strike("ho2", after_s=0.1, back_after_s=1)
        seen.append(raw(door, [LATER], **{"x-hobus-session": session_id})[0])
    assert seen == [*["I see 1."] * (IMAGES_TURNS + 1), "I see 0."]
    assert raw(door, [asking(url(GIF, "image/gif"))], **{"x-hobus-session": session_id})[0] == "I see 1."


def test_a_model_that_does_not_see_is_not_asked(made):
    """A refusal with the mend, and no degraded answer about a picture that nobody saw."""
    door, eyes = made
    for model in ("eyes/blind-1", "ADMIN"):
        with pytest.raises(sdk().BadRequestError) as caught:
            chat(door, [asking(url())], model)
        assert caught.value.body["code"] == "MODEL_UNFIT", caught.value.body
        assert "takes no images" in caught.value.body["message"] and "sees: true" in caught.value.body["message"]
    assert answers_of(eyes) == []


def test_a_turn_with_an_image_survives_its_supervisor(made):
    """A successor shows it too, by what the journal has; another image under the key is another message."""
    door, eyes = made
    calls = []

    async def slow(prompt):
        if not prompt.contract_id.startswith("PRC-CLASSIFY"):
            calls.append(prompt)
            await asyncio.sleep(5 if len(calls) == 1 else 0)
        return await act(prompt)

    eyes.act = slow
    more = {"extra_headers": {"idempotency-key": "k1"}}
    struck = door.cluster.strike("ho2", after_s=2, back_after_s=1)
    door.cluster.is_asking = True
    assert chat(door, [asking(url())], **more).choices[0].message.content == "I see 1."
    assert struck.hit_a_turn and calls
    with pytest.raises(sdk().ConflictError):
        chat(door, [asking(url(PNG + b"c"))], **more)


LARGE = b"\x89PNG\r\n" + b"x" * limits.IMAGE_MAX_BYTES
BAD = {
    "an address": ([asking("https://example.org/a.png")], 400, "unsupported_parameter", "send its bytes"),
    "no base64": ([asking("data:image/png;base64,%%%")], 400, "invalid_input", "base64"),
    "no image": ([asking(url(b"hello"))], 400, "invalid_input", "PNG, JPEG, GIF or WebP"),
    "too large": ([asking(url(LARGE))], 413, "too_large", "make it smaller"),
    "too many": ([asking(*[url(PNG + bytes([n]) * 7_200_000) for n in range(3)])], 413, "too_large", "fewer or smaller"),
    "of the system": (
        [{"role": "system", "content": [part(url())]}, asking(url())], 400, "unsupported_parameter", "of role system",
    ),
}  # fmt: skip


def test_what_cannot_be_shown_is_refused_with_the_mend(made):
    """Nothing is recorded or asked."""
    door, eyes = made
    for name, (messages, status, code, words) in BAD.items():
        with pytest.raises(sdk().APIStatusError) as caught:
            chat(door, messages)
        found = (caught.value.status_code, caught.value.body["code"])
        assert found == (status, code) and words in caught.value.body["message"], (name, caught.value.body)
    assert not eyes.prompts and not any(one.event_type == "TURN_IMAGE" for one in door.cluster.entries())


def test_a_message_may_have_twenty_megabytes(made):
    """Past the door's body, the bus, the record and the request."""
    door, eyes = made
    photos = [b"\xff\xd8\xff" + bytes([number]) * 6_600_000 for number in range(3)]
    answer = chat(door, [asking(*[url(photo, "image/jpeg") for photo in photos])])
    assert answer.choices[0].message.content == "I see 3."
    assert [image.data for image in answers_of(eyes)[0].messages[-1].images] == photos
