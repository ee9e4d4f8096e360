"""What an actor sends: requests until their one outcome, posts, publishes. Half of the shell (`bus/peer.py`).

A request waits in the table of `bus/correlation.py` from the call to its outcome. It leaves at once if its connection
is bound, else with the next welcome; the deadline in its header is what remains at that moment. The server answers at
the deadline; the guard here, one `bus.peer_timeout_ms` later, only speaks when the server cannot.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import msgspec
from msgspec import Struct

from hobus.bus import limits
from hobus.bus.catalog import CLIENT_ROLES, Row, map_streamed
from hobus.bus.codec import decode, encode, pack_header
from hobus.bus.conversation import Connection, send_or_drop
from hobus.bus.correlation import OwnRequest, PendingTable
from hobus.bus.deadlines import Deadlines
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, header_of
from hobus.bus.errors import BusError, RuntimeFault, make_fault
from hobus.bus.histogram import Counters, counters
from hobus.bus.inbox import CAUSE
from hobus.bus.lanes import BESIDE_BROKER, LAST_RESORT, find_way, get_role
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Cancelled
from hobus.bus.messages.failure import Failure
from hobus.bus.messages.ids import trace_from
from hobus.bus.port import Clock, R
from hobus.bus.window import remember

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_REQUEST, _FAILURE = int(Kind.REQUEST), int(Kind.FAILURE)
_COUNTED = counters("requests", "replies", "failures", "late", "posts", "resent", "expired")
Outcome = tuple[Header, bytes]


@dataclass(slots=True, eq=False)
class Callback(Generic[R]):
    """A waiter like a future that is told its outcome at once: no task, and no turn of the loop in between."""

    expect: type[R]
    decoded: Callable[[Header, bytes, type[R]], R]
    on_outcome: Callable[[R | RuntimeFault], None]
    is_told: bool = False

    def done(self) -> bool:
        return self.is_told

    def set_result(self, outcome: Outcome) -> None:
        self.is_told = True
        try:
            reply = self.decoded(*outcome, self.expect)
        except RuntimeFault as fault:
            self.on_outcome(fault)
        else:
            self.on_outcome(reply)

    def set_exception(self, fault: BaseException) -> None:
        self.is_told = True
        self.on_outcome(fault if isinstance(fault, RuntimeFault) else BusError("internal", type(fault).__name__))


Waiter = asyncio.Future[Outcome] | Callback[Any]


class _Cancel(NamedTuple):
    """A request that was given up; its cancel may not have reached a server that restarts."""

    request: Header
    connection: str
    deadline: float
    said_epoch: str | None  # None: not yet said


class Outbox(Struct):
    """The outgoing side of one incarnation."""

    instance: str
    settings: BusSettings
    clock: Clock
    connections: dict[str, Connection]
    on_deadline_set: Callable[[float], None]
    counters: Counters = msgspec.field(default_factory=_COUNTED)
    deadlines: Deadlines[str] = msgspec.field(default_factory=Deadlines[str])
    before_send: Callable[[float], None] | None = None  # a loop that stood still sends nothing before its hello
    want: Callable[[Connection], None] | None = None  # says hello where nothing was wanted before
    is_closed: bool = False
    leases: list[Connection] = msgspec.field(default_factory=list[Connection])
    """Lanes of executors, which take what needs a slot and no worker in particular, or one with a harmless tool."""
    _loop: asyncio.AbstractEventLoop | None = None  # the one that runs where none was told
    _pending: PendingTable[Waiter] = msgspec.field(default_factory=PendingTable[Waiter])
    _cancels: OrderedDict[str, _Cancel] = msgspec.field(
        default_factory=OrderedDict[str, "_Cancel"]
    )  # by the request's id
    _count: int = 0

    def __post_init__(self) -> None:
        if get_role(self.instance) in CLIENT_ROLES:  # more than that is `busy`, and too much of it cut off
            self._pending.window_bytes = limits.CLIENT_OPEN_MAX_BYTES

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the loop, as `Beginnings.use` does."""
        self._loop = loop

    def __len__(self) -> int:
        return len(self._pending)

    def next_id(self) -> str:
        """Return a message id of this incarnation, by counting."""
        self._count += 1
        return f"{self.instance}:{self._count}"

    # --- requests ---------------------------------------------------------------------------------------------------

    async def request(  # noqa: PLR0913 - an envelope has these fields
        self,
        service: str,
        message: Message,
        *,
        expect: type[R],
        timeout_s: float,
        key: str = "",
        message_id: str | None = None,
        attempt: int = 1,
        trace: str = "",
        on_stream: Callable[[Message], None] | None = None,
        reached_within_s: float | None = None,
    ) -> R:
        """Return the decoded reply, or raise the fault behind the failure; see `bus.port.Bus.request`."""
        body = self._encode(message)
        loop = self._loop or asyncio.get_running_loop()
        waiter: asyncio.Future[Outcome] = loop.create_future()
        pending = self._pending.get(message_id) if message_id is not None else None
        if pending is not None:
            pending.waiters.append(waiter)  # the same id is on its way: one request, one outcome, both get it
        else:
            pending = self._open(
                service, message, body, waiter, timeout_s, key=key, message_id=message_id, attempt=attempt,
                trace=trace, on_stream=on_stream, reached_within_s=reached_within_s,
            )  # fmt: skip
        del message, body  # what it waits for may take minutes
        try:
            head, answer = await waiter
        except asyncio.CancelledError:
            self._abandon(pending, waiter)
            raise
        finally:
            del pending, waiter  # a fault would hold this frame, and they the fault: a body until the next GC
        return self._decode(head, answer, expect)

    def ask(  # noqa: PLR0913 - an envelope has these fields
        self,
        service: str,
        message: Message,
        *,
        expect: type[R],
        timeout_s: float,
        trace: str = "",
        on_outcome: Callable[[R | RuntimeFault], None],
    ) -> None:
        """Request without a task; `on_outcome` gets what that returns or raises. See `bus.port.Bus.ask`."""
        body = self._encode(message)
        self._open(service, message, body, Callback(expect, self._decode, on_outcome), timeout_s, trace=trace)

    def _encode(self, message: Message) -> bytes:
        body = encode(message, limits.BODY_MAX_BYTES)
        if self.is_closed:
            raise BusError("cancelled", f"{self.instance} has stopped; {message.TYPE} was not sent")
        return body

    def _open(  # noqa: PLR0913 - one request's particulars
        self,
        service: str,
        message: Message,
        body: bytes,
        waiter: Waiter,
        timeout_s: float,
        *,
        key: str = "",
        message_id: str | None = None,
        attempt: int = 1,
        trace: str,
        on_stream: Callable[[Message], None] | None = None,
        reached_within_s: float | None = None,
    ) -> OwnRequest[Waiter]:
        row, lane = find_way(service, message.TYPE)
        connection = self.connections.get(lane) or self.connections[""]
        if self.leases and row is not None and row.mode == "slot" and service == row.service:
            connection = self._choose_leased(key) or connection
        elif (
            lane in BESIDE_BROKER and (connection.is_resting or not connection.is_bound) and message.TYPE != LAST_RESORT
        ):
            broker = self.connections[""]
            connection = broker if broker.is_bound else connection
        head = self._make_header(
            _REQUEST, connection, service, message, row, key=key, message_id=message_id, attempt=attempt, trace=trace,
            deadline_ms=max(1, int(timeout_s * 1000)),
        )  # fmt: skip
        now = self.clock.monotonic()
        if self.before_send is not None:
            self.before_send(now)
        if not connection.is_wanted and self.want is not None:
            self.want(connection)
        deadline = now + timeout_s
        pending = OwnRequest(
            head, message, body, len(body), connection.name, deadline, row is None or row.redeliver, [waiter],
            on_stream, reached_within_s=reached_within_s, is_unreached=not connection.is_bound,
        )  # fmt: skip
        self._pending.add(pending)
        if self._cancels:
            pending.after_cancel = self._cancels.pop(head.message_id, None) is not None  # wanted again
        self.counters["requests"] += 1
        if connection.is_bound and not self._pending.may_leave(pending, in_turn=row is None or not row.about):
            self._pending.hold(pending)
        elif connection.is_bound:
            try:
                connection.link.send(pack_header(head), body)  # all of its time remains
            except BusError:
                self._pending.drop(head.message_id)
                raise
            self._pending.sent(pending, connection.epoch)
        self._look_again(pending, deadline if pending.sent_epoch is None else self._guard_of(pending), now)
        return pending

    def _guard_of(self, pending: OwnRequest[Waiter]) -> float:
        """Return when the server of a sent request has had its time to speak; a hurried requester grants none."""
        grace_s = self.settings.peer_timeout_ms / 1000 if pending.reached_within_s is None else 0.0
        return pending.deadline + grace_s

    def _look_again(self, pending: OwnRequest[Waiter], guard: float, now: float) -> None:
        """Look at a request again at the guard, or earlier to see whether its connection is up."""
        due = guard if pending.reached_within_s is None else min(guard, now + pending.reached_within_s)
        self.deadlines.set(pending.header.message_id, due)
        self.on_deadline_set(due)

    def _send_late(self, connection: Connection, pending: OwnRequest[Waiter]) -> None:
        remaining_ms = int((pending.deadline - self.clock.monotonic()) * 1000)
        head = pending.header._replace(deadline_ms=max(1, remaining_ms))
        body = pending.body if pending.body is not None else encode(pending.message, limits.BODY_MAX_BYTES)
        connection.link.send(pack_header(head), body)
        self._pending.sent(pending, connection.epoch)

    def _send_held(self, connection: Connection) -> None:
        """Send what was held for want of room, in order, as far as there is room now."""
        while connection.is_bound and (pending := self._pending.release_held(connection.name)) is not None:
            if pending.deadline > self.clock.monotonic():  # else the guard speaks
                self._send_or_fail(connection, pending)

    def _send_or_fail(self, connection: Connection, pending: OwnRequest[Waiter]) -> None:
        try:
            self._send_late(connection, pending)
        except BusError as fault:
            self._fail(pending, fault)

    def _decode(self, head: Header, body: bytes, expect: type[R]) -> R:
        if head.kind == _FAILURE:
            self.counters["failures"] += 1
            raise make_fault(decode(Failure, body, limits.BODY_MAX_BYTES))
        self.counters["replies"] += 1
        if head.type != expect.TYPE:
            raise BusError("malformed", f"the reply to {head.correlation_id} is a {head.type}, not a {expect.TYPE}")
        return decode(expect, body, limits.BODY_MAX_BYTES)

    def _abandon(self, pending: OwnRequest[Waiter], waiter: Waiter) -> None:
        """Cancel the request of a cancelled task, unless somebody else waits for it."""
        if waiter in pending.waiters:
            pending.waiters.remove(waiter)
        message_id = pending.header.message_id
        if pending.waiters or self._pending.get(message_id) is not pending:
            return
        self._pending.drop(message_id)
        self.deadlines.forget(message_id)
        connection = self.connections[pending.connection]
        self._send_held(connection)
        if pending.sent_epoch is None:
            return
        said_epoch = None
        if connection.is_bound:
            self._cancel(connection, pending.header)
            said_epoch = connection.epoch
        cancel = _Cancel(pending.header, connection.name, pending.deadline, said_epoch)
        remember(self._cancels, message_id, cancel, at_most=limits.MAILBOX_MAX)
        now = self.clock.monotonic()
        while self._cancels and next(iter(self._cancels.values())).deadline <= now:
            self._cancels.popitem(last=False)  # its handler has been stopped by its deadline

    def _cancel(self, connection: Connection, request: Header) -> None:
        message = Cancelled(reason="requester")
        head = Header(
            HEADER_VERSION, int(Kind.CANCEL), self.next_id(), request.message_id, request.message_id, message.TYPE,
            message.VERSION, request.destination, request.key, 0, 1, False, request.trace, "", self.instance,  # noqa: FBT003
        )  # fmt: skip
        send_or_drop(connection, head, encode(message, limits.BODY_MAX_BYTES))

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def settle(self, connection: Connection, head: Header, body: bytes) -> None:
        """Settle the request that a reply or failure names; count and drop a late one."""
        pending = self._pending.settle(head.correlation_id, connection.name)
        if pending is None:
            self.counters["late"] += 1
            return
        if pending.after_cancel and head.kind == _FAILURE and self._is_asked_again(connection, pending, body):
            return
        self.deadlines.forget(head.correlation_id)
        if self._pending.window_bytes is not None:
            self._send_held(connection)
        _tell(pending.waiters, (head, body))

    def _is_asked_again(self, connection: Connection, pending: OwnRequest[Waiter], body: bytes) -> bool:
        """Return whether this ended an earlier request of the same id that was given up: then this one leaves anew.

        Nobody but its newest requester may cancel a request, so it cannot be the answer to one that is wanted. Once
        only: whatever comes then is the outcome.
        """
        pending.after_cancel = False
        try:
            if decode(Failure, body, limits.BODY_MAX_BYTES).code != "cancelled":
                return False
            pending.sent_epoch = None
            if connection.is_bound:
                self._send_late(connection, pending)
        except RuntimeFault:
            return False
        self._pending.add(pending)
        return True

    def stream(self, connection: Connection, head: Header, body: bytes) -> None:
        """Pass a stream frame to the request's `on_stream`; nobody waits for a late one."""
        pending = self._pending.get(head.correlation_id)
        cls = map_streamed().get(head.type)
        if pending is None or pending.connection != connection.name or pending.on_stream is None or cls is None:
            self.counters["late"] += 1
            return
        try:
            pending.on_stream(decode(cls, body, limits.BODY_MAX_BYTES))
        except RuntimeFault:
            self.counters["late"] += 1

    def welcomed(self, connection: Connection) -> None:
        """Send what waits for this connection, in the order of the calls; fail what the old server took with it."""
        self._repeat_cancels(connection)
        if not connection.name:
            for lane in self.connections.values():
                if not lane.is_bound:
                    self.give_over(lane.name)
        to_send, lost = self._pending.welcomed(connection.name, connection.epoch)
        for pending in lost:
            head = pending.header
            self._fail(pending, BusError("peer_lost", f"{head.type} {head.message_id}: its server restarted"))
        now = self.clock.monotonic()
        for pending in to_send:
            if pending.deadline <= now:
                continue  # the guard speaks
            self.counters["resent"] += pending.sent_epoch is not None
            if self._pending.may_leave(pending):
                self._send_or_fail(connection, pending)
            else:
                self._pending.hold(pending)

    def _choose_leased(self, tool: str) -> Connection | None:
        """Return the lane of the executor with the fewest orders of this peer, of those with this tool and with room.

        Only calls that may be repeated go by a lane: where it breaks, nobody knows whether the executor still works.
        """
        counts, found, fewest = self._pending.counts, None, 0
        for lane in self.leases:
            count = counts.get(lane.name, 0)
            is_able = lane.is_bound and not lane.is_resting and (not tool or tool in lane.tools)
            if is_able and count < lane.slots and (found is None or count < fewest):
                found, fewest = lane, count
        return found

    def give_over(self, lane: str, *, is_gone: bool = False) -> None:
        """Send what a lane beside the broker was asked by the broker, as the next attempt, which joins what is at work.

        So whatever becomes of the lane's server, the broker finds who answers, within its bounds, or says that nobody
        does. While the broker is away it waits for the lane, or, where that `is_gone` for good, for the broker.
        """
        broker = self.connections[""]
        if get_role(lane) not in BESIDE_BROKER or not (broker.is_bound or is_gone):
            return
        for pending in self._pending.of(lane):
            if pending.header.type == LAST_RESORT:
                continue
            if pending.sent_epoch is not None:
                attempt = min(pending.header.attempt + 1, self.settings.attempts_max)
                pending.header = pending.header._replace(attempt=attempt)
            self._pending.move(pending, "")
            if broker.is_bound and pending.deadline > self.clock.monotonic():  # else the guard speaks
                self._send_or_fail(broker, pending)

    def _repeat_cancels(self, connection: Connection) -> None:
        """Repeat the cancels that this incarnation of the server has not been told; the request's handler may live."""
        now = self.clock.monotonic()
        for message_id, cancel in list(self._cancels.items()):
            if cancel.connection != connection.name:
                continue
            if cancel.deadline <= now:
                del self._cancels[message_id]  # its handler has been stopped by its deadline
            elif cancel.said_epoch != connection.epoch:
                self._cancel(connection, cancel.request)
                self._cancels[message_id] = cancel._replace(said_epoch=connection.epoch)

    def expire(self, now: float) -> None:
        """Fail requests whose server did not answer by the deadline, or that could never be sent."""
        for message_id in self.deadlines.take_due(now):
            pending = self._pending.get(message_id)
            if pending is None:
                continue
            connection = self.connections[pending.connection]
            guard = self._guard_of(pending)
            if pending.reached_within_s is not None and now < guard:
                if connection.is_bound or not pending.is_unreached:  # down since the last look: it may come back
                    pending.is_unreached = not connection.is_bound
                    self._look_again(pending, guard, now)
                    continue
                fault = BusError("no_route", f"{pending.header.type} {message_id}: {connection.explain_down()}")
                self._fail(pending, fault)
                self._send_held(connection)
                continue
            if pending.sent_epoch is not None and now < guard:  # sent since: give its server the time to speak first
                self.deadlines.set(message_id, guard)
                continue
            self.counters["expired"] += 1
            why = "no answer came" if connection.is_bound else connection.explain_down()
            self._fail(pending, BusError("expired", f"{pending.header.type} {message_id}: {why} by the deadline"))
            self._send_held(connection)

    def _fail(self, pending: OwnRequest[Waiter], fault: RuntimeFault) -> None:
        self._pending.drop(pending.header.message_id)
        self.deadlines.forget(pending.header.message_id)
        for waiter in pending.waiters:
            if not waiter.done():
                waiter.set_exception(fault)

    def close(self) -> None:
        """Close: send nothing any more, and tell whoever still waits."""
        self.is_closed = True
        for pending in self._pending.all():
            self._fail(
                pending, BusError("cancelled", f"{self.instance} stopped before {pending.header.type} was answered")
            )

    # --- without an answer ------------------------------------------------------------------------------------------

    def post(self, kind: Kind, service: str, message: Message, *, key: str, trace: str) -> None:
        """Hand a post or a publish to the broker."""
        body = encode(message, limits.BODY_MAX_BYTES)
        connection = self.connections[""]
        if self.is_closed or not connection.is_bound:
            raise BusError("no_route", f"{message.TYPE} was not handed over: {connection.explain_down()}")
        row, _ = find_way(service, message.TYPE)
        head = self._make_header(
            int(kind), connection, service, message, row, key=key, message_id=None, attempt=1, trace=trace
        )
        connection.link.send(pack_header(head), body)
        self.counters["posts"] += 1

    def _make_header(  # noqa: PLR0913 - an envelope has these fields
        self, kind: int, connection: Connection, service: str, message: Message, row: Row | None, *, key: str,
        message_id: str | None, attempt: int, trace: str, deadline_ms: int = 0,
    ) -> Header:  # fmt: skip
        cause = CAUSE.get()
        # A derived id names its turn itself; a counted one gets a trace that does, so that its answer has it too.
        if not trace and cause is not None and message_id is None and connection.name != "ledger":
            trace = cause.trace or trace_from(cause.message_id)  # what goes to the ledger is not on the tap: no need
        return header_of((
            HEADER_VERSION, kind, message_id if message_id is not None else self.next_id(), "",
            cause.message_id if cause is not None else "", message.TYPE, message.VERSION, service, key, deadline_ms,
            attempt, row is not None and row.sensitive, trace, cause.principal if cause is not None else "",
            self.instance,
        ))  # fmt: skip


def _tell(waiters: Sequence[Waiter], outcome: Outcome) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(outcome)
