"""What the executor's tests stand on: orders, and a simulated cluster with a real ledger and a scripted gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any

from hobus.actors.ho1_executor.actor import Executor
from hobus.actors.ho1_executor.receipts import OrderUsage, Stamp, end_entry, failed
from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolHost
from hobus.actors.ho1_executor.tools.in_process import InProcessToolRunner
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.table import snapshot_view
from hobus.bus.dispatch import Actor, Call
from hobus.bus.messages.gateway import Breakers, Budget, Prompt, PromptResponse, ReadBreakers, ReadBudget, ScopeBudget
from hobus.bus.messages.ids import RunId
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.work_order import Constraints, ExecuteWorkOrder, Fence, Receipt, Segment, ToolCall, WorkOrder
from hobus.bus.peer import Peer
from hobus.config.snapshot import Snapshot
from tests.rig import SimulatedRig, names
from tests.shipped import shipped_snapshot

SESSION = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"
WO = f"WO-{SESSION}-1.1.1"


def shipped() -> Snapshot:
    """The shipped configuration."""
    return shipped_snapshot()


def order(wo_type: str = "synthesize", **changed: Any) -> WorkOrder:
    """A dispatched order of the shipped configuration; `constraints` given are merged into small ones."""
    contract = {"classify": "PRC-CLASSIFY-001", "consolidate": "PRC-CONSOLIDATE-001", "tool_call": ""}
    constraints: dict[str, Any] = {
        "prompt_contract_id": contract.get(wo_type, "PRC-SYNTHESIZE-001"),
        "token_budget": 10_000,
        "budget_mode": "warn",
        "timeout_seconds": 10.0,
        **changed.pop("constraints", {}),
    }
    fields: dict[str, Any] = {
        "wo_id": WO,
        "session_id": SESSION,
        "agent_id": "ADMIN",
        "agent_class": "ADMIN",
        "framework_id": "FMWK-107",
        "fence": Fence(run_id=RunId(session_id=SESSION, run_seq=1), session_epoch=1, step_epoch=1),
        "wo_type": wo_type,
        "state": "dispatched",
        "planned_at": "2026-01-01T00:00:00.000000Z",
        "created_by": "ho2/1@s1",
        "input_context": [Segment(name="user_input", ref="RunRequested:i1/1", text="what packages are installed?")],
        "constraints": Constraints(**constraints),
        "config_digest": shipped().digest,
    }
    return WorkOrder(**{**fields, **changed})


def tool_order(tool_id: str = "list_packages", arguments: Mapping[str, Any] | None = None, **changed: Any) -> WorkOrder:
    """A dispatched tool_call order that allows its tool."""
    call = ToolCall(call_id="001", tool_id=tool_id, arguments=dict(arguments or {}))
    constraints = {"tools_allowed": [tool_id], "token_budget": 1, **changed.pop("constraints", {})}
    return order("tool_call", **{"tool_call": call, "input_context": [], "constraints": constraints, **changed})


def answer(content: str = "", **changed: Any) -> PromptResponse:
    """A gateway's success."""
    fields: dict[str, Any] = {
        "outcome": "SUCCESS", "content": content, "input_tokens": 100, "output_tokens": 10, "cost_usd": 0.001,
        "provider_id": "scripted", "model_id": "m", "finish_reason": "stop",
    }  # fmt: skip
    return PromptResponse(**{**fields, **changed})


class ScriptedGateway(Actor):
    """Answers from a script, records nothing, and remembers what it was asked; the same key gets the same answer."""

    service = "gateway"

    def __init__(self, *answers: PromptResponse | BaseException, hangs: bool = False) -> None:
        self.answers = list(answers)
        self.hangs = hangs
        self.prompts: list[Prompt] = []
        self.cancelled: list[str] = []
        self._given: dict[str, PromptResponse] = {}

    async def on_prompt(self, message: Prompt, call: Call) -> PromptResponse:
        """The next answer of the script."""
        self.prompts.append(message)
        if self.hangs:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.cancelled.append(message.idempotency_key)
                raise
        if message.idempotency_key not in self._given:
            following = self.answers.pop(0)
            if isinstance(following, BaseException):
                raise following
            if following.outcome == "SUCCESS":
                key = f"{message.idempotency_key}/1"
                ids = {"sent_record_id": f"PROMPT_SENT:{key}", "received_record_id": f"PROMPT_RECEIVED:{key}"}
                told = {"tools_told": [tool.tool_id for tool in message.tools]}
                following = following.model_copy(update=ids | told)
            self._given[message.idempotency_key] = following
        return self._given[message.idempotency_key]

    async def on_budget(self, message: ReadBudget, call: Call) -> Budget:
        """One session's row."""
        row = ScopeBudget(
            scope=f"session:{message.session_id}", limit=1000, used=250, reserved=50, remaining=700, calls=2,
            cost_usd=0.5, unknown_calls=0,
        )  # fmt: skip
        return Budget(mode="warn", scopes=[row])

    async def on_breakers(self, message: ReadBreakers, call: Call) -> Breakers:
        """None."""
        return Breakers(breakers=[])


class Effects:
    """Tools whose runs are counted, outside every process: what the world would have seen."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.gate: asyncio.Event | None = None

    def tools(self) -> dict[str, ToolDefinition]:
        """`list_packages` replaced by a tool that is safe to repeat, `show_config` by one that is not."""
        return {
            "list_packages": self._tool("list_packages", idempotent=True),
            "show_config": self._tool("show_config", idempotent=False),
        }

    def _tool(self, tool_id: str, *, idempotent: bool) -> ToolDefinition:
        async def run(arguments: Mapping[str, Any], host: ToolHost) -> Any:
            self.runs.append(f"{tool_id} {host.context['idempotency_key']}")
            if self.gate is not None:
                await self.gate.wait()
            return {"done": tool_id}

        schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
        return ToolDefinition(tool_id, f"does {tool_id}", schema, idempotent, run)


class Cluster(SimulatedRig):
    """A scripted gateway, executors, and the bus of a supervisor to send from."""

    streams = ("ho1m",)

    def __init__(self, gateway: Actor | None, tools: Mapping[str, ToolDefinition] = BUILTIN) -> None:
        super().__init__(shipped())
        self.tools = tools
        if gateway is not None:
            self.world.start(gateway, role="gateway", slots=8)
        self.ho2 = self.world.client("ho2")
        self.executors: list[Peer] = []
        self.actors: list[Executor] = []

    def executor(self) -> str:
        """One more executor; its instance."""
        runner = InProcessToolRunner(
            tools=self.tools,
            view=snapshot_view(self.snapshot, self.tools),
            output_max_bytes=self.snapshot.config.tools.output_max_bytes,
        )
        actor = Executor(self.snapshot, runner, self.tools)
        peer = self.world.start(actor, role="ho1", slots=4, tools=runner.available())
        self.executors.append(peer)
        self.actors.append(actor)
        return peer.instance

    async def execute(
        self, given: WorkOrder, *, attempt: int = 1, timeout_s: float = 20.0, message_id: str | None = None
    ) -> Receipt:
        """The receipt, as the supervisor gets it."""
        return await self.ho2.request(
            "ho1", ExecuteWorkOrder(order=given, attempt=attempt), expect=Receipt, timeout_s=timeout_s,
            message_id=message_id,
        )  # fmt: skip

    async def give_up(self, given: WorkOrder, code: str) -> None:
        """The supervisor ends a lost order itself."""
        moment = Stamp(instance=self.ho2.instance, now=self.ho2.now(), monotonic=0.0)
        receipt = failed(given, code, "lost", OrderUsage(started=0.0), moment)
        await self.ledger_client("ho2", self.ho2).write([end_entry(given, receipt, moment, parents=[])])

    async def record_snapshot(self, entry: WriteEntry) -> None:
        """CONFIG_SNAPSHOT, as the launcher records it."""
        (ack,) = await self.ledger_client("launcher").write([entry])
        assert ack.outcome == "committed"

    async def events(self) -> list[str]:
        """Their types, in order."""
        return names(await self.entries())

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Waits in virtual time."""
        while not is_true():
            await self.ho2.sleep(0.001)


@contextmanager
def cluster(gateway: Actor | None, *, executors: int = 1, tools: Mapping[str, ToolDefinition] = BUILTIN) -> Any:
    """A cluster that is closed afterwards."""
    made = Cluster(gateway, tools)
    with made:
        for _ in range(executors):
            made.executor()
        yield made
