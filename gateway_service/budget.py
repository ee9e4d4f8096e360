"""The one source of truth for spending: reserve, then settle, over a tree of scopes. No clock, no I/O.

A call draws on its order, its session, its agent and its provider at once. The same events give the same state, so a
restart rebuilds it from the record (PROMPT_SENT holds the reservation, the attempt's end its settlement).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict, astuple

from hobus.bus.messages.gateway import Prompt, ScopeBudget
from hobus.bus.messages.work_order import BudgetMode
from hobus.bus.record.payloads.prompts import (
    BudgetCrossed,
    ScopeFigures,
    name_agent_scope,
    name_order_scope,
    name_provider_scope,
    name_session_scope,
)
from hobus.config.assets import AgentFile
from hobus.config.sections.gateway import Route
from hobus.config.sections.turns import BudgetConfig
from hobus.gateway_service.pricing import Settlement

_ORDER = name_order_scope("")
_OWN = (_ORDER, name_session_scope(""))
"""What one who asks has alone; above that others draw on the same."""
_SHARED = (name_session_scope(""), name_agent_scope(""))
"""What orders of one turn draw on, whichever provider they go to."""
_STRICTNESS: dict[BudgetMode, int] = {"off": 0, "warn": 1, "enforce": 2}


class Scope(Struct):
    """What one scope comes to (`ScopeFigures`)."""

    limit: int | None
    used: int = 0
    reserved: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0
    unknown_calls: int = 0
    is_over: bool = False

    @property
    def remaining(self) -> int | None:
        """Return the tokens that a new reservation may take; negative where warn or off let it pass."""
        return None if self.limit is None else self.limit - self.used - self.reserved

    def hold(self, tokens: int) -> None:
        self.reserved += tokens
        self.is_over = self.limit is not None and self.used + self.reserved > self.limit


class Reservation(Struct, frozen=True):
    """Tokens held for one attempt in all of its scopes, the narrowest first."""

    reservation_id: str
    tokens: int
    scopes: tuple[str, ...]


class NotReserved(NamedTuple):
    """Nothing was reserved; `code` is the true reason."""

    code: Literal["BUDGET_EXHAUSTED", "HIERARCHY_EXCEEDED", "NOT_ALLOCATED"]
    scope: str
    limit: int | None
    remaining: int | None


class BudgetState(Struct):
    """Scopes by name and open reservations by id.

    Changed in place, by its methods alone: a copy of every session's row per call would cost more than the call.
    """

    idle_orders_max: int
    """Orders without a call in flight that are remembered; each makes a call or two, and there is no end of them."""
    scopes: dict[str, Scope] = field(default_factory=dict[str, Scope])
    open: dict[str, Reservation] = field(default_factory=dict[str, Reservation])
    idle_orders: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])
    """Their scopes, the one settled longest ago first."""

    def copy(self) -> BudgetState:
        """Return an equal, independent state."""
        scopes = {name: Scope(*astuple(scope)) for name, scope in self.scopes.items()}
        return BudgetState(self.idle_orders_max, scopes, dict(self.open), OrderedDict(self.idle_orders))

    def allocate(self, scope: str, limit: int) -> None:
        self.scopes.setdefault(scope, Scope(limit)).limit = limit

    def reserve(
        self, reservation: Reservation, mode: BudgetMode, *, headroom_tokens: int = 0
    ) -> NotReserved | list[BudgetCrossed]:
        """Hold the reservation's tokens, if the mode and all scopes allow it.

        Return scopes that it does not fit in mode warn, and that the one before it did. Session and agent must have
        `headroom_tokens` left beside it.
        """
        if mode == "enforce" and (refusal := self._find_refusal(reservation, headroom_tokens)):
            for name in filter(is_order, reservation.scopes):
                self._forget_unused(name)
            return refusal
        over = {name for name in reservation.scopes if name in self.scopes and self.scopes[name].is_over}
        self._hold(reservation)
        return [
            BudgetCrossed(name, scope.limit, scope.used, scope.reserved)
            for name in (reservation.scopes if mode == "warn" else ())
            if (scope := self.scopes[name]).limit is not None and scope.is_over and name not in over
        ]

    def restore(self, reservation: Reservation) -> None:
        """Hold a reservation that stands in the record: it was admitted then and is not judged again."""
        if reservation.reservation_id not in self.open:
            self._hold(reservation)

    def settle(self, reservation_id: str, settlement: Settlement) -> None:
        """Settle an attempt that ended, once; a settlement that was never sent releases and counts no call."""
        reservation = self.open.pop(reservation_id, None)
        if reservation is None:
            return
        tokens, cost_usd, is_unknown, was_sent = settlement
        for name in reservation.scopes:
            scope = self.scopes[name]
            scope.used += tokens
            scope.calls += was_sent
            scope.unknown_calls += is_unknown
            scope.cost_usd = None if scope.cost_usd is None or cost_usd is None else scope.cost_usd + cost_usd
            scope.hold(-reservation.tokens)
        if (order := reservation.scopes[0]).startswith(_ORDER) and not self.scopes[order].reserved:
            self._rest(order)

    def _find_refusal(self, reservation: Reservation, headroom_tokens: int) -> NotReserved | None:
        for name in reservation.scopes:
            scope = self.scopes.get(name)
            if scope is None:
                return NotReserved("NOT_ALLOCATED", name, None, None)
            needed = reservation.tokens + (headroom_tokens if name.startswith(_SHARED) else 0)
            if scope.remaining is not None and needed > scope.remaining:
                code = "BUDGET_EXHAUSTED" if name.startswith(_OWN) else "HIERARCHY_EXCEEDED"
                return NotReserved(code, name, scope.limit, scope.remaining)
        return None

    def _forget_unused(self, order: str) -> None:
        """Forget the scope of an order that was refused at once: no call of it will ever settle, and end the scope."""
        scope = self.scopes.get(order)
        if scope is not None and not scope.reserved and order not in self.idle_orders:
            del self.scopes[order]

    def _hold(self, reservation: Reservation) -> None:
        self.open[reservation.reservation_id] = reservation
        for name in reservation.scopes:
            if name not in self.scopes:
                self.scopes[name] = Scope(None)
            self.scopes[name].hold(reservation.tokens)
            if name in self.idle_orders:
                del self.idle_orders[name]

    def _rest(self, order: str) -> None:
        """Let an order without a call in flight rest; forget the one longest at rest for it."""
        self.idle_orders[order] = None
        if len(self.idle_orders) > self.idle_orders_max:
            forgotten, _ = self.idle_orders.popitem(last=False)
            del self.scopes[forgotten]


def list_figures(state: BudgetState) -> dict[str, ScopeFigures]:
    """Return every scope, in order of name, but for orders at rest: hardly one of them calls again."""
    names = sorted(state.scopes.keys() - state.idle_orders.keys())
    return {name: ScopeFigures(*astuple(state.scopes[name])) for name in names}


def restore_state(
    figures: Mapping[str, ScopeFigures], open_: Iterable[Reservation], idle_orders_max: int
) -> BudgetState:
    """Return the state that had these figures, and these reservations open in them."""
    scopes = {name: Scope(*scope) for name, scope in figures.items()}
    return BudgetState(idle_orders_max, scopes, {reservation.reservation_id: reservation for reservation in open_})


# --- what a prompt draws on ---------------------------------------------------------------------------------------


def list_scopes(
    prompt: Prompt, route: Route, agents: Mapping[str, AgentFile], config: BudgetConfig
) -> list[tuple[str, int]]:
    """Return scope names with their limits, the narrowest first: the order's own, the agent's settings, the provider's.

    Where other agents called this one, it draws on the sessions in which they did so too. A caller that the
    configuration does not have any more has the limit of all.
    """
    agent = agents[prompt.agent_id]
    order = [] if prompt.token_budget is None else [(name_order_scope(prompt.work_order_id), prompt.token_budget)]
    callers = [(caller.session_id, agents.get(caller.agent_id)) for caller in prompt.callers]
    return [
        *order,
        (name_session_scope(prompt.session_id), agent.budget_tokens("session", config)),
        *(
            (
                name_session_scope(session_id),
                one.budget_tokens("session", config) if one else config.session_token_limit,
            )
            for session_id, one in callers
        ),
        (name_agent_scope(prompt.agent_id), agent.budget_tokens("agent", config)),
        (name_provider_scope(route.provider_id), config.provider_token_limit),
    ]


def answer_room(state: BudgetState, prompt: Prompt, estimate: int, mode: BudgetMode) -> int:
    """Return the tokens that the answer may have: as asked, in mode enforce no more than its order has left.

    At least 1, which the reservation then refuses: an order's budget is for prompt *and* answer.
    """
    scope = state.scopes.get(name_order_scope(prompt.work_order_id))
    if mode != "enforce" or prompt.token_budget is None or scope is None or scope.remaining is None:
        return prompt.max_tokens
    return max(1, min(prompt.max_tokens, scope.remaining - estimate))


def is_order(scope: str) -> bool:
    return scope.startswith(_ORDER)


def choose_mode(configured: BudgetMode, asked: BudgetMode | None) -> BudgetMode:
    """Return the stricter of the configured mode and an order's own, which may tighten what is set, never loosen it."""
    return configured if asked is None or _STRICTNESS[asked] < _STRICTNESS[configured] else asked


def make_row(name: str, scope: Scope) -> ScopeBudget:
    figures = asdict(scope)
    del figures["is_over"]
    return ScopeBudget(scope=name, remaining=scope.remaining, **figures)
