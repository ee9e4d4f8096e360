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
from hobus.launch.testing.model import Request, request_of


class ScriptedProvider:
    """Say what the test's process answers at `options["socket"]`."""

    def __init__(self, *, provider_id: str, key: str, options: dict[str, Any]) -> None:
        del key
        self.provider_id = provider_id
        self._path: str = options["socket"]

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """Make one request. Raises GatewayError: PROVIDER_REFUSED by the test, PROVIDER_UNUSABLE without a test."""
        del model_id, timeout_s
        request = request_of(prompt.messages, [tool.tool_id for tool in prompt.tools], prompt.output_schema)
        answer = await self.answer_to(request)
        if "fault" in answer:
            raise GatewayError("PROVIDER_REFUSED", answer["fault"], facts={"unbilled": True})
        if answer["text"] and on_delta is not None:
            on_delta(answer["text"])
        calls = [
            ToolCall(call_id=str(number), tool_id=one["tool"], arguments=one["arguments"])
            for number, one in enumerate(answer["calls"], 1)
        ]
        return PromptResponse(
            outcome="SUCCESS",
            content=answer["text"],
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "stop",
        )

    async def answer_to(self, asked: Request) -> dict[str, Any]:
        """Return the answer's document, from the test's process. Raises GatewayError."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path, limit=SCRIPTED_REQUEST_MAX_BYTES)
        except OSError:
            raise GatewayError("PROVIDER_UNUSABLE", "the test that scripts this model is over") from None
        try:
            writer.write(msgjson.encode(asked) + b"\n")
            await writer.drain()
            return msgjson.decode(await reader.readline())
        finally:
            writer.close()
