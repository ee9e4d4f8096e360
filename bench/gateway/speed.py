"""P13, P14, P15: what a call through the gateway costs, beside the same call made directly and beside LiteLLM's proxy.

One upstream for all, the model server of `bench.waiting` that thinks for no time and says twenty words, one client
process, all sides in turns. `gateway`: prompts as an executor sends them, over the bus to a gateway with full duty:
authenticated, reserved in four scopes, rate limited, through the breaker, PROMPT_SENT durable before the send and the
answer recorded. `same call`: the gateway's own provider class in this process, so that the difference is the gateway.
`openai SDK`: its default client and typed answers. `LiteLLM`: its proxy with one worker and no database, asked by the
same SDK; it records nothing durable.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from bench.cluster import eventually
from bench.gateway.parts import KEY, MANY, MODEL_ID, TIRELESS, call_of, cluster_of
from bench.gateway.parts import ask as repeat
from bench.gateway.servers import OPENAI, instance
from bench.peers.environment import PeerAway, python_of
from bench.report import Goal, concluded, goals_table, markdown
from bench.waiting.provider import provider
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.port import Bus
from hobus.gateway_service.providers.http.provider import HttpProvider
from hobus.launch.cluster.client import connect_bus

LITELLM = ("litellm[proxy]==1.106.2",)
WORDS, LENGTH = 20, 600  # of the answer; and characters of the prompt
MEASURED = {"p50_ms": (100, 1, 0), "per_s": (800, 64, 1), "streams_per_s": (200, 16, 1)}
"""Figure -> calls of a round, how many of them in flight, and which of what `taken` returns it is."""
RATE = {"requests_per_minute": 10_000_000, "requests_burst": 100_000, "tokens_per_minute": MANY, "tokens_burst": MANY}
GOALS = (
    Goal("P13", "added p50 at one in flight", "at most", 1.0, "p13_added_ms", " ms"),
    Goal("P14", "calls/s at 64 / LiteLLM proxy", "at least", 8.0, "p14_per_litellm", "x"),
    Goal("P15", "streams/s at 16 / LiteLLM proxy", "at least", 10.0, "p15_per_litellm", "x"),
)

Ask = Callable[[bool], Awaitable[None]]  # one call, streamed or not


Figures = dict[str, list[float]]  # of one side by figure, a value per round


def through_gateway(bus: Bus) -> Ask:
    """As an executor asks, each call one of its own order and session."""
    numbers, prefix = itertools.count(1), bus.new_id()

    async def ask(streamed: bool) -> None:
        key = f"WO-{prefix}-{next(numbers)}#1"
        wanted = call_of(key, derive_session_id("door", key), length=LENGTH, stream=streamed)
        answer = await repeat(bus, wanted, timeout_s=60, on_stream=_hear if streamed else None)
        assert answer.outcome == "SUCCESS", answer

    return ask


def same_call(direct: HttpProvider) -> Ask:
    """The class that asks for the gateway, and nothing else of it."""
    wanted = call_of("WO-direct#1", derive_session_id("door", "direct"), length=LENGTH)

    async def ask(streamed: bool) -> None:
        answer = await direct.complete(wanted, model_id=MODEL_ID, timeout_s=60, on_delta=_hear if streamed else None)
        assert answer.outcome == "SUCCESS"

    return ask


def by_sdk(url: str, key: str) -> Ask:
    """As people ask: the SDK's default client and its types."""
    import openai  # noqa: PLC0415 - half a second, for this side alone

    client = openai.AsyncOpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)
    text = "WO-direct#1 ".ljust(LENGTH, ".")
    asked: dict[str, Any] = {"model": MODEL_ID, "messages": [{"role": "user", "content": text}], "max_tokens": 100}

    async def ask(streamed: bool) -> None:
        answer = await client.chat.completions.create(stream=streamed, **asked)
        choices = [piece.choices async for piece in answer] if streamed else [answer.choices]
        assert choices[0]

    return ask


def _hear(_piece: object) -> None:
    """Pieces are counted by nobody."""


@contextmanager
def litellm(url: str) -> Generator[str]:
    """The address of its proxy in front of this one. Raises PeerAway."""
    python = python_of("litellm-proxy", LITELLM)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="hobus-litellm-") as directory:
        config = Path(directory) / "config.yaml"
        model = {"model": f"openai/{MODEL_ID}", "api_base": f"{url}/v1", "api_key": "sk-up"}
        config.write_text(json.dumps({
            "model_list": [{"model_name": MODEL_ID, "litellm_params": model}],
            "general_settings": {"master_key": KEY}, "litellm_settings": {"num_retries": 0, "telemetry": False},
        }))  # fmt: skip
        command = [str(python.parent / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        log = (Path(directory) / "log").open("wb")
        process = subprocess.Popen([*command, "--num_workers", "1"], stdout=log, stderr=log, env=environ)
        address = f"http://127.0.0.1:{port}"
        try:
            eventually(lambda: _lives(f"{address}/health/liveliness"), within_s=180)
            yield address
        finally:
            process.terminate()
            process.wait(30)
            log.close()


def _lives(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


async def taken(ask: Ask, calls: int, at_once: int, *, streamed: bool = False) -> tuple[float, float]:
    """Milliseconds of a call (p50), and calls per second."""
    times, left, began = list[float](), iter(range(calls)), time.perf_counter()

    async def worker() -> None:
        for _ in left:
            asked_at = time.perf_counter()
            await ask(streamed)
            times.append(time.perf_counter() - asked_at)

    await asyncio.gather(*(worker() for _ in range(at_once)))
    return round(statistics.median(times) * 1000, 2), round(calls / (time.perf_counter() - began), 1)


async def one_round(sides: dict[str, Ask], found: dict[str, Figures], scale: float) -> None:
    for figure, (calls, at_once, which) in MEASURED.items():
        for name, ask in sides.items():
            took = await taken(ask, round(calls * scale), at_once, streamed=figure == "streams_per_s")
            found[name][figure].append(took[which])


async def measure(bus_place: Any, url: str, proxy: str | None, rounds: int, scale: float) -> dict[str, Figures]:
    async with connect_bus(bus_place, "ho1") as bus, AsyncExitStack() as stack:
        stack.push_async_callback((direct := instance(OPENAI, url, concurrency_max=64)).close)
        sides = {"gateway": through_gateway(bus), "same call": same_call(direct), "openai SDK": by_sdk(url, KEY)}
        if proxy is not None:
            sides["LiteLLM"] = by_sdk(proxy, KEY)
        await one_round(sides, {name: defaultdict(list) for name in sides}, scale / 4)
        found: dict[str, Figures] = {name: defaultdict(list) for name in sides}
        for number in range(rounds):
            await one_round(sides, found, scale)
            print(f"round {number + 1}: {found}", file=sys.stderr, flush=True)
        return found


ADDED, TIMES = float.__sub__, float.__truediv__
REACHED: dict[str, tuple[str, str, str, Callable[[float, float], float]]] = {
    "p13_added_ms": ("gateway", "same call", "p50_ms", ADDED),
    "p13_litellm_added_ms": ("LiteLLM", "openai SDK", "p50_ms", ADDED),
    "p14_per_litellm": ("gateway", "LiteLLM", "per_s", TIMES),
    "p15_per_litellm": ("gateway", "LiteLLM", "streams_per_s", TIMES),
}


def goals(found: dict[str, Figures]) -> dict[str, float]:
    """Each figure, the median over the rounds; only those whose sides were measured."""
    return {
        name: round(statistics.median(map(how, found[one][figure], found[two][figure])), 2)
        for name, (one, two, figure, how) in REACHED.items()
        if one in found and two in found
    }


def table(found: dict[str, Figures]) -> str:
    """The sides, then the goals."""
    columns = ("", "p50 ms, 1 in flight", "calls/s, 64 in flight", "streams/s, 16 in flight")
    sides = [(name, *(round(statistics.median(values), 1) for values in one.values())) for name, one in found.items()]
    reached = goals(found)
    told = [markdown(columns, sides), goals_table(GOALS, reached)]
    if "LiteLLM" in found:
        told.append(f"LiteLLM's proxy adds {reached['p13_litellm_added_ms']} ms to a call of the SDK.")
    return "\n\n".join(told)


OPTIONS = {
    "rounds": 5,
    "no_peer": (False, "without LiteLLM; no registry is asked"),
    "scale": (1.0, "calls of a round, as a share of the usual number"),
}


def run(given: argparse.Namespace) -> int:
    """0: it measures, and says in the table what is missed."""
    settings = TIRELESS | {
        "budget.budget_mode": "enforce", "gateway.provider_rates": {"mine": RATE}, "gateway.session_rate": RATE,
    }  # fmt: skip
    try:
        with (
            provider(0.0, WORDS) as model, cluster_of({"mine": model.url}, settings) as cluster,
            (nullcontext() if given.no_peer else litellm(model.url)) as proxy,
        ):  # fmt: skip
            found = asyncio.run(measure(cluster.place, model.url, proxy, given.rounds, given.scale))
    except PeerAway as away:
        print(away, file=sys.stderr)
        return 1
    figures = {"goals": goals(found), "sides": found}
    how = f"medians of {given.rounds} rounds"
    return concluded(given, table(found), (), figures=figures, name="gateway speed", how=how)
