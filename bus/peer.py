"""One actor's connection to the world: the shell, and the `Bus` that handlers use. No socket in it.

Theory of operation. A peer holds connections (`bus/conversation.py`): one to the broker, further ones to lanes. What it
and its servers say about those is `bus/conversation.py`; what its actor sends waits in `bus/outbox.py` for its one
outcome and is sent again after a welcome; what others ask of its actor, by the broker or by the lanes that it serves,
goes through one admission, `bus/inbox.py`. Here these are put together, and the life of an incarnation is told.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hobus.bus import limits
from hobus.bus.catalog import find_row
from hobus.bus.codec import decode
from hobus.bus.conversation import Connection, Conversation, send_or_drop
from hobus.bus.dispatch import Actor, map_handlers
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, header_of, make_header
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.fair import get_principal
from hobus.bus.inbox import CAUSE, Inbox, ReplyRoute
from hobus.bus.lanes import BESIDE_BROKER, get_role
from hobus.bus.limits import AT_WORK, LAG
from hobus.bus.link import Link
from hobus.bus.log import Logger
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import (
    AnnounceTools,
    Beat,
    Bye,
    Credit,
    Hello,
    LaneFrame,
    LaneFrames,
    Leases,
    Probe,
    Probed,
    Ready,
    Refused,
)
from hobus.bus.outbox import Outbox
from hobus.bus.outcome import answer_of
from hobus.bus.paging import cut_parts
from hobus.bus.port import Clock
from hobus.bus.readiness import Readiness, State
from hobus.bus.window import KeptReply, remember

if TYPE_CHECKING:
    from hobus.bus.lane_server import LaneServer
    from hobus.bus.settings import BusSettings

_ASKS, _ANSWERS = (int(Kind.REQUEST), int(Kind.POST)), (int(Kind.REPLY), int(Kind.FAILURE))
_PROBE = Probe.TYPE
_log = Logger("bus")


class Peer:
    """Implement `bus.port.Bus` for one incarnation, and the shell around its actor (None: a pure client)."""

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
        host: str = "",
    ) -> None:
        self._actor = actor
        self.instance = instance
        self._settings = settings
        self.clock = clock
        self._slots = slots
        self._hello = Hello(
            instance=instance, token=token, role=role, offers=list(offers), slots=slots, version=version,
            protocol=HEADER_VERSION, config_digest=config_digest, tools=list(tools), host=host,
        )  # fmt: skip
        self._connections = {
            name: Connection(name, link, settings.peer_timeout_ms / 1000, is_wanted=not name or actor is not None)
            for name, link in links.items()
        }
        self._broker = self._connections[""]
        self._outbox = Outbox(instance, settings, clock, self._connections, self._arm)
        self.request, self.ask = self._outbox.request, self._outbox.ask  # see `bus.port.Bus`, as for these:
        self.now, self.new_id = clock.now, clock.new_id
        self._conversation = Conversation(
            self,
            instance=instance,
            settings=settings,
            clock=clock,
            connections=self._connections,
            next_id=self._outbox.next_id,
        )
        self._outbox.before_send = self._conversation.notice_standstill
        self._outbox.want = self._conversation.want
        self._inbox = Inbox(role, map_handlers(actor) if actor is not None else {}, settings, clock, self._arm)
        self._tools: list[AnnounceTools] = []  # the parts of its announcement; none: nothing beyond the hello's list
        self._servers: list[LaneServer] = []
        self._route = ReplyRoute("", self._answer_broker)
        self.is_open = False
        """Whether the actor has started, and requests are let in."""
        self._early: deque[tuple[Header, bytes, ReplyRoute]] = deque()
        self._held: list[tuple[Header, KeptReply]] = []  # answers given between a hello and its welcome
        self._keys: OrderedDict[str, float] = OrderedDict()
        self._said = Beat()  # the broker's last word on readiness
        self._word: bytes | None = None  # the bytes that it came as
        self._welcome: asyncio.Future[None] | None = None
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_at = float("inf")
        self._readiness = Readiness(
            actor, interval_s=settings.beat_interval_ms / 1000, on_change=self._say_readiness, on_bug=self._fail
        )
        self._reconfiguring: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()
        self.connect: Callable[[str], Link] | None = None
        """Makes the link to the lane of an executor's instance; None: this peer takes no leases."""
        self.on_word: Callable[[Beat], None] = _ignore_word
        """Called with the broker's word on who is ready when it is another one than before."""

    # --- the Bus port -----------------------------------------------------------------------------------------------

    @property
    def principal(self) -> str:
        """Return on whose behalf the running handler works."""
        cause = CAUSE.get()
        return (cause.principal if cause is not None else "") or get_principal(self.instance)

    @contextmanager
    def on_behalf_of(self, principal: str) -> Generator[None]:
        """Work for this principal within the context; only a supervisor or door of this machine is believed."""
        if not principal:
            yield
            return
        token = CAUSE.set((CAUSE.get() or _NO_CAUSE)._replace(principal=principal))
        try:
            yield
        finally:
            CAUSE.reset(token)

    @property
    def cluster_digest(self) -> str:
        """Return the snapshot that the cluster runs under, as its broker said last; empty before its first welcome."""
        return self._broker.config_digest

    @property
    def state(self) -> tuple[State, str]:
        """Return the readiness as the peers see it, and why."""
        return self._readiness.state, self._readiness.reason

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` of the running loop's time."""
        await asyncio.sleep(seconds)

    async def post(self, service: str, message: Message, *, key: str = "", trace: str = "") -> None:
        """Hand a post to the broker, or raise BusError."""
        self._outbox.post(Kind.POST, service, message, key=key, trace=trace)

    async def publish(self, message: Message, *, trace: str = "") -> None:
        """Hand a message to the broker for whoever subscribed, or raise BusError."""
        self._outbox.post(Kind.PUBLISH, "", message, key="", trace=trace)

    # --- life -------------------------------------------------------------------------------------------------------

    def serve_lane(self, server: LaneServer) -> None:
        """Let requests of this lane go through the same admission as the broker's."""
        self._servers.append(server)
        server.attach(self._from_lane, self._inbox.discard_unstarted)
        self._inbox.beginnings.is_behind = server.is_behind
        if server.service in BESIDE_BROKER:
            server.on_frame = Mirror(self._broker, self._outbox, self.clock)

    async def start(self, *, timeout_s: float) -> None:
        """Connect to the broker, start the actor, let its requests in; readiness follows by itself.

        Raises BusError: no_route if the broker did not answer within `timeout_s`, denied if it refused this instance.
        """
        loop = asyncio.get_running_loop()
        self._inbox.beginnings.use(loop)
        self._outbox.use(loop)
        self._welcome = loop.create_future()
        self._conversation.open()
        try:
            async with asyncio.timeout(timeout_s):
                await self._welcome
        except TimeoutError:
            self.close()
            raise BusError("no_route", f"{self.instance}: {self._broker.explain_down()} within {timeout_s} s") from None
        except BusError:
            self.close()
            raise
        if self._actor is not None:
            await self._actor.start(self)
        self.is_open = True
        while self._early:
            self._inbox.receive(*self._early.popleft())
        self._readiness.ask()
        self._heed_snapshot()

    def announce(self, tools: AnnounceTools) -> None:
        """Announce the tools that can be run here from now on, at once if there is a broker, and after each welcome."""
        self._tools = cut_parts(tools, limits.PAGE_MAX_BYTES)
        self._hello = self._hello.model_copy(update={"tools": [tool.tool_id for tool in tools.tools]})
        self._say_tools()

    async def failed(self) -> BaseException:
        """Wait until this incarnation cannot go on (its process should end), and return the reason."""
        await self._failed.wait()
        assert self._failure is not None  # noqa: S101 - set with the event
        return self._failure

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            self._failed.set()

    async def stop(self, drain_s: float) -> int:
        """End in order within about `drain_s`: no new work, what runs finishes or is given back, goodbye, closed.

        Return how many requests did not finish.
        """
        unfinished = 0
        if self._actor is not None:  # else there is nothing to drain, and goodbye says all
            self._readiness.drain()
            self._slots = 0
            self._conversation.say(self._broker, Kind.CREDIT, Credit(slots=0))
        self._rest_lanes()
        try:
            async with asyncio.timeout(drain_s):
                if self._actor is not None and self.is_open:
                    await self._actor.drain()
                await self._inbox.idle()
        except TimeoutError:
            unfinished = len(self._inbox)
            _log.warning("drain_timed_out", instance=self.instance, at_work=unfinished, drain_s=drain_s)
        except RuntimeFault as fault:
            _log.warning("drain_failed", instance=self.instance, code=fault.code, detail=fault.detail)
        await self._cancel_handlers(drain_s)
        for connection in self._connections.values():
            self._conversation.say(connection, Kind.BYE, Bye())
        self.close()
        return unfinished

    async def _cancel_handlers(self, within_s: float) -> None:
        tasks = self._inbox.tasks()
        for task in tasks:
            task.cancel()
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*tasks, return_exceptions=True)
        except TimeoutError:
            _log.warning("handlers_ignored_cancel", instance=self.instance, at_work=len(self._inbox))

    def close(self) -> None:
        """Close without another word: timers, links, lanes; own requests fail."""
        self.is_open = False
        self._readiness.close()
        if self._reconfiguring is not None:
            self._reconfiguring.cancel()
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._outbox.close()
        self._conversation.close()
        for server in self._servers:
            server.close()

    # --- the shell's side of the conversation with servers -----------------------------------------------------------

    def _say_readiness(self) -> None:
        digest = self._hello.config_digest
        readiness = Ready(state=self._readiness.state, reason=self._readiness.reason, config_digest=digest)
        self._conversation.say(self._broker, Kind.READY, readiness)

    def _say_tools(self) -> None:
        for part in self._tools:
            self._conversation.say(self._broker, Kind.TOOLS, part)

    def hello(self, connection: Connection, now: float) -> Hello:
        if connection is not self._broker:
            return self._hello
        self._held.clear()  # what was answered so far, this hello tells
        keys = [key for key, used_at in self._keys.items() if now - used_at <= limits.STICKY_IDLE_S]
        holds = {
            "slots": self._slots,
            "leases": self.connect is not None or any(server.service == "ho1" for server in self._servers),
            "keys": keys,
            "in_progress": self._inbox.at_work(),
            "answered": self._inbox.window.list_recent_ids(limits.MAILBOX_MAX),
        }
        return self._hello.model_copy(update=holds)

    def welcomed(self, connection: Connection) -> None:
        """Say readiness again, and send everything that waits for this connection."""
        if connection is self._broker:
            self._say_readiness()
            self._say_tools()
            held, self._held = self._held, []
            for request, answer in held:
                self._answer_broker(request, answer)
            self._heed_snapshot()
            if self._welcome is not None and not self._welcome.done():
                self._welcome.set_result(None)
        self._outbox.welcomed(connection)

    def unbound(self, connection: Connection) -> None:
        """Send what a lane beside the broker was asked by the broker; without the broker no lease counts."""
        self._outbox.give_over(connection.name)
        if connection is self._broker:
            for lane in self._outbox.leases:
                lane.slots = 0

    def leased(self, leases: Leases) -> None:
        """Lanes to executors that are new, other slots and tools of known ones, and none to those that are gone."""
        if self.connect is None:
            return
        leased = {one.instance: one for one in leases.leases}
        for lane in [one for one in self._outbox.leases if one.name not in leased]:
            lane.is_bound = False
            self._outbox.give_over(lane.name, is_gone=True)
            lane.link.close()
            self._outbox.leases.remove(lane)
            del self._connections[lane.name]
        for instance, lease in leased.items():
            if instance not in self._connections:
                lane = Connection(instance, self.connect(instance), self._settings.peer_timeout_ms / 1000)
                self._outbox.leases.append(lane)
                self._conversation.add(lane)
            self._connections[instance].slots, self._connections[instance].tools = lease.slots, frozenset(lease.tools)

    def _rest_lanes(self) -> None:
        for server in self._servers:
            server.rest()

    def refused(self, connection: Connection, refused: Refused) -> None:
        """Take the broker's no as final for this incarnation; ask a lane again after the next time-out."""
        if connection is not self._broker:
            return
        detail = f"{self.instance} was refused ({refused.code}): {refused.detail}"
        fault = BusError("denied", detail, facts={"refused": refused.code, "detail": refused.detail})
        if self._welcome is not None and not self._welcome.done():
            self._welcome.set_exception(fault)
        else:
            self._fail(fault)

    def drained(self, *, is_rotated: bool) -> None:
        """Note that this process should end, after `stop`, or come back with another key."""
        facts = {"drained": True, "rotated": is_rotated}
        self._fail(BusError("cancelled", f"{self.instance} is drained by an operator", facts=facts))

    def on_standstill(self) -> None:
        """Forget what was received and not started; lane clients have to ask again."""
        self._inbox.counters["discarded"] += len(self._early)
        self._early.clear()
        self._inbox.discard_unstarted()
        for server in self._servers:
            server.unbind_all()

    def ticked(self, now: float) -> None:
        """Forget silent lane clients; say how far an actor is that is still starting."""
        for server in self._servers:
            server.sweep(now)
        if self._actor is not None and self._readiness.state == "starting":
            self._readiness.starts(self._actor.starting())

    def heard(self, connection: Connection, head: Header, body: bytes) -> None:
        kind = head.kind
        if kind in _ANSWERS:
            self._outbox.settle(connection, head, body)
        elif not connection.is_bound:
            self._inbox.counters["discarded"] += 1
        elif kind in _ASKS:
            self._admit(head, body, self._route)
        elif kind == Kind.CANCEL:
            self._inbox.cancel(head.correlation_id, head.sender, "")
        elif kind == Kind.BEAT and connection is self._broker:
            with suppress(RuntimeFault):  # the next one is as good
                was = self._said
                if body != self._word:  # else the broker says it again
                    self._said, self._word = decode(Beat, body, limits.BODY_MAX_BYTES), body
                self._readiness.hear(said := self._said)
                if said != was:
                    self.on_word(said)
                connection.config_digest = said.config_digest or connection.config_digest
                self._heed_snapshot()
        elif kind == Kind.STREAM:
            self._outbox.stream(connection, head, body)
        elif kind == Kind.CREDIT:
            self._heed_credit(connection)

    def _heed_credit(self, connection: Connection) -> None:
        """No credit: from the broker, to the lanes of a peer that is drained; from a lane's server, to its clients."""
        if connection is self._broker:
            self._rest_lanes()
        else:
            connection.is_resting = True

    def _heed_snapshot(self) -> None:
        """Tell the actor of another snapshot than it begins new work under; one at a time, again at each beat."""
        digest = self.cluster_digest
        is_told = self._reconfiguring is not None and not self._reconfiguring.done()
        if self._actor is None or not self.is_open or is_told or digest in ("", self._hello.config_digest):
            return
        self._reconfiguring = asyncio.get_running_loop().create_task(self._reconfigure(self._actor, digest))
        self._reconfiguring.add_done_callback(self._note_reconfigured)

    async def _reconfigure(self, actor: Actor, digest: str) -> None:
        try:
            await actor.reconfigure(digest)
        except RuntimeFault as fault:
            _log.warning("snapshot_not_taken", digest=digest, code=fault.code, detail=fault.detail)
            return
        _log.info("snapshot_taken", digest=digest)
        self._hello = self._hello.model_copy(update={"config_digest": digest})
        self._say_readiness()

    def _note_reconfigured(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    # --- requests from others ---------------------------------------------------------------------------------------

    def _admit(self, head: Header, body: bytes, route: ReplyRoute) -> None:
        if head.type == _PROBE:
            self._answer_probe(head, route)
            return
        row = find_row(get_role(head.destination), head.type) if head.key else None
        if head.key and not (row is not None and row.by_tool):  # a tool that the request needs makes nobody its owner
            remember(self._keys, head.key, self.clock.monotonic(), at_most=limits.DEDUPE_WINDOW)
        if self.is_open:
            self._inbox.receive(head, body, route)
        elif self._readiness.state == "starting" and len(self._early) < limits.MAILBOX_MAX:
            self._early.append((head, body, route))  # the actor is still starting

    def _from_lane(self, head: Header, body: bytes, route: ReplyRoute) -> None:
        self._conversation.notice_standstill(self.clock.monotonic())
        if head.kind == Kind.CANCEL:
            self._inbox.cancel(head.correlation_id, head.sender, route.lane)
        else:
            self._admit(head, body, route)

    def _answer_probe(self, head: Header, route: ReplyRoute) -> None:
        probed = Probed(instance=self.instance, state=self._readiness.state, reason=self._readiness.reason)
        route.answer(head, answer_of(Kind.REPLY, probed, limits.BODY_MAX_BYTES))

    def _answer_broker(self, request: Header, answer: KeptReply) -> None:
        """Send an answer through the broker.

        While its welcome is awaited, answers wait for it: the hello has said that these requests are in progress here.
        What was answered before that hello is asked for again by whoever still wants it, and comes from the window.
        """
        self._conversation.notice_standstill(self.clock.monotonic())
        if not self._broker.is_bound:
            if answer.kind != Kind.STREAM:
                self._held.append((request, answer))
            return
        head = header_of((
            HEADER_VERSION, int(answer.kind), self._outbox.next_id(), request.message_id, request.message_id,
            answer.type, answer.type_version, request.sender, "", 0, request.attempt, request.sensitive, request.trace,
            "", self.instance,
        ))  # fmt: skip
        send_or_drop(self._broker, head, answer.body)

    # --- deadlines and counters -------------------------------------------------------------------------------------

    def _arm(self, due: float) -> None:
        """Set the one timer to the earliest deadline, of own requests and of handlers."""
        if due >= self._due_at:
            return
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_at = due
        self._due_timer = asyncio.get_running_loop().call_at(due, self._on_deadline)

    def _on_deadline(self) -> None:
        self._due_at = float("inf")
        now = self.clock.monotonic()
        self._outbox.expire(now)
        self._inbox.expire(now)
        for earliest in (self._outbox.deadlines.earliest(), self._inbox.deadlines.earliest()):
            if earliest is not None:
                self._arm(earliest)

    def counters(self) -> dict[str, int]:
        counters = dict(self._outbox.counters) | {AT_WORK: len(self._inbox), "waiting": len(self._outbox)}
        counters[LAG] = self._conversation.lag_ms
        counters |= {f"inbox_{name}": value for name, value in self._inbox.counters.items()}
        counters |= self._conversation.counters
        for server in self._servers:
            counters |= {f"lane_{name}": value for name, value in server.counters.items()}
        if self._actor is not None and self.is_open:  # what it counts is made while it starts
            counters |= self._actor.counters()
        return counters


def _ignore_word(_word: Beat) -> None:
    """Drop the word: most peers need only know whether they are ready themselves."""


_NO_CAUSE = make_header(Kind.POST, "")
"""Of what nobody asked for over the bus."""


class Mirror:
    """Tells the broker, for its tap (`lane=direct`), of every frame of a lane beside it; in the way of none.

    Many at once, each with its age. The ledger's lane is not mirrored: most frames of a turn are records, and what they
    hold stands in the record.
    """

    def __init__(self, broker: Connection, outbox: Outbox, clock: Clock) -> None:
        self._broker = broker
        self._outbox = outbox
        self._clock = clock
        self._frames: list[tuple[str, bytes, int, bytes, float]] = []

    def __call__(self, verdict: str, header: bytes, body: bytes) -> None:
        """Told within `limits.LANE_FRAMES_MS`."""
        if not self._frames:
            asyncio.get_running_loop().call_later(limits.LANE_FRAMES_MS / 1000, self._tell)
        digest = hashlib.sha256(body).digest()
        self._frames.append((verdict, header, len(body), digest, self._clock.monotonic()))
        if len(self._frames) >= limits.LANE_FRAMES_MAX:
            self._tell()

    def _tell(self) -> None:
        """Tell the broker, if it is there."""
        frames, self._frames = self._frames, []
        if not frames or not self._broker.is_bound:
            return
        now = self._clock.monotonic()
        told = LaneFrames(
            frames=[
                LaneFrame(verdict=verdict, header=header, size=size, sha256=digest, ago_us=int((now - at) * 1_000_000))
                for verdict, header, size, digest, at in frames
            ]
        )
        with suppress(BusError):  # the broker went away meanwhile; the lane goes on without it
            self._outbox.post(Kind.POST, "broker", told, key="", trace="")
