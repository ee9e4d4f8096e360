"""Which provider and model answer a prompt. Pure."""

from __future__ import annotations

from collections.abc import Collection

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
