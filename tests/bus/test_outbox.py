"""Requests whose way ends before their answer came."""

from __future__ import annotations

from typing import Any

from bench.builders import order, shipped_snapshot
from hobus.bus.clock import SystemClock
from hobus.bus.codec import unpack_header
from hobus.bus.conversation import Connection
from hobus.bus.messages.work_order import ExecuteWorkOrder, Receipt
from hobus.bus.outbox import Outbox


class Sent:
    """A link that keeps the ids of what is sent."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def attach(self, on_frames: Any) -> None: ...
    def discard(self) -> None: ...
    def close(self) -> None: ...

    def send(self, header: bytes, body: bytes) -> None:
        del body
        self.ids.append(unpack_header(header).message_id)


def test_what_an_executor_was_asked_whose_lane_goes_while_the_broker_is_away_waits_for_the_broker() -> None:
    """Also beyond its deadline: then it fails, as any other request does that could not be sent."""
    links = Sent(), Sent()
    broker, lane = (Connection(name, link, timeout_s=1.0) for name, link in zip(("", "ho1/1@x"), links, strict=True))
    lane.welcomed("e1", 0.0)
    lane.slots = 2
    connections, outcomes = {"": broker, lane.name: lane}, list[Any]()
    outbox = Outbox("ho2/1@a", shipped_snapshot().config.bus, SystemClock(), connections, lambda _due: None)
    outbox.leases.append(lane)
    question = ExecuteWorkOrder(order=order(), attempt=1)
    for timeout_s in (60.0, 0.001):
        outbox.ask("ho1", question, expect=Receipt, timeout_s=timeout_s, on_outcome=outcomes.append)
    outbox.leases.remove(lane)
    outbox.give_over(lane.name, is_gone=True)
    del connections[lane.name]
    assert (links[1].ids, links[0].ids) == (["ho2/1@a:1", "ho2/1@a:2"], [])
    outbox.expire(outbox.clock.monotonic() + 30)
    assert [one.code for one in outcomes] == ["expired"]
    broker.welcomed("e2", 1.0)
    outbox.welcomed(broker)
    assert links[0].ids == ["ho2/1@a:1"]
