"""An actor that does what a prompt tells it, and records what was done to it."""

from __future__ import annotations

import asyncio

from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import (
    Breakers,
    Budget,
    DegradedPrompt,
    Prompt,
    PromptResponse,
    ReadBreakers,
    ReadBudget,
    ScopeBudget,
)
from hobus.bus.messages.ledger import Body, GetBody
from hobus.bus.port import Bus


def prompt(script: str) -> Prompt:
    """A prompt whose work order id is the script: `echo TEXT`, `sleep SECONDS`, `hold`, `refuse`, `crash`, `big BYTES`."""
    return Prompt(
        messages=[],
        prompt_pack_id="p",
        contract_id="c",
        agent_id="a",
        work_order_id=script,
        session_id="s",
        max_tokens=1,
        temperature=0.0,
        idempotency_key=script,
    )


class Desk(Actor):
    """A gateway for tests."""

    service = "gateway"

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.calls: list[Call] = []
        self.go = asyncio.Event()
        self.instance = ""

    async def start(self, bus: Bus) -> None:
        self.instance = bus.instance
        self.bus = bus

    async def on_prompt(self, message: Prompt, call: Call) -> PromptResponse:
        self.begun.append(message.work_order_id)
        self.calls.append(call)
        try:
            return PromptResponse(outcome="SUCCESS", content=await self._do(message.work_order_id))
        finally:
            self.ended.append(message.work_order_id)

    async def on_degraded(self, message: DegradedPrompt, call: Call) -> PromptResponse:
        self.calls.append(call)
        return PromptResponse(outcome="SUCCESS", content=await self._do(message.prompt.work_order_id))

    async def _do(self, script: str) -> str:
        what, _, rest = script.partition(" ")
        if what == "sleep":
            await self.bus.sleep(float(rest))
        elif what == "hold":
            await self.go.wait()
        elif what == "refuse":
            raise GatewayError("RATE_LIMITED", "too many calls", retryable=True, facts={"retry_after_ms": 5})
        elif what == "crash":
            raise ValueError("the secret prompt text")
        elif what == "big":
            return "x" * int(rest)
        return rest or self.instance

    async def on_budget(self, message: ReadBudget, call: Call) -> Budget:
        self.calls.append(call)
        row = ScopeBudget(
            scope=message.session_id,
            limit=None,
            used=0,
            reserved=0,
            remaining=None,
            calls=0,
            cost_usd=None,
            unknown_calls=0,
        )
        return Budget(mode="off", scopes=[row])

    async def on_breakers(self, message: ReadBreakers, call: Call) -> Breakers:
        self.calls.append(call)
        await self.go.wait()
        return Breakers(breakers=[])


class Shelf(Actor):
    """A ledger for tests: every ref's body is the ref itself; refs that begin with `hold` wait."""

    service = "ledger"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.calls: list[Call] = []
        self.go = asyncio.Event()

    async def on_get_body(self, message: GetBody, call: Call) -> Body:
        self.asked.append(message.ref)
        self.calls.append(call)
        if message.ref.startswith("hold"):
            await self.go.wait()
        return Body(ref=message.ref, data=message.ref.encode())
