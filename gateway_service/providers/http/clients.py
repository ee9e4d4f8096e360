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
from functools import cache
from importlib import import_module

import aiohttp
import httpx2

from hobus.config.sections.gateway import AnthropicProvider, GatewayConfig, OpenAIProvider
from hobus.gateway_service import limits
from hobus.gateway_service.limits import ERROR_MAX_BYTES
from hobus.gateway_service.providers.http.faults import AnswerRefused, AnswerTooLarge
from hobus.gateway_service.providers.http.provider import RequestSent, SdkClient, current

_KEY_HEADERS = ("authorization", "x-api-key")

_FIRST_OTHER = 300
"""From this status on an answer is no answer: a redirection, which nobody follows, or an error."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Requests by aiohttp, at half the price of the HTTP library's own transport; what comes is bounded."""

    def __init__(self, breathe: Callable[[], Awaitable[None]], *, has_key: bool) -> None:
        """`breathe`: awaited between two pieces. Without a key no header with one leaves."""
        self._session: aiohttp.ClientSession | None = None  # made on the loop that runs
        self._has_key = has_key
        self._breathe = breathe

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, its body still to be read. Raises AnswerRefused."""
        request.headers["Accept-Encoding"] = "identity"
        if not self._has_key:
            for name in _KEY_HEADERS:
                request.headers.pop(name, None)
        answer = await self._send(request)
        is_error = answer.status >= _FIRST_OTHER
        encoding = answer.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity") and not is_error:
            answer.close()
            raise AnswerRefused(f"it is packed ({encoding[:20]}), which was not requested")
        headers = [(name, value) for name, value in answer.raw_headers if name.lower() != b"content-encoding"]
        body = _Body(answer, _read(answer, self._breathe, is_error=is_error))
        return httpx2.Response(answer.status, headers=headers, stream=body)

    async def _send(self, request: httpx2.Request) -> aiohttp.ClientResponse:
        """Return the beginning of the answer; note whether a byte of the request may have left."""
        if self._session is None:
            self._session = _open_session()
        timeouts, exchange = request.extensions["timeout"], current.get() or RequestSent()
        exchange.is_sent = True
        try:
            return await self._session.request(
                request.method, str(request.url), headers=request.headers.multi_items(),
                data=request.content or None, allow_redirects=False,
                timeout=aiohttp.ClientTimeout(sock_connect=timeouts["connect"], sock_read=timeouts["read"]),
            )  # fmt: skip
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            exchange.is_sent = False
            raise

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def _open_session() -> aiohttp.ClientSession:
    """Open connections as many as there are requests, which carry the SDK's headers and no others."""
    connector = aiohttp.TCPConnector(limit=0, ssl=_load_trusted(), keepalive_timeout=limits.CONNECTION_IDLE_S)
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )  # fmt: skip


class _Body(httpx2.AsyncByteStream):
    """A body as the HTTP library reads it; closed before its end, it takes its connection along."""

    def __init__(self, answer: aiohttp.ClientResponse, pieces: AsyncIterator[bytes]) -> None:
        self._answer = answer
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        self._answer.release()


async def _read(
    answer: aiohttp.ClientResponse, breathe: Callable[[], Awaitable[None]], *, is_error: bool
) -> AsyncIterator[bytes]:
    """Yield the pieces of the body; of an error its beginning. Raises AnswerTooLarge."""
    is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
    limit = limits.STREAM_MAX_BYTES if is_stream else limits.ANSWER_MAX_BYTES
    size = line = 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # half a character spoils itself alone
    async for raw in answer.content.iter_any():
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
    transport = BoundedTransport(breathe, has_key=bool(key))
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
