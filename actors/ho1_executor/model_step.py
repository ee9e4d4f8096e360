"""An LLM order: one model call under a contract, and at most the configured number of repairs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from hobus.actors.ho1_executor import limits as own_limits
from hobus.actors.ho1_executor.contracts import (
    A_CALL,
    JSON_ALONE,
    NO_CALL,
    NO_TOOLS,
    NOTHING,
    WHOLE_TEXT,
    CheckedContract,
    OutputVerdict,
    check_contract,
    gather_inputs,
    judge_output,
    list_schema_faults,
    make_label_inputs,
    make_repair_messages,
    strip_answer_fence,
    with_form,
    with_form_told,
)
from hobus.actors.ho1_executor.job import Job
from hobus.actors.ho1_executor.known_tools import KnownTools, KnownToOrder
from hobus.actors.ho1_executor.prompts import Offers, list_told_tools, load_pack, make_own_inputs, render
from hobus.actors.ho1_executor.tools.definition import ToolDefinition
from hobus.bus.errors import GatewayError, RuntimeFault, WorkOrderFault
from hobus.bus.limits import OUTPUT_ERRORS_MAX
from hobus.bus.messages.base import make_from
from hobus.bus.messages.gateway import Prompt, PromptMessage, PromptResponse, ToolSpec, hash_tools
from hobus.bus.messages.ids import call_key
from hobus.bus.messages.transcript import UNKNOWN
from hobus.bus.messages.work_order import CUT, INSTRUCTIONS, WINDOW, OutputResult, Segment, ToolCall, WorkOrder
from hobus.bus.port import Bus
from hobus.bus.window import remember
from hobus.config.assets import AgentFile
from hobus.config.called_agents import PARAMETERS, describe_agent
from hobus.config.json_schema import SchemaFault, get_validator
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import GatewayConfig
from hobus.config.snapshot import Snapshot

Inputs = Mapping[str, Sequence[Segment]]
_MAY_BE_SENT = frozenset({"peer_lost", "expired", "internal"})
"""Faults of a request that its receiver may have worked on."""


_AWAY = frozenset({"no_route", "peer_lost"})
"""Faults of a request that nobody was there to take."""


_GIVEN_BACK = frozenset({UNKNOWN, "denied"})
"""Whoever gave the order gives it again, with all of its history; the broker has denied it: this worker was away for a
moment, and the order is another one's to end. So is one that is dispatching, whose record its giver looks at first."""


class Outage(Struct):
    """How long there has been no gateway, as this worker's orders find out; monotonic seconds."""

    longest_s: float
    _since: float | None = None
    _seen_at: float = 0.0

    def saw(self, code: str, now: float) -> bool:
        """Note with which code a request ended, empty: answered; return whether there has been no gateway too long."""
        if code not in _AWAY:
            self._since = None
            return False
        if self._since is None or now - self._seen_at > self.longest_s:
            self._since = now
        self._seen_at = now
        return now - self._since >= self.longest_s


class ModelStep(Struct, frozen=True):
    """Run LLM orders of this worker."""

    bus: Bus
    tools: KnownTools
    config: AdminConfig  # of this worker: its limits
    outage: Outage
    offers: Offers = field(default_factory=Offers)
    checked: dict[tuple[str, str], CheckedContract] = field(default_factory=dict[tuple[str, str], CheckedContract])
    """(snapshot digest, contract id) -> contract, checked once."""
    standing: dict[tuple[str, str], Inputs] = field(default_factory=dict[tuple[str, str], Inputs])
    """(snapshot digest, agent id) -> what the configuration says to every prompt of this agent."""
    called: dict[tuple[str, str], ToolDefinition] = field(default_factory=dict[tuple[str, str], ToolDefinition])
    """(snapshot digest, agent id) -> that agent as a tool of another."""
    told: OrderedDict[bytes, None] = field(default_factory=OrderedDict[bytes, None])
    """Digests of tools that the gateway has got, as far as is known here."""

    async def run(self, job: Job, snapshot: Snapshot) -> OutputResult:
        """Return the answer that the contract wants, or the tools that the model asks for.

        Raises WorkOrderFault with a closed code or GatewayError with the gateway's own; what was used stands in the
        job's usage.
        """
        order, usage = job.order, job.usage
        checked = self._find_contract(order, snapshot)
        agent = snapshot.agents.get(order.agent_id)
        inputs = gather_inputs(checked, make_own_inputs(order), self._make_standing_inputs(agent, snapshot))
        pack = load_pack(snapshot.prompt_packs, checked.contract.prompt_pack_id)
        messages = render(pack, inputs, order)
        if (schema := order.constraints.output_schema) is not None:
            checked = with_form(checked, schema)
            messages = with_form_told(messages, schema)
        known = await self._find_known(job, agent, snapshot)
        offer = self.offers.to(order, agent, known.tools)
        tools = list_told_tools(order, offer.told)
        tools_digest = hash_tools(tools) if order.constraints.caller_tools else offer.digest
        number = 0
        while True:
            number += 1
            told = () if tools_digest in self.told else tools
            prompt = make_prompt(job, checked, messages, told, number=number, tools_digest=tools_digest)
            response = await self._ask(job, prompt, tools)
            usage.add_response(response)
            # The outcome before the content: whatever a refusal or an error carries as text is no answer.
            if response.outcome != "SUCCESS":
                raise GatewayError(response.error_code or "PROVIDER_ERROR", response.error_message)
            theirs = order.constraints.caller_tools
            is_other = is_stand_in(prompt, response, self.config.gateway)
            answer = make_result(response, known, tools, withheld=offer.withheld, theirs=theirs, is_stand_in=is_other)
            if response.finish_reason in CUT:
                return as_cut(order, answer, prompt, response)
            if answer.tool_calls:
                return answer
            must_call = order.constraints.tool_choice == "required"
            verdict = NO_CALL if must_call else self._judge(checked, response)
            if not verdict.faults:
                return answer.model_copy(
                    update={"parsed": verdict.parsed, "text": strip_answer_fence(answer.text, checked)}
                )
            is_last = number > self.config.ho1.repair_calls_max
            if is_last or is_spent(order, usage.total_tokens):
                said = "; ".join(verdict.faults)
                if not (response.content.strip() or response.tool_calls or must_call):
                    raise WorkOrderFault(
                        "answer_cut", describe_all_thought(response) if response.reasoning_tokens else NOTHING
                    )
                if checked.is_asked_for or must_call:
                    raise WorkOrderFault("format_not_met", said)
                raise WorkOrderFault("output_schema_invalid", f"{checked.contract.contract_id}: {said}")
            job.draft.take_back("rejected")
            wanted = A_CALL if must_call else JSON_ALONE if checked.wants_json else WHOLE_TEXT
            messages = [*messages, *make_repair_messages(response, verdict.faults, wanted)]

    def _judge(self, checked: CheckedContract, response: PromptResponse) -> OutputVerdict:
        """Judge the answer by its contract; what breaks a caller's schema is not told at length."""
        if response.tool_calls and not response.content.strip():
            return NO_TOOLS
        verdict, most = judge_output(checked, response.content), OUTPUT_ERRORS_MAX
        return replace(verdict, faults=verdict.faults[:most]) if checked.is_asked_for else verdict

    async def _find_known(self, job: Job, agent: AgentFile | None, snapshot: Snapshot) -> KnownToOrder:
        """Return the tools; wait for some at most half of the run's time, and no longer than a restart."""
        if agent is None:
            return KnownToOrder({})
        restart_s = own_limits.RECONNECT_MAX_MS / 1000
        allowed, called = job.order.constraints.tools_allowed, dict[str, ToolDefinition]()
        if not snapshot.agents.keys().isdisjoint(allowed):
            called = {name: self._make_agent_tool(name, snapshot) for name in allowed if name in snapshot.agents}
            allowed = [name for name in allowed if name not in called]
        known = await self.tools.find_allowed(allowed, agent, within_s=min(restart_s, job.due_s / 2))
        return replace(known, tools={**known.tools, **called}) if called else known

    def _make_agent_tool(self, agent_id: str, snapshot: Snapshot) -> ToolDefinition:
        """Return the agent as a tool, run by supervisors; one object per configuration, by which offers are cached."""
        key = (snapshot.digest, agent_id)
        if key not in self.called:
            self.called[key] = ToolDefinition(
                agent_id, describe_agent(snapshot.agents[agent_id]), PARAMETERS, idempotent=True, writes=True,
                source="agent",
            )  # fmt: skip
        return self.called[key]

    def _make_standing_inputs(self, agent: AgentFile | None, snapshot: Snapshot) -> Inputs:
        key = (snapshot.digest, "" if agent is None else agent.agent_id)
        if key not in self.standing:
            own = {} if agent is None else {INSTRUCTIONS: [Segment(name=INSTRUCTIONS, text=agent.system_prompt)]}
            self.standing[key] = make_label_inputs(snapshot.config.classify_labels) | own
        return self.standing[key]

    def _find_contract(self, order: WorkOrder, snapshot: Snapshot) -> CheckedContract:
        key = (snapshot.digest, order.constraints.prompt_contract_id)
        if key not in self.checked:
            self.checked[key] = check_contract(snapshot.contracts, key[1])
        return self.checked[key]

    async def _ask(  # noqa: C901 - one place for all ends of a request
        self, job: Job, prompt: Prompt, tools: list[ToolSpec]
    ) -> PromptResponse:
        """Return the gateway's response; ask again under the same key while that may help and time is left.

        `tools`: of the prompt, for a gateway that has not got those that it leaves out.
        """
        attempt, usual_s, may_be_sent = 1, own_limits.RETRY_INTERVAL_MS / 1000, False
        while True:
            try:
                response = await self.bus.request(
                    "gateway",
                    prompt,
                    expect=PromptResponse,
                    timeout_s=job.remaining_s,
                    message_id=prompt.idempotency_key,
                    attempt=attempt,
                    trace=job.trace,
                    on_stream=job.draft.relay if job.draft.is_watched else None,
                )
            except asyncio.CancelledError:  # by the requester or by the order's deadline
                job.usage.add_unanswered()
                raise
            except RuntimeFault as fault:
                if fault.code == UNKNOWN and len(prompt.tools) < len(tools):
                    self.told.clear()
                    prompt, attempt = prompt.model_copy(update={"tools": tools}), attempt + 1
                    continue
                if fault.code in _GIVEN_BACK or (job.is_dispatching and fault.code == "UNAVAILABLE"):
                    raise
                is_away = self.outage.saw(fault.code, self.bus.clock.monotonic())
                job.draft.take_back("retry")
                pause_s = fault.pause_s(usual_s, self.bus.clock.random())
                may_be_sent = may_be_sent or fault.code in _MAY_BE_SENT
                if may_be_sent and (not fault.retryable or is_away or job.remaining_s <= pause_s):
                    job.usage.add_unanswered()
                if not fault.retryable:
                    raise WorkOrderFault("execution_error", f"the gateway did not answer: {fault.code}") from None
                if job.remaining_s <= pause_s:
                    raise WorkOrderFault(
                        "deadline_exceeded", f"the gateway did not answer in time; last fault: {fault.code}"
                    ) from None
                if is_away:
                    raise GatewayError("UNAVAILABLE", f"there is no gateway ({fault.code}); ask again") from None
            else:
                self.outage.saw("", self.bus.clock.monotonic())
                self._note_told(prompt)
                return response
            await self.bus.sleep(pause_s)
            attempt += 1

    def _note_told(self, prompt: Prompt) -> None:
        if prompt.tools and prompt.tools_digest is not None:
            remember(self.told, prompt.tools_digest, None, at_most=own_limits.TOOLS_TOLD_MAX)


def is_spent(order: WorkOrder, used_tokens: int) -> bool:
    """Return whether nothing of an enforced budget is left for a further call."""
    limits = order.constraints
    return limits.budget_mode == "enforce" and used_tokens >= limits.token_budget


def make_prompt(  # noqa: PLR0913 - one argument per thing that differs between calls
    job: Job,
    checked: CheckedContract,
    messages: Sequence[PromptMessage],
    tools: Sequence[ToolSpec],
    *,
    number: int,
    tools_digest: bytes | None = None,
) -> Prompt:
    """Build the call number `number` of an order, with the limits of its contract and its own.

    The gateway keeps it within the order's budget: it knows what the prompt counts, and what earlier calls used.
    """
    order, used_tokens = job.order, job.usage.total_tokens
    contract, limits = checked.contract, order.constraints
    if is_spent(order, used_tokens):
        raise WorkOrderFault(
            "budget_exhausted", f"{used_tokens} of {limits.token_budget} tokens of {order.wo_id} are used"
        )
    cap, drawn = contract.boundary.max_tokens, limits.sampling
    return make_from(
        Prompt,
        order,
        limits,
        messages=list(messages),
        prompt_pack_id=contract.prompt_pack_id,
        contract_id=contract.contract_id,
        work_order_id=order.wo_id,
        run_seq=order.fence.run_id.run_seq,
        tier=contract.tier or order.tier_target,
        provider_id=limits.provider_id or contract.boundary.provider_id,
        max_tokens=cap if limits.max_tokens is None else min(cap, limits.max_tokens),
        temperature=contract.boundary.temperature if drawn is None or drawn.temperature is None else drawn.temperature,
        tools=list(tools),
        tools_digest=tools_digest,
        output_schema=contract.output_schema if checked.wants_json else None,
        structured_output=contract.boundary.structured_output,
        stream=order.wo_type == "synthesize" and job.draft.is_watched,
        due_at=job.due_at,
        is_dispatching=job.is_dispatching,
        idempotency_key=call_key(order.wo_id, number),
    )


def as_cut(order: WorkOrder, answer: OutputResult, prompt: Prompt, response: PromptResponse) -> OutputResult:
    """Return an answer that is not whole: its text as far as it came, and none of its calls, which may be cut as well.

    Raises WorkOrderFault(answer_cut) where there is no text for a reader: nothing is asked again under the same cap.
    """
    if order.wo_type == "synthesize" and response.content.strip():
        return answer.model_copy(update={"tool_calls": []})
    reason = response.finish_reason
    said, mend = CUT[reason], ""
    if response.reasoning_tokens and not answer.tool_calls:
        said = describe_all_thought(response) if reason == "length" else f"{said}; {describe_all_thought(response)}"
    if reason == WINDOW:
        mend = f"; begin a new session, or choose a model with a larger window than {response.model_id}"
    if reason == "length":
        mend = (
            f"; its cap is {prompt.max_tokens} tokens (max_tokens of the request, else boundary.max_tokens of "
            f"{prompt.contract_id}, at most what the window of {response.model_id} leaves): allow more"
        )
    raise WorkOrderFault("answer_cut", said + mend)


def describe_all_thought(response: PromptResponse) -> str:
    """Return what is told of an answer that is thinking alone."""
    return f"all {response.output_tokens} tokens of it went into thinking, and none into an answer"


def is_stand_in(prompt: Prompt, response: PromptResponse, config: GatewayConfig) -> bool:
    """Return whether the embedded rules answered though neither the prompt nor a configured route names them."""
    answered, by_tag = response.provider_id, config.domain_tag_routes
    named = {prompt.provider_id, config.default_route.provider_id}
    named |= {by_tag[tag].provider_id for tag in prompt.domain_tags if tag in by_tag}
    return answered in config.providers and config.providers[answered].kind == "offline" and answered not in named


def make_result(  # noqa: PLR0913 - what stands in a result comes from as many places
    response: PromptResponse,
    known: KnownToOrder,
    tools: Sequence[ToolSpec],
    *,
    withheld: Sequence[str],
    theirs: Sequence[ToolSpec] = (),
    is_stand_in: bool = False,
) -> OutputResult:
    """Build the result of an answer with its provenance, and what its model was not told of; the gateway has its text.

    `tools`: what a model is told of now. The answer may be one that another worker, which knew others, asked for.
    `theirs`: the caller's tools, whose arguments nobody judges later.
    """
    ref = response.content_ref if response.content else None
    # Calls by a model that was told of no tool are no calls.
    calls = [with_schema_fault(call, theirs) for call in response.tool_calls] if response.tools_told else []
    return OutputResult(
        text=Segment(name="answer", ref=ref, text=response.content),
        tool_calls=calls,
        finish_reason=response.finish_reason,
        is_stand_in=is_stand_in,
        tools_invented=sorted({call.tool_id for call in response.tool_calls}.difference(response.tools_told)),
        tools_missing=known.list_lacking({tool.tool_id for tool in tools}, set(response.tools_told)),
        tools_withheld=list(withheld),
    )


def with_schema_fault(call: ToolCall, theirs: Sequence[ToolSpec]) -> ToolCall:
    """Return the call with where it breaks the schema of its tool if that is one of these, and can be run."""
    schema = next((tool.parameters for tool in theirs if tool.tool_id == call.tool_id), None)
    if schema is None or call.fault:
        return call
    try:
        faults = list_schema_faults(get_validator(schema), call.arguments)
    except SchemaFault:
        return call
    return call.model_copy(update={"fault": "; ".join(faults)}) if faults else call
