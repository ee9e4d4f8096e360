"""Vectors over real HTTP: how they are asked for, and what becomes of any answer."""

from __future__ import annotations

import base64
from array import array

import pytest

from bench.builders import prompt
from bench.gateway.servers import OPENAI, instance, serving
from hobus.bus.errors import GatewayError
from hobus.bus.messages.base import make_from
from hobus.bus.messages.gateway import PromptMessage
from hobus.bus.messages.work_order import Segment
from hobus.gateway_service.vectors import VectorPrompt
from tests.gateway_service.servers import answering

TEXTS = ("one", "two words")
PACKED = base64.b64encode(array("f", [0.5, -2.0]).tobytes()).decode()


def row(number, embedding):
    """One of an answer."""
    return {"object": "embedding", "index": number, "embedding": embedding}


def vectors(*rows, **more):
    """An answer."""
    return {
        "object": "list",
        "data": list(rows),
        "model": "tiny",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
        **more,
    }


async def asked(answer, *, numbers=0, status=200):
    """What comes of it, and what the server was asked."""
    messages = [PromptMessage(role="user", segments=[Segment(text=text)]) for text in TEXTS]
    wanted = make_from(VectorPrompt, prompt(), messages=messages, vector_numbers=numbers)
    async with serving(answering(answer, status=status)) as server:
        provider = instance(OPENAI, server.url)
        await provider.prepare()
        try:
            told = await provider.complete(wanted, model_id="tiny", timeout_s=5.0)
        finally:
            await provider.close()
    return told, server.requests[-1]


async def test_texts_become_vectors_in_their_order_and_are_counted():
    """As a list or in base64, in any order; what nobody counted is estimated and said to be."""
    told, request = await asked(vectors(row(1, [1, 2]), row(0, PACKED)))
    assert array("f", base64.b64decode(told.content)).tolist() == [0.5, -2.0, 1.0, 2.0]
    assert (told.input_tokens, told.output_tokens, told.usage_is_estimated) == (3, 0, False)
    assert request.path.endswith("/v1/embeddings")
    assert request.json == {"model": "tiny", "input": list(TEXTS), "encoding_format": "base64"}
    told, request = await asked(vectors(row(0, [1, 2]), row(1, [3, 4]), usage=None), numbers=2)
    assert told.input_tokens > 0 and told.usage_is_estimated
    assert request.json["dimensions"] == 2


BAD = {
    "one too few": vectors(row(0, [1, 2])),
    "of two lengths": vectors(row(0, [1, 2]), row(1, [1])),
    "empty": vectors(row(0, []), row(1, [])),
    "no numbers": vectors(row(0, ["a"]), row(1, ["b"])),
    "half a number": vectors(row(0, "AAA="), row(1, "AAA=")),
    "infinite": vectors(row(0, [1e999]), row(1, [1.0])),
    "none": {"object": "list"},
    "a list": [],
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
async def test_an_answer_without_the_vectors_is_a_fault(answer):
    """Never fewer, never others than were asked for."""
    with pytest.raises(GatewayError) as caught:
        await asked(answer)
    assert caught.value.code == "PROVIDER_ERROR"


async def test_what_a_server_says_is_told():
    """Its own sentence, also inside a 200; numbers that it does not cut are a refusal with the mend, and were paid for."""
    with pytest.raises(GatewayError, match="no such model here"):
        await asked({"error": {"code": 404, "message": "no such model here"}})
    with pytest.raises(GatewayError) as caught:
        await asked(vectors(row(0, [1, 2]), row(1, [3, 4])), numbers=7)
    assert (caught.value.code, caught.value.facts["input_tokens"]) == ("MODEL_UNFIT", 3)
    assert "leave out `dimensions`" in caught.value.detail
