"""What OpenAI's requests say, as messages of a transcript."""

from base64 import encodebytes

import pytest

from bench.builders import shipped_with
from hobus.launch.http.openai_requests import ChatRequest, ContentPart, ResponsesRequest, find_model
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
