"""The only door to a model, with the configured providers."""

from __future__ import annotations

import asyncio

from bus.disk import RealDisk
from bus.port import Provider
from config.snapshot import Snapshot
from gateway_service.providers.offline import OfflineProvider
from gateway_service.service import GatewayService
from launch.endpoints import Place
from launch.roles import Made


def make(place: Place) -> Made:
    """The gateway with its spool below `<home>/spool`. Raises OSError."""
    spool = RealDisk(place.home.spool / "gateway")
    actor = GatewayService(snapshot=place.snapshot, providers=providers(place.snapshot), spool=spool)
    return Made(actor, slots=place.snapshot.config.gateway.slots)


def providers(snapshot: Snapshot) -> dict[str, Provider]:
    """Every configured provider; `offline` is the only kind yet."""
    chars_per_token = snapshot.config.attention.chars_per_token
    return {
        provider_id: OfflineProvider(
            provider_id=provider_id,
            latency_ms=provider.latency_ms,
            chars_per_token=chars_per_token,
            sleep=asyncio.sleep,
        )
        for provider_id, provider in sorted(snapshot.config.gateway.providers.items())
    }
