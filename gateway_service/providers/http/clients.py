"""The official SDKs' clients over a bounded connection: no retries, no redirection, nothing of the surroundings.

What the SDKs read has no end of its own: a line without a newline, an error of a gigabyte, a kilobyte that unpacks to
one. Here it has, before the SDK sees it; and between two pieces everybody else has a turn. Imports the HTTP library:
loaded in the process that asks a provider, and only there; each SDK where its kind is configured.
"""

from __future__ import annotations

import codecs
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from importlib import import_module

import httpx2

from hobus.config.sections.gateway import AnthropicProvider, GatewayConfig, OpenAIProvider
from hobus.gateway_service import limits
from hobus.gateway_service.limits import ERROR_MAX_BYTES
from hobus.gateway_service.providers.http.faults import AnswerRefused, AnswerTooLarge
from hobus.gateway_service.providers.http.provider import SdkClient, current

_KEY_HEADERS = ("authorization", "x-api-key")

_FIRST_OTHER = 300
"""From this status on an answer is no answer: a redirection, which nobody follows, or an error."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Another transport, bounded."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        breathe: Callable[[], Awaitable[None]],
        *,
        has_key: bool,
    ) -> None:
        """Wrap `inner`. `breathe`: awaited between two pieces. Without a key no header with one leaves."""
        self._inner = inner
        self._has_key = has_key
        self._breathe = breathe

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, its body still to be read. Raises AnswerRefused."""
        request.headers["Accept-Encoding"] = "identity"
        if not self._has_key:
            for name in _KEY_HEADERS:
                request.headers.pop(name, None)
        if (exchange := current.get()) is not None:
            request.extensions = {**request.extensions, "trace": exchange.trace}
        response = await self._inner.handle_async_request(request)
        is_error = response.status_code >= _FIRST_OTHER
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity") and not is_error:
            await response.aclose()
            raise AnswerRefused(f"it is packed ({encoding[:20]}), which was not requested")
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - the transport is an asynchronous one
        body = _read(response, response.stream, self._breathe, is_error=is_error)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Body(body, response.stream.aclose),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes], close: Callable[[], Awaitable[None]]) -> None:
        self._pieces = pieces
        self._close = close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        await self._close()


class PooledTransport(httpx2.AsyncBaseTransport):
    """As many small pools of connections as there are requests for.

    A pool of the library looks through all that it has whenever a request begins or ends: a thousand at once would cost
    it a million looks.
    """

    def __init__(self, make_pool: Callable[[], httpx2.AsyncBaseTransport]) -> None:
        self._make_pool = make_pool
        self._pools = [make_pool()]
        self._at_work = [0]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response of the first pool that has room; it is at work until that is closed."""
        at = next((at for at, count in enumerate(self._at_work) if count < limits.POOL_REQUESTS_MAX), len(self._pools))
        if at == len(self._pools):
            self._pools.append(self._make_pool())
            self._at_work.append(0)
        self._at_work[at] += 1
        try:
            response = await self._pools[at].handle_async_request(request)
        except BaseException:
            await self._leave(at)
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - the transport is an asynchronous one
        inner = response.stream
        is_closed = False

        async def close() -> None:
            nonlocal is_closed
            if not is_closed:
                is_closed = True
                try:
                    await inner.aclose()
                finally:
                    await self._leave(at)

        response.stream = _Body(aiter(inner), close)
        return response

    async def _leave(self, at: int) -> None:
        """Leave a pool; what is idle stays open in the first one alone, the only one that surely looks through it."""
        self._at_work[at] -= 1
        if at and not self._at_work[at]:
            await self._pools[at].aclose()

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


async def _read(
    response: httpx2.Response,
    stream: httpx2.AsyncByteStream,
    breathe: Callable[[], Awaitable[None]],
    *,
    is_error: bool,
) -> AsyncIterator[bytes]:
    """Yield the pieces of the body; of an error its beginning. Raises AnswerTooLarge."""
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    limit = limits.STREAM_MAX_BYTES if is_stream else limits.ANSWER_MAX_BYTES
    size = line = 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # half a character spoils itself alone
    async for raw in stream:
        piece = decoder.decode(raw).encode()
        size += len(piece)
        if is_error and size >= ERROR_MAX_BYTES:
            yield piece[: len(piece) - (size - ERROR_MAX_BYTES)]
            return
        if size > limit:
            raise AnswerTooLarge(f"it is longer than {limit} bytes")
        if is_stream:
            first = min((at for at in (piece.find(b"\n"), piece.find(b"\r")) if at >= 0), default=len(piece))
            if line + first > limits.EVENT_MAX_BYTES:
                raise AnswerTooLarge(f"one line of it is longer than {limits.EVENT_MAX_BYTES} bytes")
            last = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
            line = line + len(piece) if last < 0 else len(piece) - last - 1
        await breathe()
        yield piece


_NOT_ASKED_FOR = "unused"
"""An SDK insists on a key; where there is none, the transport lets no header with one leave."""


def make_client(
    config: OpenAIProvider | AnthropicProvider,
    gateway: GatewayConfig,
    *,
    key: str,
    breathe: Callable[[], Awaitable[None]],
) -> SdkClient:
    """Return the client of one instance. Raises ImportError where its SDK is not installed."""
    # An SDK looks for keys, addresses and headers there; what counts stands in the configuration, all of it.
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))]:
        del os.environ[name]
    bounds = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    make_pool = partial(httpx2.AsyncHTTPTransport, verify=_load_trusted(), limits=bounds, trust_env=False)
    transport = GuardedTransport(PooledTransport(make_pool), breathe, has_key=bool(key))
    http = httpx2.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)
    connect_s, silence_s = limits.CONNECT_TIMEOUT_MS / 1000, gateway.stream_silence_ms / 1000
    library = import_module(config.kind)  # a second's work, and only where it is configured
    make = library.AsyncOpenAI if config.kind == "openai" else library.AsyncAnthropic
    sdk = make(api_key=key or _NOT_ASKED_FOR, base_url=config.base_url, max_retries=0, http_client=http)
    return SdkClient(sdk, library.AsyncStream[object], httpx2.Timeout, connect_s=connect_s, silence_s=silence_s)


@cache
def _load_trusted() -> ssl.SSLContext:
    """Load the certificates that this machine trusts, once for all instances: 20 ms and some megabytes each."""
    return httpx2.create_ssl_context(trust_env=False)
