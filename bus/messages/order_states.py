"""The life of a work order: one table of what may follow what, and who may say so. Pure.

HO2 makes an order (planned), records that it sends it (dispatched: WO_DISPATCHED), and ends one that it does not send
or of which nobody says how it ended. HO1 begins what was dispatched (executing: the record has TOOL_STARTED of a tool
and PROMPT_SENT of a model's order, and no entry of its own) and ends it (WO_COMPLETED, WO_FAILED). The order itself is
never changed behind its dispatch: where it stands is what the record has of it, how it ended is its receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from hobus.bus.errors import WorkOrderFault

WorkOrderState = Literal["planned", "dispatched", "executing", "completed", "failed"]
OrderRole = Literal["ho2", "ho1"]
To = TypeVar("To", bound=WorkOrderState)

ORDER_TRANSITIONS: Mapping[tuple[WorkOrderState, WorkOrderState], OrderRole] = {
    ("planned", "dispatched"): "ho2",
    ("planned", "failed"): "ho2",  # a call that its operator refused, or of a tool that its model was not told of
    ("dispatched", "executing"): "ho1",
    ("dispatched", "failed"): "ho2",  # lost, expired, or its run was cancelled
    ("executing", "completed"): "ho1",
    ("executing", "failed"): "ho1",
}
"""(from, to) -> who may."""


def moved(wo_id: str, state: WorkOrderState, to: To, role: OrderRole) -> To:
    """The next state. Raises WorkOrderFault(rejected) for a move that is none, or that is another's."""
    allowed = ORDER_TRANSITIONS.get((state, to))
    if allowed is None:
        raise WorkOrderFault("rejected", f"{wo_id} is {state}; an order that is {state} does not become {to}")
    if allowed != role:
        raise WorkOrderFault("rejected", f"{wo_id} is {state}; only {allowed} may make it {to}, not {role}")
    return to
