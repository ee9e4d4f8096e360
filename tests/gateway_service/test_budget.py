"""The pure ledger of scopes: borders, modes, and the laws that hold for any sequence of events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.builders import SESSION, prompt
from hobus.bus.messages.work_order import Caller
from hobus.bus.record.payloads.prompts import BudgetCrossed
from hobus.config.sections.gateway import Route
from hobus.gateway_service.budget import (
    BudgetState,
    NotReserved,
    Reservation,
    Scope,
    answer_room,
    choose_mode,
    list_figures,
    list_scopes,
    make_row,
)
from hobus.gateway_service.pricing import NEVER_SENT, Settlement
from tests.gateway_service.rig import SHIPPED

SCOPES = ("session:s", "agent:A", "provider:p")


def state(session: int = 100, agent: int = 1000, provider: int = 1000) -> BudgetState:
    """Three scopes with their limits."""
    made = BudgetState(idle_orders_max=2)
    for name, limit in zip(SCOPES, (session, agent, provider), strict=True):
        made.allocate(name, limit)
    return made


def reserve(tokens: int, name: str = "k/1", mode: str = "enforce") -> tuple[Reservation, Any]:
    """A reservation in all three."""
    return Reservation(name, tokens, SCOPES), mode


def settled(tokens: int, cost: float | None = 0.0, *, unknown: bool = False) -> Settlement:
    """A settlement of a call that was sent."""
    return Settlement(tokens=tokens, cost_usd=cost, is_unknown=unknown, was_sent=True)


def test_a_budget_is_hit_exactly():
    made = state(session=100)
    assert made.reserve(*reserve(100)) == []
    assert made.scopes["session:s"].remaining == 0
    assert made.reserve(*reserve(1, "k/2")) == NotReserved("BUDGET_EXHAUSTED", "session:s", 100, 0)
    assert "k/2" not in made.open


def test_a_wider_scope_refuses_as_hierarchy_and_nothing_is_held():
    made = state(agent=50)
    assert made.reserve(*reserve(51)) == NotReserved("HIERARCHY_EXCEEDED", "agent:A", 50, 50)
    assert [made.scopes[name].reserved for name in SCOPES] == [0, 0, 0]


def test_headroom_has_to_be_left_in_session_and_agent_and_nowhere_else():
    """The border included; the provider may be another one's than that of the call that needs it."""
    for scope in ("session", "agent", "provider"):
        made = state(**{"session": 1000, scope: 100})
        tight = made.reserve(*reserve(60), headroom_tokens=41)
        assert (tight == []) is (scope == "provider")
        assert state(**{"session": 1000, scope: 100}).reserve(*reserve(60), headroom_tokens=40) == []


def test_a_scope_that_nobody_allocated_refuses():
    assert BudgetState(idle_orders_max=2).reserve(*reserve(1)) == NotReserved("NOT_ALLOCATED", "session:s", None, None)


def test_settling_moves_reserved_to_used_in_every_scope():
    made = state()
    made.reserve(*reserve(80))
    made.settle("k/1", settled(30, 0.5))
    assert [made.scopes[name] for name in SCOPES] == [
        Scope(limit=limit, used=30, calls=1, cost_usd=0.5) for limit in (100, 1000, 1000)
    ]


def test_what_was_never_sent_counts_no_call_and_no_token():
    made = state()
    made.reserve(*reserve(80))
    made.settle("k/1", NEVER_SENT)
    assert made.scopes["session:s"] == Scope(limit=100)


def test_a_reservation_is_settled_once():
    made = state()
    made.reserve(*reserve(80))
    made.settle("k/1", settled(30))
    made.settle("k/1", settled(30))
    assert made.scopes["session:s"].used == 30


def test_an_unknown_cost_stays_unknown():
    """One unknown part makes the sum unknown, whatever comes later; the unknown call is counted."""
    made = state(session=1000)
    made.reserve(*reserve(80))
    made.settle("k/1", settled(80, None, unknown=True))
    made.reserve(*reserve(80, "k/2"))
    made.settle("k/2", settled(10, 0.1))
    scope = made.scopes["session:s"]
    assert (scope.cost_usd, scope.unknown_calls, scope.used, scope.calls) == (None, 1, 90, 2)


def test_warn_says_a_crossing_once_and_again_after_it_fell_back():
    """Crossed on the way over, silent while over, crossed again after a settlement brought it back."""
    made = state(session=100)
    assert made.reserve(*reserve(100, "a", "warn")) == []
    assert made.reserve(*reserve(1, "b", "warn")) == [BudgetCrossed("session:s", 100, 0, 101)]
    assert made.reserve(*reserve(1, "c", "warn")) == []
    made.settle("a", settled(0))
    assert made.reserve(*reserve(99, "d", "warn")) == [BudgetCrossed("session:s", 100, 0, 101)]


def test_off_neither_refuses_nor_warns_and_counts_the_same():
    made = state(session=1)
    assert made.reserve(*reserve(500, "a", "off")) == []
    assert made.scopes["session:s"].reserved == 500


def test_a_restored_reservation_is_not_judged():
    """What stands in the record was admitted then; restoring it twice holds it once."""
    made = state(session=1)
    reservation = Reservation("k/1", 50, SCOPES)
    made.restore(reservation)
    made.restore(reservation)
    assert made.scopes["session:s"].reserved == 50


def test_a_changed_limit_keeps_what_was_used():
    made = state()
    made.reserve(*reserve(80))
    made.settle("k/1", settled(80))
    made.allocate("session:s", 90)
    assert made.scopes["session:s"].remaining == 10


@pytest.mark.parametrize(
    ("configured", "asked", "counts"),
    [
        ("enforce", None, "enforce"), ("enforce", "warn", "enforce"), ("enforce", "off", "enforce"),
        ("warn", None, "warn"), ("warn", "enforce", "enforce"), ("warn", "off", "warn"),
        ("off", None, "off"), ("off", "warn", "warn"), ("off", "enforce", "enforce"),
    ],
)  # fmt: skip
def test_the_stricter_mode_counts(configured, asked, counts):
    assert choose_mode(configured, asked) == counts


def test_scopes_come_from_the_prompt_and_the_configuration():
    budget = SHIPPED.config.budget
    route = Route(provider_id="offline", model_id="m")
    assert list_scopes(prompt(), route, SHIPPED.agents, budget) == [
        (f"session:{SESSION}", budget.session_token_limit),
        ("agent:ADMIN", budget.agent_token_limit),
        ("provider:offline", budget.provider_token_limit),
    ]


def test_a_row_shows_what_remains():
    shown = make_row("session:s", Scope(limit=100, used=30, reserved=20))
    assert (shown.remaining, shown.used, shown.reserved) == (50, 30, 20)


def test_an_order_with_a_budget_is_the_narrowest_scope():
    agent = SHIPPED.agents["ADMIN"].model_copy(update={"budget": {"session": "classify_budget"}})
    route = Route(provider_id="p", model_id="m")
    limits = list_scopes(prompt(token_budget=600), route, {"ADMIN": agent}, SHIPPED.config.budget)
    assert limits[:2] == [("work_order:WO-a", 600), (f"session:{SESSION}", SHIPPED.config.budget.classify_budget)]


def test_a_called_agent_draws_on_the_sessions_of_its_callers() -> None:
    """Behind its own, the nearest first, each with the limit of its own agent; of one that is gone, that of all."""
    budget, agent = SHIPPED.config.budget, SHIPPED.agents["ADMIN"]
    agents = {"ADMIN": agent, "DESK": agent.model_copy(update={"budget": {"session": "classify_budget"}})}
    called = [Caller(session_id="s2", agent_id="DESK"), Caller(session_id="s1", agent_id="GONE")]
    limits = list_scopes(prompt(callers=called), Route(provider_id="p", model_id="m"), agents, budget)
    assert limits[:3] == [
        (f"session:{SESSION}", budget.session_token_limit),
        ("session:s2", budget.classify_budget),
        ("session:s1", budget.session_token_limit),
    ]


def with_order(limit: int, tokens: int = 0) -> BudgetState:
    """A state with one order's scope, and this much of it used."""
    made = BudgetState(idle_orders_max=2)
    made.allocate("work_order:WO-a", limit)
    if tokens:
        made.reserve(Reservation("k/0", tokens, ("work_order:WO-a",)), "off")
    return made


@pytest.mark.parametrize("used", [0, 50])
def test_a_refused_order_leaves_no_scope_behind(used):
    """NotReserved at once it never was; one that has called before rests, with what it used, as it did."""
    made = with_order(60, used)
    made.settle("k/0", settled(used))
    before = made.scopes["work_order:WO-a"]
    refused = Reservation("k/1", 61, ("work_order:WO-a",)), "enforce"
    assert made.reserve(*refused) == NotReserved("BUDGET_EXHAUSTED", "work_order:WO-a", 60, 60 - used)
    assert made.scopes == ({"work_order:WO-a": before} if used else {})


def test_a_refused_order_with_a_call_in_flight_keeps_its_scope():
    """What that call settles is still to come."""
    made = with_order(60, 50)
    made.reserve(Reservation("k/1", 11, ("work_order:WO-a",)), "enforce")
    assert made.scopes["work_order:WO-a"].reserved == 50


@pytest.mark.parametrize(
    ("mode", "used", "estimate", "room"),
    [
        ("enforce", 0, 500, 100), ("enforce", 0, 501, 99), ("enforce", 400, 150, 50), ("enforce", 0, 600, 1),
        ("enforce", 0, 10_000, 1), ("warn", 0, 10_000, 100), ("off", 0, 10_000, 100),
    ],
)  # fmt: skip
def test_the_answer_has_what_its_order_leaves_behind_the_prompt(mode, used, estimate, room):
    assert answer_room(with_order(600, used), prompt(token_budget=600, max_tokens=100), estimate, mode) == room


def test_orders_at_rest_are_remembered_for_a_while_and_stand_in_no_snapshot():
    """As many as the state is told to keep, those settled last; one with a call in flight always."""
    made = BudgetState(idle_orders_max=2)
    for number in range(4):
        scope = f"work_order:{number}"
        made.allocate(scope, 100)
        made.reserve(Reservation(f"k{number}", 10, (scope, "agent:A")), "off")
    for number in (0, 2, 3):
        made.settle(f"k{number}", settled(5))
    assert sorted(made.scopes) == ["agent:A", "work_order:1", "work_order:2", "work_order:3"]
    assert sorted(list_figures(made)) == ["agent:A", "work_order:1"]
    made.reserve(Reservation("again", 10, ("work_order:2",)), "off")
    assert (made.scopes["work_order:2"].used, max(list_figures(made))) == (5, "work_order:2")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 9), st.integers(0, 60)),
        st.tuples(st.just("settle"), st.integers(0, 9), st.integers(0, 60)),
        st.tuples(st.just("release"), st.integers(0, 9), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_in_enforce_no_sequence_overspends_and_reserved_is_what_is_open(steps):
    made = state(session=100, agent=130, provider=170)
    for kind, number, tokens in steps:
        name = str(number)
        if kind == "reserve" and name not in made.open:
            made.reserve(*reserve(tokens, name))
        elif kind == "settle" and name in made.open:
            made.settle(name, settled(min(tokens, made.open[name].tokens)))
        elif kind == "release":
            made.settle(name, NEVER_SENT)
        for scope_name in SCOPES:
            scope = made.scopes[scope_name]
            assert scope.reserved == sum(reservation.tokens for reservation in made.open.values())
            assert scope.used + scope.reserved <= (scope.limit or 0)


@given(STEPS)
def test_rebuilding_from_the_same_events_gives_the_same_state(steps):
    """The fold has no memory of its own: what is admitted live is restored alike."""
    live, rebuilt = state(), state()
    for kind, number, tokens in steps:
        name = f"{kind}-{number}-{tokens}"
        event = reserve(tokens, name)
        if kind == "reserve" and name not in live.open and not live.reserve(*event):
            rebuilt.restore(event[0])
        elif kind == "settle":
            for made in (live, rebuilt):
                made.settle(f"reserve-{number}-{tokens}", settled(tokens))
    assert live == rebuilt
