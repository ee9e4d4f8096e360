"""Named settings of a provider, as a session or a run chose them (`provider_profile_id`). Pure.

A profile says how its provider is asked, not which one is: the route does that. What the run itself names wins; the cap
of an answer is the lowest that anybody names.
"""

from __future__ import annotations

from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt
from hobus.config.schema import GatewayConfig, Route


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
