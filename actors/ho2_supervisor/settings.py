"""What a session's or a run's settings may be: faults in words, before anything rests on them. Pure."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.turn import caller_tools
from hobus.bus.messages.session import SessionConfig
from hobus.config.answer_form import schema_fault
from hobus.config.schema import GatewayConfig, SessionsConfig


def settings_fault(wanted: SessionConfig | None, limits: SessionsConfig) -> str:
    """Why no run can have these settings; empty: one can, as far as the session knows."""
    if fault := caller_tools.offer_fault(wanted, limits):
        return fault
    schema = None if wanted is None else wanted.output_schema
    fault = "" if schema is None else schema_fault(schema, limits)
    return f"output_schema {fault}" if fault else ""


def provider_fault(wanted: SessionConfig, gateway: GatewayConfig) -> str:
    """What a session's settings name that is not configured, and what is; empty: all of it is there.

    Said when it begins: each of its turns would be refused for it. A run's own settings meet that at the gateway.
    """
    provider_id = wanted.provider or gateway.default_route.provider_id
    instance = gateway.providers.get(provider_id)
    if instance is None:
        known = ", ".join(sorted(gateway.providers))
        return f"session_config.provider: no provider {provider_id[:80]!r} is configured; there are {known}"
    models = [model.model_id for model in instance.models]
    if wanted.model and wanted.model not in models and not instance.any_model:
        known = ", ".join(models) or "none"
        return f"session_config.model: {provider_id} has no model {wanted.model[:80]!r}; configured are {known}"
    if wanted.provider_profile_id is not None and wanted.provider_profile_id not in gateway.profiles:
        known = ", ".join(sorted(gateway.profiles)) or "none"
        return (
            f"session_config.provider_profile_id: there is no profile {wanted.provider_profile_id[:80]!r}; "
            f"configured are {known}"
        )
    return ""
