"""`/v1/embeddings` as OpenAI's own client meets it, over the simulated cluster and a provider that makes vectors."""

from __future__ import annotations

import base64
from array import array
from dataclasses import replace

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.record.catalog import read_body
from hobus.launch.http import limits
from tests.gateway_service.rig import Scripted
from tests.launch.http.door import SimulatedDoor, sdk

FREE = {"sees": False, "input_usd_per_million": 2.0, "output_usd_per_million": 0.0, "cached_usd_per_million": 0.0}


def snapshot(**budget):
    """The shipped one, with a provider that answers and makes vectors."""
    shipped = shipped_snapshot()
    values = shipped.config.model_dump()
    values["gateway"]["providers"]["vec"] = {
        "kind": "openai", "base_url": "http://127.0.0.1:1/v1", "key": None, "any_model": False, "concurrency_max": None,
        "max_tokens_field": "max_tokens", "structured": "none", "omit": [],
        "models": [{"model_id": "chat-1", **FREE}, {"model_id": "embed-1", "context_tokens": 8, **FREE}],
    }  # fmt: skip
    values["budget"] |= budget
    return replace(shipped, config=type(shipped.config).model_validate(values))


async def lengths(prompt):
    """Of each text two numbers: its length, and 0.1."""
    numbers = array("f", [number for message in prompt.messages for number in (len(message.text), 0.1)])
    content = base64.b64encode(numbers.tobytes()).decode()
    return PromptResponse(outcome="SUCCESS", content=content, input_tokens=3 * len(prompt.messages), model_id="embed-1")


@pytest.fixture
def made():
    """A door whose provider makes vectors of lengths, and that provider; settings of the budget by `made(...)`."""
    opened = []

    def open_door(act=lengths, **budget):
        provider = Scripted(act, provider_id="vec")
        opened.append(SimulatedDoor(snapshot(**budget), providers={"vec": provider, "offline": Scripted()}))
        return opened[-1], provider

    yield open_door
    for door in opened:
        door.__exit__()


def told(door, **wanted):
    """What the official SDK says to it."""

    async def work():
        return await door.openai().embeddings.create(**{"model": "vec/embed-1", "input": "text"} | wanted)

    return door.run(work())


def refused(door, **wanted):
    """Status, code, field and sentence of the refusal."""
    with pytest.raises(sdk().APIStatusError) as caught:
        told(door, **wanted)
    error = caught.value.body
    return caught.value.status_code, error["code"], error["param"], error["message"]


def prompts(door):
    """The entries of all calls, in order."""
    return [entry for entry in door.cluster.entries() if entry.event_type.startswith("PROMPT_")]


def test_texts_become_vectors_recorded_counted_and_of_their_person(made):
    """One text or several, as numbers and in base64; two records a call, with tokens, money, agent and principal."""
    door, provider = made()
    answer = told(door, input=["a", "bcd"], encoding_format="float", user="bob")
    assert [(row.index, row.object, row.embedding) for row in answer.data] == [
        (0, "embedding", pytest.approx([1, 0.1])), (1, "embedding", pytest.approx([3, 0.1])),
    ]  # fmt: skip
    assert (answer.object, answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens) == (
        "list", "vec/embed-1", 6, 6,
    )  # fmt: skip
    sent, received = prompts(door)
    about, used = read_body(sent), read_body(received)
    assert (sent.event_type, about.principal, about.vector_numbers) == ("PROMPT_SENT", "key/alice/bob", 0)
    assert sent.provenance.agent_id == door.snapshot.config.host.agent_id
    assert (received.event_type, used.input_tokens, used.output_tokens, used.cost_usd) == (
        "PROMPT_RECEIVED", 6, 0, pytest.approx(12e-6),
    )  # fmt: skip
    assert told(door, input="abc", dimensions=2).data[0].embedding == pytest.approx([3, 0.1])  # its own is base64
    assert told(door, model="embed-1").data  # known by its own name, too
    assert [one.vector_numbers for one in provider.prompts] == [0, 2, 0]

    async def raw():
        asked = {"model": "vec/embed-1", "input": "a", "extra_body": {"truncate": "END"}}
        return await door.openai().embeddings.with_raw_response.create(**asked)

    assert door.run(raw()).headers["x-hobus-ignored"] == "truncate"


def test_many_texts_are_several_calls_and_one_answer(made):
    """In order; each call has its records."""
    door, provider = made()
    texts = ["x" * (1 + number % 7) for number in range(2 * limits.EMBEDDED_AT_ONCE + 1)]
    answer = told(door, input=texts)
    assert [round(row.embedding[0]) for row in answer.data] == [len(text) for text in texts]
    assert sorted(len(one.messages) for one in provider.prompts) == [
        1,
        limits.EMBEDDED_AT_ONCE,
        limits.EMBEDDED_AT_ONCE,
    ]
    assert answer.usage.prompt_tokens == 3 * len(texts)
    assert len(prompts(door)) == 6
    long = "y" * (limits.EMBEDDED_BYTES_AT_ONCE // 2 + 1)
    told(door, input=[long, long])
    assert provider.calls == 5


REFUSED = {
    "no such model": ({"model": "vec/other"}, 404, "model_not_found", "model", "GET /v1/models"),
    "the embedded rules": ({"model": "ADMIN"}, 400, "MODEL_UNFIT", "model", "(configured: vec;"),
    "none": ({"input": []}, 400, "invalid_input", "input", "at least one"),
    "blank": ({"input": ["a", " "]}, 400, "invalid_input", "input.1", "blank"),
    "tokens": ({"input": [[1, 2]]}, 400, "unsupported_parameter", "input", "send texts"),
    "too many": ({"input": ["a"] * 2049}, 413, "too_large", "input", "2048"),
    "too long": ({"input": ["a" * 1048577]}, 413, "too_large", "input.0", "host.prompt_max_bytes"),
    "another form": ({"encoding_format": "int8"}, 400, "invalid_input", "encoding_format", "float"),
}  # fmt: skip


def test_what_cannot_be_a_vector_is_refused_with_the_mend(made):
    """Nothing is asked of a provider."""
    door, provider = made()
    for name, (wanted, *expected, words) in REFUSED.items():
        status, code, param, said = refused(door, **wanted)
        assert [status, code, param] == expected and words in said, (name, said)
    assert provider.calls == 0
    assert {entry.event_type for entry in prompts(door)} == {"PROMPT_REJECTED"}


def test_a_budget_binds_vectors_too(made):
    """Refused before the provider is asked."""
    door, provider = made(budget_mode="enforce", agent_token_limit=300, session_token_limit=200)
    status, code, _param, said = refused(door, input="x" * 4000)
    assert (status, code) == (429, "BUDGET_EXHAUSTED") and "(budget." in said
    assert provider.calls == 0


def test_a_fault_of_the_provider_is_told_with_its_words(made):
    """And is recorded as the end of its call."""

    async def act(_prompt):
        raise GatewayError("PROVIDER_REFUSED", "provider vec answered 403: not for this key", facts={"unbilled": True})

    door, _provider = made(act)
    status, code, _param, said = refused(door)
    assert (status, code) == (502, "PROVIDER_REFUSED") and "not for this key" in said
    assert [entry.event_type for entry in prompts(door)] == ["PROMPT_SENT", "PROMPT_FAILED"]
