"""The only door to a model, with the configured providers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hobus.bus.disk import RealDisk
from hobus.bus.port import Provider
from hobus.config.sections.gateway import AnyProvider
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.limits import CALLS_MAX
from hobus.gateway_service.pipeline import Means
from hobus.gateway_service.providers.http.provider import HttpProvider
from hobus.gateway_service.providers.offline.grammar import load_grammar
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from hobus.gateway_service.providers.plugin import LoadedProvider
from hobus.gateway_service.service import GatewayService
from hobus.gateway_service.tokenizer import tokenizers_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.process.roles import Made


def make(place: Place) -> Made:
    """The gateway with its spool below `<home>/spool`. Raises OSError."""
    spool = RealDisk(place.home.spool / "gateway")
    given: dict[str, str] = {}
    first = place.snapshot
    means = Means(providers(first, given), tokenizers_of(first.config.gateway, beside=asyncio.to_thread))

    async def means_of(snapshot: Snapshot) -> Means:
        """Where nothing that they are made of differs, calls go on by the same connections."""
        was, now = first.config, snapshot.config
        if (was.gateway, was.attention.chars_per_token) == (now.gateway, now.attention.chars_per_token):
            return means
        tokenizers = means.tokenizers
        if (was.gateway.tokenizers, was.gateway.tokenizer_max_chars) != (
            now.gateway.tokenizers, now.gateway.tokenizer_max_chars,
        ):  # fmt: skip
            tokenizers = await asyncio.to_thread(tokenizers_of, now.gateway, beside=asyncio.to_thread)
        return Means(providers(snapshot, given), tokenizers)

    actor = GatewayService(
        snapshot=first, providers=means.providers, tokenizers=means.tokenizers, spool=spool, means_of=means_of
    )
    return Made(actor, slots=CALLS_MAX, give=given.update)


def warm(snapshot: Snapshot) -> None:
    """In the zygote: the offline model's grammar, which takes longer than the rest of a gateway."""
    if any(one.kind == "offline" for one in snapshot.config.gateway.providers.values()):
        load_grammar()


def providers(snapshot: Snapshot, given: Mapping[str, str]) -> dict[str, Provider]:
    """Every configured provider; `given` is what this process is given, and may be filled later."""
    return {
        provider_id: provider(provider_id, config, snapshot, given)
        for provider_id, config in sorted(snapshot.config.gateway.providers.items())
    }


def provider(provider_id: str, config: AnyProvider, snapshot: Snapshot, given: Mapping[str, str]) -> Provider:
    """One instance; nothing is loaded or read before it is asked."""
    chars_per_token = snapshot.config.attention.chars_per_token
    match config.kind:
        case "offline":
            return OfflineProvider(
                provider_id=provider_id,
                latency_ms=config.latency_ms,
                chars_per_token=chars_per_token,
                sleep=asyncio.sleep,
            )
        case "plugin":
            return LoadedProvider(provider_id, config, given=lambda: given, beside=asyncio.to_thread)
        case "openai" | "anthropic":
            return HttpProvider(
                provider_id,
                config,
                snapshot.config.gateway,
                chars_per_token=chars_per_token,
                given=lambda: given,
                beside=asyncio.to_thread,
                breathe=_breathe,
            )


async def _breathe() -> None:
    await asyncio.sleep(0)
