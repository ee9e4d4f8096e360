"""The connection to a provider, with a bound on all that comes over it. Imports the HTTP library: loaded when needed.

What the official SDKs read has no end of its own: a line without a newline, an error of a gigabyte, a kilobyte that
unpacks to one. Here it has, before the SDK sees it; and between two pieces everybody else has a turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx2

from hobus.gateway_service.providers.http.exchange import AnswerRefused, current

_KEY_HEADERS = ("authorization", "x-api-key")

_FIRST_OTHER = 300
"""From this status on an answer is no answer: a redirection, which nobody follows, or an error."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is read, in bytes; each is the setting of its name in section `gateway`."""

    answer_max_bytes: int
    stream_max_bytes: int
    event_max_bytes: int
    error_max_bytes: int


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Another transport, bounded."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        limits: Limits,
        breathe: Callable[[], Awaitable[None]],
        *,
        has_key: bool,
    ) -> None:
        """`breathe`: awaited between two pieces. Without a key no header that would hold one leaves."""
        self._inner = inner
        self._has_key = has_key
        self._limits = limits
        self._breathe = breathe

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The response, its body still to be read. Raises AnswerRefused."""
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
            raise AnswerRefused(f"it is packed ({encoding[:20]}), which nobody asked for")
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - the transport is an asynchronous one
        body = _read(response, response.stream, self._limits, self._breathe, is_error=is_error)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Body(body, response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Every connection is closed."""
        await self._inner.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes], inner: httpx2.AsyncByteStream) -> None:
        self._pieces = pieces
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(
    response: httpx2.Response,
    stream: httpx2.AsyncByteStream,
    limits: Limits,
    breathe: Callable[[], Awaitable[None]],
    *,
    is_error: bool,
) -> AsyncIterator[bytes]:
    """The pieces of the body; of an error its beginning. Raises AnswerRefused."""
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    limit, setting = (
        (limits.stream_max_bytes, "stream_max_bytes") if is_stream else (limits.answer_max_bytes, "answer_max_bytes")
    )
    size = line = 0
    async for piece in stream:
        size += len(piece)
        if is_error and size >= limits.error_max_bytes:
            yield piece[: len(piece) - (size - limits.error_max_bytes)]
            return
        if size > limit:
            raise AnswerRefused(f"it is longer than {limit} bytes (gateway.{setting})")
        if is_stream:
            first = min((at for at in (piece.find(b"\n"), piece.find(b"\r")) if at >= 0), default=len(piece))
            if line + first > limits.event_max_bytes:
                raise AnswerRefused(
                    f"one line of it is longer than {limits.event_max_bytes} bytes (gateway.event_max_bytes)"
                )
            last = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
            line = line + len(piece) if last < 0 else len(piece) - last - 1
        await breathe()
        yield piece
