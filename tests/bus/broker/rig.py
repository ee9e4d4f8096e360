"""A broker core with peers at its ends: frames in, frames out, time by hand. Peers in here beat unless told to be silent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from hobus.bus.broker.core import BrokerCore
from hobus.bus.broker.events import (
    LOCAL,
    ConnectionLost,
    CutKey,
    CutOff,
    Event,
    FrameGarbage,
    FrameReceived,
    Origin,
    Send,
    Tick,
)
from hobus.bus.broker.tap_record import Tap
from hobus.bus.codec import decode, encode, pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, make_header
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Bye, Credit, Hello, Ready, Refused
from hobus.bus.messages.failure import Failure
from hobus.bus.settings import BusSettings

SHIPPED = json.loads(Path("config/admin_config.json").read_bytes())["bus"]
BIG = 10**8


def settings_with(**overrides: Any) -> BusSettings:
    """The shipped settings with no collecting at start, and these changes."""
    return BusSettings.model_validate(SHIPPED | {"reannounce_grace_ms": 0} | overrides)


class Got(NamedTuple):
    header: Header
    body: bytes

    @property
    def failure(self) -> Failure:
        return decode(Failure, self.body, BIG)


class Rig:
    """The core, its clock, and what every connection has received."""

    def __init__(
        self,
        *,
        authenticate: Any = lambda _hello: None,
        keys: Any = None,
        config_digest: str = "",
        expected: Iterable[str] | None = None,
        **overrides: Any,
    ) -> None:
        self.settings = settings_with(**overrides)
        self.now = 100.0
        self.core = BrokerCore(
            self.settings,
            epoch="e1",
            authenticate=authenticate,
            now=self.now,
            wall_now=1_700_000_000.0,
            keys=keys,
            config_digest=config_digest,
            expected=expected,
        )
        self.inbox: dict[bytes, list[Got]] = {}
        self.taps: list[Tap] = []
        self.unreachable: set[bytes] = set()
        self.cut_off: list[CutOff] = []
        self.cut_keys: list[str] = []
        self.silent: set[bytes] = set()
        self.peers: list[bytes] = []
        self._next_beat = self.now

    # --- time and events

    def step(self, event: Event) -> None:
        lost: list[bytes] = []
        for action in self.core.step(event, self.now):
            if isinstance(action, Tap):
                self.taps.append(action)
            elif isinstance(action, CutOff):
                self.cut_off.append(action)
            elif isinstance(action, CutKey):
                self.cut_keys.append(action.key)
            elif action.connection in self.unreachable:
                lost.append(action.connection)
            else:
                assert isinstance(action, Send)
                self.inbox.setdefault(action.connection, []).append(Got(unpack_header(action.header), action.body))
        for connection in lost:
            self.step(ConnectionLost(connection))

    def advance(self, seconds: float) -> None:
        """Time passes; the core is woken when it asked for it, peers beat."""
        end = self.now + seconds
        while True:
            wake = self.core.next_wakeup()
            at = min(end, self._next_beat, end if wake is None else wake)
            self.now = max(self.now, at)
            if self.now >= self._next_beat:
                self._next_beat += 0.1
                for connection in [peer for peer in self.peers if peer not in self.silent | self.unreachable]:
                    self.control(connection, Kind.BEAT, Beat())
            wake = self.core.next_wakeup()
            if wake is not None and wake <= self.now:
                self.step(Tick())
            elif self.now >= end:
                return

    # --- what peers do

    def frame(self, connection: bytes, head: Header, body: bytes = b"") -> None:
        self.step(FrameReceived(connection, pack_header(head), body))

    def garbage(self, connection: bytes, origin: Origin = LOCAL) -> None:
        self.step(FrameGarbage(connection, "1 parts", 10, origin))

    def control(self, connection: bytes, kind: Kind, message: Message) -> None:
        self.frame(connection, make_header(kind, "", type=message.TYPE), encode(message, BIG))

    def hello(self, instance: str, connection: bytes | None = None, **fields: Any) -> bytes:
        """Says hello; the connection is called like the instance unless given."""
        role = instance.partition("/")[0]
        name = connection or instance.encode()
        hello = {
            "instance": instance,
            "token": "t",
            "role": role,
            "slots": 1,
            "version": "1",
            "protocol": HEADER_VERSION,
        } | fields
        if name not in self.peers:
            self.peers.append(name)
        self.control(name, Kind.HELLO, Hello.model_validate(hello))
        return name

    def worker(self, instance: str, connection: bytes | None = None, state: str = "ready", **fields: Any) -> bytes:
        """A peer that offers its role's service and is ready; its inbox is empty."""
        name = self.hello(instance, connection, offers=[instance.partition("/")[0]], **fields)
        if state != "starting":
            self.ready(name, state)
        self.got(name)
        return name

    def client(self, instance: str, connection: bytes | None = None, **fields: Any) -> bytes:
        name = self.hello(instance, connection, **fields)
        self.got(name)
        return name

    def ready(self, connection: bytes, state: str = "ready") -> None:
        self.control(connection, Kind.READY, Ready.model_validate({"state": state}))

    def beat(self, connection: bytes, **counters: int) -> None:
        self.control(connection, Kind.BEAT, Beat(counters=counters))

    def credit(self, connection: bytes, slots: int) -> None:
        self.control(connection, Kind.CREDIT, Credit(slots=slots))

    def say_bye(self, connection: bytes) -> None:
        self.control(connection, Kind.BYE, Bye())

    def lost(self, connection: bytes) -> None:
        self.step(ConnectionLost(connection))

    def order(
        self, connection: bytes, message_id: str, *, to: str = "ho1", body: bytes = b"order", **fields: Any
    ) -> None:
        """An ExecuteWorkOrder: takes a slot, redeliverable."""
        self.ask(connection, message_id, to, "wo.execute", body=body, **fields)

    def ask(
        self, connection: bytes, message_id: str, to: str, type_name: str, *, body: bytes = b"", **fields: Any
    ) -> None:
        fields = {"deadline_ms": 60_000} | fields
        self.frame(connection, make_header(Kind.REQUEST, message_id, type=type_name, destination=to, **fields), body)

    def call(self, connection: bytes, message_id: str, message: Message, to: str = "broker", **fields: Any) -> Got:
        """Asks the broker itself; its answer."""
        self.ask(connection, message_id, to, message.TYPE, body=encode(message, BIG), **fields)
        (answer,) = [got for got in self.got(connection) if got.header.correlation_id == message_id]
        return answer

    def post(self, connection: bytes, message: Message, *, to: str = "broker", message_id: str = "p1") -> None:
        head = make_header(Kind.POST, message_id, type=message.TYPE, destination=to)
        self.frame(connection, head, encode(message, BIG))

    def reply(
        self, connection: bytes, request_id: str, body: bytes = b"receipt", type_name: str = "wo.receipt"
    ) -> None:
        self.frame(connection, make_header(Kind.REPLY, "r", correlation_id=request_id, type=type_name), body)

    def cancel(self, connection: bytes, request_id: str, to: str = "") -> None:
        head = make_header(Kind.CANCEL, "c", correlation_id=request_id, type="bus.cancel", destination=to)
        self.frame(connection, head, b"\x80")

    # --- what they got

    def words(self, connection: bytes) -> list[tuple[list[str], bool]]:
        """What the broker said of who is ready, since the last look."""
        frames = self.inbox.pop(connection, [])
        words = [decode(Beat, got.body, BIG) for got in frames if got.header.kind == Kind.BEAT]
        return [(word.ready_roles, word.is_whole) for word in words]

    def got(self, connection: bytes) -> list[Got]:
        """Everything since the last look but beats."""
        frames = self.inbox.pop(connection, [])
        return [got for got in frames if got.header.kind != Kind.BEAT]

    def requests(self, connection: bytes) -> list[str]:
        """Ids of the requests since the last look; anything else that came is dropped."""
        return [got.header.message_id for got in self.got(connection) if got.header.kind == Kind.REQUEST]

    def answers(self, connection: bytes) -> list[tuple[str, str]]:
        """(request id, '' or failure code) since the last look."""
        return [
            (got.header.correlation_id, "" if got.header.kind == Kind.REPLY else got.failure.code)
            for got in self.got(connection)
            if got.header.kind in (Kind.REPLY, Kind.FAILURE)
        ]

    def refusal(self, connection: bytes) -> Refused:
        """The refusal that is the last thing this connection got."""
        return decode(Refused, self.got(connection)[-1].body, BIG)

    def verdicts(self) -> list[str]:
        """Verdicts since the last look, beats left out."""
        taps, self.taps = self.taps, []
        return [tap.verdict for tap in taps if tap.header.kind != Kind.BEAT]
