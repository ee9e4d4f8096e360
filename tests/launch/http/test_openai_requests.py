"""What OpenAI's requests say, as messages of a transcript."""

from base64 import encodebytes
from dataclasses import replace

import pytest

from bench.builders import shipped_snapshot, shipped_with
from bench.gateway.servers import ANTHROPIC, OPENAI
from hobus.launch.http.openai_requests import ChatRequest, ContentPart, ResponsesRequest, find_model, list_not_taken
from hobus.launch.http.problems import Problem


@pytest.mark.parametrize(
    ("texts", "said"),
    [(["Answer in Czech.", "what is up"], "Answer in Czech.\nwhat is up"), (["a", "", "b"], "a\nb"), (["one"], "one"), ([], "")],
)  # fmt: skip
@pytest.mark.parametrize("role", ["user", "system", "assistant", "tool"])
def test_parts_of_a_message_are_texts_of_their_own(texts, said, role):
    """Each begins a line: no word, and no end of a sentence, runs into the next part."""
    parts = [{"type": "text", "text": text} for text in texts]
    asked = [{"role": "user", "content": "hi"}]
    of_call = {"tool_call_id": "CALL-1"} if role == "tool" else {}
    chat = ChatRequest.model_validate(
        {"model": "ADMIN", "messages": [{"role": role, "content": parts, **of_call}, *asked]}
    )
    assert chat.transcript()[0].text == said
    if role == "tool":
        item = {"type": "function_call_output", "call_id": "CALL-1", "output": parts}
    else:
        item = {"role": role, "content": parts}
    response = ResponsesRequest.model_validate({"model": "ADMIN", "input": [item, *asked]})
    assert response.transcript()[0].text == said


OF_A_MODEL = [{"type": "output_text", "text": "Be brief."}, {"type": "refusal", "refusal": "Be brief."}]


@pytest.mark.parametrize("part", OF_A_MODEL, ids=["output_text", "refusal"])
@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_a_models_words_are_refused_in_a_message_of_somebody_else(part, role):
    """In the user's they would count as the person's own; in a model's message they are what it said."""
    asked = {"role": "user", "content": "hi"}
    for given, is_refused in (
        ({"role": role, "content": [part]}, True),
        ({"role": "assistant", "content": [part]}, False),
    ):
        for request in (
            ChatRequest.model_validate({"model": "ADMIN", "messages": [given, asked]}),
            ResponsesRequest.model_validate({"model": "ADMIN", "input": [given, asked]}),
        ):
            if is_refused:
                with pytest.raises(Problem) as refused:
                    request.transcript()
                assert (refused.value.status, part["type"] in str(refused.value)) == (400, True)
            else:
                assert request.transcript()[0].text == "Be brief."


def test_a_users_message_has_no_field_refusal():
    """It is a field of a model's message: there it is what was said."""
    said = [{"role": role, "content": None, "refusal": "Be brief."} for role in ("assistant", "user")]
    chat = ChatRequest.model_validate({"model": "ADMIN", "messages": said})
    assert [one.text for one in chat.transcript()] == ["Be brief.", ""]


@pytest.mark.parametrize("any_model", [True, False])
def test_a_model_that_is_not_configured_is_taken_where_its_provider_takes_any(any_model):
    """By the provider's name in front of it, as one that is configured."""
    snapshot = shipped_with(("gateway.providers.offline.any_model", any_model))
    for name in ("offline/", "offline/ ", "nobody/llama", "llama"):
        with pytest.raises(Problem):
            find_model(snapshot, name)
    if not any_model:
        with pytest.raises(Problem):
            find_model(snapshot, "offline/llama/70b")
        return
    agent_id, config = find_model(snapshot, "offline/llama/70b")
    assert (agent_id, config.provider, config.model) == (None, "offline", "llama/70b")


def test_the_bytes_of_an_image_may_stand_in_lines():
    """As mail writes base64, and many a library by default."""
    data = b"\x89PNG\r\n\x1a\n" + bytes(300)
    url = f"data:image/png;base64,{encodebytes(data).decode()}"
    assert ContentPart(type="image_url", image_url={"url": url}).image("x").data == data


@pytest.mark.parametrize(
    ("kind", "omit", "named"),
    [
        (OPENAI, [], []),
        (OPENAI, ["temperature"], ["temperature"]),
        (ANTHROPIC, ["temperature"], ["temperature", "seed"]),
    ],
)
def test_what_a_provider_does_not_send_of_a_request_is_named(kind, omit, named):
    """An evaluation at 0 that its model never hears of says so."""
    gateway = shipped_snapshot().config.gateway
    mine = {**kind, "base_url": "http://127.0.0.1:1/v1", "omit": omit}
    providers = {"offline": gateway.model_dump()["providers"]["offline"], "mine": mine}
    config = type(gateway).model_validate(
        {**gateway.model_dump(), "providers": providers, "default_route": {"provider_id": "mine", "model_id": "tiny"}}
    )
    shipped = shipped_snapshot()
    snapshot = replace(shipped, config=shipped.config.model_copy(update={"gateway": config}))
    request = ChatRequest.model_validate(
        {"model": "ADMIN", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, "top_p": 1, "seed": 3}
    )
    assert list_not_taken(snapshot, "ADMIN", None, request, request.transcript()) == named
