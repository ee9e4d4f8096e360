"""Who may have a model called, and which. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.ids import order_of_call
from hobus.config.assets import Agent
from hobus.config.schema import Route

DEGRADED_CONTRACT = "PRC-DEGRADED-001"
_PROMPT_ROLES = frozenset({"ho1"})
_DEGRADED_ROLES = frozenset({"host"})


class Caller(NamedTuple):
    """The principal that the broker or the lane stamped; nothing that a message claims."""

    instance: str
    role: str


def authenticate(caller: Caller) -> None:
    """Raises GatewayError(AUTH_ERROR) for a request without a stamped principal, or one whose role is not its own."""
    if not caller.role or caller.instance.partition("/")[0] != caller.role:
        raise GatewayError("AUTH_ERROR", f"the connection {caller.instance[:80]!r} is bound to no principal")


def demand_own_key(prompt: Prompt, message_id: str) -> None:
    """Raises GatewayError(FORBIDDEN) if it was asked as a call of an order, and names another call or another order.

    The broker lets a worker from elsewhere ask as a call of its own orders alone.
    """
    order = order_of_call(message_id)
    if order and (message_id, order) != (prompt.idempotency_key, prompt.work_order_id):
        raise GatewayError(
            "FORBIDDEN",
            f"the prompt of order {prompt.work_order_id[:160]!r} was asked as {message_id[:160]!r}, "
            f"not under its own key {prompt.idempotency_key[:160]!r}",
        )


def authorise(prompt: Prompt, caller: Caller, route: Route, agents: Mapping[str, Agent], *, is_degraded: bool) -> None:
    """Raises GatewayError(FORBIDDEN) unless this role may invoke, and this agent may use this provider and model."""
    if caller.role not in (_DEGRADED_ROLES if is_degraded else _PROMPT_ROLES):
        kind = "a degraded call" if is_degraded else "a prompt"
        raise GatewayError("FORBIDDEN", f"role {caller.role} may not send {kind}")
    if is_degraded and prompt.contract_id != DEGRADED_CONTRACT:
        raise GatewayError(
            "FORBIDDEN",
            f"a degraded call names contract {prompt.contract_id[:80]!r}; only {DEGRADED_CONTRACT} is taken",
        )
    agent = agents.get(prompt.agent_id)
    if agent is None:
        raise GatewayError("FORBIDDEN", f"no agent {prompt.agent_id[:80]!r} in this snapshot; known: {sorted(agents)}")
    if not agent.permissions.allows("providers", route.provider_id):
        raise GatewayError("FORBIDDEN", f"agent {agent.agent_id} may not use provider {route.provider_id[:80]!r}")
    if not agent.permissions.allows("models", route.model_id):
        raise GatewayError("FORBIDDEN", f"agent {agent.agent_id} may not use model {route.model_id[:80]!r}")
