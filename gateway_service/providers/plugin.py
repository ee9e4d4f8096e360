"""A provider of an installed package: a class under an entry point, loaded in the gateway when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.port import Provider
from hobus.config.sections.gateway import PluginProvider
from hobus.gateway_service.providers.keys import make_unusable, read_key, read_state

GROUP = "hobus.providers"


@dataclass(eq=False, repr=False)
class LoadedProvider:
    """Implement `bus.port.Provider` by a foreign class, which is made with provider_id, key and options."""

    provider_id: str
    config: PluginProvider
    given: Callable[[], Mapping[str, str]]
    beside: Callable[..., Awaitable[Any]]
    _provider: Provider | None = None
    _key_state: tuple[int, ...] = ()
    _loading: asyncio.Future[Provider] | None = None

    async def prepare(self) -> None:
        """Load the class and make an instance. Raises GatewayError(PROVIDER_UNUSABLE)."""
        await self._prepare()

    async def complete(
        self, prompt: Prompt, *, model_id: str, timeout_s: float, on_delta: Callable[[str], None] | None = None
    ) -> PromptResponse:
        """Return what the instance answers; the gateway holds it to its deadline and checks all of it."""
        provider = await self._prepare()
        return await provider.complete(prompt, model_id=model_id, timeout_s=timeout_s, on_delta=on_delta)

    async def _prepare(self) -> Provider:
        if self._provider is not None and read_state(self.config.key) == self._key_state:
            return self._provider
        if self._loading is None or self._loading.done():
            self._loading = asyncio.ensure_future(self._load())
        return await asyncio.shield(self._loading)

    async def _load(self) -> Provider:
        try:
            provider: Provider = await self.beside(self._make)
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001 - somebody else's code may raise anything
            # Its class alone: its words may hold the key that it was given.
            raise make_unusable(
                self.provider_id, f"making it raised {type(error).__name__}", "see docs/providers.md"
            ) from None
        self._provider = provider
        return provider

    def _make(self) -> Provider:
        self._key_state = read_state(self.config.key)
        key = read_key(self.provider_id, self.config.key, self.given())
        found = [entry for entry in entry_points(group=GROUP) if entry.name == self.config.entry_point]
        if not found:
            what = f"no installed package has an entry point {self.config.entry_point!r} in the group {GROUP}"
            raise make_unusable(self.provider_id, what, "install it")
        return found[0].load()(provider_id=self.provider_id, key=key, options=dict(self.config.options))
