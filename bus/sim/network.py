"""The simulated network: every connection a queue in virtual time, the broker's own core stepped with virtual now.

Order is kept per connection, since all deliveries wait in one queue ordered by (time, number). Each frame arrives after
`DELAY_S`. Faults: the broker can be killed and started again, and it can be frozen. A killed one takes with it what it
had not read; what is sent while there is none waits at its sender, and each connection comes back after a drawn pause,
as a reconnecting socket does. Source: spec page "The bus", section Simulation.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bus.broker.core import BrokerCore
from bus.broker.events import Connected, ConnectionLost, CutOff, Event, FrameReceived, Send, Tick
from bus.broker.tap_record import Tap
from bus.lane_server import Authenticate, LaneServer
from bus.link import OnFrames
from bus.settings import BusSettings
from bus.sim.loop import VirtualLoop
from bus.sim.process import SimProcess

DELAY_S = 0.0001
"""One way; of the order of a local socket's."""

Deliver = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Connection:
    """One connection of a process to the broker ("") or to a lane."""

    routing: bytes
    server: str
    process: SimProcess
    on_frames: OnFrames | None = None
    is_open: bool = True
    link: int = 1  # counts the times that it was made; 0 while there is no broker at the other end
    links_made: int = 1
    waiting: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])

    @property
    def is_reachable(self) -> bool:
        return self.is_open and self.process.is_alive


@dataclass(slots=True)
class SimLink:
    """`bus.link.Link` of a simulated process."""

    network: SimNetwork
    connection: _Connection

    def attach(self, on_frames: OnFrames) -> None:
        """Incoming frames go to `on_frames`."""
        self.connection.on_frames = on_frames

    def send(self, header: bytes, body: bytes) -> None:
        """On its way to the server."""
        if not self.connection.is_reachable:
            return
        if self.connection.link:
            self.network.to_server(self.connection, header, body)
        else:
            self.connection.waiting.append((header, body))

    def discard(self) -> None:
        """Frames that never left are forgotten."""
        self.connection.waiting.clear()

    def close(self) -> None:
        """Nothing arrives any more."""
        self.connection.is_open = False


@dataclass(slots=True)
class _LaneEnd:
    """`bus.link.LaneTransport` of a simulated lane."""

    network: SimNetwork
    process: SimProcess
    server: LaneServer
    is_open: bool = True

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        connection = self.network.connections.get(routing)
        if connection is None or not connection.is_reachable:
            return False
        self.network.to_client(self.server.instance, connection, header, body)
        return True

    def cut(self, routing: bytes, peer: str, why: str) -> None:
        """A lane's connection has no state here; it is unbound and says hello again."""

    def close(self) -> None:
        self.is_open = False


@dataclass(slots=True)
class SimNetwork:
    """Broker, lanes and everybody's connections to them."""

    loop: VirtualLoop
    settings: BusSettings
    authenticate: Authenticate
    epoch: str
    epoch_s: float
    draw: Callable[[], float]
    connections: dict[bytes, _Connection] = field(default_factory=dict[bytes, _Connection])
    broker: BrokerCore = field(init=False)
    is_broker_up: bool = field(default=False, init=False)
    is_broker_frozen: bool = field(default=False, init=False)
    delivered: int = 0
    on_tap: Callable[[Tap], None] | None = None
    _unread: list[Deliver] = field(default_factory=list[Deliver])  # what came for a frozen broker
    _lanes: dict[str, _LaneEnd] = field(default_factory=dict[str, _LaneEnd])
    _queue: list[tuple[float, int, Deliver]] = field(default_factory=list[tuple[float, int, Deliver]])
    _numbers: int = 0
    _timer: asyncio.TimerHandle | None = None
    _alarm: asyncio.TimerHandle | None = None
    _trace: Any = field(default_factory=hashlib.sha256)
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)  # nobody's: a kill stops no frame

    def __post_init__(self) -> None:
        self.start_broker(self.epoch)

    def start_broker(self, epoch: str) -> None:
        """A new incarnation of the broker, which knows nothing of an earlier one's connections; they come back."""
        if self.is_broker_up:
            self.kill_broker()
        self.epoch = epoch
        self.is_broker_up = True
        self.broker = BrokerCore(
            self.settings,
            epoch=epoch,
            authenticate=self.authenticate,
            now=self.loop.time(),
            wall_now=self.epoch_s + self.loop.time(),
        )
        self._set_alarm()
        for connection in self.connections.values():
            if connection.server == "" and connection.is_reachable:
                self._reconnect_later(connection)

    def kill_broker(self) -> None:
        """SIGKILL of the broker: what it held and had not read is gone; its connections wait for another one."""
        self.is_broker_up = self.is_broker_frozen = False
        self._unread.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for connection in self.connections.values():
            if connection.server == "":
                connection.link = 0

    def freeze_broker(self) -> None:
        """SIGSTOP of the broker: it reads nothing and its time stands still."""
        self.is_broker_frozen = self.is_broker_up

    def thaw_broker(self) -> None:
        """It reads what came meanwhile, then looks at the clock."""
        if not self.is_broker_frozen:
            return
        self.is_broker_frozen = False
        unread, self._unread = self._unread, []
        for deliver in unread:
            deliver()
        self.step(Tick())

    def _break(self, routing: bytes) -> None:
        """The broker cut this connection off: what is on its way there is lost; it comes back as after a restart."""
        connection = self.connections.get(routing)
        if connection is not None and connection.is_reachable:
            connection.link = 0
            self._reconnect_later(connection)

    def _reconnect_later(self, connection: _Connection) -> None:
        least_s, most_s = self.settings.reconnect_min_ms / 1000, self.settings.reconnect_max_ms / 1000
        pause_s = least_s + self.draw() * (most_s - least_s)
        self.loop.call_later(pause_s, self._reconnect, connection, self.epoch, context=self._context)

    def _reconnect(self, connection: _Connection, epoch: str) -> None:
        if epoch != self.epoch or not self.is_broker_up or not connection.is_reachable:
            return
        connection.links_made += 1
        connection.link = connection.links_made
        self._later(lambda: self._at_broker(connection, connection.link, None))
        waiting, connection.waiting = connection.waiting, []
        for header, body in waiting:
            self.to_server(connection, header, body)

    # --- connections ------------------------------------------------------------------------------------------------

    def connect(self, process: SimProcess, server: str) -> SimLink:
        """A connection of `process` to the broker ("") or to a service's lane; the lane may be bound later."""
        self._numbers += 1
        connection = _Connection(f"c{self._numbers}".encode(), server, process)
        if server == "" and not self.is_broker_up:
            connection.link = 0
        self.connections[connection.routing] = connection
        return SimLink(self, connection)

    def bind_lane(self, process: SimProcess, server: LaneServer) -> None:
        """This incarnation's lane takes the place of an earlier one's."""
        end = _LaneEnd(self, process, server)
        server.bind(end)
        self._lanes[server.service] = end

    # --- moving frames ----------------------------------------------------------------------------------------------

    def to_server(self, connection: _Connection, header: bytes, body: bytes) -> None:
        """Arrives at the broker or the lane after the delay; lost if no lane is bound then."""
        if connection.server == "":
            link = connection.link
            self._later(lambda: self._at_broker(connection, link, (header, body)))
        else:
            self._later(lambda: self._at_lane(connection, header, body))

    def to_client(self, sender: str, connection: _Connection, header: bytes, body: bytes) -> None:
        """Arrives at the process after the delay; lost if it is dead then."""
        self._later(lambda: self._at_client(sender, connection, header, body))

    def _at_broker(self, connection: _Connection, link: int, frame: tuple[bytes, bytes] | None) -> None:
        """A frame, or the beginning of a connection; lost if the broker that it was sent to is gone."""
        if link != connection.link:
            return
        if self.is_broker_frozen:
            self._unread.append(lambda: self._at_broker(connection, link, frame))
        elif frame is None:
            self.step(Connected(connection.routing))
        else:
            self._note(connection.process.instance, "broker", *frame)
            self.step(FrameReceived(connection.routing, *frame))

    def _at_lane(self, connection: _Connection, header: bytes, body: bytes) -> None:
        end = self._lanes.get(connection.server)
        if end is None or not end.is_open or not end.process.is_alive:
            return
        if end.process.is_frozen:
            end.process.hold(lambda: self._at_lane(connection, header, body))
            return
        self._note(connection.process.instance, end.server.instance, header, body)
        end.process.context.copy().run(end.server.receive, connection.routing, (header, body))

    def _at_client(self, sender: str, connection: _Connection, header: bytes, body: bytes) -> None:
        if not connection.is_reachable or connection.on_frames is None:
            return
        if connection.process.is_frozen:
            connection.process.hold(lambda: self._at_client(sender, connection, header, body))
            return
        self._note(sender, connection.process.instance, header, body)
        connection.process.context.copy().run(connection.on_frames, header, body)

    # --- the broker -------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        """Steps the broker's core and does what it says; an unreachable connection is fed back, as by a ROUTER."""
        events = [event]
        while events:
            for action in self.broker.step(events.pop(0), self.loop.time()):
                if isinstance(action, CutOff):
                    self._break(action.connection)
                    continue
                if not isinstance(action, Send):
                    if self.on_tap is not None:
                        self.on_tap(action)
                    continue
                connection = self.connections.get(action.connection)
                if connection is None or not connection.is_reachable:
                    events.append(ConnectionLost(action.connection))
                else:
                    self.to_client("broker", connection, action.header, action.body)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """A Tick when the broker asks for one."""
        at = self.broker.next_wakeup()
        if at is None or not self.is_broker_up or (self._alarm is not None and self._alarm.when() <= at):
            return  # an early alarm finds nothing to do and is set anew
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self.loop.call_at(at, self._alarmed, context=self._context)

    def _alarmed(self) -> None:
        self._alarm = None
        if not self.is_broker_frozen:
            self.step(Tick())

    # --- time -------------------------------------------------------------------------------------------------------

    def _later(self, deliver: Deliver) -> None:
        self._numbers += 1
        heapq.heappush(self._queue, (self.loop.time() + DELAY_S, self._numbers, deliver))
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        self._timer = self.loop.call_at(self._queue[0][0], self._deliver_due, context=self._context)

    def _deliver_due(self) -> None:
        self._timer = None
        horizon = self.loop.time() + 1e-9
        while self._queue and self._queue[0][0] <= horizon:
            heapq.heappop(self._queue)[2]()
        if self._queue and self._timer is None:
            self._arm()

    def _note(self, source: str, target: str, header: bytes, body: bytes) -> None:
        """Every delivered frame goes into the trace's digest."""
        self.delivered += 1
        line = f"{self.loop.time():.6f} {source} {target} {len(header)} {len(body)}\n".encode()
        self._trace.update(line + header + body)

    def trace_digest(self) -> str:
        """SHA-256 over all delivered frames so far: time, ends, bytes."""
        return self._trace.hexdigest()
