"""A real provider behind a whole cluster: through the official SDK, in the gateway alone, its key seen nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from bench.cluster import Cluster, family_in
from bench.gateway.servers import (
    DONE,
    USAGE_PIECE,
    Server,
    answering,
    completion,
    piece,
    streaming,
)
from hobus.bus.record.catalog import read_body
from tests.process.mcp_servers import ROOT

pytestmark = pytest.mark.process

KEY = "sk-planted-8f2b6c1d9e"


def add(cluster: Cluster, at: Server) -> None:
    """The provider `mine`, which answers what names none."""
    words = ("--base-url", f"{at.url}/v1", "--model", "tiny=1/2/0.5", "--key", "env:THE_KEY", "--default")
    answer = cluster("provider add", "mine", "--kind", "openai", *words)
    assert answer.code == 0, answer.err
    cluster.env["THE_KEY"] = KEY


async def talk(request, writer) -> None:
    """A classification whole, an answer in pieces if that is wanted."""
    if "response_format" in request.json or "labels" in str(request.json["messages"][0]):
        await answering(completion('{"speech_act": "command", "ambiguity": "low"}'))(request, writer)
    elif request.json.get("stream"):
        events = [piece(content="It is "), piece(content="blue."), piece("stop"), USAGE_PIECE]
        await streaming(events, end=DONE)(request, writer)
    else:
        await answering(completion("It is blue."))(request, writer)


def test_no_process_that_is_forked_has_an_sdk_in_it():
    """What the zygote loads, the role that asks providers among it, imports none, nor what they bring."""
    code = (
        "import importlib, sys\n"
        "from hobus.launch.launcher.zygote import MAIN, ROLES\n"
        "for name in (MAIN, *(f'hobus.launch.process.roles.{role}' for role in ROLES)): importlib.import_module(name)\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'httpcore2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_turn_is_answered_by_a_server_and_its_key_is_nowhere(cluster, server):
    """The answer, its usage and price are recorded; the key is in no file, environment or line."""
    at = server(talk)
    add(cluster, at)
    cluster.up("--detach")
    result = cluster.ask("why is the sky blue?")
    assert (result["outcome"], result["response"]) == ("success", "It is blue.")
    assert all(request.headers["authorization"] == f"Bearer {KEY}" for request in at.requests)
    received = [read_body(entry) for entry in cluster.entries("PROMPT_RECEIVED")]
    completions = [request for request in at.requests if request.method == "POST"]
    assert received and len(received) == len(completions)
    for payload in received:
        assert (payload.provider_id, payload.model_id, payload.finish_reason) == ("mine", "tiny", "stop")
        assert (payload.input_tokens, payload.cached_tokens, payload.reasoning_tokens) == (20, 8, 4)
        assert payload.cost_usd == pytest.approx((12 * 1 + 8 * 0.5 + 9 * 2) / 1e6)
    for process in family_in(cluster.home):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            assert KEY not in " ".join(process.cmdline())
            assert KEY not in json.dumps(process.environ())
    assert cluster.row("gateway/1").restarts == 0, "loading an SDK takes longer than the broker waits for a beat"
    cluster("down")
    for path in cluster.home.root.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
