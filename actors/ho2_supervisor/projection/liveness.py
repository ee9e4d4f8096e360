"""What is alive in a session: its intents and its work orders, of a session that is at hand. Pure.

The session's fold goes by the rules of `reduce_liveness` (tests/actors/ho2_supervisor/liveness_model.py, which reads
it off the record), event by event, so that a turn reads nothing again.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from hobus.actors.ho2_supervisor.session.intents import Intents
from hobus.actors.ho2_supervisor.session.order_lives import OrderLife, OrderLives

IntentStatus = Literal["active", "superseded", "closed"]


class IntentLife(NamedTuple):
    """One intent, active or replaced."""

    status: IntentStatus
    scope: str
    objective: str  # ref of its words
    declared_at: str
    closed_at: str | None = None


class Item(NamedTuple):
    """An order that failed, or whose answer was given up."""

    wo_id: str
    reason: str
    timestamp: str


class LivenessState(NamedTuple):
    """Intents in the order of their declaration and orders by id, after some part of the record."""

    intents: dict[str, IntentLife]
    work_orders: dict[str, OrderLife]
    session_open: bool

    @property
    def active_intents(self) -> list[str]:
        """Return the ids of intents that nothing has replaced."""
        return [intent_id for intent_id, life in self.intents.items() if life.status == "active"]

    @property
    def open_work_orders(self) -> list[str]:
        return [wo_id for wo_id, life in self.work_orders.items() if life.is_open]

    @property
    def failed_items(self) -> list[Item]:
        """Return every order that failed, escalated ones included."""
        return [_make_item(life) for life in self.work_orders.values() if life.status == "failed"]

    @property
    def escalations(self) -> list[Item]:
        return [_make_item(life) for life in self.work_orders.values() if life.is_escalated]


def find_liveness(intents: Intents, orders: OrderLives, *, session_open: bool) -> LivenessState:
    """Return what is active in a loaded session; what is over is not in it."""
    active = {one.intent_id: IntentLife("active", one.scope, one.objective_ref, one.at) for one in intents.active}
    return LivenessState(active, map_by_id(orders), session_open)


def map_by_id(orders: OrderLives) -> dict[str, OrderLife]:
    return {life.wo_id: life for life in sorted(orders.list_known(), key=lambda life: _make_sort_key(life.wo_id))}


def _make_sort_key(wo_id: str) -> tuple[Any, ...]:
    """Return the sort key of `WO-<session>-<run>.<round>.<step>[.<call>]`, in which run 10 follows run 9."""
    stem, _, numbers = wo_id.rpartition("-")
    return (stem, [int(part) if part.isdigit() else 0 for part in numbers.split(".")], wo_id)


def _make_item(life: OrderLife) -> Item:
    return Item(life.wo_id, life.reason, life.ended_at or "")
