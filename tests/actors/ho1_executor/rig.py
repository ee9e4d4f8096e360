"""What the executor's tests stand on: orders, and a simulated cluster with a real ledger and a scripted gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bench.builders import shipped_snapshot
from hobus.actors.ho1_executor.actor import Executor
from hobus.actors.ho1_executor.file_reads import FileReads
from hobus.actors.ho1_executor.receipts import OrderUsage, Stamp, end_entry, make_failed
from hobus.actors.ho1_executor.tools.definition import Bounds, ToolDefinition, ToolHost
from hobus.actors.ho1_executor.tools.in_process import InProcessToolRunner
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.table import make_snapshot_view
from hobus.bus.dispatch import Actor, Call
from hobus.bus.messages.gateway import Breakers, Budget, Prompt, PromptResponse, ReadBreakers, ReadBudget, ScopeBudget
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.work_order import ExecuteWorkOrder, Receipt, WorkOrder
from hobus.bus.peer import Peer
from hobus.config import limits
from hobus.gateway_service.histories import SharedParts
from tests.rig import SimulatedRig, names


def answer(content: str = "", **changed: Any) -> PromptResponse:
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
        self.brought: list[int] = []
        """Tools that each prompt brought, before those that it names were put in."""
        self.parts = SharedParts()
        self.cancelled: list[str] = []
        self._given: dict[str, PromptResponse] = {}

    async def on_prompt(self, message: Prompt, call: Call) -> PromptResponse:
        """The next answer of the script."""
        self.brought.append(len(message.tools))
        self.parts.share(message)
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
        row = ScopeBudget(
            scope=f"session:{message.session_id}", limit=1000, used=250, reserved=50, remaining=700, calls=2,
            cost_usd=0.5, unknown_calls=0,
        )  # fmt: skip
        return Budget(mode="warn", scopes=[row])

    async def on_breakers(self, message: ReadBreakers, call: Call) -> Breakers:
        return Breakers(breakers=[])


class Effects:
    """Tools whose runs are counted, outside every process: what the world would have seen."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.gate: asyncio.Event | None = None
        self.brings: dict[str, Any] = {}

    def tools(self) -> dict[str, ToolDefinition]:
        """`list_packages` replaced by a server's tool that is safe to repeat, `show_config` by one that is not."""
        return {
            "list_packages": self._tool("list_packages", idempotent=True),
            "show_config": self._tool("show_config", idempotent=False),
        }

    def free(self) -> dict[str, ToolDefinition]:
        """`list_packages` replaced by a tool of a child that only reads."""
        return {"list_packages": self._tool("list_packages", idempotent=True, source="python")}

    def _tool(self, tool_id: str, *, idempotent: bool, source: str = "server") -> ToolDefinition:
        async def run(arguments: Mapping[str, Any], host: ToolHost) -> Any:
            self.runs.append(f"{tool_id} {host.context['idempotency_key']}")
            if self.gate is not None:
                await self.gate.wait()
            return {"done": tool_id, **self.brings}

        schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
        return ToolDefinition(tool_id, f"does {tool_id}", schema, idempotent, run, source=source)


class Cluster(SimulatedRig):
    """A scripted gateway, executors, and the bus of a supervisor to send from."""

    streams = ("ho1m",)

    def __init__(
        self, gateway: Actor | None, tools: Mapping[str, ToolDefinition] = BUILTIN, approval: Sequence[str] = ()
    ) -> None:
        shipped = shipped_snapshot()
        ledger = shipped.config.ledger
        unsearched = ledger.model_copy(update={"search": ledger.search.model_copy(update={"enabled": False})})
        rules = shipped.config.tools.model_copy(update={"approval": list(approval)})
        config = shipped.config.model_copy(update={"ledger": unsearched, "tools": rules})
        super().__init__(replace(shipped, config=config))
        self.tools = tools
        if gateway is not None:
            self.world.start(gateway, role="gateway", slots=8)
        self.ho2 = self.world.client("ho2")
        self.executors: list[Peer] = []
        self.actors: list[Executor] = []

    def executor(self, files: FileReads | None = None) -> str:
        """One more executor; its instance."""
        tools = self.snapshot.config.tools
        runner = InProcessToolRunner(
            tools=self.tools,
            view=make_snapshot_view(self.snapshot, self.tools),
            bounds=Bounds(tools.output_max_bytes, limits.SAID_MAX_BYTES, limits.FILES_MAX_BYTES),
        )
        actor = Executor(self.snapshot, runner, self.tools, files)
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
        receipt = make_failed(given, code, "lost", OrderUsage(started=0.0), moment)
        await self.ledger_client("ho2", self.ho2).write([end_entry(given, receipt, moment, parents=[])])

    async def record_snapshot(self, entry: WriteEntry) -> None:
        """CONFIG_SNAPSHOT, as the launcher records it."""
        (ack,) = await self.ledger_client("launcher").write([entry])
        assert ack.outcome == "committed"

    async def events(self) -> list[str]:
        return names(await self.entries())

    async def until(self, is_true: Callable[[], bool]) -> None:
        while not is_true():
            await self.ho2.sleep(0.001)


@contextmanager
def cluster(
    gateway: Actor | None,
    *,
    executors: int = 1,
    tools: Mapping[str, ToolDefinition] = BUILTIN,
    approval: Sequence[str] = (),
) -> Any:
    made = Cluster(gateway, tools, approval)
    with made:
        for _ in range(executors):
            made.executor()
        yield made
