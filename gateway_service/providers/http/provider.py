"""A provider behind an official SDK: one attempt, no retries of its own, every bound and fault in one place.

Nothing here is imported from the SDK; `clients.py` is, when the first call needs it.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.work_order import ToolCall
from hobus.bus.port import Anew, Used
from hobus.config.sections.gateway import AnthropicProvider, GatewayConfig, OpenAIProvider
from hobus.gateway_service import limits, pricing
from hobus.gateway_service.providers.http import anthropic_wire, faults, openai_wire
from hobus.gateway_service.providers.http.faults import AskedProvider, answer_without_key, hide_key
from hobus.gateway_service.providers.http.reader import AnswerReader
from hobus.gateway_service.providers.http.thinking import SpokenText
from hobus.gateway_service.providers.http.wire import (
    IN_PIECES,
    BadAnswer,
    ToolNames,
    read_list,
    read_object,
    read_window,
)
from hobus.gateway_service.providers.keys import make_unusable, read_key, read_state
from hobus.gateway_service.vectors import VectorPrompt

if TYPE_CHECKING:
    from hobus.gateway_service.providers.http.clients import ProviderRequest, SdkClient

_log = structlog.get_logger("gateway")
_USAGE_WAIT_S = limits.CONNECT_TIMEOUT_MS / 1000
"""So long behind the last word of an answer what it has used may follow."""
Beside = Callable[..., Awaitable[Any]]
"""Runs a function beside the event loop, as `asyncio.to_thread` does."""


@dataclass(eq=False, repr=False)
class HttpProvider:
    """Implement `bus.port.Provider` over HTTP, for either kind."""

    provider_id: str
    config: OpenAIProvider | AnthropicProvider
    gateway: GatewayConfig
    chars_per_token: int
    given: Callable[[], Mapping[str, str]]
    """The variables that this process was given, asked for when the key is needed."""
    beside: Beside
    now: Callable[[], float]
    _key: str = ""
    _key_state: tuple[int, ...] = ()
    _client: SdkClient | None = None
    _loading: asyncio.Future[SdkClient] | None = None
    _windows: dict[str, int] | None = None
    _looking: asyncio.Future[None] | None = None
    _closes_alone: set[str] = field(default_factory=set[str])
    """Models whose newest answer began with thinking without its opening."""

    def __post_init__(self) -> None:
        # Each takes its own configuration alone.
        self._wire: Any = openai_wire if self.config.kind == "openai" else anthropic_wire

    async def prepare(self) -> None:
        """Load the SDK and read the key. Raises GatewayError(PROVIDER_UNUSABLE); the next call tries again."""
        await self._prepare_client()

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """Make one request and return its answer. Raises GatewayError; cancelling closes the connection."""
        client = await self._prepare_client()
        if isinstance(prompt, VectorPrompt):
            return await self._ask_vectors(client, prompt, model_id, timeout_s)
        reader = self._make_reader(prompt, model_id)
        try:
            with self._guard_request(client, model_id, prompt, reader) as request:
                answer = await self._answer(request, prompt, reader, timeout_s, on_delta)
                response = answer_without_key(answer, self._key)
        except faults.CallUnparsed as fault:  # the model's to mend, as a call that came and cannot be read
            call = ToolCall(call_id="1", tool_id=prompt.tools[0].tool_id, arguments={}, fault=str(fault))
            response = PromptResponse(outcome="SUCCESS", tool_calls=[call], finish_reason="tool_calls")
        except GatewayError as fault:
            if not fault.facts.get(faults.TOO_LARGE):
                raise
            response = answer_without_key(reader.cut_off(prompt.max_tokens), self._key)
        if reader.content.has_closed_alone:
            self._closes_alone.add(model_id)
        elif response.finish_reason != "length":  # else it may have been about to
            self._closes_alone.discard(model_id)
        return pricing.with_usage(prompt, response, self.chars_per_token, thought_chars=reader.thought_chars)

    async def _ask_vectors(
        self, client: SdkClient, prompt: VectorPrompt, model_id: str, timeout_s: float
    ) -> PromptResponse:
        try:
            with self._guard_request(client, model_id, prompt) as request:
                body = openai_wire.make_embedding_request(prompt, model_id)
                said = await request.ask(openai_wire.EMBEDDINGS_PATH, body, timeout_s)
                answer = openai_wire.read_vectors(said, prompt)
        except GatewayError as fault:
            if fault.facts.get("status") not in limits.NO_VECTORS or fault.code == "CONTEXT_TOO_LONG":
                raise
            mend = f"if {model_id} makes no embeddings (of this length), name a model that does"
            raise GatewayError("MODEL_UNFIT", f"{fault.detail}; {mend}", facts=fault.facts) from None
        if answer.input_tokens:
            return answer
        estimate = pricing.estimate_input_tokens(prompt, self.chars_per_token)
        return answer.model_copy(update={"input_tokens": estimate, "usage_is_estimated": True})

    async def close(self) -> None:
        """Close the connections; a later call makes new ones."""
        if self._looking is not None:
            self._looking.cancel()
        client, self._client, self._loading = self._client, None, None
        if client is not None:
            await client.close()

    async def models(self, *, timeout_s: float) -> dict[str, int | None]:
        """Return the models that the server offers to this key, with windows if known. Raises GatewayError."""
        named = ((hide_key(str(item["id"]), self._key), item) for item in await self._list_models(timeout_s))
        return {name: read_window(item) for name, item in sorted(named, key=lambda pair: pair[0])}

    async def _list_models(self, timeout_s: float) -> list[dict[str, Any]]:
        client = await self._prepare_client()
        with self._guard_request(client, "", None) as request:
            try:
                async with asyncio.timeout(timeout_s):
                    found = await request.ask(self._wire.MODELS_PATH, None, timeout_s)
            except TimeoutError:
                over = f"provider {self.provider_id} did not list its models within {timeout_s:.0f} s"
                raise GatewayError("PROVIDER_TIMEOUT", over) from None
            return [
                read_object(item, "a model") for item in read_list(found["data"], "the list of models") if item["id"]
            ]

    def _make_reader(self, prompt: Prompt, model_id: str) -> AnswerReader:
        is_known = any(row.model_id == model_id and row.thinks_first for row in self.config.models)
        content = SpokenText(closes_alone=model_id in self._closes_alone, thinks_first=is_known)
        return AnswerReader(self._wire.read, ToolNames.of(prompt), model_id, content)

    async def window(self, model_id: str) -> int | None:
        """Return the tokens of prompt and answer together, as the model's server says; None: not known (yet).

        The server is asked before the first call, and again, beside later ones, only where it could not answer.
        """
        if self._windows is None:
            self._windows, self._looking = {}, asyncio.ensure_future(self._look_for_windows())
        if self._looking is not None and not self._looking.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.LIST_WAIT_MS / 1000):
                    await asyncio.shield(self._looking)
        return (self._windows or {}).get(model_id)

    async def _look_for_windows(self) -> None:
        try:
            found = await self._list_models(limits.CONNECT_TIMEOUT_MS / 1000)
        except GatewayError as fault:
            self._windows = None if fault.retryable and fault.facts.get("unbilled") else {}
        else:
            self._windows = {str(item["id"]): size for item in found if (size := read_window(item))}

    async def _answer(
        self,
        request: ProviderRequest,
        prompt: Prompt,
        reader: AnswerReader,
        timeout_s: float,
        on_delta: Callable[[str], None] | None,
    ) -> PromptResponse:
        wire, stream = self._wire, on_delta is not None
        body = wire.make_request(prompt, reader.model_id, reader.names, self.config, stream=stream)
        if on_delta is None:
            answer = reader.whole(await request.ask(wire.PATH, body, timeout_s))
            if not request.is_done:
                raise BadAnswer(IN_PIECES)
            return answer
        async with aclosing(request.stream(wire.PATH, body, timeout_s)) as events:
            try:
                async for event in self._read_until_whole(events, reader, timeout_s):
                    had_closed = reader.content.has_closed_alone
                    text = hide_key(reader.add(event), self._key)
                    if reader.content.has_closed_alone and not had_closed:
                        on_delta(Anew(text))
                    elif text:
                        on_delta(text)
            except asyncio.CancelledError:
                if reader.has_begun or reader.usage:
                    on_delta(self._count_used(prompt, reader))
                raise
        return reader.ended(is_done=request.is_done)

    def _count_used(self, prompt: Prompt, reader: AnswerReader) -> Used:
        """Return what came of an answer by its length, and the rest as its provider has told it."""
        told, used = reader.response(), Used()
        came = told.model_copy(update={"output_tokens": 0})
        came = pricing.with_usage(prompt, came, self.chars_per_token, thought_chars=reader.thought_chars)
        used.tokens = {name: max(getattr(told, name), getattr(came, name)) for name in pricing.SETTLED}
        return used

    async def _read_until_whole(
        self, events: AsyncGenerator[Any], answer: AnswerReader, timeout_s: float
    ) -> AsyncGenerator[Any]:
        """Yield the events up to the end; where the answer is whole, wait for the end only a moment.

        A connection that is read to its end serves the next call, too.
        """
        async for event in events:
            yield event
            if answer.is_whole or answer.finish_reason:
                break
        while True:
            wait_s = limits.STREAM_INTERVAL_MS / 1000 if answer.is_whole else min(_USAGE_WAIT_S, timeout_s / 2)
            waiting = asyncio.timeout(wait_s)
            try:
                async with waiting:
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if waiting.expired():
                    return
                raise
            yield event

    async def _prepare_client(self) -> SdkClient:
        if self._client is not None:
            self._renew_key(self._client)
            return self._client
        if self._loading is None or self._loading.done():
            self._loading = asyncio.ensure_future(self._load())
        return await asyncio.shield(self._loading)

    def _renew_key(self, client: SdkClient) -> None:
        """Use a key file that was written anew from the next call on; one that holds no key now, once it does."""
        if (state := read_state(self.config.key)) == self._key_state:
            return
        self._key_state = state
        try:
            self._key = read_key(self.provider_id, self.config.key, self.given())
        except GatewayError as fault:
            _log.warning("key_not_renewed", provider=self.provider_id, detail=fault.detail)
        else:
            client.renew_key(self._key)

    async def _load(self) -> SdkClient:
        """Load beside the loop: an SDK takes a second, and this process says every moment that it lives."""
        try:
            client: SdkClient = await self.beside(self._load_client)
        except ImportError as error:
            missing = f"{error.name or 'its SDK'} is not installed"
            raise make_unusable(self.provider_id, missing, f"pip install 'hobus[{self.config.kind}]'") from None
        except GatewayError:
            raise
        except OSError as error:
            unread = f"what SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({type(error).__name__})"
            raise make_unusable(self.provider_id, unread, "correct that variable") from None
        except Exception as error:  # noqa: BLE001 - an HTTP library takes fewer addresses than the configuration
            fix = f"correct gateway.providers.{self.provider_id}.base_url"
            raise make_unusable(self.provider_id, f"its client cannot be made ({type(error).__name__})", fix) from None
        self._client = client
        return client

    def _load_client(self) -> SdkClient:
        self._key_state = read_state(self.config.key)
        self._key = read_key(self.provider_id, self.config.key, self.given())
        clients = importlib.import_module("hobus.gateway_service.providers.http.clients")
        return clients.make_client(self.config, self.gateway, key=self._key)

    @contextmanager
    def _guard_request(
        self, client: SdkClient, model_id: str, prompt: Prompt | None, reader: AnswerReader | None = None
    ) -> Generator[ProviderRequest]:
        """Turn whatever goes wrong with one request into a GatewayError."""
        request = client.begin()
        try:
            yield request
        except Exception as error:  # noqa: BLE001 - the HTTP library raises its own, the loop's and plain ones
            asked = AskedProvider(self.provider_id, self.config, self._key, model_id, self.now(), prompt)
            cost = None if reader is None else reader.cost
            raise faults.make_fault(error, asked, is_sent=request.is_sent, cost=cost) from None
