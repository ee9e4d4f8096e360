"""The requests that wait for their one outcome. Plain rules: no clock, no loop, no socket.

Answered exactly once; a late reply is counted and dropped;
after a (re)welcome redeliverable requests are sent again in order under the same ids, the others are lost with the
server's epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hobus.bus.envelope import Header
from hobus.bus.messages.base import Message

W = TypeVar("W")


@dataclass(slots=True)
class OwnRequest(Generic[W]):
    """One request on its way; `sent_epoch` is None until it was handed to a welcomed connection."""

    header: Header
    message: Message
    body: bytes | None  # None once it has left: what waits for minutes holds its message alone, which its requester has
    size_bytes: int
    connection: str
    deadline: float
    redeliver: bool
    waiters: list[W]
    on_stream: Callable[[Message], None] | None = None
    sent_epoch: str | None = None
    is_counted: bool = False  # among the bytes that its connection has under way
    reached_within_s: float | None = None  # given up when its connection is down for so long; None: not before its end
    is_unreached: bool = False  # its connection was down at the last look
    after_cancel: bool = False  # this id was asked for and given up before: the end of that may still be on its way


@dataclass(slots=True)
class PendingTable(Generic[W]):
    """Map message id to OwnRequest, in the order of sending.

    `window_bytes`: so much of one connection is under way at once, or one larger request; further ones are held. None:
    as much as there is, uncounted. Set before the first request comes.
    """

    window_bytes: int | None = None
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """Connection -> requests that wait by it."""
    _pending: dict[str, OwnRequest[W]] = field(default_factory=dict[str, OwnRequest[W]])
    _under_way: dict[str, int] = field(default_factory=dict[str, int])  # connection -> bytes of bodies
    _held: dict[str, dict[str, None]] = field(default_factory=dict[str, "dict[str, None]"])  # connection -> ids, if any

    def __len__(self) -> int:
        return len(self._pending)

    def get(self, message_id: str) -> OwnRequest[W] | None:
        return self._pending.get(message_id)

    def add(self, pending: OwnRequest[W]) -> None:
        """Add a request that waits from now on; its id must not be pending."""
        assert pending.header.message_id not in self._pending  # noqa: S101 - callers join a pending id instead
        self._pending[pending.header.message_id] = pending
        self._count_held(pending.connection, 1)

    def _count_held(self, connection: str, by: int) -> None:
        self.counts[connection] = self.counts.get(connection, 0) + by

    def move(self, pending: OwnRequest[W], connection: str) -> None:
        """Assign the request to this connection from now on, as one that has not left yet."""
        self._count_held(pending.connection, -1)
        pending.connection, pending.sent_epoch = connection, None
        self._count_held(connection, 1)

    def settle(self, message_id: str, connection: str) -> OwnRequest[W] | None:
        """Take out the request that a reply on `connection` answers; None for a late or foreign one."""
        pending = self._pending.get(message_id)
        if pending is None or pending.connection != connection:
            return None
        self._take_out(pending)
        return pending

    def drop(self, message_id: str) -> None:
        """Take a request out, whatever it waits for (deadline, cancel)."""
        pending = self._pending.get(message_id)
        if pending is not None:
            self._take_out(pending)

    def _take_out(self, pending: OwnRequest[W]) -> None:
        del self._pending[pending.header.message_id]
        self.counts[pending.connection] -= 1
        if self.window_bytes is not None:
            self._uncount(pending)
            self._hold_no_longer(pending)

    def may_leave(self, pending: OwnRequest[W], *, in_turn: bool = True) -> bool:
        """Return whether there is room for the request on its way; `in_turn`: and nothing is held before it."""
        if self.window_bytes is None:
            return True
        if in_turn and pending.connection in self._held:
            return False
        under_way = self._under_way.get(pending.connection, 0)
        return not under_way or under_way + pending.size_bytes <= self.window_bytes

    def hold(self, pending: OwnRequest[W]) -> None:
        """Hold a request until there is room."""
        self._held.setdefault(pending.connection, {})[pending.header.message_id] = None

    def _hold_no_longer(self, pending: OwnRequest[W]) -> None:
        held = self._held.get(pending.connection)
        if held is not None:
            held.pop(pending.header.message_id, None)
            if not held:
                del self._held[pending.connection]

    def release_held(self, connection: str) -> OwnRequest[W] | None:
        """Release the request held longest, if there is room for it now."""
        if connection not in self._held:
            return None
        pending = self._pending[next(iter(self._held[connection]))]
        if not self.may_leave(pending, in_turn=False):
            return None
        self._hold_no_longer(pending)
        return pending

    def sent(self, pending: OwnRequest[W], epoch: str) -> None:
        """Note that a request is on its way to this incarnation of the server."""
        pending.sent_epoch, pending.body = epoch, None
        if self.window_bytes is not None and not pending.is_counted:
            pending.is_counted = True
            self._under_way[pending.connection] = self._under_way.get(pending.connection, 0) + pending.size_bytes

    def _uncount(self, pending: OwnRequest[W]) -> None:
        if pending.is_counted:
            pending.is_counted = False
            self._under_way[pending.connection] -= pending.size_bytes

    def welcomed(self, connection: str, epoch: str) -> tuple[list[OwnRequest[W]], list[OwnRequest[W]]]:
        """Return what to send now, in order, and what is lost; take the lost ones out.

        Never sent: send. Redeliverable: send again. Sent to the same incarnation of the server: its answer still comes.
        """
        self._held.pop(connection, None)
        send: list[OwnRequest[W]] = []
        lost: list[OwnRequest[W]] = []
        for pending in self._pending.values():
            if pending.connection != connection:
                continue
            if pending.sent_epoch is None or pending.redeliver or pending.sent_epoch != epoch:
                self._uncount(pending)
            if pending.sent_epoch is None or pending.redeliver:
                send.append(pending)
            elif pending.sent_epoch != epoch:
                lost.append(pending)
        for pending in lost:
            del self._pending[pending.header.message_id]
            self.counts[connection] -= 1
        return send, lost

    def of(self, connection: str) -> list[OwnRequest[W]]:
        """Those of one connection, oldest first."""
        return [pending for pending in self._pending.values() if pending.connection == connection]

    def all(self) -> list[OwnRequest[W]]:
        """Return every pending request, oldest first."""
        return list(self._pending.values())
