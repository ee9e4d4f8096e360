"""R8: how fast a cancel reaches a provider, and that a chain of hanging ones ends in time.

Cancels: a call is brought to where its provider is silent: before its answer, in the middle of it, or in the middle of
a streamed one. It is taken back, by whoever asked the gateway (`prompt`) or by the operator's command to the session
(`turn`), and the clock stops when the provider sees its connection end.

Deadlines: three models, each the fallback of the one before, at providers that hang each in another way, three attempts
allowed at each. Whoever asked for a prompt, or a turn, gives d seconds and must have an answer, not only its own time
run out, by d + 50 ms. Then the last model answers, and so must the call.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from bench.cancels import GOAL_MS
from bench.cluster import answered, cancelled
from bench.gateway.parts import MANY, MODEL_ID, TIRELESS, Books, ask, call_of, cluster_of
from bench.gateway.servers import Request, served
from bench.report import judged, percentile
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus

HANGS = {"silent": "before its answer", "stuck": "in the middle of its answer", "streamed": "in the middle of a stream"}
CHAIN = ("silent", "stuck", "drip")
WAYS = ("prompt", "turn")  # who takes a call back
DEADLINES_S = {"prompt": (0.5, 1.0, 2.0, 4.0), "turn": (1.0, 2.0, 4.0)}
ALONE = {"ho2.classify": False, "ho3.enabled": False, "budget.budget_mode": "off"}
RESERVE_MS = 200  # `gateway.fallback_reserve_ms`: what each model that may still be asked keeps of the call's time
LIMIT_S = 30.0


@dataclass(slots=True)
class Cancels:
    way: str
    at: str
    reached_ms: list[float] = field(default_factory=list[float])
    open: int = 0  # connections that the provider never saw the end of

    @property
    def faults(self) -> list[str]:
        p99 = round(percentile(self.reached_ms, 99), 1)
        found = [f"{self.way} {self.at}: p99 {p99} ms"] if p99 > GOAL_MS else []
        return [*found, f"{self.way} {self.at}: {self.open} still open"] if self.open else found


@dataclass(slots=True)
class Deadlines:
    what: str
    last: str  # what the last model of the chain does
    deadline_ms: int
    late_ms: list[float] = field(default_factory=list[float])  # answered so long after the deadline; negative: before
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    models: dict[str, int] = field(default_factory=dict[str, int])  # calls of each

    @property
    def faults(self) -> list[str]:
        """Late, untold, or not helped by a model that answers."""
        name = f"{self.what}, last one {self.last}, {self.deadline_ms} ms"
        found = [f"{name}: {max(self.late_ms)} ms late"] if max(self.late_ms) > GOAL_MS else []
        right = ("success", "degraded") if self.last == "whole" else ("timeout", "error")
        return found + [f"{name}: {n} {told}" for told, n in self.outcomes.items() if not told.startswith(right)]


class _Hanging:
    """A provider that hangs, and says when each connection ended."""

    def __init__(self) -> None:
        self.way = "silent"
        self.begun, self.ended = asyncio.Event(), asyncio.Event()
        self.ended_at = 0.0
        self.loop = asyncio.get_running_loop()
        self.books = Books(lambda call: self.way)

    async def behave(self, request: Request, writer: asyncio.StreamWriter) -> None:
        asking = asyncio.ensure_future(self.books.behave(request, writer))
        await asyncio.sleep(0.01)  # what it says first is on its way
        self.loop.call_soon_threadsafe(self.begun.set)
        try:
            await asking
        finally:
            asking.cancel()
            self.ended_at = time.monotonic()
            self.loop.call_soon_threadsafe(self.ended.set)


async def measure_cancels(count: int, ways: tuple[str, ...] = WAYS) -> list[Cancels]:
    provider = _Hanging()
    settings = {**TIRELESS, **ALONE, "gateway.breaker.silence_ms": 60_000, "budget.session_token_limit": MANY}
    # A turn's answer is always streamed.
    rows = [Cancels(way, at) for way in ways for at in HANGS if (way, at) != ("turn", "stuck")]
    with ExitStack() as stack:
        server = stack.enter_context(served(provider.behave))
        cluster = await asyncio.to_thread(stack.enter_context, cluster_of({"mine": server.url}, settings))
        place = cluster.place
        async with (
            connect_bus(place, "ho1") as bus, connect_bus(place, "door") as door, connect_bus(place, "operator") as operator,
        ):  # fmt: skip
            for row, number in product(rows, range(count)):
                provider.way, name = "stuck" if row.at == "streamed" else row.at, f"{row.way}-{row.at}-{number}"
                if row.way == "prompt":
                    await _one(provider, row, _prompted(bus, name, LIMIT_S, stream=row.at == "streamed"), None)
                else:
                    cancel = cancelled(operator, derive_session_id("door", name), name)
                    await _one(provider, row, _turned(door, name, LIMIT_S), cancel)
    return rows


async def _one(provider: _Hanging, row: Cancels, asking: Awaitable[Any], take_back: Awaitable[None] | None) -> None:
    """A call that hangs is taken back: by a command, or by whoever asks."""
    provider.begun.clear()
    provider.ended.clear()
    asked = asyncio.ensure_future(asking)
    await asyncio.wait_for(provider.begun.wait(), LIMIT_S)
    at = time.monotonic()
    if take_back is None:
        asked.cancel()
    else:
        await take_back
    try:
        await asyncio.wait_for(provider.ended.wait(), 3.0)
        row.reached_ms.append(round((provider.ended_at - at) * 1000, 2))
    except TimeoutError:
        row.open += 1
    await asyncio.gather(asked, return_exceptions=True)


def measure_deadlines(calls: int, what: str, last: str, deadlines_s: tuple[float, ...]) -> list[Deadlines]:
    """Calls along a chain of three, so many at each deadline; `last`: what its last model does."""
    ways = {"m1": CHAIN[0], "m2": CHAIN[1], "m3": last}
    first, *following = [{"provider_id": name, "model_id": MODEL_ID} for name in ways]
    fallbacks = {"gateway.fallbacks": [{**first, "routes": following}], "gateway.fallback_reserve_ms": RESERVE_MS}
    with ExitStack() as stack:
        now = dict.fromkeys(ways, "whole")  # at first, until each is loaded
        books = {name: Books(lambda _call, name=name: now[name]) for name in ways}
        urls = {name: stack.enter_context(served(one.behave)).url for name, one in books.items()}
        cluster = stack.enter_context(cluster_of(urls, TIRELESS | ALONE | fallbacks))

        async def measure() -> list[Deadlines]:
            async with connect_bus(cluster.place, "ho1") as bus:
                for one in (first, *following):  # what is loaded beside the gateway's start is not the subject
                    name = one["provider_id"]
                    wanted = call_of(f"WO-{name}#1", derive_session_id("door", name), **one)
                    assert (await ask(bus, wanted, timeout_s=LIMIT_S)).outcome == "SUCCESS"
            now.update(ways)
            rows = [Deadlines(what, last, round(deadline_s * 1000)) for deadline_s in deadlines_s]
            ask_for = _prompted if what == "prompt" else _turned
            async with connect_bus(cluster.place, "ho1" if what == "prompt" else "door") as bus:
                for row, deadline_s in zip(rows, deadlines_s, strict=True):
                    before = {name: len(one.calls) for name, one in books.items()}
                    for number in range(calls):
                        began = time.monotonic()
                        outcome = await ask_for(bus, f"d{row.deadline_ms}n{number}", deadline_s)
                        row.outcomes[outcome] = row.outcomes.get(outcome, 0) + 1
                        row.late_ms.append(round((time.monotonic() - began - deadline_s) * 1000, 1))
                    row.models = {name: len(one.calls) - before[name] for name, one in books.items()}
            return rows

        return asyncio.run(measure())


async def _prompted(bus: Bus, name: str, timeout_s: float, *, stream: bool = False) -> str:
    wanted = call_of(f"WO-{name}#1", derive_session_id("door", name), stream=stream)
    to: Any = {"message_id": wanted.idempotency_key, "on_stream": (lambda _: None) if stream else None}
    try:
        answer = await bus.request("gateway", wanted, expect=PromptResponse, timeout_s=timeout_s, **to)
    except RuntimeFault as fault:
        return f"fault {fault.code}"
    return f"{answer.outcome.lower()} {answer.error_code or ''}".strip()


async def _turned(door: Bus, name: str, timeout_s: float) -> str:
    try:
        result = await answered(door, f"{name} is what I ask", input_id=name, timeout_s=timeout_s)
    except RuntimeFault as fault:
        return f"fault {fault.code}"
    return f"{result.outcome} {result.code or ''}".strip()


OPTIONS = {"cancels": (200, "of each row; 0: none"), "calls": (10, "at each deadline; 0: none")}


def run(given: argparse.Namespace) -> int:
    """0 where every row reaches its goal."""
    is_wrong = 0
    if given.cancels:
        rows: list[Any] = asyncio.run(measure_cancels(given.cancels))
        is_wrong |= judged(given, rows, name="gateway cancels", how=f"goal: p99 {GOAL_MS} ms")
    if given.calls:
        wanted = [(what, last) for what in DEADLINES_S for last in (CHAIN[-1], "whole")]
        rows = [row for one in wanted for row in measure_deadlines(given.calls, *one, DEADLINES_S[one[0]])]
        is_wrong |= judged(given, rows, name="gateway deadlines", how=f"goal: answered by d + {GOAL_MS} ms")
    return is_wrong
