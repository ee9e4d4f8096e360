"""The world beyond the cluster: a model that fails and dawdles as drawn, and tools whose effects are counted there.

It is also where two promises can be checked as they are kept or broken: no model is called before its PROMPT_SENT is
durable, and a tool call that must not run twice runs once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolHost
from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.session import TurnResult
from hobus.bus.sim.clock import Draw
from hobus.config.attention_template import CLASSIFICATIONS
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.providers.offline.model import MODELS
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from hobus.launch.lab.simulation.record import Broken, must

WORK_S = 0.05
"""What a tool takes; its effect comes in the middle."""
SLOW_SHARE = 0.1
_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_FAULTS = (
    ("PROVIDER_ERROR", True),
    ("RATE_LIMITED", True),
    ("PROVIDER_TIMEOUT", True),
    ("PROVIDER_ERROR", False),
)

Report = Callable[[Broken], None]


@dataclass(slots=True, eq=False)
class Model:
    """Implement `bus.port.Provider` around the embedded rules: errors, slowness, the calls by key."""

    inner: OfflineProvider
    draw: Draw
    errors: float
    slow_s: float
    labels_s: float
    is_sent: Callable[[str, int], bool]
    report: Report
    calls: Counter[str] = field(default_factory=Counter[str])

    @property
    def provider_id(self) -> str:
        return self.inner.provider_id

    async def prepare(self) -> None:
        await self.inner.prepare()

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        key = prompt.idempotency_key
        self.calls[key] += 1
        if not self.is_sent(key, self.calls[key]):
            self.report(Broken(f"call {self.calls[key]} under {key} leaves before its PROMPT_SENT is durable"))
        if self.slow_s and self.draw.random() < SLOW_SHARE:
            await asyncio.sleep(min(self.slow_s, timeout_s))
            if self.slow_s >= timeout_s:
                raise GatewayError("PROVIDER_TIMEOUT", f"no answer within {timeout_s:g} s", retryable=True)
        if self.labels_s and prompt.contract_id == CLASSIFICATIONS:
            await asyncio.sleep(min(self.labels_s, timeout_s))
        if self.errors and self.draw.random() < self.errors:
            code, is_retryable = self.draw.choice(_FAULTS)
            raise GatewayError(code, "the simulated provider failed", retryable=is_retryable)
        answer = await self.inner.complete(prompt, model_id=MODELS[0], timeout_s=timeout_s, on_delta=on_delta)
        return answer.model_copy(update={"model_id": model_id})


class Outside:
    """What tools did: places booked under the call's key, and letters, which know no key."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.booked: dict[str, int] = {}
        self.sent: Counter[str] = Counter()

    async def book(self, _arguments: Mapping[str, Any], host: ToolHost) -> dict[str, Any]:
        """Book under the call's key, as a service outside does that is asked twice: the second time changes nothing."""
        await asyncio.sleep(WORK_S / 2)
        number = self.booked.setdefault(host.context["idempotency_key"], len(self.booked) + 1)
        await asyncio.sleep(WORK_S / 2)
        return {"number": number}

    async def send(self, _arguments: Mapping[str, Any], host: ToolHost) -> dict[str, Any]:
        """Send a letter: without a key, each call is one more."""
        await asyncio.sleep(WORK_S / 2)
        order = host.context["wo_id"]
        self.sent[order] += 1
        try:
            must(self.sent[order] == 1, f"the letter of {order} is sent twice")
        except Broken as broken:
            self._report(broken)
        await asyncio.sleep(WORK_S / 2)
        return {"sent": True}

    def compare(self, told: Iterable[TurnResult]) -> None:
        """Raise Broken where clients were told of more successes than there are effects."""
        succeeded = Counter(call.tool_id for result in told for call in result.tool_calls if call.status == "Succeeded")
        must(succeeded["book"] <= len(self.booked), f"{succeeded['book']} booked, it was said: {len(self.booked)}")
        letters = self.sent.total()
        must(succeeded["send_letter"] <= letters, f"{succeeded['send_letter']} letters sent, it was said: {letters}")

    def tools(self) -> tuple[ToolDefinition, ...]:
        return (
            ToolDefinition("book", "Books a place.", _NOTHING, idempotent=True, run=self.book),
            ToolDefinition("send_letter", "Sends a letter.", _NOTHING, idempotent=False, run=self.send),
        )


def with_tools(snapshot: Snapshot, *tools: ToolDefinition) -> Snapshot:
    """Return this configuration with agents that may use these tools beside their own."""
    ids = tuple(tool.tool_id for tool in tools)
    agents = {
        agent_id: agent.model_copy(
            update={
                "tools": (*agent.tools, *ids),
                "permissions": agent.permissions.model_copy(update={"tools": (*agent.permissions.tools, *ids)}),
            }
        )
        for agent_id, agent in snapshot.agents.items()
    }
    return replace(snapshot, agents=agents)
