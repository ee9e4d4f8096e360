"""One actor's connection to the world: the shell, and the `Bus` that handlers use. No socket in it.

Theory of operation. A peer holds connections (`bus/connection.py`): one to the broker, further ones to lanes. On each
it says hello and waits for a welcome; beats go out at every tick and are answered; silence or a rehello means hello
again, and a welcome sends again what is pending (`bus/outbox.py`). Requests that arrive, from the broker or from the
lanes that this actor serves, go through one admission (`bus/inbox.py`). A loop that stood still longer than the peer
time-out may have been replaced meanwhile: it forgets what it had received and not started, says hello again, and acts
only after the answer. Source: spec page "The bus", sections "Delivery, stated", Liveness, "Start and stop".
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import structlog

from bus.codec import decode, encode, unpack_header
from bus.connection import Connection
from bus.dispatch import Actor, handlers_of
from bus.envelope import HEADER_VERSION, Header, Kind, header
from bus.errors import BusError, RuntimeFault
from bus.inbox import Inbox, Route
from bus.lane_server import LaneServer
from bus.link import Link
from bus.messages.base import Message
from bus.messages.control import Beat, Bye, Credit, Hello, Probe, Probed, Ready, Refused, Rehello, Welcome
from bus.outbox import Outbox
from bus.port import Clock, R
from bus.settings import BusSettings
from bus.window import Recorded

_log = structlog.get_logger("bus")

State = Literal["starting", "ready", "degraded", "draining"]


@dataclass(slots=True)
class _BrokerRoute:
    """Answers to requests that came through the broker."""

    peer: Peer
    lane: str = ""

    def answer(self, request: Header, kind: Kind, answer: Recorded) -> None:
        self.peer.answer_broker(request, kind, answer)


class Peer:
    """`bus.port.Bus` for one incarnation, and the shell around its actor (None: a client that answers nothing)."""

    def __init__(  # noqa: PLR0913 - what a hello says, and the ports
        self,
        actor: Actor | None,
        *,
        instance: str,
        role: str,
        offers: Sequence[str],
        slots: int,
        token: str,
        settings: BusSettings,
        clock: Clock,
        links: Mapping[str, Link],
        config_digest: str,
        version: str,
        tools: Sequence[str] = (),
    ) -> None:
        self._actor = actor
        self._instance = instance
        self._settings = settings
        self._clock = clock
        self._timeout_s = settings.peer_timeout_ms / 1000
        self._beat_s = settings.beat_interval_ms / 1000
        self._slots = slots
        self._hello = Hello(
            instance=instance, token=token, role=role, offers=list(offers), slots=slots, version=version,
            protocol=HEADER_VERSION, config_digest=config_digest, tools=list(tools),
        )  # fmt: skip
        self._connections = {name: Connection(name, link, self._timeout_s) for name, link in links.items()}
        self._broker = self._connections[""]
        self._outbox = Outbox(instance, settings, clock, self._connections, self._arm, self._notice_standstill)
        self._inbox = Inbox(role, handlers_of(actor) if actor is not None else {}, settings, clock, self._arm)
        self._servers: list[LaneServer] = []
        self._route = _BrokerRoute(self)
        self._state: State = "starting"
        self._reason = ""
        self._is_open = False  # the actor has started: requests are let in
        self._early: deque[tuple[Header, bytes, Route]] = deque()
        self._keys: OrderedDict[str, float] = OrderedDict()
        self._welcome: asyncio.Future[None] | None = None
        self._ticked_at = 0.0
        self._tick_timer: asyncio.TimerHandle | None = None
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_at = float("inf")
        self._readiness: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()
        self._malformed = 0
        self._standstills = 0

    # --- the Bus port -----------------------------------------------------------------------------------------------

    @property
    def instance(self) -> str:
        """`<role>/<n>@<epoch>` of this incarnation."""
        return self._instance

    @property
    def clock(self) -> Clock:
        """The clock port."""
        return self._clock

    @property
    def state(self) -> tuple[State, str]:
        """Readiness as the peers see it, and why."""
        return self._state, self._reason

    def now(self) -> float:
        """Wall-clock seconds since 1970 UTC."""
        return self._clock.now()

    def new_id(self) -> str:
        """A fresh UUID."""
        return self._clock.new_id()

    async def sleep(self, seconds: float) -> None:
        """Returns after `seconds` of the running loop's time."""
        await asyncio.sleep(seconds)

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
    ) -> R:
        """The reply, within `timeout_s`; see `bus.port.Bus.request`."""
        return await self._outbox.request(
            service, message, expect=expect, timeout_s=timeout_s, key=key, message_id=message_id, attempt=attempt,
            trace=trace, on_stream=on_stream,
        )  # fmt: skip

    async def post(self, service: str, message: Message, *, key: str = "", trace: str = "") -> None:
        """Handed to the broker, or BusError."""
        self._outbox.post(Kind.POST, service, message, key=key, trace=trace)

    async def publish(self, message: Message, *, trace: str = "") -> None:
        """Handed to the broker for whoever subscribed, or BusError."""
        self._outbox.post(Kind.PUBLISH, "", message, key="", trace=trace)

    # --- life -------------------------------------------------------------------------------------------------------

    def serve_lane(self, server: LaneServer) -> None:
        """Requests of this lane go through the same admission as the broker's."""
        self._servers.append(server)
        server.attach(self._from_lane)

    async def start(self, *, timeout_s: float) -> None:
        """Connected to the broker, the actor started, its requests let in; readiness follows by itself.

        Raises BusError: no_route if the broker did not answer within `timeout_s`, denied if it refused this instance.
        """
        self._welcome = asyncio.get_running_loop().create_future()
        self._ticked_at = self._clock.monotonic()
        for connection in self._connections.values():
            connection.link.attach(lambda head, body, of=connection: self._receive(of, head, body))
        self._tick()
        try:
            async with asyncio.timeout(timeout_s):
                await self._welcome
        except TimeoutError:
            self.close()
            raise BusError("no_route", f"{self._instance}: {self._broker.why_down()} within {timeout_s} s") from None
        except BusError:
            self.close()
            raise
        if self._actor is not None:
            await self._actor.start(self)
        self._is_open = True
        while self._early:
            self._inbox.receive(*self._early.popleft())
        self._readiness = asyncio.get_running_loop().create_task(self._until_ready())
        self._readiness.add_done_callback(self._readiness_ended)

    async def _until_ready(self) -> None:
        """Asks the actor until it is ready."""
        while True:
            reason = await self._why_not_ready()
            self._set_state("degraded" if reason else "ready", reason)
            if not reason:
                return
            await asyncio.sleep(self._beat_s)

    async def _why_not_ready(self) -> str:
        if self._actor is None:
            return ""
        try:
            return await self._actor.ready()
        except RuntimeFault as fault:
            return str(fault)

    def _readiness_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    async def failed(self) -> BaseException:
        """Returns the reason when this incarnation cannot go on (its process should end); else never."""
        await self._failed.wait()
        assert self._failure is not None  # noqa: S101 - set with the event
        return self._failure

    def _fail(self, error: BaseException | None) -> None:
        if self._failure is None and error is not None:
            self._failure = error
            self._failed.set()

    async def stop(self, drain_s: float) -> None:
        """An orderly end within about `drain_s`: no new work, what runs finishes or is given back, goodbye, closed."""
        if self._readiness is not None:
            self._readiness.cancel()
        self._set_state("draining", "")
        self._slots = 0
        self._say(self._broker, Kind.CREDIT, Credit(slots=0))
        try:
            async with asyncio.timeout(drain_s):
                if self._actor is not None and self._is_open:
                    await self._actor.drain()
                await self._inbox.idle()
        except TimeoutError:
            _log.warning("drain_timed_out", instance=self._instance, at_work=len(self._inbox), drain_s=drain_s)
        except RuntimeFault as fault:
            _log.warning("drain_failed", instance=self._instance, code=fault.code, detail=fault.detail)
        await self._cancel_handlers(drain_s)
        for connection in self._connections.values():
            self._say(connection, Kind.BYE, Bye())
        self.close()

    async def _cancel_handlers(self, within_s: float) -> None:
        tasks = self._inbox.tasks()
        for task in tasks:
            task.cancel()
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*tasks, return_exceptions=True)
        except TimeoutError:
            _log.warning("handlers_ignored_cancel", instance=self._instance, at_work=len(self._inbox))

    def close(self) -> None:
        """Closed without another word: timers, links, lanes; own requests fail."""
        self._is_open = False
        if self._readiness is not None:
            self._readiness.cancel()
        for timer in (self._tick_timer, self._due_timer):
            if timer is not None:
                timer.cancel()
        self._outbox.close()
        for connection in self._connections.values():
            connection.link.close()
        for server in self._servers:
            server.close()

    # --- the conversation with servers ------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Once per beat interval: beats, hellos that are due, silent lane clients."""
        self._tick_timer = asyncio.get_running_loop().call_later(self._beat_s, self._tick)
        now = self._clock.monotonic()
        self._notice_standstill(now)
        self._ticked_at = now
        for connection in self._connections.values():
            duty = connection.duty(now)
            if duty == "beat":
                self._say(connection, Kind.BEAT, Beat(counters=self._counters() if connection is self._broker else {}))
            elif duty == "hello":
                self._say_hello(connection, now)
        for server in self._servers:
            server.sweep(now)

    def _notice_standstill(self, now: float) -> None:
        """After a standstill longer than the peer time-out somebody else may have this actor's work."""
        if now - self._ticked_at <= self._timeout_s:
            return
        _log.warning("loop_stood_still", instance=self._instance, seconds=round(now - self._ticked_at, 3))
        self._standstills += 1
        self._ticked_at = now
        self._inbox.counters.discarded += len(self._early)
        self._early.clear()
        self._inbox.discard_unstarted()
        for server in self._servers:
            server.unbind_all()
        for connection in self._connections.values():
            self._say_hello(connection, now)

    def _say_hello(self, connection: Connection, now: float) -> None:
        connection.said_hello(now)
        connection.link.discard()
        hello = self._hello
        if connection is self._broker:
            hello = hello.model_copy(
                update={
                    "slots": self._slots,
                    "keys": self._recent_keys(now),
                    "in_progress": self._inbox.at_work(),
                    "answered": self._inbox.window.recent_ids(self._settings.mailbox_max),
                }
            )
        self._say(connection, Kind.HELLO, hello)

    def _say(self, connection: Connection, kind: Kind, message: Message) -> None:
        """A control frame; lost without harm, since the next beat finds out."""
        if kind != Kind.HELLO and not connection.is_bound:
            return
        head = header(
            kind, self._outbox.next_id(), type=message.TYPE, type_version=message.VERSION, sender=self._instance
        )
        self._outbox.send_or_drop(connection, head, encode(message, self._settings.body_max_bytes))

    def _set_state(self, state: State, reason: str) -> None:
        if (state, reason) == (self._state, self._reason):
            return
        self._state, self._reason = state, reason
        self._say(self._broker, Kind.READY, Ready(state=state, reason=reason))

    def _receive(self, connection: Connection, head_bytes: bytes, body: bytes) -> None:
        """One incoming frame pair of a connection."""
        now = self._clock.monotonic()
        self._notice_standstill(now)
        try:
            head = unpack_header(head_bytes)
        except BusError:
            self._malformed += 1
            return
        connection.heard_at = now
        kind = head.kind
        if kind in (Kind.REPLY, Kind.FAILURE):
            self._outbox.settle(connection, head, body)
        elif kind == Kind.WELCOME:
            self._server_spoke(connection, head, body, now)
        elif not connection.is_bound:
            self._inbox.counters.discarded += 1
        elif kind in (Kind.REQUEST, Kind.POST):
            self._admit(head, body, self._route)
        elif kind == Kind.CANCEL:
            self._inbox.cancel(head.correlation_id, head.sender, "")
        elif kind == Kind.STREAM:
            self._outbox.stream(connection, head, body)

    def _server_spoke(self, connection: Connection, head: Header, body: bytes, now: float) -> None:
        try:
            if head.type == Welcome.TYPE:
                self._welcomed(connection, decode(Welcome, body, self._settings.body_max_bytes), now)
            elif head.type == Refused.TYPE:
                self._refused(connection, decode(Refused, body, self._settings.body_max_bytes))
            elif head.type == Rehello.TYPE and connection.must_say_hello_again():
                self._say_hello(connection, now)
        except RuntimeFault:
            self._malformed += 1

    def _welcomed(self, connection: Connection, welcome: Welcome, now: float) -> None:
        connection.welcomed(welcome.epoch, now)
        if connection is self._broker:
            self._say(connection, Kind.READY, Ready(state=self._state, reason=self._reason))
            if self._welcome is not None and not self._welcome.done():
                self._welcome.set_result(None)
        self._outbox.welcomed(connection)

    def _refused(self, connection: Connection, refused: Refused) -> None:
        """The broker's no is final for this incarnation; a lane is asked again after the next time-out."""
        is_news = connection.refused != refused
        connection.refused = refused
        connection.is_bound = False
        if is_news:
            _log.error(
                "hello_refused", instance=self._instance, link=connection.name, code=refused.code, detail=refused.detail
            )
        if connection is not self._broker:
            return
        fault = BusError("denied", f"{self._instance} was refused ({refused.code}): {refused.detail}")
        if self._welcome is not None and not self._welcome.done():
            self._welcome.set_exception(fault)
        else:
            self._fail(fault)

    # --- requests from others ---------------------------------------------------------------------------------------

    def _admit(self, head: Header, body: bytes, route: Route) -> None:
        if head.type == Probe.TYPE:
            self._answer_probe(head, route)
            return
        if head.key:
            self._keys[head.key] = self._ticked_at
            self._keys.move_to_end(head.key)
            if len(self._keys) > self._settings.dedupe_window:
                self._keys.popitem(last=False)
        if self._is_open:
            self._inbox.receive(head, body, route)
        elif self._state == "starting" and len(self._early) < self._settings.mailbox_max:
            self._early.append((head, body, route))  # the actor is still starting

    def _from_lane(self, head: Header, body: bytes, route: Route) -> None:
        self._notice_standstill(self._clock.monotonic())
        if head.kind == Kind.CANCEL:
            self._inbox.cancel(head.correlation_id, head.sender, route.lane)
        else:
            self._admit(head, body, route)

    def _answer_probe(self, head: Header, route: Route) -> None:
        probed = Probed(instance=self._instance, state=self._state, reason=self._reason)
        body = encode(probed, self._settings.body_max_bytes)
        route.answer(head, Kind.REPLY, Recorded(Kind.REPLY, probed.TYPE, probed.VERSION, body))

    def answer_broker(self, request: Header, kind: Kind, answer: Recorded) -> None:
        """Sends an answer through the broker; while that is away, nothing.

        The next hello says what was answered; whoever still wants it asks again, and the window answers.
        """
        self._notice_standstill(self._clock.monotonic())
        if not self._broker.is_bound:
            return
        head = Header(
            HEADER_VERSION, int(kind), self._outbox.next_id(), request.message_id, request.message_id, answer.type,
            answer.type_version, request.sender, "", 0, request.attempt, request.sensitive, request.trace,
            self._instance,
        )  # fmt: skip
        self._outbox.send_or_drop(self._broker, head, answer.body)

    # --- deadlines and counters -------------------------------------------------------------------------------------

    def _arm(self, due: float) -> None:
        """The one timer fires at the earliest deadline, of own requests and of handlers."""
        if due >= self._due_at:
            return
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_at = due
        self._due_timer = asyncio.get_running_loop().call_at(due, self._deadline_reached)

    def _deadline_reached(self) -> None:
        self._due_at = float("inf")
        now = self._clock.monotonic()
        self._outbox.expire(now)
        self._inbox.expire(now)
        for earliest in (self._outbox.deadlines.earliest(), self._inbox.deadlines.earliest()):
            if earliest is not None:
                self._arm(earliest)

    def _recent_keys(self, now: float) -> list[str]:
        return [key for key, used_at in self._keys.items() if now - used_at <= self._settings.sticky_idle_s]

    def _counters(self) -> dict[str, int]:
        counters: dict[str, int] = asdict(self._outbox.counters) | {
            "at_work": len(self._inbox),
            "waiting": len(self._outbox),
        }
        counters |= {f"inbox_{name}": value for name, value in asdict(self._inbox.counters).items()}
        counters |= {"malformed": self._malformed, "standstills": self._standstills}
        for server in self._servers:
            counters |= {f"lane_{name}": value for name, value in asdict(server.counters).items()}
        return counters | (self._actor.counters() if self._actor is not None else {})
