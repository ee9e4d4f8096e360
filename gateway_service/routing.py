"""Which provider and model answer a prompt, and how a profile has them asked. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt
from hobus.config.schema import GatewayConfig, ModelConfig, Route


def choose_route(prompt: Prompt, config: GatewayConfig) -> Route:
    """The named provider, else the first domain tag that has a route, else the default; a named model always wins.

    A provider named without a model keeps the model of the route that would have applied if that route is the
    provider's own, else it gets its first configured model. Whether the provider exists is `check_route`'s question.
    """
    tagged = next(
        (config.domain_tag_routes[tag] for tag in prompt.domain_tags if tag in config.domain_tag_routes), None
    )
    route = tagged or config.default_route
    if prompt.provider_id is not None and prompt.provider_id != route.provider_id:
        provider = config.providers.get(prompt.provider_id)
        model_id = provider.models[0].model_id if provider and provider.models else ""
        route = Route(provider_id=prompt.provider_id, model_id=model_id)
    if prompt.model_id is not None:
        route = Route(provider_id=route.provider_id, model_id=prompt.model_id)
    return route


def check_route(route: Route, config: GatewayConfig, providers: Collection[str]) -> None:
    """Raises GatewayError unless its provider runs here (PROVIDER_NOT_FOUND) and has the model (MODEL_NOT_FOUND).

    `providers`: those that run here.
    """
    if route.provider_id not in config.providers or route.provider_id not in providers:
        known = ", ".join(sorted(config.providers))
        raise GatewayError(
            "PROVIDER_NOT_FOUND", f"no provider {route.provider_id[:80]!r} in gateway.providers; configured: {known}"
        )

    instance = config.providers[route.provider_id]
    models = [model.model_id for model in instance.models]
    if route.model_id not in models and not (instance.any_model and route.model_id.strip()):
        raise GatewayError(
            "MODEL_NOT_FOUND",
            f"provider {route.provider_id} has no model {route.model_id[:80]!r} in gateway.providers; "
            f"configured: {', '.join(models) or 'none'}",
        )


def model_of(route: Route, config: GatewayConfig) -> ModelConfig | None:
    """The model's row with its prices; None for a model that the configuration does not price."""
    provider = config.providers.get(route.provider_id)
    models = provider.models if provider else []
    return next((model for model in models if model.model_id == route.model_id), None)


def with_profile(prompt: Prompt, route: Route, config: GatewayConfig) -> Prompt:
    """The prompt as its profile has it asked.

    Raises GatewayError(PROVIDER_NOT_FOUND) for a profile that there is not, or that is another provider's.
    """
    name = prompt.provider_profile_id
    if name is None:
        return prompt
    profile = config.profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(config.profiles)) or "none"
        raise GatewayError("PROVIDER_NOT_FOUND", f"no profile {name[:80]!r} in gateway.profiles; configured: {known}")
    if profile.provider_id != route.provider_id:
        raise GatewayError(
            "PROVIDER_NOT_FOUND",
            f"profile {name[:80]!r} is of provider {profile.provider_id}, and {route.provider_id[:80]!r} is asked; "
            "name that provider, or another profile",
        )
    update: dict[str, Any] = {}
    if profile.temperature is not None:
        update["temperature"] = profile.temperature
    if profile.reasoning_effort is not None and prompt.reasoning_effort is None:
        update["reasoning_effort"] = profile.reasoning_effort
    if profile.max_tokens is not None:
        update["max_tokens"] = min(prompt.max_tokens, profile.max_tokens)
    return prompt.model_copy(update=update)
