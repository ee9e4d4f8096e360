"""What a peer and its servers say about their connections: hello, welcome, beats, silence, standstill.

On each connection the peer says hello and waits for a welcome; beats go out at every tick and are answered; silence
or a rehello means hello again. A loop that stood still longer than the peer time-out may have been replaced meanwhile:
it says hello on every connection before anything else is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from hobus.bus.codec import decode, encode, pack_header, unpack_header
from hobus.bus.envelope import Header, Kind, make_header
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.histogram import counters
from hobus.bus.limits import BODY_MAX_BYTES, LAG_MIN_S
from hobus.bus.link import Link
from hobus.bus.log import Logger
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Drain, Hello, Leases, Refused, Rehello, RotateKey, Welcome
from hobus.bus.messages.failure import Failure
from hobus.bus.port import Clock

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_WELCOME = int(Kind.WELCOME)
_ALIVE = Beat().to_bytes()
"""A beat that counts nothing, as lanes have it."""
_log = Logger("bus")


class Shell(Protocol):
    """What the conversation tells and asks the shell."""

    def hello(self, connection: Connection, now: float) -> Hello:
        """Return who this is, and on the broker's connection what it holds."""
        ...

    def counters(self) -> dict[str, int]: ...

    def welcomed(self, connection: Connection) -> None:
        """Hear that the connection is bound (again)."""
        ...

    def refused(self, connection: Connection, refused: Refused) -> None: ...

    def unbound(self, connection: Connection) -> None:
        """Nothing but a hello leaves this connection until its welcome."""
        ...

    def leased(self, leases: Leases) -> None:
        """Take the broker's word on which executors take orders by their lanes."""
        ...

    def drained(self, *, is_rotated: bool) -> None:
        """Hear that the broker wants this peer to finish its work and end, or to come back with another key."""
        ...

    def on_standstill(self) -> None:
        """Hear that this loop did not run for longer than the peer time-out; the hellos follow."""
        ...

    def ticked(self, now: float) -> None:
        """Hear that a beat interval has passed."""
        ...

    def heard(self, connection: Connection, head: Header, body: bytes) -> None:
        """Hear a frame that is not about the connection itself."""
        ...


class Conversation:
    """All connections of one peer; "" is the broker's."""

    def __init__(  # noqa: PLR0913 - the ports and the names it speaks under
        self,
        shell: Shell,
        *,
        instance: str,
        settings: BusSettings,
        clock: Clock,
        connections: dict[str, Connection],
        next_id: Callable[[], str],
    ) -> None:
        self._shell = shell
        self._instance = instance
        self._clock = clock
        self._connections = connections
        self._next_id = next_id
        self._timeout_s = settings.peer_timeout_ms / 1000
        self._beat_s = settings.beat_interval_ms / 1000
        self._ticked_at: float | None = None
        """None until it is open: a clock that counts from the start of the machine tells no standstill."""
        self._timer: asyncio.TimerHandle | None = None
        self._lag_s = 0.0
        self._counted: dict[str, int] = {}
        self._beaten = _ALIVE
        self.counters = counters("malformed", "standstills", "turned_down")()

    def open(self) -> None:
        """Say hello wherever it is wanted, listen, and tick from now on."""
        self._ticked_at = self._clock.monotonic()
        for connection in self._connections.values():
            connection.link.attach(partial(self._receive, connection))
        self._tick()

    def add(self, connection: Connection) -> None:
        """One more, to a server that was not known before."""
        self._connections[connection.name] = connection
        connection.link.attach(partial(self._receive, connection))
        self._say_hello(connection, self._clock.monotonic())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._connections.values():
            connection.link.close()

    def say(self, connection: Connection, kind: Kind, message: Message) -> None:
        """Send a control frame; lost without harm while unbound, since the next beat finds out."""
        if kind != Kind.HELLO and not connection.is_bound:
            return
        self._send(connection, kind, type(message), encode(message, BODY_MAX_BYTES))

    def _send(self, connection: Connection, kind: Kind, of: type[Message], body: bytes) -> None:
        head = make_header(kind, self._next_id(), type=of.TYPE, type_version=of.VERSION, sender=self._instance)
        send_or_drop(connection, head, body)

    def notice_standstill(self, now: float) -> None:
        """Check before anything is received or sent: after a standstill somebody else may have this actor's work."""
        if self._ticked_at is None:
            return
        stood_still_s = now - self._ticked_at
        if stood_still_s <= self._timeout_s:
            return
        _log.warning("loop_stood_still", instance=self._instance, seconds=round(stood_still_s, 3))
        self.counters["standstills"] += 1
        self._ticked_at = now
        self._shell.on_standstill()
        for connection in self._connections.values():
            if connection.is_wanted:
                self._say_hello(connection, now)

    def want(self, connection: Connection) -> None:
        """Open the connection to a server that nothing was said to yet."""
        connection.is_wanted = True
        self._say_hello(connection, self._clock.monotonic())

    def _tick(self) -> None:
        """Send beats, and hellos that are due, once per beat interval."""
        self._timer = asyncio.get_running_loop().call_later(self._beat_s, self._tick)
        now = self._clock.monotonic()
        if self._ticked_at is not None:  # the last beat's counts half: one late tick is soon forgotten
            self._lag_s = max(now - self._ticked_at - self._beat_s, self._lag_s / 2)
        self.notice_standstill(now)
        self._ticked_at = now
        for name, connection in self._connections.items():
            duty = connection.duty(now)
            if duty == "beat":
                self._send(connection, Kind.BEAT, Beat, self._beat() if name == "" else _ALIVE)
            elif duty == "hello":
                self._say_hello(connection, now)
        self._shell.ticked(now)

    @property
    def lag_ms(self) -> int:
        """Return by how much this loop is behind, as its ticks come late; 0 below what a timer is off by."""
        return round(self._lag_s * 1000) if self._lag_s >= LAG_MIN_S else 0

    def _beat(self) -> bytes:
        """Return the beat with the counters, which of an idle process are those of its last beat."""
        counters = self._shell.counters()
        if counters != self._counted:
            self._counted, self._beaten = counters, encode(Beat(counters=counters), BODY_MAX_BYTES)
        return self._beaten

    def _say_hello(self, connection: Connection, now: float) -> None:
        connection.note_hello(now)
        connection.link.discard()
        self.say(connection, Kind.HELLO, self._shell.hello(connection, now))
        self._shell.unbound(connection)

    def _receive(self, connection: Connection, head_bytes: bytes, body: bytes) -> None:
        now = self._clock.monotonic()
        if self._ticked_at is not None and now - self._ticked_at > self._timeout_s:
            self.notice_standstill(now)
        try:
            head = unpack_header(head_bytes)
        except BusError:
            self.counters["malformed"] += 1
            return
        connection.heard_at = now
        if head.kind == _WELCOME:
            self._hear_server(connection, head, body, now)
        else:
            self._shell.heard(connection, head, body)

    def _hear_server(self, connection: Connection, head: Header, body: bytes, now: float) -> None:
        try:
            if head.type == Welcome.TYPE:
                welcome = decode(Welcome, body, BODY_MAX_BYTES)
                connection.welcomed(welcome.epoch, now, config_digest=welcome.config_digest)
                self._shell.welcomed(connection)
            elif head.type == Refused.TYPE:
                self._hear_refused(connection, decode(Refused, body, BODY_MAX_BYTES))
            elif head.type == Leases.TYPE:
                self._shell.leased(decode(Leases, body, BODY_MAX_BYTES))
            elif head.type in (Drain.TYPE, RotateKey.TYPE):
                self._shell.drained(is_rotated=head.type == RotateKey.TYPE)
            elif head.type == Failure.TYPE:
                self._note_turned_down(connection, decode(Failure, body, BODY_MAX_BYTES))
            elif head.type == Rehello.TYPE and connection.must_say_hello_again():
                self._say_hello(connection, now)
        except RuntimeFault:
            self.counters["malformed"] += 1

    def _note_turned_down(self, connection: Connection, failure: Failure) -> None:
        """Note that the server refused what this peer said of itself: for the server it is unsaid."""
        self.counters["turned_down"] += 1
        _log.error(
            "control_turned_down", instance=self._instance, link=connection.name, code=failure.code,
            detail=failure.detail,
        )  # fmt: skip

    def _hear_refused(self, connection: Connection, refused: Refused) -> None:
        if connection.refused != refused:
            _log.error("hello_refused", instance=self._instance, link=connection.name, code=refused.code)
        connection.refused = refused
        connection.is_bound = False
        self._shell.refused(connection, refused)
        self._shell.unbound(connection)


def send_or_drop(connection: Connection, head: Header, body: bytes) -> None:
    """Send what may be lost: answers are kept in the window, control is said again."""
    try:
        connection.link.send(pack_header(head), body)
    except BusError:
        return


Duty = Literal["hello", "beat", "wait"]


class Connection(Struct):
    """The link to the broker ("") or to a lane's server (its service), and the state of the conversation.

    It is *bound* between a Welcome and: a Rehello, a Refused, or silence longer than `bus.peer_timeout_ms` (the server
    answers every beat). Only hellos leave an unbound connection. Whoever serves nobody says hello to a lane when it
    first asks something there: most clients never do.
    """

    name: str
    link: Link
    timeout_s: float
    is_wanted: bool = True
    """Whether there is anything to say; nothing leaves a connection before."""
    is_bound: bool = False
    epoch: str = ""
    config_digest: str = ""
    heard_at: float = 0.0
    hello_at: float | None = None  # None: never said
    refused: Refused | None = None
    is_resting: bool = False
    """Its server takes nothing new by it."""
    slots: int = 0
    """Of a leased lane: requests at once."""
    tools: Container[str] = ()
    """Of a leased lane: a request with one of these as its key may go by it."""

    def duty(self, now: float) -> Duty:
        """Return what is due at this tick; silence beyond the time-out unbinds."""
        if self.is_bound:
            if now - self.heard_at <= self.timeout_s:
                return "beat"
            self.is_bound = False
            return "hello"
        if self.is_wanted and (self.hello_at is None or now - self.hello_at >= self.timeout_s):
            return "hello"
        return "wait"

    def note_hello(self, now: float) -> None:
        """Send nothing but hellos until the answer."""
        self.is_bound = False
        self.hello_at = now

    def welcomed(self, epoch: str, now: float, *, config_digest: str = "") -> None:
        """Bind to this incarnation of the server."""
        self.is_bound = True
        self.epoch = epoch
        self.config_digest = config_digest
        self.heard_at = now
        self.refused = None
        self.is_resting = False

    def must_say_hello_again(self) -> bool:
        """Return whether a Rehello asks for one; an answer to frames sent before the last hello does not."""
        was_bound = self.is_bound
        self.is_bound = False
        return was_bound

    def explain_down(self) -> str:
        """Return, for people, why nothing can be sent."""
        name = f"the {self.name} lane" if self.name else "the broker"
        if self.refused is not None:
            return f"{name} refused this instance ({self.refused.code}: {self.refused.detail})"
        return f"{name} does not answer"
