"""The simulated network: every connection a queue in virtual time, the broker's own core stepped with virtual now.

Order is kept per connection and direction, since timers of one time run in the order of their making. Each frame
arrives after `DELAY_S` and what `weather` adds. Faults: the broker can be killed and started again, and it can be
frozen; a connection can break, or be cut off for a while in one direction or both. A killed broker takes with it what
it had not read, a broken connection what was on its way; what is sent while there is none waits at its sender, and each
connection comes back after a drawn pause, as a reconnecting socket does: a new one, under a new name.
"""

from __future__ import annotations

import contextvars
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from hobus.bus import limits
from hobus.bus.broker.core import BrokerCore
from hobus.bus.broker.events import Connected, ConnectionLost, Event, FrameReceived, Send, Tick
from hobus.bus.broker.tap_record import Tap
from hobus.bus.lane_server import Authenticate, LaneServer
from hobus.bus.lanes import LANES, get_role
from hobus.bus.link import OnFrames
from hobus.bus.sim.loop import SimHandle, VirtualLoop
from hobus.bus.sim.process import SimProcess
from hobus.bus.sim.weather import Weather

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

DELAY_S = 0.0001
"""One way; of the order of a local socket's."""

Deliver = Callable[[], None]

OnDelivery = Callable[[str, str, bytes, bytes, bool], None]
"""(source, target, header, body, whether it is a copy that only the network made) of every frame delivered."""

Direction = Literal["up", "down"]
"""up: from the process to its server; down: back."""


class SimConnection(Struct, eq=False):
    """One connection of a process to the broker ("") or to a lane."""

    routing: bytes
    server: str
    process: SimProcess
    on_frames: OnFrames | None = None
    is_open: bool = True
    link: int = 1  # counts the times that it was made; 0 while nobody is at the other end
    links_made: int = 1
    breaks: int = 0  # how often it broke; what was on its way then is lost
    closed_until: float = 0.0  # nobody can be reached before
    waiting: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list[tuple[bytes, bytes]])
    arrives_at: dict[Direction, float] = msgspec.field(default_factory=lambda: {"up": 0.0, "down": 0.0})
    """When the last frame of a direction arrives; none overtakes it."""
    blocked_until: dict[Direction, float] = msgspec.field(default_factory=lambda: {"up": 0.0, "down": 0.0})

    @property
    def is_reachable(self) -> bool:
        return self.is_open and self.process.is_alive


class SimLink(Struct):
    """Implement `bus.link.Link` for a simulated process."""

    network: SimNetwork
    connection: SimConnection

    def attach(self, on_frames: OnFrames) -> None:
        self.connection.on_frames = on_frames

    def send(self, header: bytes, body: bytes) -> None:
        connection = self.connection
        if not (connection.is_open and connection.process.is_alive):
            return
        if connection.link:
            self.network.to_server(connection, header, body)
        else:
            connection.waiting.append((header, body))

    def discard(self) -> None:
        self.connection.waiting.clear()

    def close(self) -> None:
        self.connection.is_open = False


class SimLaneEnd(Struct):
    """Implement `bus.link.LaneTransport` for a simulated lane."""

    network: SimNetwork
    process: SimProcess
    server: LaneServer
    is_open: bool = True

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """Send a frame; return False if nobody is connected under this routing id any more."""
        connection = self.network.connections.get(routing)
        if connection is None or not connection.is_reachable:
            return False
        self.network.to_client(self.server.instance, connection, header, body)
        return True

    def unsent(self) -> Mapping[bytes, int]:
        """Return nothing unsent: here every answer is on its way at once."""
        return {}

    def close(self) -> None:
        self.is_open = False


@dataclass(slots=True)
class SimNetwork:
    """Connect the broker, the lanes and every process."""

    loop: VirtualLoop
    settings: BusSettings
    authenticate: Authenticate
    epoch: str
    epoch_s: Callable[[], float]
    draw: Callable[[], float]
    connections: dict[bytes, SimConnection] = field(default_factory=dict[bytes, SimConnection])
    broker: BrokerCore = field(init=False)
    is_broker_up: bool = field(default=False, init=False)
    is_broker_frozen: bool = field(default=False, init=False)
    delivered: int = 0
    on_tap: Callable[[Tap], None] | None = None
    on_delivery: OnDelivery | None = None
    weather: Weather | None = None  # None: nothing happens to frames
    _unread: list[Deliver] = field(default_factory=list[Deliver])  # what came for a frozen broker
    _lanes: dict[str, SimLaneEnd] = field(default_factory=dict[str, SimLaneEnd])
    _numbers: int = 0
    _alarm: SimHandle | None = None
    _trace: Any = field(default_factory=hashlib.sha256)
    config_digest: str = ""
    """Of the snapshot that the next broker says that the cluster runs under; empty: it says none."""
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)  # nobody's: a kill stops no frame

    def __post_init__(self) -> None:
        self.start_broker(self.epoch)

    @property
    def is_collecting(self) -> bool:
        """Whether a broker that runs routes nothing yet."""
        return self.is_broker_up and not self.is_broker_frozen and self.broker.is_collecting

    def start_broker(self, epoch: str) -> None:
        """Start a new incarnation of the broker, which knows no earlier connections; peers connect again."""
        if self.is_broker_up:
            self.kill_broker()
        self.epoch = epoch
        self.is_broker_up = True
        self.broker = BrokerCore(
            self.settings,
            epoch=epoch,
            authenticate=self.authenticate,
            now=self.loop.now,
            wall_now=self.epoch_s() + self.loop.now,
            config_digest=self.config_digest,
        )
        self._set_alarm()
        for connection in self.connections.values():
            if connection.server == "" and connection.is_reachable:
                self._reconnect_later(connection)

    def kill_broker(self) -> None:
        """Kill the broker as SIGKILL does: what it held or had not read is lost; connections wait for a new broker."""
        self.is_broker_up = self.is_broker_frozen = False
        self._unread.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for connection in self.connections.values():
            if connection.server == "":
                connection.link = 0

    def freeze_broker(self) -> None:
        """Freeze the broker as SIGSTOP does: it reads nothing and its time stands still."""
        self.is_broker_frozen = self.is_broker_up

    def thaw_broker(self) -> None:
        """Thaw the broker: it reads what arrived meanwhile, then looks at the clock."""
        if not self.is_broker_frozen:
            return
        self.is_broker_frozen = False
        unread, self._unread = self._unread, []
        for deliver in unread:
            deliver()
        self.step(Tick())

    # --- faults of connections --------------------------------------------------------------------------------------

    def break_off(self, connection: SimConnection, *, until: float = 0.0) -> None:
        """Break the connection and lose what is on its way; it is made anew no earlier than `until`."""
        if not connection.link or not connection.is_reachable:
            return
        del self.connections[connection.routing]
        self._numbers += 1
        connection.routing = f"c{self._numbers}".encode()
        self.connections[connection.routing] = connection
        connection.breaks += 1
        connection.link = 0
        connection.closed_until = max(connection.closed_until, until)
        self._reconnect_later(connection)

    def cut_off(self, connection: SimConnection, directions: Sequence[Direction], *, for_s: float) -> None:
        """Hold back frames of these directions for `for_s` seconds; a longer silence breaks the connection."""
        until = self.loop.now + for_s
        for direction in directions:
            connection.blocked_until[direction] = max(connection.blocked_until[direction], until)
        silence_s = self.settings.peer_timeout_ms * limits.HEARTBEAT_TIMEOUT_SHARE / 1000
        if for_s > silence_s:
            link = connection.link
            self.loop.call_later(silence_s, self._give_up, connection, link, until, context=self._context)

    def _give_up(self, connection: SimConnection, link: int, until: float) -> None:
        if link and link == connection.link:
            self.break_off(connection, until=until)

    def lose_unread(self, process: SimProcess) -> None:
        """Drop what a killed process had sent and nobody has read yet."""
        for connection in self.connections.values():
            if connection.process is process:
                connection.link = 0

    def find_connection(self, instance: str, server: str) -> SimConnection | None:
        """Return the connection of this process to the broker ("") or a service's lane."""
        return next(
            (one for one in self.connections.values() if one.process.instance == instance and one.server == server),
            None,
        )

    def _reconnect_later(self, connection: SimConnection) -> None:
        least_s, most_s = limits.RECONNECT_MIN_MS / 1000, limits.RECONNECT_MAX_MS / 1000
        at = max(self.loop.now, connection.closed_until) + least_s + self.draw() * (most_s - least_s)
        self.loop.call_at(at, self._reconnect, connection, connection.breaks, self.epoch, context=self._context)

    def _reconnect(self, connection: SimConnection, breaks: int, epoch: str) -> None:
        if connection.link or breaks != connection.breaks or not connection.is_reachable:
            return
        if connection.server == "" and (epoch != self.epoch or not self.is_broker_up):
            return  # the next broker brings it back
        connection.links_made += 1
        connection.link = connection.links_made
        connection.arrives_at = {"up": 0.0, "down": 0.0}
        self._deliver_later(connection, "up", lambda: self._deliver_to_server(connection, connection.link, (b"",)))
        waiting, connection.waiting = connection.waiting, []
        for header, body in waiting:
            self.to_server(connection, header, body)

    # --- connections ------------------------------------------------------------------------------------------------

    def connect(self, process: SimProcess, server: str) -> SimLink:
        """Connect `process` to the broker ("") or to a service's lane, which may be bound later."""
        self._numbers += 1
        connection = SimConnection(f"c{self._numbers}".encode(), server, process)
        if server == "" and not self.is_broker_up:
            connection.link = 0
        self.connections[connection.routing] = connection
        return SimLink(self, connection)

    def bind_lane(self, process: SimProcess, server: LaneServer) -> None:
        """Bind this incarnation's lane in place of an earlier one's."""
        end = SimLaneEnd(self, process, server)
        server.bind(end)
        self._lanes[server.service if server.service in LANES else server.instance] = end

    # --- moving frames ----------------------------------------------------------------------------------------------

    def to_server(self, connection: SimConnection, header: bytes, body: bytes) -> None:
        """Deliver a frame to the broker or the lane after the delay; lose it if no lane is bound then."""
        at_server = partial(self._deliver_to_server, connection, connection.link, (header, body))
        if self.weather is None:
            self._deliver_later(connection, "up", at_server)
        else:
            self._send_in_weather(self.weather, connection, "up", header, at_server)

    def to_client(self, sender: str, connection: SimConnection, header: bytes, body: bytes) -> None:
        """Deliver a frame to the process after the delay; lose it if process or connection is gone then."""
        at_client = partial(self._deliver_to_client, sender, connection, connection.breaks, (header, body))
        if self.weather is None:
            self._deliver_later(connection, "down", at_client)
        else:
            self._send_in_weather(self.weather, connection, "down", header, at_client)

    def _send_in_weather(
        self,
        weather: Weather,
        connection: SimConnection,
        direction: Direction,
        header: bytes,
        deliver: Callable[..., None],
    ) -> None:
        fate = weather.draw_fate(get_role(connection.process.instance), connection.server, header)
        for number in range(fate.copies):
            self._deliver_later(connection, direction, partial(deliver, is_copy=number > 0), fate.extra_s)
        if fate.breaks:
            self.break_off(connection)

    def _deliver_to_server(
        self, connection: SimConnection, link: int, frames: tuple[bytes, ...], *, is_copy: bool = False
    ) -> None:
        """Deliver a frame, or the empty one that begins a connection; lose it if the server it was sent to is gone."""
        if link != connection.link:
            return
        process, is_frame = connection.process.instance, len(frames) > 1
        if connection.server == "":
            if self.is_broker_frozen:
                self._unread.append(lambda: self._deliver_to_server(connection, link, frames, is_copy=is_copy))
                return
            if is_frame:
                self._note(process, "broker", frames[0], frames[1], is_copy=is_copy)
            name = connection.routing
            self.step(FrameReceived(name, frames[0], frames[1]) if is_frame else Connected(name))
            return
        end = self._lanes.get(connection.server)
        if end is None or not end.is_open or not end.process.is_alive:
            return
        if end.process.is_frozen:
            end.process.hold(lambda: self._deliver_to_server(connection, link, frames, is_copy=is_copy))
            return
        if is_frame:
            self._note(process, end.server.instance, frames[0], frames[1], is_copy=is_copy)
        end.process.context.copy().run(end.server.receive, connection.routing, frames)

    def _deliver_to_client(
        self, sender: str, connection: SimConnection, breaks: int, frame: tuple[bytes, bytes], *, is_copy: bool = False
    ) -> None:
        process, on_frames = connection.process, connection.on_frames
        if breaks != connection.breaks or not (connection.is_open and process.is_alive) or on_frames is None:
            return
        if process.is_frozen:
            process.hold(lambda: self._deliver_to_client(sender, connection, breaks, frame, is_copy=is_copy))
            return
        self._note(sender, process.instance, *frame, is_copy=is_copy)
        process.context.copy().run(on_frames, *frame)

    # --- the broker -------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        """Step the broker's core and carry out its actions; report an unreachable connection back, as a ROUTER does."""
        events = [event]
        while events:
            for action in self.broker.step(events.pop(0), self.loop.now):
                if type(action) is Send:
                    connection = self.connections.get(action.connection)
                    if connection is None or not connection.is_reachable:
                        events.append(ConnectionLost(action.connection))
                    else:
                        self.to_client("broker", connection, action.header, action.body)
                elif type(action) is Tap and self.on_tap is not None:  # no cut: nobody comes from elsewhere
                    self.on_tap(action)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Schedule a Tick for when the broker asks for one."""
        at = self.broker.next_wakeup()
        if at is None or not self.is_broker_up or (self._alarm is not None and self._alarm.when() <= at):
            return  # an early alarm finds nothing to do and is set anew
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self.loop.call_at(at, self._on_alarm, context=self._context)

    def _on_alarm(self) -> None:
        self._alarm = None
        if not self.is_broker_frozen:
            self.step(Tick())

    # --- time -------------------------------------------------------------------------------------------------------

    def _deliver_later(
        self, connection: SimConnection, direction: Direction, deliver: Deliver, extra_s: float = 0.0
    ) -> None:
        """Deliver behind every earlier frame of this connection and direction."""
        last = connection.arrives_at
        at = max(self.loop.now + DELAY_S + extra_s, last[direction], connection.blocked_until[direction])
        last[direction] = at
        self.loop.call_at(at, deliver, context=self._context)

    def _note(self, source: str, target: str, header: bytes, body: bytes, *, is_copy: bool) -> None:
        """Add a delivered frame to the trace's digest."""
        self.delivered += 1
        self._trace.update(f"{self.loop.now:.6f} {source} {target}\n".encode() + header + body)
        if self.on_delivery is not None:
            self.on_delivery(source, target, header, body, is_copy)

    def trace_digest(self) -> str:
        """Return SHA-256 over all delivered frames so far: times, ends, bytes."""
        return self._trace.hexdigest()
