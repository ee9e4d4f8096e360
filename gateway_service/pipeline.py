"""The pipeline that every prompt runs through, in order, under the configuration that it names.

Theory of operation. `answer` holds stages 1 to 4. A call that is new runs in a task of
its own (`calls.py`): `_complete` is stages 5 to 12, `_attempt` stages 6 to 11, once per send. Every exit after stage
6 leaves through `account.reserved`, the one place that settles or releases. Rules are plain functions beside this
file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from typing import Any

import structlog
from msgspec import Struct, field

from hobus.bus.dispatch import Call
from hobus.bus.errors import GatewayError, RuntimeFault
from hobus.bus.messages.gateway import Outcome, Prompt, PromptResponse
from hobus.bus.messages.ids import parse_iso
from hobus.bus.port import Bus, Provider
from hobus.bus.record.payloads.prompts import PromptRejected
from hobus.bus.spool import RecordKeeper
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import ModelConfig, Route
from hobus.config.snapshot import Snapshot
from hobus.gateway_service import images, limits, pricing, records, routing, validation, vectors
from hobus.gateway_service.account import BudgetAccount
from hobus.gateway_service.breakers import BreakerDesk
from hobus.gateway_service.calls import Calls, Failed, InFlight
from hobus.gateway_service.histories import Histories, SharedParts
from hobus.gateway_service.places import Places, is_awaited
from hobus.gateway_service.rates import Rates
from hobus.gateway_service.records import PromptCall
from hobus.gateway_service.sending import EarlierAttempt, Sender, make_unavailable
from hobus.gateway_service.vectors import VectorPrompt

_log = structlog.get_logger("gateway")

_BUDGET_CODES = frozenset({"BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED", "NOT_ALLOCATED"})
_OUTCOMES: dict[str, Outcome] = {
    **dict.fromkeys(("INVALID_INPUT", "AUTH_ERROR", "FORBIDDEN", "TURN_LIMIT", "CONTEXT_TOO_LONG"), "REJECTED"),
    **dict.fromkeys(("PROVIDER_NOT_FOUND", "MODEL_NOT_FOUND", "MODEL_UNFIT", "PROVIDER_UNUSABLE"), "REJECTED"),
    **dict.fromkeys(_BUDGET_CODES | {"RATE_LIMITED", "CIRCUIT_OPEN"}, "REJECTED"),
    **dict.fromkeys(("PROVIDER_TIMEOUT", "DEADLINE_EXCEEDED"), "TIMEOUT"),
}
"""Code -> outcome; every other code is ERROR."""


class Shared(Struct):
    """What every call of this process shares, whatever configuration it is made under."""

    bus: Bus
    keeper: RecordKeeper
    calls: Calls
    breakers: BreakerDesk
    last_faults: routing.LastFaults
    histories: Histories
    parts: SharedParts
    on_call_over: Callable[[], None]
    rejections: int = 0


class _Tries(Struct):
    """The sends of one call to one model, and since when there is an outage to wait out."""

    may_wait: bool
    has_lowered_cap: bool = False
    sends: int = 0
    since: float | None = None


class Pipeline(Struct, frozen=True):
    """Answer prompts under one configuration."""

    shared: Shared
    snapshot: Snapshot
    config: AdminConfig
    providers: Mapping[str, Provider]
    account: BudgetAccount
    sender: Sender
    rates: Rates
    places: Mapping[str, Places]
    schemas: Mapping[str, dict[str, Any]]
    """By contract, of what its answers have to be."""
    windows: dict[Route, int] = field(default_factory=dict[Route, int])
    """As refusals named them."""

    async def answer(self, prompt: Prompt, call: Call, deadline: float, *, is_degraded: bool) -> PromptResponse:
        """Run stages 1 to 4; the rest runs once per call key, whoever and however many wait for it."""
        config, agents = self.config.gateway, self.snapshot.agents
        try:
            validation.check_prompt(prompt)  # 1 validate
            validation.authenticate(call.sender, call.role)  # 2 authenticate
            if not is_degraded:
                validation.demand_own_key(prompt, call.message_id)
            route = routing.choose_route(prompt, config)
            validation.authorise(prompt, call.role, route, agents, is_degraded=is_degraded)  # 3 authorise
            self.shared.parts.share(prompt)
            prompt = self.shared.histories.whole(prompt)
            prompt = routing.with_profile(prompt, route, config)
            ask = records.ask_of(
                prompt, route, trace=call.trace, is_degraded=is_degraded, principal=self.shared.bus.principal
            )
            return await self.shared.calls.answer(  # 4 idempotency
                prompt.idempotency_key,
                ask.asked,
                deadline,
                lambda running: self._run(ask, running),
                asked_by=call,
            )
        except GatewayError as refusal:
            if prompt.is_dispatching and refusal.retryable:
                raise
            return refuse(self.shared, prompt, refusal, trace=call.trace, is_degraded=is_degraded)

    async def _run(self, ask: PromptCall, running: InFlight) -> PromptResponse:
        """Run one call from its route to its answer; every fault becomes the response that says so."""
        try:
            response = await self._complete(ask, running)
        except RuntimeFault as error:
            fault = error if isinstance(error, GatewayError) else make_unavailable(error)
            if ask.prompt.is_dispatching and fault.code == "UNAVAILABLE" and not running.was_sent:
                # No answer to remember: its order's record may not stand, and then it comes anew, as it is then.
                self.shared.calls.take_back(running.key)
                raise GatewayError(fault.code, fault.detail, retryable=True) from None
            said = refuse(self.shared, ask.prompt, fault, running, trace=ask.trace, is_degraded=ask.is_degraded)
            earlier = running.provider_fault if fault.code in _BUDGET_CODES else None
            return said if earlier is None else _with_reason(said, earlier)
        finally:
            self.shared.on_call_over()
        self.shared.calls.remember(running.key, response)
        return response

    async def _complete(self, ask: PromptCall, running: InFlight) -> PromptResponse:
        """Run stages 5 to 12, along the chain of models while their providers are at fault."""
        config = self.config.gateway
        links = routing.list_chain(ask.route, self.snapshot.agents[ask.prompt.agent_id], config)
        session_id, said = ask.prompt.session_id, list[str]()
        if ask.is_degraded:
            links = self.shared.last_faults.last(session_id, links)
        for route in links:
            routing.check_route(route, config, self.providers)  # 5 route
        if isinstance(ask.prompt, VectorPrompt):
            vectors.demand_vectors(ask.route, config)
            links = [ask.route]  # numbers of another model mean something else
        for number, route in enumerate(links, 1):
            following = len(links) - number
            until = self._compute_share(running, ask.prompt, following)
            try:
                response = await self._on_route(records.change_request(ask, route), running, until)
                earlier = self.shared.last_faults.answered(session_id)
                break
            except GatewayError as fault:
                said.append(fault.detail)
                if routing.may_follow(fault, config):
                    self.shared.last_faults.failed(session_id, route.provider_id, fault.detail)
                if not following or not routing.may_follow(fault, config) or self._compute_left(running) <= 0:
                    heard = self.shared.last_faults.said(session_id) if ask.is_degraded else []
                    fault.detail = routing.join_faults([*heard, *said])
                    raise
                _log.warning("falls_back", provider=route.provider_id, model=route.model_id, code=fault.code)
                running.draft.take_back("retry")
        else:
            raise AssertionError("a chain has a model")
        if ask.is_degraded and earlier:
            response = response.model_copy(update={"instead_of": earlier})
        return validation.check_output(
            ask.prompt, response, self.schemas.get(ask.prompt.contract_id)
        )  # 12 validate output

    async def _on_route(self, ask: PromptCall, running: InFlight, until: float | None) -> PromptResponse:
        """Try one model of the chain with bounded retries, until its time is over (None: no other follows)."""
        ask, estimate = await self._prepare(ask, running, until)
        tries = _Tries(may_wait=until is None and not ask.is_degraded)
        while True:
            has_passage = await self._has_passage(ask, running, tries)
            try:
                return await self._attempt(ask, estimate, running, until)  # 6 to 11
            except EarlierAttempt as earlier:
                running.was_sent = True
                if earlier.code == "UNKNOWN_OUTCOME" and self.config.gateway.on_unknown_outcome == "fail":
                    raise
            except GatewayError as fault:
                if has_passage and tries.may_wait and fault.code == "CIRCUIT_OPEN":
                    continue  # another one was let through meanwhile: this one gets in line again
                ask = self._lower_cap(ask, tries, fault)
                await self._pause(ask, running, until, tries, fault)

    def _lower_cap(self, ask: PromptCall, tries: _Tries, fault: GatewayError) -> PromptCall:
        """Return the request as it is tried next: once with a lower cap, where that did not fit behind the prompt."""
        if fault.code != "CONTEXT_TOO_LONG" or tries.has_lowered_cap or isinstance(ask.prompt, VectorPrompt):
            return ask
        room = ask.prompt.max_tokens // 4  # which most windows leave
        if (window := fault.facts.get("window")) is not None:
            self.windows[ask.route] = window
            room = window - fault.facts["prompt_tokens"] - 1
        if room < min(ask.prompt.max_tokens, limits.ANSWER_MIN_TOKENS):
            return ask
        tries.has_lowered_cap = fault.facts["is_made_again"] = True
        return records.change_request(ask, ask.route, max_tokens=room)

    async def _pause(
        self, ask: PromptCall, running: InFlight, until: float | None, tries: _Tries, fault: GatewayError
    ) -> None:
        """Pause before the next attempt; raise the fault where there is none.

        What nobody else can answer goes on for as long as an outage is waited out, if nothing was done for it.
        """
        config = self.config.gateway
        if fault.facts.get("was_sent") is True:
            running.was_sent = True
            running.failed.add(fault, fault.facts.get("cost_usd"))
            running.provider_fault = fault if routing.may_follow(fault, config) else None
        if fault.facts.get("is_made_again") is True:
            return
        tries.sends += 1
        pause_s = routing.pause_s(fault, tries.sends, self.shared.bus.clock.random())
        if min(self._compute_left(running, until), self._compute_due(ask.prompt)) <= pause_s:
            raise fault
        is_open = self.shared.breakers.rest_s(ask.route) is not None
        if tries.may_wait and routing.may_outlast(fault, self._count_waited(tries), config, is_open=is_open):
            with running.tell_waiting():
                await self.shared.bus.sleep(pause_s)
            return
        if is_open or not routing.may_try_again(fault, tries.sends, config):
            raise fault
        await self.shared.bus.sleep(pause_s)

    async def _has_passage(self, ask: PromptCall, running: InFlight, tries: _Tries) -> bool:
        """Wait for the breaker, `gateway.outage_wait_ms` and the deadline at most; return whether a call may pass."""
        if self.shared.breakers.rest_s(ask.route) is None:
            return True
        wait_s = self.config.gateway.outage_wait_ms / 1000 - self._count_waited(tries)
        if tries.may_wait and wait_s > 0:
            self.places[ask.route.provider_id].begin_anew()
            with suppress(TimeoutError), running.tell_waiting():
                async with asyncio.timeout(min(wait_s, self._compute_left(running), self._compute_due(ask.prompt))):
                    await self.shared.breakers.wait_passable(ask.route)
                    return True
        return False

    def _count_waited(self, tries: _Tries) -> float:
        """Return the time since the call met an outage; this may be the moment."""
        now = self.shared.bus.clock.monotonic()
        tries.since = now if tries.since is None else tries.since
        return now - tries.since

    async def _prepare(self, ask: PromptCall, running: InFlight, until: float | None) -> tuple[PromptCall, int]:
        """Prepare the provider and the request's images; return the request and its tokens by length.

        Raises GatewayError, before anything is reserved or recorded as sent.
        """
        provider_id = ask.route.provider_id
        model = self.config.gateway.row(provider_id, ask.route.model_id)
        sees = model is not None and model.sees
        try:
            async with asyncio.timeout(self._compute_left(running, until)):
                await self.providers[provider_id].prepare()
                window = await self._find_window(ask, model)
                if sees:
                    ask = await images.fill_images(ask, self.sender.ledger)
                else:
                    images.demand_none(ask)
        except TimeoutError:
            what = f"provider {provider_id} was still being loaded when the deadline passed"
            raise GatewayError("DEADLINE_EXCEEDED", what) from None
        estimate = pricing.estimate_input_tokens(ask.prompt, self.config.attention.chars_per_token)
        if window is None:
            return ask, estimate
        framed = estimate + limits.MESSAGE_TOKENS * len(ask.prompt.messages)
        try:
            cap = routing.answer_cap(ask.prompt.max_tokens, ask.route, framed, window)
        except GatewayError:
            if window != self.windows.get(ask.route):
                raise
            return ask, estimate  # what refused may have been one of several servers: this prompt is for it to refuse
        return records.change_request(ask, ask.route, max_tokens=cap), estimate

    async def _find_window(self, ask: PromptCall, model: ModelConfig | None) -> int | None:
        """Return what this prompt and its answer may have together; None: there is no such bound, or none is known."""
        if isinstance(ask.prompt, VectorPrompt):  # of whose texts each has it for itself
            return None
        if model is not None and model.context_tokens is not None:
            return model.context_tokens
        known = getattr(self.providers[ask.route.provider_id], "window", None)
        return self.windows.get(ask.route) or (None if known is None else await known(ask.route.model_id))

    async def _attempt(self, ask: PromptCall, estimate: int, running: InFlight, until: float | None) -> PromptResponse:
        """Run stages 6 to 11: one reservation, at most one send, exactly one end."""
        budget = self.config.budget
        if budget.budget_mode != "off":
            validation.check_round(ask.prompt, budget.turn_limit)
        await self.sender.wait_decided(ask, running.deadline)
        number = self.shared.calls.count_attempt(running.key)
        ends_at = running.deadline if until is None else min(until, running.deadline)
        places, awaited = self.places[ask.route.provider_id], is_awaited(ask.prompt)
        places.most = self.config.gateway.providers[ask.route.provider_id].concurrency_max
        try:
            with self.account.reserved(ask, number, estimate) as attempt:  # 6 reserve, and settle every exit
                self.shared.breakers.demand(ask.route)  # nobody waits for what it would be refused
                # 7 rate limits
                async with self.rates.pass_through(attempt, ends_at):
                    await places.enter(ends_at, running.tell_waiting, is_awaited=awaited)
                    # 8 circuit breaker
                    with (
                        places.lend(is_awaited=awaited) as place,
                        self.shared.breakers.pass_through(ask.route, running.counted) as passage,
                    ):
                        earlier = await self.sender.record_sent(attempt, running.deadline)  # 9 record PROMPT_SENT
                        # 10 send, 11 record and settle
                        return earlier or await self.sender.send(
                            attempt, ends_at, running.draft, passage, place, is_share=ends_at < running.deadline
                        )
        except GatewayError as refusal:
            if refusal.code in _BUDGET_CODES and (recorded := await self.sender.recorded(ask)) is not None:
                return recorded  # answered before a restart: what was paid for is not refused
            raise

    def _compute_share(self, running: InFlight, prompt: Prompt, following: int) -> float | None:
        """Return until when a model with so many behind it is asked, by what its turn has left (monotonic)."""
        if not following:
            return None
        left_s = self._compute_due(prompt)
        now, reserve_s = self.shared.bus.clock.monotonic(), self.config.gateway.fallback_reserve_ms / 1000
        left_s = self._compute_left(running, now + left_s if left_s > 0 else None)
        return now + routing.compute_time(left_s, following, reserve_s)

    def _compute_due(self, prompt: Prompt) -> float:
        """Return what the prompt's turn has left: an order lives longer than anybody waits for the turn."""
        return inf if prompt.due_at is None else parse_iso(prompt.due_at) - self.shared.bus.now()

    def _compute_left(self, running: InFlight, until: float | None = None) -> float:
        ends_at = running.deadline if until is None else min(until, running.deadline)
        return ends_at - self.shared.bus.clock.monotonic()


def _with_reason(refused: PromptResponse, earlier: GatewayError) -> PromptResponse:
    """Give a budget's refusal the provider's earlier fault, which used the budget up, as its reason."""
    return refused.model_copy(
        update={
            "outcome": _OUTCOMES.get(earlier.code, "ERROR"),
            "error_code": earlier.code,
            "error_message": f"{earlier.detail}; not tried again: {refused.error_code}: {refused.error_message}",
        }
    )


def refuse(  # noqa: PLR0913 - a call, its fault, and by what both are judged
    shared: Shared,
    prompt: Prompt,
    fault: GatewayError,
    running: InFlight | None = None,
    *,
    trace: str,
    is_degraded: bool,
) -> PromptResponse:
    """Return the response to a fault; record it unless an attempt's own end says it, with what its sends used.

    REJECTED says that no provider was called; after a send the same refusal is an ERROR.
    """
    outcome = _OUTCOMES.get(fault.code, "ERROR")
    if running is not None and running.was_sent and outcome == "REJECTED":
        outcome = "ERROR"
    _log.info(
        "prompt_rejected" if outcome == "REJECTED" else "prompt_failed",
        turn=f"{prompt.session_id}-{prompt.run_seq}" if prompt.run_seq else prompt.session_id,
        work_order=prompt.work_order_id[:160],
        code=fault.code,
        degraded=is_degraded,
    )
    if fault.facts.get("ended") is not True:
        shared.rejections += 1
        said = fault.detail[: limits.MESSAGE_MAX_CHARS]
        entry = records.make_entry(  # without a text of the prompt
            "PROMPT_REJECTED",
            f"{prompt.idempotency_key[: limits.KEY_MAX_CHARS]}/{shared.bus.instance}.{shared.rejections}",
            payload=PromptRejected(prompt.contract_id, said, outcome, is_degraded),
            decision="REJECTED",
            reason=fault.code,
            provenance=records.get_provenance(prompt),
            trace=trace,
            at=shared.bus.now(),
        )
        shared.keeper.submit(entry, keep=False)
    retry_after = fault.facts.get("retry_after_ms")
    failed = Failed() if running is None else running.failed
    return PromptResponse(
        outcome=outcome, error_code=fault.code, error_message=fault.detail,
        retry_after_ms=retry_after if isinstance(retry_after, int) else None,
        attempts=failed.sends, input_tokens=failed.input_tokens, output_tokens=failed.output_tokens,
        cost_usd=failed.cost_usd,
    )  # fmt: skip
