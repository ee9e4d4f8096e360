"""Configured providers as rows of a listing. Pure."""

from __future__ import annotations

from pydantic import Field

from hobus.bus.messages.base import Record
from hobus.config.schema import AnyProvider, GatewayConfig


class ProviderLine(Record):
    """One line of `hobus provider list`; the shape of `--json` is stable."""

    provider_id: str = Field(description="name of the instance")
    kind: str = Field(description="what serves it")
    address: str = Field(description="where it is; empty: in the gateway itself")
    models: list[str] = Field(description="models that may be asked for")
    any_model: bool = Field(description="others may be asked for, too")
    key: str = Field(description="where its key is, never the key; empty: it has none")
    routes: list[str] = Field(description="what is routed to it: `default`, and domain tags")


def provider_lines(gateway: GatewayConfig) -> list[ProviderLine]:
    """One line per instance, sorted by name."""
    return [
        ProviderLine(
            provider_id=provider_id,
            kind=provider.kind,
            address=_address(provider),
            models=[model.model_id for model in provider.models],
            any_model=provider.any_model,
            key="" if provider.kind == "offline" else provider.key or "",
            routes=_routes(provider_id, gateway),
        )
        for provider_id, provider in sorted(gateway.providers.items())
    ]


def _address(provider: AnyProvider) -> str:
    match provider.kind:
        case "openai" | "anthropic":
            return provider.base_url
        case "plugin":
            return f"entry point {provider.entry_point}"
        case "offline":
            return ""


def _routes(provider_id: str, gateway: GatewayConfig) -> list[str]:
    default = ["default"] if gateway.default_route.provider_id == provider_id else []
    tags = [tag for tag, route in sorted(gateway.domain_tag_routes.items()) if route.provider_id == provider_id]
    return default + tags
