"""One delivery of an order at this worker: what every step of it needs to know."""

from __future__ import annotations

from msgspec import Struct, field

from hobus.actors.ho1_executor.receipts import OrderUsage, Stamp, ToolSaid
from hobus.bus.dispatch import Call
from hobus.bus.messages.control import HELD_FOR
from hobus.bus.messages.ids import derive_dispatched_id, parse_iso
from hobus.bus.messages.work_order import ExecuteWorkOrder, WorkOrder
from hobus.bus.port import Bus
from hobus.bus.streaming import Draft


class Job(Struct, frozen=True):
    """One delivery of an order. `deadline` is on bus.clock.monotonic(), and leaves room for the end's record."""

    bus: Bus
    order: WorkOrder
    usage: OrderUsage
    is_repeat: bool  # it was, or may have been, delivered before
    deadline: float
    trace: str
    holder: str = ""  # for whom the server of its tool keeps state
    due_at: str | None = None  # when its run ends, as far as its sender knew
    is_dispatching: bool = False  # its WO_DISPATCHED is on its way into the record
    said: ToolSaid = field(default_factory=ToolSaid)  # for people
    draft: Draft = field(default_factory=Draft)  # what the model says meanwhile

    @property
    def follows(self) -> str:
        """Return the entry behind which whatever precedes an effect is recorded; empty: it is durable."""
        return derive_dispatched_id(self.order.wo_id) if self.is_dispatching else ""

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.deadline - self.bus.clock.monotonic())

    @property
    def due_s(self) -> float:
        """Return the seconds until the order's run ends, as its sender knew, at most those left to work."""
        return (
            self.remaining_s if self.due_at is None else min(self.remaining_s, parse_iso(self.due_at) - self.bus.now())
        )

    def stamp(self) -> Stamp:
        """Return who writes about the order, and the time now."""
        return Stamp(self.bus.instance, self.bus.now(), self.bus.clock.monotonic(), self.trace)


def make_job(bus: Bus, message: ExecuteWorkOrder, call: Call, *, is_repeat: bool, reserve_s: float) -> Job:
    """Build the job of a delivery: until its deadline less a reserve, and no longer than the order allows."""
    order, started = message.order, bus.clock.monotonic()
    limit_s = min(call.remaining_s(started, reserve_s=reserve_s), order.constraints.timeout_seconds)
    return Job(
        bus=bus,
        order=order,
        usage=OrderUsage(started),
        is_repeat=is_repeat,
        deadline=started + limit_s,
        trace=call.trace,
        holder=call.key.partition(HELD_FOR)[2] or order.session_id,
        due_at=message.due_at,
        is_dispatching=message.is_dispatching,
        draft=Draft(
            run=str(order.fence.run_id), step=order.wo_id, attempt=call.attempt, before="retry" if is_repeat else None
        ),
    )
