"""What OpenAI's clients bring besides words, through a whole cluster: the official SDK at the door, a server behind it."""

from __future__ import annotations

import base64

import openai
import pytest

from bench.cluster import eventually
from bench.gateway.servers import completion
from hobus.bus.record.catalog import read_body
from tests.gateway_service.servers import answering

pytestmark = pytest.mark.process


PNG = b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)


async def behave(request, writer):
    """A server with a model that makes vectors, one that chats, and one that sees."""
    if request.method == "GET":
        return await answering({"data": []})(request, writer)
    if request.path == "/v1/embeddings":
        if request.json["model"] == "chat-1":
            return await answering({"error": {"message": "chat-1 is no embedding model"}}, status=400)(request, writer)
        rows = [{"index": n, "embedding": [len(text), 0.5]} for n, text in enumerate(request.json["input"])]
        return await answering({"data": rows, "usage": {"prompt_tokens": 5, "total_tokens": 5}})(request, writer)
    said = '{"speech_act": "question", "ambiguity": "low"}' if "response_format" in request.json else "A dog."
    return await answering(completion(said))(request, writer)


def test_vectors_are_priced_and_an_image_reaches_a_model_that_sees(cluster, server):
    """From the SDK to the server and into the record, once; who makes no vectors, or does not see, is not asked."""
    at = server(behave)
    words = ("--kind", "openai", "--base-url", f"{at.url}/v1", "--key", "none")
    assert cluster("provider add", "vec", *words, "--model", "embed-1=2/0/0", "--model", "chat-1").code == 0
    assert cluster("provider add", "eyes", *words, "--model", "see-1", "--sees").code == 0
    cluster.up("--http", "127.0.0.1:0")
    key = cluster("token create", "--role", "http", "--name", "alice").out.strip()
    with openai.OpenAI(base_url=f"http://{cluster.home.bound(http=True)}/v1", api_key=key, max_retries=0) as sdk:
        vectors_are_priced(cluster, sdk, at)
        at.requests.clear()
        an_image_reaches_a_model_that_sees(cluster, sdk, at)


def vectors_are_priced(cluster, sdk, at):
    """A list of texts, two records, money by the model's price; who makes none is told with the mend."""
    answer = sdk.embeddings.create(model="vec/embed-1", input=["a", "bcd"])
    assert [row.embedding for row in answer.data] == [[1.0, 0.5], [3.0, 0.5]]
    for model, words in (("ADMIN", "configured: .*vec"), ("chat-1", "chat-1 is no embedding model")):
        with pytest.raises(openai.BadRequestError, match=words):
            sdk.embeddings.create(model=model, input="a")
    assert [one.path for one in at.requests if one.method == "POST"] == ["/v1/embeddings"] * 2
    eventually(lambda: cluster.entries("PROMPT_FAILED"))  # an answer does not wait for the record of its end
    received = [read_body(entry) for entry in cluster.entries("PROMPT_RECEIVED")]
    assert [(one.input_tokens, one.output_tokens, one.cost_usd) for one in received] == [(5, 0, pytest.approx(1e-5))]
    assert len(cluster.entries("PROMPT_SENT")) == 2
    assert [entry.reason for entry in cluster.entries("PROMPT_FAILED")] == ["MODEL_UNFIT"]
    assert "embed-1" in cluster("cost").out


def an_image_reaches_a_model_that_sees(cluster, sdk, at):
    """Three megabytes, recorded once in two turns, and told by `hobus why`."""
    address = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    content = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": address}}]
    said = [{"role": "user", "content": content}]
    first = sdk.chat.completions.create(model="eyes/see-1", messages=said)
    assert first.choices[0].message.content == "A dog."
    said += [{"role": "assistant", "content": "A dog."}, {"role": "user", "content": content}]
    assert sdk.chat.completions.create(model="eyes/see-1", messages=said).session_id == first.session_id
    with pytest.raises(openai.BadRequestError, match="takes no images"):
        sdk.chat.completions.create(model="ADMIN", messages=said[:1])
    shown = [one.json["messages"][-1]["content"] for one in at.requests if one.method == "POST"]
    seen = [part for one in shown if isinstance(one, list) for part in one if part["type"] == "image_url"]
    assert [one["image_url"]["url"] == address for one in seen] == [True, True]
    assert "[image " in cluster("why", first.session_id).out
    kept = [entry for entry in cluster.entries("TURN_IMAGE") if entry.provenance.session_id == first.session_id]
    assert [entry.bodies[1] for entry in kept] == [PNG]
