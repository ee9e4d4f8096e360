"""Requests to providers, as their official SDKs make them: sent by aiohttp, without retries, and bounded.

An SDK makes the request of each path once: address, authentication, headers. Each prompt leaves with those and a body
of its own, at a fraction of the price. What an SDK reads has no end of its own: a line without a newline, an error of a
gigabyte, a kilobyte that unpacks to one. Here it has. Imports the HTTP libraries: loaded in the process that asks a
provider, and only there; each SDK where its kind is configured.
"""

from __future__ import annotations

import codecs
import json
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

import aiohttp
import httpx2

from hobus.config.sections.gateway import AnthropicProvider, GatewayConfig, OpenAIProvider
from hobus.gateway_service import limits
from hobus.gateway_service.limits import ERROR_MAX_BYTES
from hobus.gateway_service.providers.http.events import ReadBody
from hobus.gateway_service.providers.http.faults import AnswerRefused, AnswerTooLarge, ErrorStatus
from hobus.gateway_service.providers.http.wire import IN_PIECES, BadAnswer

_KEY_HEADERS = ("authorization", "x-api-key")
_OWN_HEADERS = ("host", "connection", "content-length", "x-stainless-read-timeout", "x-stainless-timeout")
"""Of the request that an SDK made: each that leaves has its own, or none."""

_CLOSED = "Cannot write to closing transport"
"""What aiohttp says where a request could not leave whole: nobody has worked on it."""
_ANSWERS = range(200, 300)
"""With any other status it is no answer: a redirection, which nobody follows, or an error."""


class SdkClient:
    """One instance: its requests as its SDK makes them, and its connections."""

    def __init__(self, sdk: Any, *, has_key: bool, connect_s: float, silence_s: float) -> None:
        """Without a key no header with one leaves. An answer in pieces may be silent for `silence_s`."""
        self._sdk = sdk
        self._has_key = has_key
        self._made: dict[str, tuple[str, dict[str, str]]] = {}  # of each path
        self._session: aiohttp.ClientSession | None = None  # made on the loop that runs
        self.connect_s = connect_s
        self.silence_s = silence_s

    def begin(self) -> ProviderRequest:
        return ProviderRequest(self)

    def renew_key(self, key: str) -> None:
        self._sdk.api_key = key
        self._made = {}

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = _open_session()
        return self._session

    async def request_to(self, path: str, *, is_get: bool) -> tuple[str, dict[str, str]]:
        """Return address and headers of such a request, as the SDK makes it; nothing leaves for that."""
        made_so_far = self._made
        if path not in made_so_far:
            whole, sdk = httpx2.Response, self._sdk
            made = await (sdk.get(path, cast_to=whole) if is_get else sdk.post(path, cast_to=whole, body={}))
            headers = dict(made.request.headers) | {"accept-encoding": "identity"}
            for name in _OWN_HEADERS if self._has_key else (*_OWN_HEADERS, *_KEY_HEADERS):
                headers.pop(name, None)
            made_so_far[path] = str(made.request.url), headers
        return made_so_far[path]

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await self._sdk.close()


class ProviderRequest:
    """One request and its answer. Raises ErrorStatus, ErrorSaid, BadAnswer, AnswerRefused, aiohttp's errors."""

    def __init__(self, client: SdkClient) -> None:
        self._client = client
        self.is_sent = False
        """Whether a byte of it may have left: from then on nobody can say that the provider did not work on it."""
        self.is_done = False
        """Whether the answer came whole, or said that it is at its end, and was not only cut off."""

    async def ask(self, path: str, body: Any, timeout_s: float) -> Any:
        """Return the answer as JSON; a `body` of None only reads what is there."""
        found = [event async for event in self._send(path, body, timeout_s, silence_s=timeout_s)]
        if len(found) != 1:
            raise BadAnswer(IN_PIECES if found else "it is empty")
        return found[0]

    def stream(self, path: str, body: Any, timeout_s: float) -> AsyncGenerator[Any]:
        """Yield the events of the answer as JSON; closed with its last one, or with whoever reads them."""
        return self._send(path, body, timeout_s, silence_s=min(self._client.silence_s, timeout_s))

    async def _send(self, path: str, body: Any, timeout_s: float, *, silence_s: float) -> AsyncGenerator[Any]:
        """Yield the events; an SDK's own reader skips what is not as its own provider documents it."""
        connect_s = min(self._client.connect_s, timeout_s)
        answer = await self._open(path, body, aiohttp.ClientTimeout(sock_connect=connect_s, sock_read=silence_s))
        found = ReadBody()
        try:
            async for piece in _read(answer):
                for event in found.feed(piece):
                    yield event
                self.is_done = found.is_whole
            for event in found.close():
                yield event
            self.is_done = found.is_whole
        finally:
            answer.release()  # before its end it takes its connection along

    async def _open(self, path: str, body: Any, bounds: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Return an answer that is one, its body still to be read."""
        made = await self._client.request_to(path, is_get=body is None)
        if body is not None:
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        answer = await self._request(made, body, bounds)
        if answer.status not in _ANSWERS:
            raise await _read_error(answer)
        if packed := _find_packing(answer):
            answer.close()
            raise AnswerRefused(f"it is packed ({packed}), which was not requested")
        return answer

    async def _request(
        self,
        made: tuple[str, dict[str, str]],
        body: bytes | None,
        bounds: aiohttp.ClientTimeout,
        tries: int = limits.SENDS_MAX,
    ) -> aiohttp.ClientResponse:
        """Return the beginning of an answer; a kept connection that its server had closed is replaced by another."""
        session, method = self._client.session(), "GET" if body is None else "POST"
        self.is_sent = True
        try:
            return await session.request(
                method, made[0], headers=made[1], data=body, allow_redirects=False, timeout=bounds
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            self.is_sent = False
            raise
        except aiohttp.ClientOSError as error:
            self.is_sent = _CLOSED not in str(error.__cause__)
            if self.is_sent or tries == 1:
                raise
        return await self._request(made, body, bounds, tries - 1)


def _open_session() -> aiohttp.ClientSession:
    """Open connections as many as there are requests, which carry the SDK's headers and no others."""
    connector = aiohttp.TCPConnector(limit=0, ssl=_load_trusted(), keepalive_timeout=limits.CONNECTION_IDLE_S)
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        max_line_size=limits.HEADER_MAX_BYTES, max_field_size=limits.HEADER_MAX_BYTES, max_headers=limits.HEADERS_MAX,
    )  # fmt: skip


async def _read(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the pieces of the body. Raises AnswerTooLarge."""
    is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
    limit = limits.STREAM_MAX_BYTES if is_stream else limits.ANSWER_MAX_BYTES
    size = line = 0
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")  # half a character spoils itself alone
    async for raw in answer.content.iter_any():
        piece = decoder.decode(raw).encode()
        size += len(piece)
        if size > limit:
            raise AnswerTooLarge(f"it is longer than {limit} bytes")
        if is_stream:
            first = min((at for at in (piece.find(b"\n"), piece.find(b"\r")) if at >= 0), default=len(piece))
            if line + first > limits.EVENT_MAX_BYTES:
                raise AnswerTooLarge(f"one line of it is longer than {limits.EVENT_MAX_BYTES} bytes")
            last = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
            line = line + len(piece) if last < 0 else len(piece) - last - 1
        yield piece


def _find_packing(answer: aiohttp.ClientResponse) -> str:
    """Return the beginning of the name of what the body is packed with; empty where it is not."""
    return answer.headers.get("content-encoding", "").strip().lower().removeprefix("identity")[:20]


async def _read_error(answer: aiohttp.ClientResponse) -> ErrorStatus:
    """Return the error that an answer is, with what came of the beginning of its body."""
    said = bytearray()
    try:
        with suppress(aiohttp.ClientError, TimeoutError):
            while len(said) < ERROR_MAX_BYTES and (piece := await answer.content.readany()):
                said += piece
    finally:
        answer.release()
    body: Any = "" if _find_packing(answer) else said[:ERROR_MAX_BYTES].decode("utf-8-sig", "replace").strip()
    with suppress(ValueError, RecursionError):
        body = json.loads(body)
    return ErrorStatus(answer.status, answer.headers, body)


_NOT_ASKED_FOR = "unused"
"""An SDK insists on a key; where there is none, no header with one leaves."""


def make_client(config: OpenAIProvider | AnthropicProvider, gateway: GatewayConfig, *, key: str) -> SdkClient:
    """Return the client of one instance. Raises ImportError: its SDK is not installed; OSError: no certificates."""
    _load_trusted()
    # An SDK looks for keys, addresses and headers there; what counts stands in the configuration, all of it.
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))]:
        del os.environ[name]
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _request: httpx2.Response(200)), trust_env=False)
    connect_s, silence_s = limits.CONNECT_TIMEOUT_MS / 1000, gateway.stream_silence_ms / 1000
    library = import_module(config.kind)  # a second's work, and only where it is configured
    make = library.AsyncOpenAI if config.kind == "openai" else library.AsyncAnthropic
    sdk = make(api_key=key or _NOT_ASKED_FOR, base_url=config.base_url, max_retries=0, http_client=http)
    return SdkClient(sdk, has_key=bool(key), connect_s=connect_s, silence_s=silence_s)


@cache
def _load_trusted() -> ssl.SSLContext:
    """Load what this machine trusts, and SSL_CERT_FILE, once for all instances: 20 ms and some megabytes each."""
    trusted = httpx2.create_ssl_context(trust_env=False)
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or directory:
        trusted.load_verify_locations(file or None, directory or None)
    return trusted
