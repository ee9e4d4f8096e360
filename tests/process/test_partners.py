"""Servers that nobody here wrote, asked by the official SDKs and by a whole cluster; what they counted is what it cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from bench.builders import prompt
from bench.cluster import Cluster, eventually
from bench.gateway.servers import ANTHROPIC, OPENAI, instance
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import PromptMessage, PromptResponse, ToolSpec
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.catalog import read_body
from hobus.config.snapshot import load_snapshot
from hobus.launch.console import exit_codes
from tests.partners.started import KINDS, NAMES, Counted, Partner, started
from tests.process.pseudo_terminal import typing

pytestmark = pytest.mark.process

QUESTION = "why is the sky blue?"
TOOL = ToolSpec(
    tool_id="list_packages", description="what is installed", parameters={"type": "object", "properties": {}}
)
SCHEMA = {
    "type": "object",
    "properties": {"speech_act": {"enum": ["question", "command"]}, "ambiguity": {"enum": ["low", "high"]}},
    "required": ["speech_act", "ambiguity"],
    "additionalProperties": False,
}
ENDS = ("PROMPT_RECEIVED", "PROMPT_FAILED")
PRICES = 3.0, 15.0, 0.3
"""Dollars per million tokens: input, output, cached."""


@pytest.fixture(scope="module", params=NAMES)
def partner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partner]:
    with started(request.param, tmp_path_factory.mktemp(request.param)) as one:
        yield one


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Partner]:
    with started("strict", tmp_path) as one:
        yield one


def since(before: Counted, now: Counted) -> Counted:
    calls = None if before.calls is None or now.calls is None else now.calls - before.calls
    return Counted(calls, now.input_tokens - before.input_tokens, now.output_tokens - before.output_tokens)


def said(role: Any, text: str, **more: Any) -> PromptMessage:
    return PromptMessage(role=role, segments=[Segment(text=text)], **more)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_sdk_and_a_partner_understand_each_other(partner: Partner, kind: str):
    """A plain answer, a streamed one, a tool's round, a schema, the models; each use is told as the partner counts it."""
    config = OPENAI if kind == "openai" else ANTHROPIC
    # On that wire llama.cpp knows no schema, and leaves a stream's first event out where a first token is half a letter.
    is_whole = partner.name != "llama" or kind == "openai"
    omit = ["temperature"] if kind == "anthropic" else []
    provider = instance(config, partner.url, secret=partner.key, omit=omit)
    await provider.prepare()
    before = await asyncio.to_thread(partner.counted)
    answers: list[PromptResponse] = []
    told: list[str] = []

    async def ask(on_delta: Any = None, **changes: Any) -> PromptResponse:
        wanted = prompt(**{"text": QUESTION, **changes})
        complete = partial(provider.complete, wanted, model_id=partner.models[kind], timeout_s=60, on_delta=on_delta)
        try:
            answers.append(await complete())
        except GatewayError as fault:
            if "ServerDisconnected" not in fault.detail:
                raise
            answers.append(await complete())  # as the gateway does where llama.cpp closed the kept connection meanwhile
        return answers[-1]

    plain = await ask()
    streamed = await ask(told.append)
    assert plain.content and "".join(told) == streamed.content != ""
    if partner.calls_tools:
        asked = await ask(text="use list_packages", tools=[TOOL])
        (call,) = asked.tool_calls
        assert (call.tool_id, call.arguments, asked.finish_reason in ("tool_calls", "tool_use")) == (
            TOOL.tool_id,
            {},
            True,
        )
        again = await ask(told.append, text="use list_packages", tools=[TOOL])
        assert [one.tool_id for one in again.tool_calls] == [TOOL.tool_id]
        assert (again.finish_reason, streamed.finish_reason) == (asked.finish_reason, plain.finish_reason)
        transcript = [
            said("user", "use list_packages"),
            said("assistant", "", tool_calls=[call]),
            said("tool", "two packages", tool_call_id=call.call_id),
        ]
        assert (await ask(messages=transcript, tools=[TOOL])).content
    else:
        assert (await ask(tools=[TOOL])).outcome == "SUCCESS"
    classify = [said("system", "Classify one message. Answer in JSON."), said("user", QUESTION)]
    value = await ask(messages=classify, output_schema=SCHEMA, structured_output=True, max_tokens=500)
    if is_whole:
        Draft202012Validator(SCHEMA).validate(json.loads(value.content))
    if is_whole:
        assert not any(one.usage_is_estimated for one in answers)
        counted = since(before, await asyncio.to_thread(partner.counted))
        used = sum(one.input_tokens for one in answers), sum(one.output_tokens for one in answers)
        assert counted.calls in (None, len(answers)) and astuple(counted)[1:] == used
    assert partner.models[kind] in await provider.models(timeout_s=30)
    await provider.close()


def add(cluster: Cluster, partner: Partner, kind: str) -> None:
    """The partner as the cluster's only provider of models, under the name of its kind."""
    model = f"{partner.models[kind]}={'/'.join(map(str, PRICES))}"
    words = ("--base-url", partner.base_url(kind), "--model", model, "--key", "env:THE_KEY", "--default")
    answer = cluster("provider add", kind, "--kind", kind, *words)
    assert answer.code == 0, answer.err
    cluster.env["THE_KEY"] = partner.key
    if not partner.calls_tools:  # random weights come to no end by themselves
        contract = load_snapshot().contracts["PRC-SYNTHESIZE-001"].model_dump(mode="json")
        contract["boundary"]["max_tokens"] = 64
        (cluster.home.config / "contracts").mkdir()
        (cluster.home.config / "contracts" / "PRC-SYNTHESIZE-001.json").write_text(json.dumps(contract))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_answers_through_a_partner_and_counts_as_it_does(cluster: Cluster, partner: Partner, kind: str):
    """It checks, asks and is answered; calls and tokens of `hobus cost` are the partner's own, its money theirs at its prices."""
    add(cluster, partner, kind)
    checked = cluster("provider check", kind)
    assert checked.code == exit_codes.OK, checked.out + checked.err
    before = partner.counted()
    cluster.up("--detach")
    result = cluster.ask(QUESTION)
    assert (result["outcome"], result["response"] != "") == ("success", True), result
    if partner.calls_tools:
        answer = cluster.ask("use list_packages", "--session", result["session_id"])
        assert answer["outcome"] == "success", answer
    counted = since(before, partner.counted())
    spent = cluster("cost", "--by", "model", "--json").json["total"]
    assert (spent["input_tokens"], spent["output_tokens"]) == (counted.input_tokens, counted.output_tokens)
    assert counted.calls in (None, spent["calls"]) and spent["failed"] == spent["open_calls"] == 0
    received = [read_body(entry) for entry in cluster.entries("PROMPT_RECEIVED")]
    assert any(one.finish_reason in ("tool_calls", "tool_use") for one in received) is partner.calls_tools
    cached = sum(one.cached_tokens for one in received)
    costs = (counted.input_tokens - cached, counted.output_tokens, cached)
    assert spent["cost_usd"] == pytest.approx(sum(n * price for n, price in zip(costs, PRICES, strict=True)) / 1e6)
    cluster("down")
    for path in cluster.home.root.rglob("*"):
        assert not path.is_file() or partner.key.encode() not in path.read_bytes(), path


def test_a_provider_that_is_killed_in_the_middle_of_an_answer_is_told_and_recorded(cluster: Cluster, strict: Partner):
    """What was shown of it is taken back, and the next of its chain answers; nothing stays reserved."""
    add(cluster, strict, "openai")
    path = cluster.home.config / "admin_config.json"
    config = json.loads(path.read_text())
    config["gateway"]["outage_wait_ms"] = 2000
    offline = {"provider_id": "offline", "model_id": "offline-rules-1"}
    chain = {"provider_id": "openai", "model_id": strict.models["openai"], "routes": [offline]}
    config["gateway"]["fallbacks"] = [chain]
    path.write_text(json.dumps(config))
    cluster.up("--detach")
    with typing("ask", "--home", str(cluster.home.root), "answer slowly, please") as asking:
        asking.until("word word word")
        strict.process.kill()
        code = asking.end()
        shown = asking.text.replace("\n", "")
    assert code == exit_codes.OK, shown
    assert any("… " in moment for moment in asking.moments), "what was shown gave way to why it is made anew"
    assert "word word" not in shown and "error (PROVIDER_ERROR)" not in shown, shown
    ended = {entry.submission_id.partition(":")[2]: entry for entry in cluster.entries(*ENDS)}
    sent = [entry.submission_id.partition(":")[2] for entry in cluster.entries("PROMPT_SENT")]
    assert sorted(sent) == sorted(ended) and len(ended) == len(cluster.entries(*ENDS)), "each has one end"
    first = cluster.entries("PROMPT_FAILED")[0]
    assert (first.reason, read_body(first).is_unknown) == ("PROVIDER_ERROR", True)
    assert read_body(cluster.entries("PROMPT_RECEIVED")[-1]).provider_id == "offline", "who answered is who is recorded"
    eventually(lambda: all(row["reserved"] == 0 for row in cluster("budget", "--json").json["scopes"]))
    assert cluster("cost", "--json").json["total"]["unknown_outcomes"] >= 1
