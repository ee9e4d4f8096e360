"""Stages 9 to 11 of one attempt: recorded before it leaves, sent once, ended by exactly one record.

Whatever ends an attempt (an answer, a fault, a cancel, a dead ledger, another instance that was first) passes through
here and gives its reservation a settlement.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from copy import copy
from itertools import count

import structlog
from msgspec import Struct, field, structs

from hobus.bus.errors import GatewayError, MessageTooLarge, RuntimeFault
from hobus.bus.ledger_client import LedgerClient
from hobus.bus.messages import transcript
from hobus.bus.messages.gateway import PromptResponse
from hobus.bus.messages.ids import derive_dispatched_id, derive_entry_id, derive_got_key, derive_sent_key, parse_iso
from hobus.bus.messages.ledger import Ack, Entry, WriteEntry
from hobus.bus.messages.work_order import CLASSIFICATION
from hobus.bus.port import Bus, Provider
from hobus.bus.promise import Promise
from hobus.bus.spool import RecordKeeper
from hobus.bus.streaming import Draft
from hobus.bus.window import remember
from hobus.config.schema import AdminConfig
from hobus.config.sections.gateway import ModelConfig
from hobus.gateway_service import limits, pricing, records, routing
from hobus.gateway_service.account import BudgetAccount
from hobus.gateway_service.breakers import Passage
from hobus.gateway_service.calls import make_key_conflict
from hobus.gateway_service.pieces import Pieces
from hobus.gateway_service.places import LentPlace
from hobus.gateway_service.pricing import NEVER_SENT, Settlement
from hobus.gateway_service.records import Attempt, PackTexts, PromptCall

_log = structlog.get_logger("gateway")


class EarlierAttempt(GatewayError):
    """Say that this attempt was made before and brought no answer: the next number is the one to try."""


class Sender(Struct):
    """What one attempt does between its reservation and its settlement."""

    bus: Bus
    ledger: LedgerClient
    keeper: RecordKeeper
    account: BudgetAccount
    providers: Mapping[str, Provider]
    config: AdminConfig
    packs: PackTexts
    last_faults: routing.LastFaults
    on_lost: Callable[[str], None]
    counts: Counter[str]
    """Of sends, and of failed ones, whatever configuration they were made under."""
    _made: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])
    """Attempts of this process, as many as calls are remembered: none of them is sent a second time."""
    _speaking: set[Pieces] = field(default_factory=set[Pieces])
    _undecided_count: int = 0
    _none_undecided: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._none_undecided.set()

    # --- stage 9 ----------------------------------------------------------------------------------------------------

    async def wait_decided(self, ask: PromptCall, deadline: float) -> None:
        """Wait until no given-up PROMPT_SENT may still commit: the record would have both reservations for a moment.

        An order's prompt would wait for the ledger behind it in any case; the last resort does not wait. Raises
        GatewayError(UNAVAILABLE) when the ledger is away.
        """
        if ask.is_degraded or self._none_undecided.is_set():
            return
        wait_s = max(0.0, min(self._choose_ledger_wait_s(ask), self._compute_left(deadline)))
        try:
            async with asyncio.timeout(wait_s):
                await self._none_undecided.wait()
        except TimeoutError:
            raise GatewayError(
                "UNAVAILABLE",
                f"the ledger did not acknowledge what stands before {ask.prompt.idempotency_key} within {wait_s:.3f} s",
                retryable=True,
            ) from None

    async def record_sent(self, attempt: Attempt, deadline: float) -> PromptResponse | None:
        """Make PROMPT_SENT durable; None: send it. Otherwise return the answer that an earlier instance recorded.

        Raises EarlierAttempt when that one failed or is unknown, GatewayError(UNAVAILABLE) when the ledger is away.
        """
        wait_s = min(self._choose_ledger_wait_s(attempt.ask), self._compute_left(deadline))
        if wait_s <= 0:
            raise _make_no_time(attempt.ask)
        entry = records.make_sent(attempt, self.packs, at=self.bus.now())
        attempt.is_submitted = True
        prompt = attempt.ask.prompt
        follows = derive_dispatched_id(prompt.work_order_id) if prompt.is_dispatching else ""
        submitted = self.keeper.submit(entry, keep=False, urgent=True, follows=follows)
        try:
            async with asyncio.timeout(wait_s):
                ack = (await submitted)[0]
            return None if ack.outcome == "committed" else await self._find_earlier(attempt, ack)
        except TimeoutError:
            self._go_without_ledger(attempt, submitted, wait_s)
            return None
        except asyncio.CancelledError:
            self._close_unsent(attempt, submitted, GatewayError("CANCELLED", "cancelled before it was sent"))
            raise
        except MessageTooLarge as fault:
            raise _make_too_large(attempt.ask, fault.detail) from None
        except EarlierAttempt:
            raise
        except RuntimeFault as fault:  # this very write may stand there, and nobody knows
            self._close_unsent(attempt, submitted, make_unavailable(fault))
            raise

    def _choose_ledger_wait_s(self, ask: PromptCall) -> float:
        """Return how long to wait for the ledger: an order's prompt outlasts its restart; the last resort may not."""
        config = self.config
        return (limits.SPOOL_AFTER_MS if ask.is_degraded else config.ledger.outage_wait_ms) / 1000

    def _go_without_ledger(self, attempt: Attempt, submitted: Promise[list[Ack]], waited_s: float) -> None:
        """Go on with a degraded call alone, its record synced to this process's own disk first.

        Under a name of this incarnation: an earlier one may have made a call under the attempt's own, which the ledger
        alone could say, and would take this one's records for copies of that one's.
        """
        sent_id = derive_entry_id("PROMPT_SENT", attempt.name)
        fault = GatewayError(
            "UNAVAILABLE",
            f"the ledger did not acknowledge {sent_id} within {waited_s:.3f} s; no call leaves unrecorded",
            retryable=True,
        )
        self._close_unsent(copy(attempt), submitted, fault)
        if not attempt.ask.is_degraded or self.config.gateway.on_ledger_outage != "spool":
            raise fault
        attempt.name += f".{self.bus.instance.rpartition('@')[2]}"
        entry = records.make_sent(attempt, self.packs, at=self.bus.now())
        try:
            self.keeper.spool_now(entry)
        except OSError as error:
            _log.error("spool_failed", error=type(error).__name__, submission_id=entry.submission_id)
            raise fault from None
        attempt.is_spooled = True
        self.keeper.submit(entry, keep=False)

    def _close_unsent(self, attempt: Attempt, submitted: Promise[list[Ack]], fault: GatewayError) -> None:
        """End a PROMPT_SENT that stands, or may still commit: nothing was sent and nothing used."""
        if attempt.name in self._made:
            return  # sent or closed before: that end is on its way
        self._note_made(attempt)
        self._undecided_count += 1
        self._none_undecided.clear()

        def close(outcome: list[Ack] | RuntimeFault) -> None:
            try:
                ack = None if isinstance(outcome, RuntimeFault) else outcome[0]
                if ack is not None and ack.is_first and ack.origin == self.bus.instance:
                    self._end(records.make_failed(attempt, fault, NEVER_SENT, at=self.bus.now()), attempt)
            finally:
                self._undecided_count -= 1
                if not self._undecided_count:
                    self._none_undecided.set()

        submitted.then(close)

    async def _find_earlier(self, attempt: Attempt, ack: Ack) -> PromptResponse | None:
        """Return the end of the earlier write that stands under this attempt, or make sure that it gets one."""
        if ack.code == "too_large":
            raise _make_too_large(attempt.ask, "ledger.bodies_max_bytes")
        if ack.outcome == "refused" and ack.code != "conflict":
            what = f"the ledger refused PROMPT_SENT:{attempt.name}: {ack.code}"
            raise GatewayError("UNAVAILABLE", what, retryable=ack.code == "unfounded")  # its order's record may be late
        sent, end = await self._find(attempt.name)
        if sent is None:
            raise GatewayError("UNAVAILABLE", f"PROMPT_SENT:{attempt.name} was {ack.outcome} and cannot be found")
        if records.is_another(sent, attempt.ask):
            raise make_key_conflict(attempt.ask.prompt.idempotency_key)
        if end is None and sent.origin == self.bus.instance:
            if attempt.name not in self._made:
                return None  # the ack of this very write was lost on its way
            raise EarlierAttempt("UNKNOWN_OUTCOME", f"the end of {sent.submission_id} is not in the record yet")
        if end is None:
            end = await self._close_earlier(attempt, sent)
        if end.event_type == "PROMPT_RECEIVED":
            return records.read_response(sent, end)
        raise EarlierAttempt(
            end.reason or "UNKNOWN_OUTCOME",
            f"provider {attempt.ask.route.provider_id} was asked by {sent.origin} ({sent.submission_id}); no answer of "
            "it is known (gateway.on_unknown_outcome)",
        )

    async def _close_earlier(self, attempt: Attempt, sent: Entry) -> Entry:
        """Close the attempt of an instance that is gone as unknown, at its reservation, unless its end is first."""
        reservation = records.read_held(sent)[0] or attempt.reservation
        await self.ledger.write([records.make_unknown_end(sent, reservation, at=self.bus.now())])
        _sent, end = await self._find(attempt.name)
        if end is None:
            raise GatewayError("UNAVAILABLE", f"the end of {sent.submission_id} cannot be found")
        attempt.settlement = records.read_settlement(end)
        return end

    async def recorded(self, ask: PromptCall) -> PromptResponse | None:
        """Return the answer in the record under this call key, whatever attempt brought it.

        None also where the record does not say in time: what was asked for is refused then, for its own reason.
        """
        try:
            async with asyncio.timeout(self._choose_ledger_wait_s(ask)):
                for number in count(1):
                    sent, end = await self._find(records.attempt_name(ask.prompt.idempotency_key, number))
                    if sent is None or records.is_another(sent, ask):
                        return None
                    if end is not None and end.event_type == "PROMPT_RECEIVED":
                        return records.read_response(sent, end)
        except (TimeoutError, RuntimeFault) as fault:
            _log.info("recorded_answer_unknown", fault=str(fault)[:160])
        return None

    async def _find(self, name: str) -> tuple[Entry | None, Entry | None]:
        sent, end = await self.ledger.lookup(once=[derive_sent_key(name), derive_got_key(name)], with_bodies=True)
        return sent, end

    # --- stages 10 and 11 -------------------------------------------------------------------------------------------

    async def send(  # noqa: PLR0913 - an attempt, and all that lets it pass
        self, attempt: Attempt, until: float, draft: Draft, passage: Passage, place: LentPlace, *, is_share: bool
    ) -> PromptResponse:
        """Call the provider once, record the end, settle the reservation; raise the GatewayError of the end.

        The breaker that let it pass is told how it ended: the very fault that is recorded and raised. A provider that
        did not finish had its time by its own bound (`gateway.request_timeout_ms`) if that was
        `gateway.breaker.silence_ms` or more. A caller's deadline is the caller's choice and blames nobody, unless it
        waited as turns do by default; nor does a cancel, unless the provider had said nothing for so long. `is_share`:
        it has until then, and its fallbacks the rest. Who watches the draft is told what the provider says; none of it
        is recorded, and all of it is provisional.
        """
        ask, left = attempt.ask, self._compute_left(until)
        if (fault := place.given_back() or (_make_no_time(ask) if left <= 0 else None)) is not None:
            raise self._record_failed(attempt, fault, NEVER_SENT)
        is_streamed = ask.prompt.stream and draft.is_watched
        limit_s = math.inf if is_streamed else self.config.gateway.request_timeout_ms / 1000
        is_own_bound = limit_s < left
        left = min(left, limit_s)
        self.counts["sent"] += 1
        self._note_made(attempt)
        started = self.bus.clock.monotonic()
        pieces = Pieces(
            draft,
            self.bus.clock.monotonic,
            self._speaking,
            interval_s=limits.STREAM_INTERVAL_MS / 1000,
            chars_left=self.config.ledger.bodies_max_bytes,
        )
        draft.begin(ask.prompt.work_order_id, attempt.number)
        try:
            async with asyncio.timeout(left) as place.scope:
                provider = self.providers[ask.route.provider_id]
                response = await provider.complete(
                    ask.prompt.model_copy(update={"messages": transcript.expand(ask.prompt.messages)}),
                    model_id=ask.route.model_id,
                    timeout_s=left,
                    on_delta=pieces.add if is_streamed else None,
                )
            pieces.flush()
        except asyncio.CancelledError:
            is_due = self._is_due(ask)
            late = self._make_late(ask, self.bus.clock.monotonic() - started if is_due else pieces.silent_s)
            by = "as it says" if pieces.used else "by its length"
            came = f"; what had come is charged, {by}" if pieces.said_chars or pieces.used else ""
            fault = GatewayError("CANCELLED", f"cancelled while the provider worked{came}")
            if is_due or late.code == "PROVIDER_TIMEOUT":  # callers give up on a provider that hangs
                fault = late
            if came:
                said = pricing.estimate_text_tokens(pieces.said_chars, self.config.attention.chars_per_token)
                fault.facts |= {"input_tokens": attempt.estimate, "output_tokens": max(1, said), **pieces.used}
            passage.ended(fault)
            self._record_failed(attempt, fault)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a provider does, its PROMPT_SENT must get an end
            had_s = self.bus.clock.monotonic() - started
            if isinstance(error, GatewayError):
                fault = error
            elif isinstance(error, TimeoutError):
                fault = place.given_back() or self._make_late(ask, had_s, is_own_bound=is_own_bound, is_share=is_share)
            else:
                fault = GatewayError(
                    "PROVIDER_ERROR", f"provider {ask.route.provider_id} raised {type(error).__name__}"
                )
            passage.ended(fault)
            raise self._record_failed(attempt, fault) from (
                None if isinstance(error, GatewayError | TimeoutError) else error
            )
        finally:
            pieces.close()
        passage.ended(None)
        return self._record_received(attempt, response, round((self.bus.clock.monotonic() - started) * 1000))

    def _make_late(
        self, ask: PromptCall, had_s: float, *, is_own_bound: bool = False, is_share: bool = False
    ) -> GatewayError:
        """Return the fault of a call whose time is over; the last resort asks providers that had time last."""
        silence_s = self.config.gateway.breaker.silence_ms / 1000
        patience_s = max(silence_s, limits.PATIENCE_SHARE * self.config.host.turn_timeout_ms / 1000)
        is_hasty = had_s < (silence_s if is_own_bound else patience_s)
        bound, mend = "its time in its turn", "ask with a longer --timeout or x-hobus-timeout"
        if is_own_bound:
            bound, mend = "gateway.request_timeout_ms", "allow more time"
        elif CLASSIFICATION in ask.prompt.domain_tags:  # of its turn it has this part alone
            bound, mend = "ho2.classify_timeout_ms", "allow more time"
        said = f"provider {ask.route.provider_id} did not finish an answer of {ask.route.model_id} within {had_s:.1f} s"
        fault = (  # nobody's fault, where the provider had less time than would say anything about it
            GatewayError("DEADLINE_EXCEEDED", f"{said} ({bound}), too short a time to count as its failure; {mend}")
            if is_hasty
            else GatewayError("PROVIDER_TIMEOUT", f"{said} ({bound}); allow more time, or choose another model")
        )
        fault.facts |= {"unknown": True, **({"is_share": is_share} if is_hasty else {})}
        if had_s >= silence_s:
            self.last_faults.failed(ask.prompt.session_id, ask.route.provider_id, fault.detail)
        return fault

    def _record_received(self, attempt: Attempt, answer: PromptResponse, latency_ms: int) -> PromptResponse:
        """Return the answer as it stands in the record. Raises GatewayError for a failure, or if none can hold it."""
        provider_id = attempt.ask.route.provider_id
        try:
            if answer.outcome != "SUCCESS":
                fault = GatewayError(answer.error_code or "PROVIDER_ERROR", f"{provider_id} answered {answer.outcome}")
                raise self._record_failed(attempt, fault)
            response, settlement = self._settle_answer(attempt, answer, latency_ms)
            if settlement.tokens > pricing.TOKENS_MAX:
                raise OverflowError("more tokens than a budget holds")
            entry = records.make_received(attempt, response, answered_by=str(answer.model_id), at=self.bus.now())
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001 - a figure, text or type that no record holds: it came, and it cost
            detail = f"provider {provider_id} gave an answer that cannot be recorded: {type(error).__name__}"
            used = pricing.settle_unusable(answer, attempt.reservation.tokens, self._find_model(attempt))
            raise self._record_failed(attempt, GatewayError("PROVIDER_ERROR", detail), used) from None
        attempt.settlement = settlement
        # One that asks for tools leaves with the prompt that has their results, in at most `ledger.lazy_commit_ms`.
        self._end(entry, attempt, at_once=not response.tool_calls)
        return response

    def _settle_answer(
        self, attempt: Attempt, answer: PromptResponse, latency_ms: int
    ) -> tuple[PromptResponse, Settlement]:
        """Return the answer with what the gateway adds, checked as if it came over the wire. Raises ValueError."""
        route = attempt.ask.route
        settlement = pricing.settle_response(answer, self._find_model(attempt))
        received_id = derive_entry_id("PROMPT_RECEIVED", attempt.name)
        response = PromptResponse.model_validate(
            structs.asdict(answer)
            | {
                "tool_calls": [call.model_dump() for call in records.number_calls(answer.tool_calls)],
                "content_ref": f"{received_id}/1",
                "provider_id": route.provider_id,
                "model_id": route.model_id,
                "latency_ms": latency_ms,
                "cost_usd": settlement.cost_usd,
                "budget_remaining": self.account.compute_remaining(attempt, settlement),
                "context_hash": attempt.ask.digest.hex(),
                "tools_told": [tool.tool_id for tool in attempt.ask.prompt.tools],
                "sent_record_id": derive_entry_id("PROMPT_SENT", attempt.name),
                "received_record_id": received_id,
                "attempts": attempt.number,
            }
        )
        return response, settlement

    def _record_failed(
        self, attempt: Attempt, fault: GatewayError, settlement: Settlement | None = None
    ) -> GatewayError:
        """Record the end of this attempt and return the fault, for raising."""
        reserved = attempt.reservation.tokens
        self.counts["failed"] += 1
        try:
            attempt.settlement = settlement or pricing.settle_fault(fault, reserved, self._find_model(attempt))
            entry = records.make_failed(attempt, fault, attempt.settlement, at=self.bus.now())
        except Exception as error:  # noqa: BLE001 - a provider's fault may be as unfit for a record as its answer
            fault = GatewayError("PROVIDER_ERROR", f"a fault that cannot be recorded: {type(error).__name__}")
            attempt.settlement = attempt.settlement or pricing.make_unknown(reserved)
            entry = records.make_failed(attempt, fault, attempt.settlement, at=self.bus.now())
        self._end(entry, attempt)
        settled = attempt.settlement
        fault.facts |= {"ended": True, "was_sent": settled.was_sent, "cost_usd": settled.cost_usd}  # it has its record
        return fault

    def _end(self, entry: WriteEntry, attempt: Attempt, *, at_once: bool = True) -> None:
        """Record an end, pipelined; where the record holds another one under this attempt, forget this process's own.

        The keeper decides: an end that a full disk keeps out is handed over again and decides nothing until it is in.
        """

        def note_decided(outcome: list[Ack] | RuntimeFault) -> None:
            if not isinstance(outcome, RuntimeFault) and outcome[0].is_first:
                return
            _log.warning("end_was_not_first", submission_id=entry.submission_id)
            self.on_lost(attempt.ask.prompt.idempotency_key)
            if entry.event_type == "PROMPT_RECEIVED" and _cannot_stand(outcome):
                # The answer cannot be recorded whole; that it came and what it used still is.
                fault = GatewayError("PROVIDER_ERROR", "the answer is larger than the record takes")
                self._end(
                    records.make_failed(attempt, fault, attempt.settlement or NEVER_SENT, at=self.bus.now()), attempt
                )

        if attempt.is_spooled:  # its PROMPT_SENT may still be on its way, or have to be handed over again
            sent_id = derive_entry_id("PROMPT_SENT", attempt.name)
            submitted = self.keeper.submit_and_spool(entry, behind=sent_id)
        else:
            submitted = self.keeper.submit(entry, keep=True, at_once=at_once)
        submitted.then(note_decided)

    def _is_due(self, ask: PromptCall) -> bool:
        """Return whether the turn has had all its time, as its sender knew: what is taken back now is not early."""
        due_at, reserve_s = ask.prompt.due_at, limits.REPLY_RESERVE_MS / 1000
        return due_at is not None and self.bus.now() >= parse_iso(due_at) - reserve_s

    def _find_model(self, attempt: Attempt) -> ModelConfig | None:
        return self.config.gateway.row(attempt.ask.route.provider_id, attempt.ask.route.model_id)

    def _note_made(self, attempt: Attempt) -> None:
        remember(self._made, attempt.name, None, at_most=limits.RECENT_CALLS_MAX)

    def _compute_left(self, deadline: float) -> float:
        return deadline - self.bus.clock.monotonic()


def _cannot_stand(outcome: list[Ack] | RuntimeFault) -> bool:
    """Return whether the ledger refused this end itself, and not because another one stands there."""
    if isinstance(outcome, RuntimeFault):
        return isinstance(outcome, MessageTooLarge)
    ack = outcome[0]
    return ack.outcome == "refused" and ack.code != "conflict"


def _make_too_large(ask: PromptCall, limit: str) -> GatewayError:
    return GatewayError(
        "INVALID_INPUT", f"the prompt of {ask.prompt.work_order_id} cannot be recorded: too large ({limit})"
    )


def _make_no_time(ask: PromptCall) -> GatewayError:
    return GatewayError("DEADLINE_EXCEEDED", f"no time was left to ask provider {ask.route.provider_id}")


def make_unavailable(fault: RuntimeFault) -> GatewayError:
    """Return a fault of the ledger as the gateway's own."""
    return GatewayError("UNAVAILABLE", f"ledger: {fault.code}: {fault.detail}", retryable=True)
