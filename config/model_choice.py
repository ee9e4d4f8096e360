"""Which model a prompt goes to, and who named it. Pure.

One order, the first that names one decides: request, session, agent, contract, domain tag, default route. What request,
session or agent name holds for everything of a turn, its classification and its degraded answer too: a domain tag then
chooses among models of that provider alone.
"""

from __future__ import annotations

from hobus.bus.errors import SessionFault
from hobus.bus.messages.session import ModelChoice, NamedBy, SessionConfig
from hobus.config.assets import AgentFile, Contract
from hobus.config.sections.gateway import GatewayConfig, Route

_NONE = "(none)"
"""In place of a model that nobody names, of a provider whose configuration names none either."""
_FOR_ALL = frozenset({"request", "session", "agent"})


def choose_model(  # noqa: PLR0913 - one per place that may name a model
    gateway: GatewayConfig,
    agent: AgentFile | None,
    contract: Contract | None,
    *,
    request: SessionConfig | None = None,
    session: SessionConfig | None = None,
    tag: str = "",
) -> ModelChoice:
    """Return the model of a prompt. A provider named without one keeps that of a later place, else its first."""
    tagged, default = gateway.domain_tag_routes.get(tag), gateway.default_route
    provider = model = ""
    named_by: NamedBy = "default"
    places: tuple[tuple[NamedBy, str | None, str | None], ...] = (
        ("request", request and request.provider, request and request.model),
        ("session", session and session.provider, session and session.model),
        ("agent", *_split_route(agent and agent.model)),
        ("contract", contract and contract.boundary.provider_id, None),
        ("tag", *_split_route(tagged)),
        ("default", default.provider_id, default.model_id),
    )
    for place, given, wanted in places:
        its_provider, its_model = _split(given, wanted, gateway)
        if not provider and not model and (its_provider or its_model):
            named_by = place
        if not provider:
            provider, model = its_provider, model or its_model
        elif not model and its_provider == provider:
            model = its_model
    if named_by in _FOR_ALL and tagged is not None and tagged.provider_id == provider:
        model = tagged.model_id
    if not model:
        instance = gateway.providers.get(provider)
        model = instance.models[0].model_id if instance and instance.models else _NONE
    return ModelChoice(provider=provider, model=model, named_by=named_by)


def get_named_route(choice: ModelChoice) -> tuple[str | None, str | None]:
    """Return provider and model that a prompt beside the answer names; None: contract or gateway decides."""
    return (choice.provider, choice.model) if choice.named_by in _FOR_ALL else (None, None)


def find_choice_fault(choice: ModelChoice, agent: AgentFile, gateway: GatewayConfig) -> SessionFault | None:
    """Return why a choice cannot be had, or this agent may not use it; None: it can and may."""
    instance, who = gateway.providers.get(choice.provider), f"named by the {choice.named_by}"
    if instance is None:
        known = ", ".join(sorted(gateway.providers))
        said = f"no provider {choice.provider[:80]!r} ({who}) is configured; there are {known}"
        return SessionFault("PROVIDER_NOT_FOUND", said)
    models = [model.model_id for model in instance.models]
    if choice.model not in models and not (instance.any_model and choice.model != _NONE):
        others = [
            f"{name}/{choice.model}"
            for name, one in sorted(gateway.providers.items())
            if choice.model in [model.model_id for model in one.models]
        ]
        said = f"provider {choice.provider} has no model {choice.model[:80]!r} ({who}); configured are "
        said += (", ".join(models) or "none") + (f"; name it as {' or '.join(others)}" if others else "")
        head, slash, _ = choice.model.partition("/")
        if slash and not others:
            said += f"; there is no provider {head[:80]!r} either, only {', '.join(sorted(gateway.providers))}"
        return SessionFault("MODEL_NOT_FOUND", said)
    if not agent.permissions.allows("providers", choice.provider):
        return _refuse_forbidden(agent, "providers", choice.provider, who)
    return (
        None
        if agent.permissions.allows("models", choice.model)
        else _refuse_forbidden(agent, "models", choice.model, who)
    )


def _refuse_forbidden(agent: AgentFile, kind: str, name: str, who: str) -> SessionFault:
    return SessionFault(
        "FORBIDDEN",
        f"agent {agent.agent_id} may not use {kind[:-1]} {name[:80]} ({who}): name another one, or add it to "
        f"permissions.{kind} in agents/{agent.agent_id}.json",
    )


def _split_route(route: Route | None) -> tuple[str | None, str | None]:
    return (None, None) if route is None else (route.provider_id, route.model_id)


def _split(provider: str | None, model: str | None, gateway: GatewayConfig) -> tuple[str, str]:
    """Split a model that is named as `PROVIDER/MODEL`, which names both."""
    head, _, rest = (model or "").partition("/")
    if not provider and rest and head in gateway.providers:
        return head, rest
    return provider or "", model or ""
