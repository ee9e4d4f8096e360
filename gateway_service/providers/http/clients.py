"""The official SDKs' clients, made for one instance: no retries, no redirection, nothing taken from the surroundings.

Imports what it makes; loaded in the process that asks a provider, and only there. Each SDK is imported where its kind
is configured.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from typing import Any

import httpx2

from hobus.config.schema import AnthropicProvider, GatewayConfig, OpenAIProvider
from hobus.gateway_service.providers.http.guard import GuardedTransport, Limits
from hobus.gateway_service.providers.http.provider import Client

_NOT_ASKED_FOR = "unused"
"""An SDK insists on a key; where there is none, the transport lets no header with one leave."""


def client_of(
    config: OpenAIProvider | AnthropicProvider,
    gateway: GatewayConfig,
    *,
    key: str,
    breathe: Callable[[], Awaitable[None]],
) -> Client:
    """The client of one instance. Raises ImportError where its SDK is not installed."""
    # An SDK looks for keys, addresses and headers there; what counts stands in the configuration, all of it.
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))]:
        del os.environ[name]
    limits = Limits(
        answer_max_bytes=gateway.answer_max_bytes,
        stream_max_bytes=gateway.stream_max_bytes,
        event_max_bytes=gateway.event_max_bytes,
        error_max_bytes=gateway.error_max_bytes,
    )
    pool = httpx2.Limits(max_connections=None, max_keepalive_connections=config.concurrency_max)
    transport = GuardedTransport(
        httpx2.AsyncHTTPTransport(verify=_trusted(), limits=pool, trust_env=False),
        limits,
        breathe,
        has_key=bool(key),
    )
    http = httpx2.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)
    connect_s = gateway.connect_timeout_ms / 1000
    make = _openai if config.kind == "openai" else _anthropic
    return _SdkClient(*make(config.base_url, key, http), connect_s=connect_s)


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts, read once for all instances: 20 ms and some megabytes each."""
    return httpx2.create_ssl_context(trust_env=False)


def _openai(base_url: str, key: str, http: httpx2.AsyncClient) -> tuple[Any, Any]:
    import openai  # noqa: PLC0415 - a second's work, and only where it is configured

    client = openai.AsyncOpenAI(api_key=key or _NOT_ASKED_FOR, base_url=base_url, max_retries=0, http_client=http)
    return client, openai.AsyncStream[object]


def _anthropic(base_url: str, key: str, http: httpx2.AsyncClient) -> tuple[Any, Any]:
    import anthropic  # noqa: PLC0415 - the same

    client = anthropic.AsyncAnthropic(api_key=key or _NOT_ASKED_FOR, base_url=base_url, max_retries=0, http_client=http)
    return client, anthropic.AsyncStream[object]


class _SdkClient:
    """Either SDK's raw calls: they are the same."""

    def __init__(self, sdk: Any, stream_cls: Any, *, connect_s: float) -> None:
        self._sdk = sdk
        self._stream_cls = stream_cls
        self._connect_s = connect_s

    async def post(self, path: str, body: Any, timeout_s: float) -> Any:
        """The answer as JSON."""
        return await self._sdk.post(path, body=body, cast_to=object, options=self._options(timeout_s))

    async def stream(self, path: str, body: Any, timeout_s: float) -> AsyncGenerator[Any]:
        """The events of the answer as JSON; closed with its last one, or with whoever reads them."""
        events = await self._sdk.post(
            path,
            body=body,
            cast_to=object,
            options=self._options(timeout_s),
            stream=True,
            stream_cls=self._stream_cls,
        )
        async with events:
            async for event in events:
                yield event

    async def get(self, path: str, timeout_s: float) -> Any:
        """The answer as JSON."""
        return await self._sdk.get(path, cast_to=object, options=self._options(timeout_s))

    async def close(self) -> None:
        """Its connections are closed."""
        await self._sdk.close()

    def _options(self, timeout_s: float) -> dict[str, Any]:
        connect_s = min(self._connect_s, timeout_s)
        return {"timeout": httpx2.Timeout(timeout_s, connect=connect_s), "max_retries": 0, "follow_redirects": False}
