"""What happens to a request that arrives: admit, run its handler, answer exactly once.

Half of the shell (`bus/peer.py`). In this order:
policy, duplicate, deadline, mailbox bound, strict decoding, handler, which begins in its turn (`bus/beginning.py`). A
programming error ends its handler: the requester gets Failure(internal), the log gets the traceback. A handler that
only promises its reply has no task.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

import msgspec
from msgspec import Struct

from hobus.bus import limits
from hobus.bus.beginning import Beginnings
from hobus.bus.catalog import CLIENT_ROLES, Row, find_row
from hobus.bus.codec import decode
from hobus.bus.deadlines import Deadlines
from hobus.bus.dispatch import Call, Handler, drop_step
from hobus.bus.envelope import Header, Kind
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.fair import Shares, get_principal
from hobus.bus.histogram import Counters, counters
from hobus.bus.lanes import get_role
from hobus.bus.messages.base import Message
from hobus.bus.outcome import answer_of, follow_up, make_failure_answer, make_internal_fault
from hobus.bus.port import Clock
from hobus.bus.promise import Promise
from hobus.bus.window import DuplicateWindow, KeptReply, RequestKey

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_NOT_FINAL = frozenset({"cancelled", "disk_full"})
"""Failures that are not to be retried at once, and may be another answer to who asks again later."""
_REQUEST, _POST = int(Kind.REQUEST), int(Kind.POST)
CAUSE: ContextVar[Header | None] = ContextVar("cause", default=None)
"""The request whose handler is running: what is sent from there names it as its cause."""


class ReplyRoute(Struct, frozen=True):
    """Where an answer goes: the broker, or the connection to a lane that the requester has by then."""

    lane: str  # the service whose lane it is; "" for the broker
    answer: Callable[[Header, KeptReply], None]
    """Sends one reply, failure or stream frame to who sent this request; an answer to nobody is dropped."""


class Running(Struct, eq=False):
    """One admitted request until it is answered."""

    key: RequestKey
    header: Header
    row: Row
    message: Message
    handler: Handler
    deadline: float | None
    route: ReplyRoute  # of the newest requester
    promises: bool = False  # its handler needs no task
    task: asyncio.Task[None] | None = None  # None while it waits its turn behind another of its routing key
    is_started: bool = False  # its handler has had its first step
    stopped: Literal["", "cancelled", "expired"] = ""
    again: tuple[Header, bytes, ReplyRoute] | None = None  # asked again while it was being stopped
    principal: str = ""  # it was admitted for this one: a later requester changes the header
    size_bytes: int = 0
    is_queued: bool = False  # its task is not made yet: others begin first
    also: tuple[tuple[Header, ReplyRoute], ...] = ()
    """Earlier requesters that the broker does not know of, or knows of alone: whoever asks gets the answer."""
    attached: list[Callable[[], None]] = msgspec.field(default_factory=list[Callable[[], None]])
    """What is done whenever somebody else, or the same one anew, asks for it."""


@dataclass(slots=True)
class Inbox:
    """The requests of one incarnation, from whichever link or lane they came."""

    role: str
    handlers: dict[str, tuple[type[Message], Handler]]
    settings: BusSettings
    clock: Clock
    on_deadline_set: Callable[[float], None]
    counters: Counters = field(default_factory=counters("handled", "failed", "duplicates", "refused", "discarded"))
    deadlines: Deadlines[RequestKey] = field(default_factory=Deadlines[RequestKey])
    window: DuplicateWindow = field(init=False)
    _taken: dict[str, tuple[Row, type[Message], Handler, bool]] = field(init=False)
    """By type, what this role answers; last: whether its handler promises the reply."""
    beginnings: Beginnings[Running] = field(init=False)
    _running: dict[RequestKey, Running] = field(default_factory=dict[RequestKey, Running])
    _shares: Shares = field(default_factory=Shares)  # of them, by principal
    _behind: dict[str, deque[Running]] = field(default_factory=dict[str, "deque[Running]"])
    _idle: asyncio.Event | None = None  # there while somebody waits for the last one to end

    def __post_init__(self) -> None:
        rows = {name: find_row(self.role, name) for name in self.handlers}
        self._taken = {
            name: (row, *self.handlers[name], not inspect.iscoroutinefunction(self.handlers[name][1]))
            for name, row in rows.items()
            if row is not None
        }
        self.beginnings = Beginnings(self._begin)
        self.window = DuplicateWindow(
            ids_max=limits.DEDUPE_WINDOW,
            bytes_max=limits.DEDUPE_WINDOW_MAX_BYTES,
            age_max_s=limits.DEDUPE_WINDOW_S,
        )

    # --- arriving ---------------------------------------------------------------------------------------------------

    def receive(self, header: Header, body: bytes, route: ReplyRoute) -> None:
        """Admit one request or post, or answer it at once."""
        sender_role = get_role(header.sender)
        asker = header.sender if sender_role in CLIENT_ROLES else sender_role
        key = (asker, header.type, header.message_id)
        principal, size_bytes = header.principal or get_principal(header.sender), len(body)
        try:
            row, cls, handler, promises = self._check_allowed(header, sender_role, route)
            if self._is_duplicate(key, header, body, route):
                return
            deadline = self._compute_deadline(header)
            if row.mode == "immediate" or (route.lane and row.mode == "slot"):  # a lane gives no credit
                self._demand_room(principal, size_bytes)
            elif row.reply is None and len(self._behind.get(header.key, ())) > limits.ORDERED_POSTS_MAX:
                raise self._refuse_busy(
                    f"{self.role}: {limits.ORDERED_POSTS_MAX} posts wait under the key {header.key[:80]}"
                )
            message = decode(cls, body, limits.BODY_MAX_BYTES)
        except RuntimeFault as fault:
            self.counters["refused"] += 1
            self._refuse(header, route, fault)
            return
        running = Running(key, header, row, message, handler, deadline, route, promises)
        running.principal, running.size_bytes = principal, size_bytes
        self._admit(running)

    def _check_allowed(
        self, header: Header, sender_role: str, route: ReplyRoute
    ) -> tuple[Row, type[Message], Handler, bool]:
        """Apply the policy once more at the receiving edge, from the same table as the broker's."""
        taken = self._taken.get(header.type)
        if taken is None:
            raise BusError("denied", f"{self.role} does not answer {header.type!r}")
        row = taken[0]
        if (row.reply is None) != (header.kind == _POST):
            raise BusError("malformed", f"{header.type} is a {'post' if row.reply is None else 'request'}")
        if sender_role not in row.senders:
            raise BusError(
                "denied", f"{header.sender} may not send {header.type} to {self.role} ({route.lane or 'broker'})"
            )
        return taken

    def _demand_room(self, principal: str, size_bytes: int) -> None:
        """Require room for all, and for each: a principal that fills its own part keeps nobody else out.

        In bytes each may have one request whatever the others have.
        """
        if over := self._shares.excess(principal, size_bytes):
            raise self._refuse_busy(f"{self.role}: {over}")
        if len(self._running) >= limits.MAILBOX_MAX:
            raise self._refuse_busy(f"{self.role} has {len(self._running)} requests at work")

    def _refuse_busy(self, detail: str) -> BusError:
        return BusError("busy", detail, retry_after_ms=limits.BUSY_RETRY_MS)

    def _is_duplicate(self, key: RequestKey, header: Header, body: bytes, route: ReplyRoute) -> bool:
        """Return whether this id was answered (answer again) or is in progress (join the newest requester)."""
        answer = self.window.recorded(key)
        running = self._running.get(key)
        if answer is None and running is None:
            return False
        self.counters["duplicates"] += 1
        if answer is not None:
            route.answer(header, answer)
        elif running is not None and running.stopped:
            running.again = (header, body, route)
        elif running is not None:
            self._attach(running, header, route)
        return True

    def _attach(self, running: Running, header: Header, route: ReplyRoute) -> None:
        """Attach a further requester: the newest one gets what is streamed; the latest deadline counts."""
        if header.sender != running.header.sender and (route.lane or running.route.lane):
            running.also += ((running.header, running.route),)
        running.route, running.header = route, header
        for step in running.attached:
            step()
        if running.deadline is None or header.deadline_ms <= 0:
            return
        deadline = self.clock.monotonic() + header.deadline_ms / 1000
        if deadline > running.deadline:
            running.deadline = deadline
            self.deadlines.set(running.key, deadline)

    def _compute_deadline(self, header: Header) -> float | None:
        if header.kind == _POST:
            return None
        if header.deadline_ms <= 0:
            raise BusError("expired", f"{header.type} {header.message_id} arrived after its deadline")
        return self.clock.monotonic() + header.deadline_ms / 1000

    def _refuse(self, header: Header, route: ReplyRoute, fault: RuntimeFault) -> None:
        if header.kind == Kind.REQUEST:
            route.answer(header, make_failure_answer(fault, limits.BODY_MAX_BYTES))

    # --- running ----------------------------------------------------------------------------------------------------

    def _admit(self, running: Running) -> None:
        self._running[running.key] = running
        self._shares.take(running.principal, running.size_bytes)
        if running.deadline is not None:
            self.deadlines.set(running.key, running.deadline)
            self.on_deadline_set(running.deadline)
        is_behind = False
        if running.row.mode == "ordered":
            queue = self._behind.setdefault(running.header.key, deque())
            queue.append(running)
            is_behind = len(queue) > 1
        if not is_behind:
            self.beginnings.begin(running)

    def _begin(self, running: Running) -> None:
        if not running.promises:
            running.task = self.beginnings.loop.create_task(self._run(running), name=running.header.message_id)
            return
        running.is_started = True
        begun = CAUSE.set(running.header)
        try:
            promise = cast("Promise[Message]", running.handler(running.message, self._call(running, drop_step)))
        except RuntimeFault as fault:
            self._answer_promised(running, fault.with_traceback(None))
        except Exception as error:  # noqa: BLE001 - as in `_run`
            self._answer_promised(running, make_internal_fault(running.header, error))
        else:
            promise.then(partial(self._answer_promised, running))
        finally:
            CAUSE.reset(begun)

    def _answer_promised(self, running: Running, outcome: Message | RuntimeFault) -> None:
        """Answer with the promised reply or fault; nobody waits for that of a stopped request."""
        if self._running.get(running.key) is not running:
            return
        try:
            answer = outcome if isinstance(outcome, RuntimeFault) else self._encode(running, outcome)
        except RuntimeFault as fault:
            answer = fault.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - as in `_run`
            answer = make_internal_fault(running.header, error)
        self._finish(running)
        self._answer(running, answer)

    async def _run(self, running: Running) -> None:
        """Run the handler and answer; also after a cancel, when the handler has cleaned up."""
        running.is_started = True
        afterwards: list[Callable[[], Awaitable[None]]] = []
        CAUSE.set(running.header)
        try:
            reply = await running.handler(running.message, self._call(running, afterwards.append))
            answer = self._encode(running, reply)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if running.stopped:
                answer = self._explain_stop(running)
            elif task is not None and task.cancelling():  # the process stops: what it holds is redelivered, not failed
                self._finish(running)
                raise
            else:  # the handler waited for something that somebody else cancelled
                answer = make_internal_fault(running.header, error)
        except RuntimeFault as fault:
            answer = fault.with_traceback(
                None
            )  # it would hold this frame, and that the answer: a body until the next GC
        except Exception as error:  # noqa: BLE001 - whatever it is: see the module docstring
            answer = make_internal_fault(running.header, error)
        self._finish(running)
        self._answer(running, answer)
        if afterwards and not isinstance(answer, RuntimeFault) and running.again is None:
            await follow_up(running.header, afterwards)

    def _call(self, running: Running, after_reply: Callable[[Callable[[], Awaitable[None]]], None]) -> Call:
        header = running.header

        def stream(message: Message) -> None:
            if running.stopped or self._running.get(running.key) is not running:
                return  # answered, or given up: nobody waits for pieces of it
            with suppress(RuntimeFault):  # one that does not fit is lost; no answer fails for it
                piece = answer_of(Kind.STREAM, message, limits.BODY_MAX_BYTES)
                running.route.answer(running.header, piece)

        return Call(
            header.sender, get_role(header.sender), header.message_id, header.attempt, header.key, header.trace,
            running.deadline, running.route.lane, stream, running.attached.append, after_reply,
        )  # fmt: skip

    def _encode(self, running: Running, reply: Message | None) -> KeptReply | None:
        expected = running.row.reply
        if expected is None:
            return None
        if not isinstance(reply, expected):
            raise TypeError(f"a handler of {running.header.type} answered {type(reply).__name__}")
        return answer_of(Kind.REPLY, reply, limits.BODY_MAX_BYTES)

    def _explain_stop(self, running: Running) -> RuntimeFault:
        if running.stopped == "expired":
            return BusError("expired", f"{running.header.type} {running.header.message_id} did not end by its deadline")
        return BusError("cancelled", f"{running.header.type} {running.header.message_id} was cancelled")

    # --- answering --------------------------------------------------------------------------------------------------

    def _finish(self, running: Running) -> None:
        """Release a request that is done; the next one of its routing key begins."""
        running.task = None  # one that was cancelled holds its frame, and that this one: a body until the next GC
        if self._running.pop(running.key, None) is not None:
            self._shares.give_back(running.principal, running.size_bytes)
        if running.is_queued:
            self.beginnings.forget(running)
        self.deadlines.forget(running.key)
        if running.row.mode == "ordered":
            self._begin_next(running)
        if self._idle is not None and not self._running:
            self._idle.set()
            self._idle = None

    def _begin_next(self, running: Running) -> None:
        queue = self._behind.get(running.header.key)
        if queue is None:
            return
        was_first = queue[0] is running
        queue.remove(running)
        if not queue:
            del self._behind[running.header.key]
        elif was_first:
            self.beginnings.begin(queue[0])

    def _answer(self, running: Running, outcome: KeptReply | RuntimeFault | None) -> None:
        """Send the one answer; keep it for duplicates unless a retry may bring another one."""
        self.counters["handled"] += 1
        if running.again is not None:  # the one that was stopped is nobody's any more
            self.receive(*running.again)
            return
        if isinstance(outcome, RuntimeFault):
            self.counters["failed"] += 1
            if outcome.code == "busy" and outcome.retry_after_ms is None:
                outcome.retry_after_ms = limits.BUSY_RETRY_MS
            answer, is_final = (
                make_failure_answer(outcome, limits.BODY_MAX_BYTES),
                not outcome.retryable and outcome.code not in _NOT_FINAL,
            )
        elif outcome is None:
            return
        else:
            answer, is_final = outcome, True
        if running.header.kind != _REQUEST:
            return
        if is_final and not running.row.reads:
            self.window.record(running.key, answer, self.clock.monotonic())
        for header, route in (*running.also, (running.header, running.route)):
            route.answer(header, answer)

    # --- stopping ---------------------------------------------------------------------------------------------------

    def cancel(self, message_id: str, requester: str, lane: str) -> None:
        """Cancel this request's handler, or take the request out of the queue of its routing key."""
        for running in list(self._running.values()):
            if message_id != running.header.message_id or running.route.lane != lane:
                continue
            if lane and running.header.sender != requester:
                continue  # the broker has checked its own; on a lane the newest requester alone may
            self._stop(running, "cancelled")

    def expire(self, now: float) -> None:
        """Cancel handlers whose deadline is `now` or earlier, and answer `expired`."""
        for key in self.deadlines.take_due(now):
            running = self._running.get(key)
            if running is not None:
                self._stop(running, "expired")

    def _stop(self, running: Running, reason: Literal["cancelled", "expired"]) -> None:
        if running.stopped:
            return
        running.stopped = reason
        if running.task is not None:
            running.task.cancel()
        if not running.is_started or running.promises:  # then nothing of `_run` will ever run
            self._finish(running)
            self._answer(running, self._explain_stop(running))

    def discard_unstarted(self, requester: str = "", lane: str = "") -> None:
        """Forget requests that wait their turn: all of them, or what this requester asked by this lane.

        After a standstill somebody else may have them by now; who left sends them again should it come back.
        """
        for running in list(self._running.values()):
            is_meant = not requester or (running.header.sender, running.route.lane) == (requester, lane)
            if is_meant and not running.is_started:
                self.counters["discarded"] += 1
                running.stopped = "cancelled"
                if running.task is not None:
                    running.task.cancel()
                self._finish(running)

    def at_work(self, lane: str = "") -> list[str]:
        """Return the ids of requests in progress that came by this lane."""
        return [running.header.message_id for running in self._running.values() if running.route.lane == lane]

    def __len__(self) -> int:
        return len(self._running)

    async def idle(self) -> None:
        """Wait until no request is in progress."""
        while self._running:
            if self._idle is None:
                self._idle = asyncio.Event()
            await self._idle.wait()

    def tasks(self) -> list[asyncio.Task[None]]:
        return [running.task for running in self._running.values() if running.task is not None]
