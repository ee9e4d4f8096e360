"""Provider instances as the gateway's process makes them, for tests that ask them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pydantic import TypeAdapter

from bench.builders import shipped_snapshot
from hobus.config.sections.gateway import AnyProvider
from hobus.gateway_service.providers.http.provider import HttpProvider

KEY = "sk-planted-8f2b6c1d9e"
MODEL = {
    "model_id": "tiny",
    "sees": False,
    "context_tokens": 1_000_000,
    "input_usd_per_million": 1.0,
    "output_usd_per_million": 2.0,
    "cached_usd_per_million": 0.5,
}
COMMON: dict[str, Any] = {"models": [MODEL], "any_model": False, "concurrency_max": 8, "key": "env:THE_KEY", "omit": []}
OPENAI: dict[str, Any] = {
    **COMMON, "kind": "openai", "max_tokens_field": "max_tokens", "structured": "json_schema",
}  # fmt: skip
ANTHROPIC: dict[str, Any] = {**COMMON, "kind": "anthropic", "structured": "json_schema"}


async def breathe() -> None:
    """Between two pieces."""
    await asyncio.sleep(0)


def instance(
    kind: dict[str, Any], base_url: str, *, gateway: dict[str, Any] | None = None, secret: str = KEY, **changes: Any
) -> HttpProvider:
    """A provider of this kind at this address."""
    suffix = "/v1" if kind["kind"] == "openai" else ""
    shipped = shipped_snapshot().config.gateway
    config: Any = TypeAdapter(AnyProvider).validate_python({**kind, "base_url": base_url + suffix, **changes})
    return HttpProvider(
        "mine",
        config,
        type(shipped).model_validate({**shipped.model_dump(), **gateway}) if gateway else shipped,
        chars_per_token=4,
        given=lambda: {"THE_KEY": secret},
        beside=asyncio.to_thread,
        breathe=breathe,
        now=time.time,
    )
