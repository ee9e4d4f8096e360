"""The provider in the gateway that asks the test's own process: kind `plugin`, entry point `scripted`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import json as msgjson

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.work_order import ToolCall
from hobus.launch.limits import SCRIPTED_REQUEST_MAX_BYTES
from hobus.launch.testing.model import Reply, Request, request_of


class ScriptedProvider:
    """Say what the test's process answers at `options["socket"]`, or its function `options["reply"]` in this one."""

    def __init__(self, *, provider_id: str, key: str, options: dict[str, Any]) -> None:
        del key
        self.provider_id = provider_id
        self._options = options

    async def prepare(self) -> None:
        """Do nothing: nothing is to be loaded."""

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """Make one request. Raises GatewayError: PROVIDER_REFUSED by the test, PROVIDER_UNUSABLE without a test."""
        del model_id, timeout_s
        asked = request_of(prompt.messages, [tool.tool_id for tool in prompt.tools], prompt.output_schema)
        here: Callable[[Request], Reply] | None = self._options.get("reply")
        reply = await _ask(self._options["socket"], asked) if here is None else here(asked)
        if reply.fault:
            raise GatewayError("PROVIDER_REFUSED", reply.fault, facts={"unbilled": True})
        if reply.text and on_delta is not None:
            on_delta(reply.text)
        calls = [
            ToolCall(call_id=str(number), tool_id=one.tool, arguments=dict(one.arguments))
            for number, one in enumerate(reply.calls, 1)
        ]
        reason = "tool_calls" if calls else "stop"
        return PromptResponse(outcome="SUCCESS", content=reply.text, tool_calls=calls, finish_reason=reason)


async def _ask(socket: str, asked: Request) -> Reply:
    try:
        reader, writer = await asyncio.open_unix_connection(socket, limit=SCRIPTED_REQUEST_MAX_BYTES)
    except OSError:
        raise GatewayError("PROVIDER_UNUSABLE", "the test that scripts this model is over") from None
    try:
        writer.write(msgjson.encode(asked) + b"\n")
        return msgjson.decode(await reader.readline(), type=Reply)
    finally:
        writer.close()
