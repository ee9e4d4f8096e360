"""The only door to a model, with the configured providers."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping

from hobus.bus.clock import SystemClock
from hobus.bus.disk import RealDisk
from hobus.bus.port import Provider
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import AnyProvider
from hobus.config.snapshot import Snapshot
from hobus.gateway_service.limits import CALLS_MAX
from hobus.gateway_service.providers.offline.grammar import load_grammar
from hobus.gateway_service.providers.offline.provider import OfflineProvider
from hobus.gateway_service.providers.plugin import LoadedProvider
from hobus.gateway_service.service import GatewayService
from hobus.launch.cluster.endpoints import Place
from hobus.launch.process.roles import Made

_WIRES = "hobus.gateway_service.providers.http.provider"
"""By name: the core runs without the wires of real models, and so does a cluster of the offline model alone."""


def make(place: Place) -> Made:
    """Make the gateway with its spool below `<home>/spool`. Raises OSError."""
    spool = RealDisk(place.home.spool / "gateway")
    given: dict[str, str] = {}
    first = place.snapshot
    made = make_providers(first, given)

    async def make_providers_of(snapshot: Snapshot) -> Mapping[str, Provider]:
        """Return providers; where nothing that they are made of differs, calls go on by the same connections."""
        was, now = first.config, snapshot.config
        if (was.gateway, was.attention.chars_per_token) == (now.gateway, now.attention.chars_per_token):
            return made
        return make_providers(snapshot, given)

    actor = GatewayService(snapshot=first, providers=made, spool=spool, providers_of=make_providers_of)
    return Made(actor, slots=CALLS_MAX, give=given.update)


def warm(snapshot: Snapshot) -> None:
    """Load in the zygote what its providers rest on, no SDK: the offline model's grammar takes longer than the rest."""
    kinds = {one.kind for one in snapshot.config.gateway.providers.values()}
    if "offline" in kinds:
        load_grammar()
    if kinds & {"openai", "anthropic"}:
        importlib.import_module(_WIRES)


def make_providers(snapshot: Snapshot, given: Mapping[str, str]) -> dict[str, Provider]:
    """Return every configured provider; `given` is what this process is given, and may be filled later."""
    return {
        provider_id: make_provider(provider_id, one, snapshot.config, given)
        for provider_id, one in sorted(snapshot.config.gateway.providers.items())
    }


def make_provider(provider_id: str, config: AnyProvider, whole: AdminConfig, given: Mapping[str, str]) -> Provider:
    """Return one instance of the whole configuration's; nothing is loaded or read before it is asked."""
    chars_per_token = whole.attention.chars_per_token
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
            made: Provider = importlib.import_module(_WIRES).HttpProvider(
                provider_id,
                config,
                whole.gateway,
                chars_per_token=chars_per_token,
                given=lambda: given,
                beside=asyncio.to_thread,
                now=SystemClock().now,
            )
            return made
