"""Servers that refuse, fail, lie, drip and flood behind a whole cluster: each turn ends in time with its true reason."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import Cluster
from bench.gateway.servers import Behave, Request, answering, completion, head, piece
from hobus.bus.messages.session import ProcessTurn, SessionConfig, TurnResult
from hobus.bus.record.catalog import read_body
from hobus.launch.sessions.watched_turn import answer_of

pytestmark = pytest.mark.process

QUESTION = "why is the sky blue?"
KEY = "sk-planted-8f2b6c1d9e"
TURN_S = 30.0
REQUEST_MS = 8_000
"""Longer than the SDK takes to load on a busy machine."""
ATTEMPTS = 2
BIG = 100 << 20
GIVEN_UP = ("PROVIDER_REFUSED", "PROVIDER_UNUSABLE", "answer_cut")
"""Nothing that another model's answer would fix: the turn says it, and is not answered."""
SAYS = {
    "drip": "did not finish an answer of tiny within 8", "drip-stream": "allow more time",
    "flood": "larger than any answer", "flood-stream": "larger than any answer", "close": "gave no answer that can be read",
    "400": "I do not like", "401": "give it a valid one", "403": "choose another one", "404": "there is no model tiny",
    "429": "answered 429: it takes no more for now", "500": "answered 500: it failed. It says: I do not like",
    "400-quotes": "does not take this request.", "500-quotes": "answered 500: it failed", "502": "answered 502: it failed",
    "keyless": "NOT_THERE", "anthropic": "hobus[anthropic]",
}  # fmt: skip
"""What stands in the words about some of them: what the provider did, and the fix."""
taken: Counter[str] = Counter()
"""Bytes that were read of each flood."""


@dataclass(frozen=True)
class Fault:
    """What a server does, and what must stand in the record."""

    behave: Behave | None
    reason: str
    sends: int = ATTEMPTS
    is_unknown: bool = False
    stream: bool = False
    key: str = "env:THE_KEY"


def fault_of(request: Request) -> str:
    """Whose server is asked: each has a path of its own."""
    return request.path.split("/")[1]


def dripping(content_type: str, text: str) -> Behave:
    """A byte a second."""

    async def behave(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(content_type=content_type))
        for letter in text:
            writer.write(letter.encode())
            await writer.drain()
            await asyncio.sleep(1)

    return behave


def flooding(content_type: str, begin: bytes) -> Behave:
    """A hundred megabytes without a newline, as far as somebody reads them."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head(content_type=content_type) + begin)
        for _ in range(BIG >> 16):
            writer.write(b"x" * (1 << 16))
            await writer.drain()
            taken[fault_of(request)] += 1 << 16

    return behave


def closing(begin: bytes) -> Behave:
    """The beginning of an answer, and the end of the connection."""

    async def behave(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        await writer.drain()

    return behave


def refusing(status: int, *, quotes: bool = False, **headers: Any) -> Behave:
    """With the key that it was sent in its words, or with the question."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        assert KEY in request.headers["authorization"] and QUESTION.encode() in request.body
        said = f"I do not like {QUESTION if quotes else KEY}"
        await answering({"error": {"message": said}}, status, **headers)(request, writer)

    return behave


JSON, EVENTS = "application/json", "text/event-stream"
HALF = head(content_type=JSON, content_length=1000) + b'{"choices": ['
PIECE = head(content_type=EVENTS) + b"data: " + json.dumps(piece(content="It is ")).encode() + b"\n\n"
DEEP = "[" * 200_000

FAULTS = {
    "drip": Fault(dripping(JSON, json.dumps(completion())), "PROVIDER_TIMEOUT", sends=1, is_unknown=True),
    "drip-stream": Fault(dripping(EVENTS, ":" * 999), "PROVIDER_TIMEOUT", sends=1, is_unknown=True, stream=True),
    "flood": Fault(flooding(JSON, b'{"choices": "'), "answer_cut", sends=1),
    "flood-stream": Fault(flooding(EVENTS, b"data: "), "answer_cut", sends=1, stream=True),
    "close": Fault(closing(HALF), "PROVIDER_ERROR", is_unknown=True),
    "close-stream": Fault(closing(PIECE), "PROVIDER_ERROR", is_unknown=True, stream=True),
    "deep": Fault(answering(DEEP), "PROVIDER_ERROR", is_unknown=True),
    "deep-stream": Fault(
        closing(head(content_type=EVENTS) + f"data: {DEEP}\n\n".encode()),
        "PROVIDER_ERROR",
        is_unknown=True,
        stream=True,
    ),
    "html": Fault(answering("<html>", content_type="text/html"), "PROVIDER_ERROR", is_unknown=True),
    "binary": Fault(answering(b"\xff\x00" * 99, content_type="image/png"), "PROVIDER_ERROR", is_unknown=True),
    "400": Fault(refusing(400), "PROVIDER_REFUSED", sends=1),
    "400-quotes": Fault(refusing(400, quotes=True), "PROVIDER_REFUSED", sends=1),
    "401": Fault(refusing(401), "PROVIDER_REFUSED", sends=1),
    "403": Fault(refusing(403), "PROVIDER_REFUSED", sends=1),
    "404": Fault(refusing(404), "PROVIDER_REFUSED", sends=1),
    "429": Fault(refusing(429), "PROVIDER_RATE_LIMITED"),
    "429-1": Fault(refusing(429, retry_after="1"), "PROVIDER_RATE_LIMITED"),
    "429-9999": Fault(refusing(429, retry_after="9999"), "PROVIDER_RATE_LIMITED", sends=1),
    "500": Fault(refusing(500), "PROVIDER_ERROR"),
    "500-quotes": Fault(refusing(500, quotes=True), "PROVIDER_ERROR"),
    "502": Fault(refusing(502), "PROVIDER_ERROR", is_unknown=True),
    "keyless": Fault(None, "PROVIDER_UNUSABLE", sends=0, key="env:NOT_THERE"),
}


def configure(cluster: Cluster, url: str) -> None:
    """An instance per fault, at a path of its own, and one whose SDK is not there."""
    common = {"models": [], "any_model": True, "concurrency_max": 4, "structured": "json_schema", "omit": []}
    openai = {**common, "kind": "openai", "max_tokens_field": "max_tokens"}
    providers: dict[str, Any] = {
        f"p-{name}": {**openai, "base_url": f"{url}/{name}/v1", "key": fault.key} for name, fault in FAULTS.items()
    }
    providers["p-anthropic"] = {**common, "kind": "anthropic", "base_url": f"{url}/anthropic", "key": "env:THE_KEY"}
    gateway = {
        "providers": providers,
        "attempts_max": ATTEMPTS,
        "outage_wait_ms": 0,  # else what may pass is waited for
        "request_timeout_ms": REQUEST_MS,
        "stream_silence_ms": REQUEST_MS,
    }
    cluster.home.config.mkdir(parents=True)
    own = {"gateway": gateway, "ho2": {"classify": False}}
    (cluster.home.config / "admin_config.json").write_text(json.dumps(own))


def without_anthropic(directory: Path) -> Path:
    """A place to import from in which the package is not installed, whatever this environment has."""
    directory.mkdir()
    text = 'raise ModuleNotFoundError("No module named \'anthropic\'", name="anthropic")\n'
    (directory / "anthropic.py").write_text(text)
    return directory


async def ask(cluster: Cluster, name: str, *, stream: bool) -> TurnResult:
    """A turn through the provider `p-<name>`."""
    wanted = SessionConfig(provider=f"p-{name}", model="tiny")
    turn = ProcessTurn(input_id=f"in-{name}", text=QUESTION, stream=stream, run_overrides=wanted)
    return await answer_of(cluster.place, turn, timeout_s=TURN_S)


def test_every_fault_of_a_provider_ends_its_turn_with_its_own_reason(cluster: Cluster, server, tmp_path: Path):
    """Told, recorded as often as it was sent, its budget settled; the key is in no log, record, answer or look at the bus."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        fault = FAULTS[fault_of(request)].behave
        assert fault is not None
        await fault(request, writer)

    at = server(behave)
    configure(cluster, at.url)
    cluster.env |= {"THE_KEY": KEY, "PYTHONPATH": str(without_anthropic(tmp_path / "without"))}
    cluster.up("--detach")

    async def ask_all() -> list[TurnResult]:
        asking = [ask(cluster, name, stream=fault.stream) for name, fault in FAULTS.items()]
        return await asyncio.gather(*asking, ask(cluster, "anthropic", stream=False))

    results = dict(zip([*FAULTS, "anthropic"], asyncio.run(ask_all()), strict=True))
    tap = cluster("tap", "--since", "10m", "--bodies", "-f", "jsonl")
    assert (tap.code, KEY in tap.out + tap.err, QUESTION in tap.out) == (0, False, True), tap.err
    sent = Counter(read_body(entry).provider_id for entry in cluster.entries("PROMPT_SENT"))
    asked = Counter(fault_of(request) for request in at.requests if request.body)  # without one: for its window
    failed = [(entry.reason, read_body(entry)) for entry in cluster.entries("PROMPT_FAILED")]
    ends = {name: [end for end in failed if end[1].provider_id == f"p-{name}"] for name in results}
    found = {
        name: (
            sent[f"p-{name}"],
            asked[name],
            {reason for reason, _ in ends[name]},
            {payload.is_unknown for _, payload in ends[name]},
            len(ends[name]),
        )
        for name in FAULTS
    }
    # What may pass is tried once more, as the last resort, by the provider that was named and by no other one.
    times = {name: 1 if fault.reason in GIVEN_UP else 2 for name, fault in FAULTS.items()}
    sends = {name: fault.sends * times[name] for name, fault in FAULTS.items()}
    # A stream that says something now and then has all of its turn's time, and leaves the last resort too little.
    reasons = {name: {fault.reason} for name, fault in FAULTS.items()}
    reasons["drip-stream"].add("DEADLINE_EXCEEDED")
    assert found == {
        name: (sends[name], sends[name], reasons[name], {fault.is_unknown}, sends[name])
        if fault.sends and fault.reason != "answer_cut"
        else (sends[name], sends[name], set(), set(), 0)
        for name, fault in FAULTS.items()
    }
    rejected = {entry.reason: entry for entry in cluster.entries("PROMPT_REJECTED")}
    assert set(rejected) == {"PROVIDER_UNUSABLE"}
    for name, result in results.items():
        reason = FAULTS[name].reason if name in FAULTS else "PROVIDER_UNUSABLE"
        assert result.outcome == "error" and result.code in reasons.get(name, {reason}), (name, result)
        told = result.response
        assert (f"p-{name} " in told or reason == "answer_cut") and SAYS.get(name, "") in told, (name, result)
        assert result.response and KEY not in result.model_dump_json() and QUESTION not in told, (name, result)
    recorded = [payload.message for _, payload in failed]
    assert [message for message in recorded if " raised " in message or QUESTION in message] == []
    assert taken.keys() == {"flood", "flood-stream"} and max(taken.values()) < BIG >> 1, taken
    scopes = cluster("budget", "--json").json["scopes"]
    assert [scope for scope in scopes if scope["reserved"]] == []
    cluster("down")
    for path in cluster.home.root.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
