"""Who may have a model called and which, what a prompt must be before its call, and an answer after it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.limits import OUTPUT_ERRORS_MAX
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ids import DEGRADED, get_order_of_call
from hobus.config.assets import AgentFile
from hobus.config.json_schema import SchemaFault, get_validator
from hobus.config.sections.gateway import Route
from hobus.gateway_service.limits import KEY_MAX_CHARS
from hobus.gateway_service.vectors import VectorPrompt


def authenticate(sender: str, role: str) -> None:
    """Raise GatewayError(AUTH_ERROR) for a request without a stamped principal, or one whose role is not its own.

    Both were stamped by the broker or the lane: nothing that a message claims.
    """
    if not role or sender.partition("/")[0] != role:
        raise GatewayError("AUTH_ERROR", f"the connection {sender[:80]!r} is bound to no principal")


def demand_own_key(prompt: Prompt, message_id: str) -> None:
    """Raise GatewayError(FORBIDDEN) if it was asked as a call of an order, and names another call or another order.

    The broker lets a worker from elsewhere ask as a call of its own orders alone.
    """
    order = get_order_of_call(message_id)
    if order and (message_id, order) != (prompt.idempotency_key, prompt.work_order_id):
        raise GatewayError(
            "FORBIDDEN",
            f"the prompt of order {prompt.work_order_id[:160]!r} was asked as {message_id[:160]!r}, "
            f"not under its own key {prompt.idempotency_key[:160]!r}",
        )


def authorise(prompt: Prompt, role: str, route: Route, agents: Mapping[str, AgentFile], *, is_degraded: bool) -> None:
    """Raise GatewayError(FORBIDDEN) unless this role may invoke, and this agent may use this provider and model."""
    if role != ("host" if is_degraded or isinstance(prompt, VectorPrompt) else "ho1"):
        kind = "a degraded call" if is_degraded else "a prompt"
        raise GatewayError("FORBIDDEN", f"role {role} may not send {kind}")
    if is_degraded and prompt.contract_id != DEGRADED:
        raise GatewayError(
            "FORBIDDEN",
            f"a degraded call names contract {prompt.contract_id[:80]!r}; only {DEGRADED} is taken",
        )
    agent = agents.get(prompt.agent_id)
    if agent is None:
        raise GatewayError("FORBIDDEN", f"no agent {prompt.agent_id[:80]!r} in this snapshot; known: {sorted(agents)}")
    if not agent.permissions.allows("providers", route.provider_id):
        raise GatewayError("FORBIDDEN", f"agent {agent.agent_id} may not use provider {route.provider_id[:80]!r}")
    if not agent.permissions.allows("models", route.model_id):
        raise GatewayError("FORBIDDEN", f"agent {agent.agent_id} may not use model {route.model_id[:80]!r}")


_ROUND = re.compile(r"^WO-[0-9a-f-]{36}-\d+\.(\d+)\.\d+")


def check_prompt(prompt: Prompt) -> None:
    """Raise GatewayError(INVALID_INPUT) naming every fault at once, and never the prompt's text."""
    faults: list[str] = []
    if not any(segment.text.strip() for message in prompt.messages for segment in message.segments):
        faults.append("messages: no text in any message")
    if not prompt.contract_id.strip() and not isinstance(prompt, VectorPrompt):
        faults.append("contract_id: blank")
    if not prompt.session_id.strip():
        faults.append("session_id: blank")
    if prompt.max_tokens <= 0:
        faults.append(f"max_tokens: {prompt.max_tokens}, must be positive")
    if not prompt.idempotency_key.strip():
        faults.append("idempotency_key: blank")
    elif len(prompt.idempotency_key) > KEY_MAX_CHARS:
        faults.append(f"idempotency_key: {len(prompt.idempotency_key)} characters, at most {KEY_MAX_CHARS}")
    if faults:
        raise GatewayError("INVALID_INPUT", "; ".join(faults))


def check_round(prompt: Prompt, turn_limit: int) -> None:
    """Raise GatewayError(TURN_LIMIT) for a round beyond `budget.turn_limit`: the second fence behind HO2's own.

    The round stands in the order's derived id; degraded calls and consolidations belong to no round.
    """
    found = _ROUND.match(prompt.work_order_id)
    if found and int(found.group(1)) > turn_limit:
        raise GatewayError(
            "TURN_LIMIT", f"{prompt.work_order_id} is round {found.group(1)}; at most {turn_limit} (budget.turn_limit)"
        )


def check_output(prompt: Prompt, response: PromptResponse, of_contract: dict[str, Any] | None) -> PromptResponse:
    """Return the response with output_valid and errors; unjudged if it asks for tools, or its schema is foreign.

    A schema is a program: its pattern may take for ever over a text, and everybody's prompts wait meanwhile. One that
    somebody brings along is for the provider, and for the worker that asked, which judges the answer by it in any case:
    here answers are judged `of_contract` alone, by the schema that its snapshot has.
    """
    if of_contract is None or prompt.output_schema != of_contract or response.tool_calls:
        return response
    errors = _list_output_errors(prompt, response.content, of_contract)[:OUTPUT_ERRORS_MAX]
    return response.model_copy(update={"output_valid": not errors, "output_errors": errors})


def _list_output_errors(prompt: Prompt, content: str, schema: dict[str, Any]) -> list[str]:
    value: Any = content
    if prompt.structured_output or schema.get("type") == "object":
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            return ["$: not JSON"]
    try:
        faults = get_validator(schema).faults(value)
    except SchemaFault as fault:
        return [f"output_schema {fault}"]
    return [f"{fault.place}: {fault.rule}" for fault in faults]
