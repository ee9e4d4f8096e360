"""What has become of work orders, event by event: the rules that a session's fold and a reading of the record share.

Orders are open from their dispatch to their end. The newest event decides: an end, or the escalation of the answer that
an order brought; but nothing that begins an order opens it again once it has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from hobus.bus.messages.work_order import Receipt, WorkOrder

OrderStatus = Literal["open", "dispatched", "executing", "completed", "failed"]
ESCALATED = "escalated"
"""The reason of an order that ended well and whose answer was not good enough."""
_OPEN: tuple[OrderStatus, ...] = ("open", "dispatched", "executing")


class OrderLife(Struct, frozen=True, array_like=True):
    """What is known of one order."""

    wo_id: str
    status: OrderStatus = "open"  # open: something is known of it, and not that it was dispatched
    wo_type: str = ""
    intent_id: str | None = None
    planned_at: str = ""
    tool_id: str = ""
    ended_at: str | None = None  # the time of its newest end or escalation
    reason: str = ""  # failed: a closed code

    @property
    def is_open(self) -> bool:
        return self.status in _OPEN

    @property
    def is_escalated(self) -> bool:
        """Return whether the order's answer was given up."""
        return self.status == "failed" and self.reason == ESCALATED


class OrderLives:
    """The known orders of one session, in the order in which they were first named."""

    def __init__(self, known: Iterable[OrderLife] = ()) -> None:
        self._lives = {life.wo_id: life for life in known}

    def list_known(self) -> list[OrderLife]:
        return list(self._lives.values())

    def note_dispatched(self, wo_id: str, order: WorkOrder) -> None:
        """Note that the order was sent."""
        life = self._get(wo_id, order)
        self._lives[wo_id] = replace(life, status="dispatched") if life.status == "open" else life

    def started(self, wo_id: str) -> None:
        life = self._get(wo_id)
        if life.is_open:
            self._lives[wo_id] = replace(life, status="executing")

    def ended(self, wo_id: str, at: str, *, failure: str) -> None:
        """Note the order's end; `failure`: the code, empty for one that completed."""
        status: OrderStatus = "failed" if failure else "completed"
        self._lives[wo_id] = replace(self._get(wo_id), status=status, ended_at=at, reason=failure)

    def note_escalated(self, wo_id: str, at: str, order: WorkOrder | None = None) -> None:
        self._lives[wo_id] = replace(self._get(wo_id, order), status="failed", ended_at=at, reason=ESCALATED)

    def forget(self, kept_max: int, active_intent_ids: Collection[str]) -> None:
        """Forget completed orders, those of a closed intent, and beyond `kept_max` the oldest."""
        kept = [
            life
            for life in self._lives.values()
            if life.status != "completed" and (life.intent_id is None or life.intent_id in active_intent_ids)
        ]
        self._lives = {life.wo_id: life for life in kept[max(0, len(kept) - kept_max) :]}

    def __contains__(self, wo_id: str) -> bool:
        return wo_id in self._lives

    def _get(self, wo_id: str, order: WorkOrder | None = None) -> OrderLife:
        """Return what is known of the order so far, with what it says itself."""
        life = self._lives[wo_id] if wo_id in self._lives else OrderLife(wo_id)
        if order is None:
            return life
        return replace(
            life,
            wo_type=order.wo_type,
            intent_id=order.intent_id,
            planned_at=order.planned_at,
            tool_id="" if order.tool_call is None else order.tool_call.tool_id,
        )


def read_failure(receipt: Receipt) -> str:
    """Return why an order failed; empty: it completed."""
    if receipt.state != "failed":
        return ""
    return "execution_error" if receipt.error is None else receipt.error.code
