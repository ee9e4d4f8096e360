"""The life of a work order: every state, target and role."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

from hobus.bus.errors import WorkOrderFault
from hobus.bus.messages.work_order import ORDER_TRANSITIONS, OrderRole, WorkOrderState, move_state

STATES, ROLES = get_args(WorkOrderState), get_args(OrderRole)
ENDS = {"completed", "failed"}


def test_only_the_table_moves_an_order() -> None:
    moves = [*product(STATES, STATES, ROLES)]
    wrong = [
        move for move in moves if comes_to(*move) != (move[1] if ORDER_TRANSITIONS.get(move[:2]) == move[2] else "")
    ]
    assert wrong == []


def comes_to(source: Any, target: Any, role: Any) -> str:
    """The order's state; empty: it was refused, in words that name both."""
    try:
        return move_state("WO-1", source, target, role)
    except WorkOrderFault as fault:
        return "" if fault.code == "rejected" and source in fault.detail and target in fault.detail else fault.detail


def test_every_order_has_a_legal_end_and_none_behind_it() -> None:
    for state in STATES:
        targets = {target for source, target in ORDER_TRANSITIONS if source == state}
        assert ("failed" in targets) == (state not in ENDS) and (bool(targets) or state in ENDS)
    assert {"planned"} | {target for _, target in ORDER_TRANSITIONS} == set(STATES)


def test_each_move_is_said_by_one_role() -> None:
    by_role = {role: {move for move, who in ORDER_TRANSITIONS.items() if who == role} for role in ROLES}
    assert by_role["ho1"] == {("dispatched", "executing"), ("executing", "completed"), ("executing", "failed")}
    assert by_role["ho2"] == {("planned", "dispatched"), ("planned", "failed"), ("dispatched", "failed")}
