"""The gateway: where prompts arrive, and the pipeline that each of them runs through, in order.

Theory of operation. `_answer` holds stages 1 to 4. A call that is new runs in a task of
its own (`calls.py`): `_complete` is stages 5 to 12, `_attempt` stages 6 to 11, once per send. Every exit after stage
6 leaves through `account.reserved`, the one place that settles or releases. Rules are plain functions beside this
file; what the record says wins over what this process remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import GatewayError, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages.gateway import (
    Breakers,
    Budget,
    DegradedPrompt,
    Outcome,
    Prompt,
    PromptResponse,
    ReadBreakers,
    ReadBudget,
)
from hobus.bus.messages.ids import parse_iso
from hobus.bus.port import Bus, Disk, Provider
from hobus.bus.record.payloads.prompts import PromptRejected
from hobus.bus.spool import RecordKeeper, Spool
from hobus.bus.turnstile import Ticket, Turnstile
from hobus.config.schema import Route
from hobus.config.snapshot import Snapshot
from hobus.gateway_service import pricing, records, routing, validation
from hobus.gateway_service.account import BudgetAccount
from hobus.gateway_service.breakers import BreakerDesk
from hobus.gateway_service.calls import Calls, Failed, InFlight
from hobus.gateway_service.rates import Rates
from hobus.gateway_service.records import PackTexts, PromptCall
from hobus.gateway_service.recovery import Recovery
from hobus.gateway_service.sending import EarlierAttempt, Sender, unavailable
from hobus.gateway_service.tokenizer import Tokenizer

_log = structlog.get_logger("gateway")

SPOOL_FILE = "prompts.spool"
_ENTRIES_OF_CALL = 2
"""PROMPT_SENT and its end."""
_BUDGET_CODES = frozenset({"BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED", "NOT_ALLOCATED"})
_OUTCOMES: dict[str, Outcome] = {
    **dict.fromkeys(("INVALID_INPUT", "AUTH_ERROR", "FORBIDDEN", "TURN_LIMIT"), "REJECTED"),
    **dict.fromkeys(("PROVIDER_NOT_FOUND", "MODEL_NOT_FOUND", "PROVIDER_UNUSABLE"), "REJECTED"),
    **dict.fromkeys(_BUDGET_CODES | {"RATE_LIMITED", "CIRCUIT_OPEN"}, "REJECTED"),
    **dict.fromkeys(("PROVIDER_TIMEOUT", "DEADLINE_EXCEEDED"), "TIMEOUT"),
}
"""Code -> outcome; every other code is ERROR."""


class GatewayService(Actor):
    """The only door to a model."""

    service = "gateway"
    needs = ("ledger",)

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        providers: Mapping[str, Provider],
        tokenizers: Mapping[Route, Tokenizer],
        spool: Disk,
    ) -> None:
        self._snapshot = snapshot
        self._config = snapshot.config
        self._providers = providers
        self._tokenizers = tokenizers
        self._spool = Spool(spool, SPOOL_FILE)
        self._calls = Calls(self._config.gateway.recent_calls_max)
        self._turnstiles = {
            name: Turnstile(
                each_max=provider.concurrency_max, all_max=provider.concurrency_max, settings=self._config.bus
            )
            for name, provider in self._config.gateway.providers.items()
        }
        self._outputs = validation.OutputChecks(
            snapshot.output_schemas(), errors_max=self._config.gateway.output_errors_max
        )
        self._last_faults = routing.LastFaults(self._config.gateway.recent_calls_max)
        self._open = asyncio.Event()
        self._rejections = 0
        self._snapshot_task: asyncio.Task[None] | None = None
        self._snapshot_at = 0  # calls sent when it was taken
        self._preparing: list[asyncio.Task[None]] = []

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self, bus: Bus) -> None:
        """Reads the spool; everything else waits for the ledger, in `ready`."""
        config = self._config
        self._bus = bus
        self._ledger = LedgerClient(bus, config.ledger)
        self._spool.open()
        loop = asyncio.get_running_loop()
        self._preparing = [loop.create_task(self._prepare(each)) for each in self._providers.values()]
        for route, tokenizer in self._tokenizers.items():
            if tokenizer.fault:
                _log.warning("tokenizer_unusable", provider=route.provider_id, detail=tokenizer.fault)
        self._keeper = RecordKeeper(
            self._ledger,
            self._spool,
            spool_after_s=config.gateway.spool_after_ms / 1000,
            retry_s=config.ledger.spool_retry_ms / 1000,
        )
        self._rates = Rates(bus, config.gateway)
        self._breakers = BreakerDesk(bus, self._keeper, config.gateway.breaker)
        self._recovery = Recovery(bus, self._ledger, self._spool, config.gateway)

    async def ready(self) -> str:
        """Ready once budgets stand as the record has them and no PROMPT_SENT is without an end."""
        if self._open.is_set():
            return ""
        try:
            state = await self._recovery.run()
            self._breakers.restore(await self._recovery.breaker_changes())
        except RuntimeFault as fault:
            return f"ledger: {fault.code}"
        self._account = BudgetAccount(self._bus, self._keeper, self._snapshot, state)
        self._sender = Sender(
            bus=self._bus,
            ledger=self._ledger,
            keeper=self._keeper,
            account=self._account,
            providers=self._providers,
            config=self._config,
            packs=PackTexts(self._snapshot.digest, self._snapshot.pack_texts()),
            last_faults=self._last_faults,
            on_lost=self._calls.forget,
        )
        self._open.set()
        return ""

    async def _prepare(self, provider: Provider) -> None:
        """Beside the start: the first call should find its provider loaded, and an operator a fault in the log."""
        try:
            await provider.prepare()
        except GatewayError as fault:
            _log.warning("provider_unusable", provider=provider.provider_id, code=fault.code, detail=fault.detail)

    async def drain(self) -> None:
        """Calls in flight have ended and their records are in the ledger, or on disk."""
        await self._calls.drain()
        if self._snapshot_task is not None:
            self._snapshot_task.cancel()
        await self._ledger.flush()

    def counters(self) -> dict[str, int]:
        """For the heartbeat."""
        counts = {"calls": self._calls.running_count, "rejected": self._rejections, "spooled": self._keeper.spooled}
        if self._open.is_set():
            counts |= {"sent": self._sender.sent_count, "failed": self._sender.failed_count}
            states = [row.state for row in self._breakers.rows()]
            counts |= {"breakers_open": states.count("open"), "breakers_half_open": states.count("half_open")}
        return counts

    # --- messages ---------------------------------------------------------------------------------------------------

    async def on_prompt(self, message: Prompt, call: Call) -> PromptResponse:
        """One LLM call of an order."""
        return await self._answer(message, call, is_degraded=False)

    async def on_degraded_prompt(self, message: DegradedPrompt, call: Call) -> PromptResponse:
        """The session host's last resort."""
        return await self._answer(message.prompt, call, is_degraded=True)

    async def on_read_budget(self, message: ReadBudget, call: Call) -> Budget:
        """What was allowed and used."""
        await self._until_open(self._deadline(call), is_degraded=False)
        return self._account.report(message.session_id)

    async def on_read_breakers(self, message: ReadBreakers, call: Call) -> Breakers:  # noqa: ARG002 - a handler's shape
        """The breakers of the models that were ever called."""
        return Breakers(breakers=self._breakers.rows())

    # --- the pipeline -----------------------------------------------------------------------------------------------

    async def _answer(self, prompt: Prompt, call: Call, *, is_degraded: bool) -> PromptResponse:
        """Stages 1 to 4; the rest runs once per call key, whoever and however many wait for it."""
        deadline = self._deadline(call)
        try:
            await self._until_open(deadline, is_degraded=is_degraded)
            validation.check_prompt(prompt, self._config.gateway.key_max_chars)  # 1 validate
            validation.authenticate(call.sender, call.role)  # 2 authenticate
            if not is_degraded:
                validation.demand_own_key(prompt, call.message_id)
            route = routing.choose_route(prompt, self._config.gateway)
            agents = self._snapshot.agents
            validation.authorise(prompt, call.role, route, agents, is_degraded=is_degraded)  # 3 authorise
            prompt = routing.with_profile(prompt, route, self._config.gateway)
            ask = records.ask_of(prompt, route, trace=call.trace, is_degraded=is_degraded)
            return await self._calls.answer(  # 4 idempotency
                prompt.idempotency_key,
                ask.asked,
                deadline,
                lambda running: self._run(ask, running),
                listener=call.stream if prompt.stream else None,
            )
        except GatewayError as refusal:
            return self._refused(prompt, refusal, trace=call.trace, is_degraded=is_degraded)

    async def _run(self, ask: PromptCall, running: InFlight) -> PromptResponse:
        """One call from its route to its answer; every fault becomes the response that says so."""
        try:
            response = await self._complete(ask, running)
        except RuntimeFault as error:
            fault = error if isinstance(error, GatewayError) else unavailable(error)
            refused = self._refused(ask.prompt, fault, trace=ask.trace, is_degraded=ask.is_degraded, running=running)
            earlier = running.provider_fault if fault.code in _BUDGET_CODES else None
            return refused if earlier is None else _with_reason(refused, earlier)
        finally:
            self._take_snapshot_sometimes()
        self._calls.remember(running.key, response)
        return response

    async def _complete(self, ask: PromptCall, running: InFlight) -> PromptResponse:
        """Stages 5 to 12, along the chain of models while their providers are at fault."""
        config = self._config.gateway
        links = routing.chain_of(ask.route, self._snapshot.agents[ask.prompt.agent_id], config)
        session_id, said = ask.prompt.session_id, list[str]()
        if ask.is_degraded:
            links = self._last_faults.last(session_id, links)
        for route in links:
            routing.check_route(route, config, self._providers)  # 5 route
        for number, route in enumerate(links, 1):
            following = len(links) - number
            left_s = self._left(running, self._due(ask.prompt))
            share_s = routing.time_for(left_s, following, config.fallback_reserve_ms / 1000)
            until = self._bus.clock.monotonic() + share_s if following else None
            try:
                response = await self._on_route(records.rerouted(ask, route), running, until)
                earlier = self._last_faults.answered(session_id)
                break
            except GatewayError as fault:
                said.append(fault.detail)
                if routing.may_follow(fault, config):
                    self._last_faults.failed(session_id, route.provider_id, fault.detail)
                if not following or not routing.may_follow(fault, config) or self._left(running) <= 0:
                    heard = self._last_faults.said(session_id) if ask.is_degraded else []
                    fault.detail = routing.told([*heard, *said])
                    raise
                _log.warning("falls_back", provider=route.provider_id, model=route.model_id, code=fault.code)
                running.draft.take_back("retry")
        else:
            raise AssertionError("a chain has a model")
        if ask.is_degraded and earlier:
            response = response.model_copy(update={"instead_of": earlier})
        return self._outputs.checked(ask.prompt, response)  # 12 validate output

    async def _on_route(self, ask: PromptCall, running: InFlight, until: float | None) -> PromptResponse:
        """One model of the chain, with bounded retries until its time is over (None: the call's own deadline)."""
        config = self._config.gateway
        estimate = await self._prepared(ask, running, until)
        sends = 0
        while True:
            try:
                return await self._attempt(ask, estimate, running, until)  # 6 to 11
            except EarlierAttempt as earlier:
                running.was_sent = True
                if earlier.code == "UNKNOWN_OUTCOME" and config.on_unknown_outcome == "fail":
                    raise
            except GatewayError as fault:
                sends += 1
                if fault.facts.get("was_sent") is True:
                    running.was_sent = True
                    running.failed.add(fault, fault.facts.get("cost_usd"))
                    running.provider_fault = fault if routing.may_follow(fault, config) else None
                pause_s = routing.pause_s(fault, sends, config, self._bus.clock.random())
                if not routing.may_try_again(fault, sends, config) or self._left(running, until) <= pause_s:
                    raise
                if self._breakers.is_open(ask.route):
                    raise
                await self._bus.sleep(pause_s)

    async def _prepared(self, ask: PromptCall, running: InFlight, until: float | None) -> int:
        """The provider has what it needs; tokens of the prompt, as its model counts them or else by its length.

        Raises GatewayError, before anything is reserved or recorded as sent.
        """
        provider_id, tokenizer = ask.route.provider_id, self._tokenizers.get(ask.route)
        counted = None
        try:
            async with asyncio.timeout(self._left(running, until)):
                await self._providers[provider_id].prepare()
                if tokenizer is not None:
                    counted = await tokenizer.count(ask.prompt)
        except TimeoutError:
            what = f"provider {provider_id} was still being loaded, or the prompt counted, when the deadline passed"
            raise GatewayError("DEADLINE_EXCEEDED", what) from None
        if counted is None:
            return pricing.input_tokens(ask.prompt, self._config.attention.chars_per_token)
        return counted

    async def _attempt(self, ask: PromptCall, estimate: int, running: InFlight, until: float | None) -> PromptResponse:
        """Stages 6 to 11: one reservation, at most one send, exactly one end."""
        if self._config.budget.budget_mode != "off":
            validation.check_round(ask.prompt, self._config.budget.turn_limit)
        await self._sender.until_decided(ask, running.deadline)
        number = self._calls.next_attempt(running.key)
        ticket = self._turnstiles[ask.route.provider_id].ticket(self._bus.principal)
        ends_at = running.deadline if until is None else min(until, running.deadline)
        try:
            with self._account.reserved(ask, number, estimate) as attempt:  # 6 reserve, and settle every exit
                async with self._rates.passing(attempt, ends_at):  # 7 rate limits
                    await self._place(ask, ticket, ends_at)
                    with self._breakers.passing(ask.route) as passage:  # 8 circuit breaker
                        earlier = await self._sender.record_sent(attempt, running.deadline)  # 9 record PROMPT_SENT
                        # 10 send, 11 record and settle
                        return earlier or await self._sender.send(
                            attempt, ends_at, running.draft, passage, is_share=ends_at < running.deadline
                        )
        except GatewayError as refusal:
            if refusal.code in _BUDGET_CODES and (recorded := await self._sender.recorded(ask)) is not None:
                return recorded  # answered before a restart: what was paid for is not refused
            raise
        finally:
            ticket.leave()

    async def _place(self, ask: PromptCall, ticket: Ticket, until: float) -> None:
        """A place among the provider's `concurrency_max`, in turns between those who ask.

        Raises GatewayError(RATE_LIMITED) when none is free in time.
        """
        if ticket.begins_at_once():
            return
        try:
            async with asyncio.timeout(max(0.0, until - self._bus.clock.monotonic())):
                await ticket.turn()
        except TimeoutError:
            provider_id = ask.route.provider_id
            raise GatewayError(
                "RATE_LIMITED",
                f"no place at {provider_id} became free in time (gateway.providers.{provider_id}.concurrency_max)",
                facts={"no_place": True},
            ) from None

    def _take_snapshot_sometimes(self) -> None:
        """Beside the calls, every `gateway.snapshot_entries` entries: the next start reads on from there."""
        due_at = self._snapshot_at + self._config.gateway.snapshot_entries // _ENTRIES_OF_CALL
        if self._sender.sent_count >= due_at and (self._snapshot_task is None or self._snapshot_task.done()):
            self._snapshot_at = self._sender.sent_count
            self._snapshot_task = asyncio.get_running_loop().create_task(self._snapshot_beside())

    async def _snapshot_beside(self) -> None:
        try:
            await self._recovery.take_snapshot()
        except RuntimeFault as fault:  # the next one covers it
            _log.info("snapshot_put_off", code=fault.code)

    def _refused(
        self, prompt: Prompt, fault: GatewayError, *, trace: str, is_degraded: bool, running: InFlight | None = None
    ) -> PromptResponse:
        """The response to a fault, which is recorded unless an attempt's own end says it; with what its sends used.

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
            self._rejections += 1
            config = self._config.gateway
            said = fault.detail[: config.message_max_chars]
            entry = records.entry(  # without a text of the prompt
                "PROMPT_REJECTED",
                f"{prompt.idempotency_key[: config.key_max_chars]}/{self._bus.instance}.{self._rejections}",
                payload=PromptRejected(prompt.contract_id, said, outcome, is_degraded),
                decision="REJECTED",
                reason=fault.code,
                provenance=records.provenance_of(prompt),
                trace=trace,
                at=self._bus.now(),
            )
            self._keeper.submit(entry, keep=False)
        retry_after = fault.facts.get("retry_after_ms")
        failed = Failed() if running is None else running.failed
        return PromptResponse(
            outcome=outcome,
            error_code=fault.code,
            error_message=fault.detail,
            retry_after_ms=retry_after if isinstance(retry_after, int) else None,
            attempts=failed.sends,
            input_tokens=failed.input_tokens,
            output_tokens=failed.output_tokens,
            cost_usd=failed.cost_usd,
        )

    async def _until_open(self, deadline: float, *, is_degraded: bool) -> None:
        """Raises GatewayError(UNAVAILABLE) when the budgets cannot be rebuilt in time."""
        if self._open.is_set():
            return
        config = self._config
        wait_ms = config.gateway.spool_after_ms if is_degraded else config.ledger.outage_wait_ms
        try:
            async with asyncio.timeout(min(wait_ms / 1000, deadline - self._bus.clock.monotonic())):
                await self._open.wait()
        except TimeoutError:
            raise GatewayError(
                "UNAVAILABLE", "the gateway has not rebuilt its budgets from the ledger yet; ask again", retryable=True
            ) from None

    def _deadline(self, call: Call) -> float:
        """The caller's deadline less what recording and answering take, at most gateway.request_timeout_ms away."""
        now, config = self._bus.clock.monotonic(), self._config.gateway
        left = call.remaining_s(now, reserve_s=config.reply_reserve_ms / 1000)
        return now + min(left, config.request_timeout_ms / 1000)

    def _due(self, prompt: Prompt) -> float | None:
        """When its turn ends (monotonic); None where nobody said so, or it has been given more time since."""
        left_s = 0.0 if prompt.due_at is None else parse_iso(prompt.due_at) - self._bus.now()
        return self._bus.clock.monotonic() + left_s if left_s > 0 else None

    def _left(self, running: InFlight, until: float | None = None) -> float:
        ends_at = running.deadline if until is None else min(until, running.deadline)
        return ends_at - self._bus.clock.monotonic()


def _with_reason(refused: PromptResponse, earlier: GatewayError) -> PromptResponse:
    """A refusal by the budget with the provider's fault before it, which used the budget up, as its reason."""
    return refused.model_copy(
        update={
            "outcome": _OUTCOMES.get(earlier.code, "ERROR"),
            "error_code": earlier.code,
            "error_message": f"{earlier.detail}; not tried again: {refused.error_code}: {refused.error_message}",
        }
    )
