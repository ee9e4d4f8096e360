"""Stage 6 and its end: every reservation is made, and settled or released, here. The rules are in `budget.py`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Budget, Prompt
from hobus.bus.port import Bus
from hobus.bus.record.payloads.prompts import BudgetAllocated, BudgetCrossed, BudgetReleased, name_session_scope
from hobus.bus.spool import RecordKeeper
from hobus.config.snapshot import Snapshot
from hobus.gateway_service import budget, records
from hobus.gateway_service.budget import BudgetState, NotReserved, Reservation, Scope
from hobus.gateway_service.places import Held
from hobus.gateway_service.pricing import NEVER_SENT, Settlement
from hobus.gateway_service.records import Attempt, PromptCall


@dataclass(slots=True, eq=False)
class BudgetAccount:
    """The gateway's budgets: only here are they debited."""

    bus: Bus
    keeper: RecordKeeper
    snapshot: Snapshot
    state: BudgetState
    _released_count: int = 0

    def reserved(self, ask: PromptCall, number: int, estimate: int) -> Held[Attempt]:
        """Hold estimate + max_tokens in every scope at once, or raise GatewayError with the true reason."""
        return Held(self._reserve(ask, number, estimate), self._end)

    def _end(self, attempt: Attempt, fault: BaseException | None) -> None:
        if isinstance(fault, GatewayError | asyncio.CancelledError) and not attempt.is_submitted:
            self._note_release(attempt, "CANCELLED" if isinstance(fault, asyncio.CancelledError) else fault.code)
        self.state.settle(attempt.reservation.reservation_id, attempt.settlement or NEVER_SENT)

    def compute_remaining(self, attempt: Attempt, settlement: Settlement) -> int | None:
        """Return the tokens that the attempt's session will have left once it is settled so."""
        scope = self.state.scopes[name_session_scope(attempt.ask.prompt.session_id)]
        return None if scope.remaining is None else scope.remaining + attempt.reservation.tokens - settlement.tokens

    def report(self, session_id: str) -> Budget:
        """Return one row per scope, sorted: all of them, or a session's own and the agents and providers it draws on.

        An order is among them while it has a call in flight.
        """
        at_rest = self.state.idle_orders
        scopes = {name: scope for name, scope in self.state.scopes.items() if name not in at_rest}
        if session_id:
            own = name_session_scope(session_id)
            unused = Scope(self.snapshot.config.budget.session_token_limit)
            scopes = {name: scope for name, scope in scopes.items() if name.startswith(("agent:", "provider:"))}
            scopes[own] = self.state.scopes.get(own, unused)
        return Budget(
            mode=self.snapshot.config.budget.budget_mode,
            scopes=[budget.make_row(name, scopes[name]) for name in sorted(scopes)],
        )

    def _reserve(self, ask: PromptCall, number: int, estimate: int) -> Attempt:
        """Return the attempt as it will be sent: where enforced, its answer is capped by what its order has left."""
        config, prompt, route = self.snapshot.config, ask.prompt, ask.route
        limits = budget.list_scopes(prompt, route, self.snapshot.agents, config.budget)
        known = self.state.scopes
        for scope, limit in limits:
            if scope not in known or known[scope].limit != limit:
                self._allocate(scope, limit)
        mode = budget.choose_mode(config.budget.budget_mode, prompt.budget_mode)
        room = budget.answer_room(self.state, prompt, estimate, mode)
        name = records.attempt_name(prompt.idempotency_key, number)
        reservation = Reservation(name, tokens=estimate + room, scopes=tuple([scope for scope, _limit in limits]))
        ask = records.change_request(ask, ask.route, max_tokens=room)
        attempt = Attempt(ask, name, number, reservation, estimate, mode)
        crossed = self.state.reserve(reservation, mode, headroom_tokens=prompt.headroom_tokens)
        if isinstance(crossed, NotReserved):
            raise self._make_refusal(crossed, prompt, reservation, estimate)
        for scope in crossed:
            self._note_crossing(attempt, scope)
        return attempt

    def _make_refusal(
        self, effect: NotReserved, prompt: Prompt, reservation: Reservation, estimate: int
    ) -> GatewayError:
        kind, agents = effect.scope.partition(":")[0], self.snapshot.agents
        of_callers = {name_session_scope(one.session_id): one.agent_id for one in prompt.callers}
        agent = agents.get(of_callers.get(effect.scope, prompt.agent_id))
        setting = f"budget.{(agent.budget if agent else {}).get(kind, f'{kind}_token_limit')}"
        if budget.is_order(effect.scope):
            setting = "its order's own"
        left = max(0, effect.remaining or 0)
        limit = "no limit is configured" if effect.limit is None else f"{left} of {effect.limit} are left"
        answer = reservation.tokens - estimate
        return GatewayError(
            effect.code,
            f"{reservation.tokens} tokens asked (prompt {estimate}, answer {answer}) in scope {effect.scope}; {limit} "
            f"({setting})",
            facts={"scope": effect.scope, "asked": reservation.tokens, "remaining": effect.remaining},
        )

    def _allocate(self, scope: str, limit: int) -> None:
        """Enforce every configured limit from a scope's first use; a changed one from its next use."""
        self.state.allocate(scope, limit)
        if not budget.is_order(scope):  # as long-lived as its calls: their PROMPT_SENT says it
            self._note("BUDGET_ALLOCATED", f"{scope}/{limit}", BudgetAllocated(scope, limit))

    def _note_crossing(self, attempt: Attempt, effect: BudgetCrossed) -> None:
        """Record BUDGET_WARNING: in mode warn, once per crossing of a limit."""
        about = f"{attempt.name}/{effect.scope.partition(':')[0]}"
        self._note("BUDGET_WARNING", about, effect, attempt, decision="WARNING", reason="BUDGET_EXHAUSTED")

    def _note_release(self, attempt: Attempt, code: str) -> None:
        """Record BUDGET_RELEASED: what an attempt held is free again, and no PROMPT_SENT says that it ever was held."""
        self._released_count += 1
        about = f"{attempt.name}/{self.bus.instance}.{self._released_count}"
        payload = BudgetReleased(attempt.reservation.tokens, attempt.reservation.scopes)
        self._note("BUDGET_RELEASED", about, payload, attempt, reason=code)

    def _note(
        self, event_type: str, about: str, payload: tuple[Any, ...], attempt: Attempt | None = None, **said: Any
    ) -> None:
        if attempt is not None:
            said |= {"provenance": attempt.ask.about, "trace": attempt.ask.trace}
        self.keeper.submit(
            records.make_entry(event_type, about, payload=payload, at=self.bus.now(), **said), keep=False
        )
