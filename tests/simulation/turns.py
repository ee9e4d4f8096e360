"""Turns that take a while, and a model that asks for one tool of the test's own: so that there is a middle to strike in."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.work_order import ToolCall
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot

CLASSIFY = "PRC-CLASSIFY-001"


def with_thinking(snapshot: Snapshot, thinking_ms: int) -> Snapshot:
    """The same configuration with an embedded model that takes this long for an answer."""
    config = snapshot.config.model_dump(mode="json")
    config["gateway"]["providers"]["offline"]["latency_ms"] = thinking_ms
    return dataclasses.replace(snapshot, config=AdminConfig.model_validate(config))


CALM = (("bus.beat_interval_ms", 5_000), ("bus.peer_timeout_ms", 20_000))
"""For minutes of virtual time in which nobody dies unseen: a beat is work, and five a second are most of it."""


def with_tools(snapshot: Snapshot, *tools: ToolDefinition) -> Snapshot:
    """The same configuration with agents that may use these tools."""
    ids = tuple(tool.tool_id for tool in tools)
    agents = {
        agent_id: agent.model_copy(
            update={"tools": ids, "permissions": agent.permissions.model_copy(update={"tools": ids})}
        )
        for agent_id, agent in snapshot.agents.items()
    }
    return dataclasses.replace(snapshot, agents=agents)


class AsksForTools:
    """A provider whose model asks for every tool that it is offered, all at once, then tells what they said."""

    provider_id = "offline"

    async def prepare(self) -> None:
        """It needs nothing."""

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """An answer that follows from the prompt alone."""
        if prompt.contract_id == CLASSIFY:
            return self._answer(prompt, json.dumps({"speech_act": "command", "ambiguity": "low"}))
        results = [message.text for message in prompt.messages if message.role == "tool"]
        if results or not prompt.tools:
            return self._answer(prompt, f"done: {'; '.join(results)}")
        calls = [ToolCall(call_id="", tool_id=tool.tool_id, arguments={}) for tool in prompt.tools]
        return self._answer(prompt, "", calls)

    def _answer(self, prompt: Prompt, content: str, calls: list[ToolCall] | None = None) -> PromptResponse:
        return PromptResponse(
            outcome="SUCCESS", content=content, tool_calls=calls or [], model_id="offline-rules-1",
            finish_reason="tool_calls" if calls else "stop", input_tokens=len(prompt.messages), output_tokens=1,
        )  # fmt: skip
