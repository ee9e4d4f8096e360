"""The requests that wait for their one outcome. Plain rules: no clock, no loop, no socket.

Source: spec page "The bus", section "Delivery, stated": answered exactly once; a late reply is counted and dropped;
after a (re)welcome redeliverable requests are sent again in order under the same ids, the others are lost with the
server's epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from bus.envelope import Header
from bus.messages.base import Message

W = TypeVar("W")


@dataclass(slots=True)
class Pending(Generic[W]):
    """One request on its way; `sent_epoch` is None until it was handed to a welcomed connection."""

    header: Header
    body: bytes
    connection: str
    deadline: float
    redeliver: bool
    waiters: list[W]
    on_stream: Callable[[Message], None] | None = None
    sent_epoch: str | None = None
    after_cancel: bool = False  # this id was asked for and given up before: the end of that may still be on its way


class AfterWelcome(NamedTuple, Generic[W]):
    """What a welcome means for the requests of that connection."""

    send: list[Pending[W]]
    lost: list[Pending[W]]


@dataclass(slots=True)
class PendingTable(Generic[W]):
    """message id -> Pending, in the order of sending."""

    _pending: dict[str, Pending[W]] = field(default_factory=dict[str, Pending[W]])

    def __len__(self) -> int:
        return len(self._pending)

    def get(self, message_id: str) -> Pending[W] | None:
        """The pending request of this id."""
        return self._pending.get(message_id)

    def add(self, pending: Pending[W]) -> None:
        """Waits from now on; the id must not be pending."""
        assert pending.header.message_id not in self._pending  # noqa: S101 - callers join a pending id instead
        self._pending[pending.header.message_id] = pending

    def settle(self, message_id: str, connection: str) -> Pending[W] | None:
        """Takes out the request that a reply on `connection` answers; None for a late or foreign one."""
        pending = self._pending.get(message_id)
        if pending is None or pending.connection != connection:
            return None
        return self._pending.pop(message_id)

    def drop(self, message_id: str) -> Pending[W] | None:
        """Takes it out whatever it waits for (deadline, cancel)."""
        return self._pending.pop(message_id, None)

    def welcomed(self, connection: str, epoch: str) -> AfterWelcome[W]:
        """What to send now, in order, and what is lost; the lost ones are taken out.

        Never sent: send. Redeliverable: send again. Sent to the same incarnation of the server: its answer still comes.
        """
        send: list[Pending[W]] = []
        lost: list[Pending[W]] = []
        for pending in self._pending.values():
            if pending.connection != connection:
                continue
            if pending.sent_epoch is None or pending.redeliver:
                send.append(pending)
            elif pending.sent_epoch != epoch:
                lost.append(pending)
        for pending in lost:
            del self._pending[pending.header.message_id]
        return AfterWelcome(send, lost)

    def all(self) -> list[Pending[W]]:
        """Every pending request, oldest first."""
        return list(self._pending.values())
