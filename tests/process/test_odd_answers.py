"""Answers of models that are odd and no outage: each turn, through a whole cluster, says what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from bench.cluster import Cluster
from bench.gateway.servers import Request, answering, completion
from hobus.bus.messages.session import ProcessTurn, SessionConfig, TurnResult
from hobus.launch.sessions.watched_turn import answer_of

pytestmark = pytest.mark.process

CLASSIFIED = '{"speech_act": "question", "ambiguity": "low"}'
FUNCTION = {"name": "list_packages", "arguments": '{"a": 1,'}


def calling(function: dict[str, str]) -> dict[str, Any]:
    """A message with one call."""
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


CALL = calling(FUNCTION)
TWO_MB = calling({"name": "list_packages", "arguments": json.dumps({"a": "x" * (2 << 20)})})
NINE_MB = calling({"name": "list_packages", "arguments": json.dumps({"a": "x" * (9 << 20)})})
ROUTER = {"id": "gen-1", "error": {"code": 502, "message": "Upstream GPU fell over"}}


@dataclass(frozen=True)
class Odd:
    """What a model answers, one after the other, and what has to come of it."""

    says: Sequence[Any]
    outcome: str
    words: str
    cut: str = ""
    calls: int = 1
    sent: str = ""
    """What stands in the last request."""


ODD = {
    "surrogate": Odd([json.dumps(completion("the answer is 7 \ud83d"))], "success", "the answer is 7 \ufffd"),
    "length": Odd([completion("It stops in the midd", choice={"finish_reason": "length"})], "success", "It stops", "length"),
    "arguments": Odd(
        [completion(message=CALL, choice={"finish_reason": "tool_calls"}), completion("recovered")],
        "success", "recovered", calls=2, sent='"role": "tool"',
    ),
    "megabytes": Odd(
        [completion(message=TWO_MB, choice={"finish_reason": "tool_calls"}), completion("recovered")],
        "success", "recovered", calls=2, sent="at most 262144 are taken",
    ),
    "too-large": Odd([completion(message=NINE_MB)], "error", "larger than any answer that is read"),
    "error": Odd([ROUTER], "error", "Upstream GPU fell over", calls=2),
}  # fmt: skip


def test_an_odd_answer_is_told_as_what_it_is(cluster: Cluster, server: Any) -> None:
    """Half a character, a cut, arguments that are no JSON, an error inside a 200; nothing goes to another provider."""
    seen: dict[str, list[str]] = {name: [] for name in ("default", *ODD)}

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        name = request.path.split("/")[1]
        body = json.dumps(json.loads(request.body)) if request.body else ""  # without one it is asked for its window
        if '"response_format"' in body:
            return await answering(completion(CLASSIFIED))(request, writer)
        seen[name] += [body] if body else []
        says = ODD[name].says if name in ODD else [completion()]
        return await answering(says[min(len(seen[name]), len(says)) - 1])(request, writer)

    at = server(behave)
    common = {
        "models": [], "any_model": True, "concurrency_max": 4, "structured": "json_schema", "omit": [],
        "kind": "openai", "max_tokens_field": "max_tokens", "key": None,
    }  # fmt: skip
    providers = {f"p-{name}": common | {"base_url": f"{at.url}/{name}/v1"} for name in seen}
    gateway = {
        "providers": providers,
        "default_route": {"provider_id": "p-default", "model_id": "tiny"},
        "outage_wait_ms": 0,
        "attempts_max": 1,
    }
    cluster.home.config.mkdir(parents=True)
    (cluster.home.config / "admin_config.json").write_text(json.dumps({"gateway": gateway}))
    cluster.up("--detach")

    async def ask(name: str) -> TurnResult:
        wanted = SessionConfig(provider=f"p-{name}", model="tiny")
        turn = ProcessTurn(input_id=f"in-{name}", text="go on", run_overrides=wanted)
        return await answer_of(cluster.place, turn, timeout_s=30.0)

    for name, odd in ODD.items():
        result = asyncio.run(ask(name))
        assert (result.outcome, result.cut) == (odd.outcome, odd.cut), (name, result)
        assert odd.words in result.response, (name, result)
        assert len(seen[name]) == odd.calls and odd.sent in seen[name][-1], (name, seen[name])
    assert not [one for one in at.requests if one.body and one.path.startswith("/default/")]
