"""Work orders: built once, validated in words, dispatched; their states: `bus/messages/work_order.py`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hobus.bus.messages.base import make_from
from hobus.bus.messages.ids import StepId, derive_body_ref, work_order_id
from hobus.bus.messages.session import RunConfig
from hobus.bus.messages.work_order import (
    CLASSIFICATION,
    BudgetMode,
    Caller,
    Constraints,
    Exchange,
    Fence,
    Segment,
    ToolCall,
    WorkOrder,
    WorkOrderType,
    change_segments,
    move_state,
)
from hobus.config.assets import AgentFile, names
from hobus.config.prompt_contracts import get_contract_id

CREATED_BY = "ho2"
LLM_TYPES = frozenset({"classify", "synthesize", "consolidate"})


class OrderContext(Struct, frozen=True):
    """What every order of a run has in common at its step."""

    step_id: StepId
    fence: Fence
    agent: AgentFile
    package_id: str
    config_digest: str
    planned_at: str
    budget_mode: BudgetMode
    intent_id: str | None = None  # the one that is active now
    callers: Sequence[Caller] = ()


def classify(context: OrderContext, *, inputs: Sequence[Segment], call_id: str = "", **bounds: Any) -> WorkOrder:
    """Build the classification of the user's message; with a call id one beside the order of its step.

    `bounds`, here and below: token_budget, timeout_seconds and the like; here also provider_id and model_id, None: its
    domain tag routes it.
    """
    contract_id = get_contract_id(context.agent, "classify")
    limits = make_from(Constraints, context, prompt_contract_id=contract_id, domain_tags=[CLASSIFICATION], **bounds)
    return _make_order(context, "classify", limits, call_id, input_context=list(inputs))


def synthesize(  # noqa: PLR0913 - one argument per part of a prompt
    context: OrderContext,
    *,
    inputs: Sequence[Segment],
    exchanges: Sequence[Exchange],
    run_config: RunConfig,
    criteria: Mapping[str, Any],
    parent_wo_id: str | None,
    **bounds: Any,
) -> WorkOrder:
    """Build one model round towards the answer; it names the run's provider and model."""
    limits = make_from(
        Constraints,
        context,
        run_config,
        prompt_contract_id=get_contract_id(context.agent, "synthesize"),
        tools_allowed=list(context.agent.tools),
        provider_id=run_config.provider,
        model_id=run_config.model,
        caller_tools=run_config.caller_tools or [],
        tool_choice=run_config.tool_choice or "auto",
        sampling=run_config.sampling if context.agent.takes_sampling else None,
        **bounds,
    )
    return _make_order(
        context,
        "synthesize",
        limits,
        input_context=list(inputs),
        exchanges=list(exchanges),
        acceptance_criteria=dict(criteria),
        parent_wo_id=parent_wo_id,
    )


def make_tool_call(context: OrderContext, call: ToolCall, *, parent_wo_id: str | None, **bounds: Any) -> WorkOrder:
    """Build the order of one call that the model, or an operator, asked for."""
    own = context.agent.tools
    allowed = [call.tool_id] if names(own, call.tool_id) else list(own)
    limits = make_from(Constraints, context, tools_allowed=allowed, **bounds)
    bare = call.model_copy(update={"given_back": {}})  # of its model alone
    return _make_order(context, "tool_call", limits, call.call_id, tool_call=bare, parent_wo_id=parent_wo_id)


def _make_order(
    context: OrderContext, wo_type: WorkOrderType, limits: Constraints, call_id: str = "", **parts: Any
) -> WorkOrder:
    return plan_order(
        context.agent,
        context,
        wo_id=work_order_id(context.step_id, call_id),
        fence=context.fence,
        wo_type=wo_type,
        constraints=limits,
        **parts,
    )


def plan_order(agent: AgentFile, *sources: object, fence: Fence, **own: Any) -> WorkOrder:
    """Build an order for this agent from `own` parts and those that a source has under the same name."""
    about = {"session_id": fence.run_id.session_id, "fence": fence, "state": "planned", "created_by": CREATED_BY}
    return make_from(WorkOrder, *sources, agent, **about, **own)


def find_faults(order: WorkOrder, completed: Collection[str]) -> list[str]:
    """Return every fault of an order, in words; empty: it may be dispatched. `completed`: ids of completed orders."""
    limits = order.constraints
    needs_budget = order.wo_type in LLM_TYPES
    checks = (
        (needs_budget and not limits.prompt_contract_id, f"a {order.wo_type} order names no prompt_contract_id"),
        (order.wo_type == "tool_call" and not limits.tools_allowed, "a tool_call order allows no tools"),
        (limits.token_budget <= 0, f"token_budget is {limits.token_budget}, it must be positive"),
        (limits.timeout_seconds <= 0, f"timeout_seconds is {limits.timeout_seconds}, it must be positive"),
        (
            order.parent_wo_id is not None and order.parent_wo_id not in completed,
            f"parent {order.parent_wo_id} is not completed",
        ),
    )
    return [words for is_wrong, words in checks if is_wrong]


def prepare_dispatch(
    order: WorkOrder, submission_id: str, known: Mapping[str, str], composed: Collection[str] = ()
) -> tuple[WorkOrder, dict[str, str]]:
    """Return the order as it is sent, longer texts by ref, and the texts (text -> ref) that it brings as bodies.

    `known`: refs of texts that earlier orders of the run brought. Later orders, and the prompt's own record, then name
    a text by ref and store it no more. A text that is shorter than its ref stays as it is, unless it is `composed` of
    recorded texts: those stand in one place alone, where they can be erased. Raises WorkOrderFault(rejected) for an
    order that is not planned.
    """
    brought: dict[str, str] = {}

    def own_segment(segment: Segment) -> Segment:
        text = segment.text
        if segment.ref is not None or not text:
            return segment
        standing = known if text in known else brought
        ref = standing[text] if text in standing else derive_body_ref(submission_id, len(brought) + 1)
        if len(text) <= len(ref) and text not in composed:
            return segment
        if standing is brought:
            brought[text] = ref
        return replace(segment, ref=ref)

    state = move_state(order.wo_id, order.state, "dispatched", "ho2")
    return change_segments(order, own_segment, state=state), brought
