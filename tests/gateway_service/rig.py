"""What the gateway's tests stand on: a simulated cluster with the real ledger, a scripted provider, prompts to send."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bench.builders import SESSION, shipped_snapshot
from hobus.bus.dispatch import Actor
from hobus.bus.messages.gateway import Budget, DegradedPrompt, Prompt, PromptResponse, ReadBudget
from hobus.bus.messages.ledger import Entry
from hobus.bus.peer import Peer
from hobus.bus.record.catalog import read_body
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.limits import CALLS_MAX
from hobus.gateway_service.service import GatewayService
from tests.rig import SimulatedRig, of_type

Act = Callable[[Prompt], Awaitable[PromptResponse]]
SHIPPED = shipped_snapshot()


def snapshot(**sections: dict[str, Any]) -> Snapshot:
    """The shipped snapshot with some settings changed, `snapshot(budget={"budget_mode": "enforce"})`, and a small ledger.

    No text of it is searched.
    """
    values = SHIPPED.config.model_dump()
    small = {
        "segment_bytes": 1 << 20, "reserve_bytes": 1 << 14,
        "search": {**values["ledger"]["search"], "enabled": False},
    }  # fmt: skip
    given = {**sections, "ledger": {**small, **sections.get("ledger", {})}}
    changed = {name: {**values[name], **changes} for name, changes in given.items()}
    return replace(SHIPPED, config=type(SHIPPED.config).model_validate({**values, **changed}))


def answered(content: str = "fine", **changes: Any) -> PromptResponse:
    """What a provider gives."""
    values: dict[str, Any] = {
        "outcome": "SUCCESS", "content": content, "finish_reason": "stop", "input_tokens": 7, "output_tokens": 5,
        "model_id": "scripted-1",
    }  # fmt: skip
    return PromptResponse(**{**values, **changes})


class Counting:
    """A provider's calls: each takes so long; how many are at work, and the most that ever were."""

    def __init__(self, call_s: float) -> None:
        self.call_s = call_s
        self.at_work = self.most = 0

    async def answer(self) -> PromptResponse:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            await asyncio.sleep(self.call_s)
        finally:
            self.at_work -= 1
        return answered()


@dataclass
class Scripted:
    """A provider that does what the test says and counts what reached it."""

    act: Act | None = None
    provider_id: str = "offline"
    prompts: list[Prompt] = field(default_factory=list)
    cancelled: int = 0
    on_delta: Callable[[str], None] | None = None  # of the newest call: what `act` may say meanwhile

    @property
    def calls(self) -> int:
        return len(self.prompts)

    async def prepare(self) -> None:
        """It needs nothing."""

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        self.prompts.append(prompt)
        self.on_delta = on_delta
        try:
            return answered() if self.act is None else await self.act(prompt)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    """What runs beside a real loop takes no time in the simulated one."""
    return function(*arguments)


async def hang(_prompt: Prompt) -> PromptResponse:
    await asyncio.sleep(1e6)
    raise AssertionError("a hanging provider answered")


class Cluster(SimulatedRig):
    """A gateway and its clients; every process can be killed and started again."""

    streams = ("prompts",)
    rests_s = 0.0

    def __init__(
        self, provider: Scripted | None = None, others: dict[str, Scripted] | None = None, **sections: dict[str, Any]
    ) -> None:
        super().__init__(snapshot(**sections))
        self.provider = provider or Scripted()
        self.providers = {"offline": self.provider, **(others or {})}
        self.service: GatewayService
        self.start_gateway()
        self.ho1 = self.world.client("ho1")
        self.host = self.world.start(None, role="host")
        self.world.run(self.ready())

    async def ready(self) -> None:
        """The gateway is open, and the broker gives it requests."""
        await self.world.settled()
        await self.ho1.request("gateway", ReadBudget(), expect=Budget, timeout_s=10)

    def start(self, actor: Actor, role: str, disk: str, slots: int = 0) -> Peer:
        medium = self.world.disk(disk)
        return self.world.start(actor, role=role, disk=medium, slots=slots)

    def start_gateway(self) -> Peer:
        disk = self.world.disk("gateway")
        self.service = GatewayService(snapshot=self.snapshot, providers=self.providers, spool=disk)
        self.gateway = self.world.start(self.service, role="gateway", disk=disk, slots=CALLS_MAX)
        return self.gateway

    def kill_gateway(self) -> None:
        self.world.kill(self.gateway.instance)

    async def ask(self, wanted: Prompt, timeout_s: float = 30.0, client: Peer | None = None) -> PromptResponse:
        return await (client or self.ho1).request("gateway", wanted, expect=PromptResponse, timeout_s=timeout_s)

    async def ask_degraded(self, wanted: Prompt, timeout_s: float = 3.0) -> PromptResponse:
        message = DegradedPrompt(prompt=wanted)
        return await self.host.request("gateway", message, expect=PromptResponse, timeout_s=timeout_s)


def payload(entry: Entry) -> Any:
    """Body 0 of an entry, as its class."""
    found = read_body(entry)
    assert found is not None
    return found


ENDS = ("PROMPT_RECEIVED", "PROMPT_FAILED")


def check_attempts(entries: list[Entry]) -> None:
    """Every PROMPT_SENT has exactly one end, and no end is without one."""
    sent = Counter(entry.submission_id.partition(":")[2] for entry in of_type(entries, "PROMPT_SENT"))
    ends = Counter(entry.submission_id.partition(":")[2] for entry in entries if entry.event_type in ENDS)
    assert sent == ends
    assert all(count == 1 for count in sent.values())


def recorded_sends(entries: list[Entry]) -> int:
    """Attempts whose end says that the provider was called."""
    return sum(
        entry.event_type == "PROMPT_RECEIVED" or payload(entry).was_sent
        for entry in entries
        if entry.event_type in ENDS
    )


def totals(cluster: Cluster) -> tuple[int, int]:
    """Tokens used and reserved in the session's scope."""
    rows = cluster.service._current.account.report(SESSION).scopes
    row = next(row for row in rows if row.scope == f"session:{SESSION}")
    return row.used, row.reserved
