"""A service's own socket without the socket: who is connected, what they may send, beats.

Same codec, tokens and policy as the broker. A lane carries requests, their answers and cancels; a service has no
credit to give there, its mailbox bound is the limit. The transport (`bus/zeromq/lane.py`, `bus/sim/network.py`) calls
`receive`; the service's shell takes the requests. Bytes that are no frame harm nobody but their sender: they are
counted and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from hobus.bus import limits
from hobus.bus.broker.admission import find_malformation, find_refusal
from hobus.bus.catalog import Row, map_rows
from hobus.bus.codec import decode, encode, pack_header, unpack_header
from hobus.bus.conduct import Pace
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, header_of, make_header
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.fair import get_principal
from hobus.bus.histogram import Counters, counters
from hobus.bus.inbox import ReplyRoute
from hobus.bus.lanes import BESIDE_BROKER, get_epoch, get_name, get_role, is_foreign
from hobus.bus.link import LaneTransport
from hobus.bus.log import Logger
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat, Credit, Hello, Refused, Rehello, Welcome
from hobus.bus.messages.ids import ID_MAX_CHARS
from hobus.bus.outcome import make_failure_answer
from hobus.bus.port import Clock
from hobus.bus.window import KeptReply

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_log = Logger("bus")
_REQUEST, _HELLO = int(Kind.REQUEST), int(Kind.HELLO)
_ASKS = (_REQUEST, int(Kind.CANCEL))
_ALIVE, _NOTHING_NEW = Beat().to_bytes(), Credit(slots=0).to_bytes()
_COUNTED = counters("welcomed", "refused", "malformed", "denied", "unreachable", "internal_errors")
Authenticate = Callable[[Hello], Refused | None]
OnFrame = Callable[[str, bytes, bytes], None]
"""(verdict, packed header as stamped, body) of every request, cancel and answer: the tap's `lane=direct`."""


class _Client(Struct):
    routing: bytes
    instance: str
    principal: str
    heard_at: float


@dataclass(slots=True)
class LaneServer:
    """Serve the lane of one service incarnation."""

    instance: str
    settings: BusSettings
    clock: Clock
    authenticate: Authenticate
    on_frame: OnFrame | None = None
    counters: Counters = field(default_factory=_COUNTED)
    _transport: LaneTransport | None = None
    _deliver: Callable[[Header, bytes, ReplyRoute], None] | None = None
    _on_gone: Callable[[str, str], None] | None = None
    _by_routing: dict[bytes, _Client] = field(default_factory=dict[bytes, _Client])
    _by_instance: dict[str, _Client] = field(default_factory=dict[str, _Client])
    _count: int = 0
    service: str = field(init=False)  # whose lane this is
    _rows: dict[str, Row] = field(init=False)  # of what it takes, by type
    _is_beside: bool = field(init=False)
    _is_resting: bool = False
    _asking: Pace = field(init=False)
    _refusing: Pace = field(init=False)

    def __post_init__(self) -> None:
        self.service = get_role(self.instance)
        self._rows = map_rows(self.service)
        self._is_beside = self.service in BESIDE_BROKER
        self._asking, self._refusing = Pace(self.settings), Pace(self.settings)

    def bind(self, transport: LaneTransport) -> None:
        self._transport = transport

    def attach(
        self,
        deliver: Callable[[Header, bytes, ReplyRoute], None],
        on_gone: Callable[[str, str], None] | None = None,
    ) -> None:
        """Hand stamped and allowed requests and cancels to `deliver`; `on_gone` hears who left which lane."""
        self._deliver, self._on_gone = deliver, on_gone

    # --- arriving ---------------------------------------------------------------------------------------------------

    def receive(self, routing: bytes, frames: Sequence[bytes]) -> None:
        """Handle one multipart message of one connection. A defect costs its sender the connection, nobody else."""
        try:
            self._receive(routing, frames)
        except Exception:  # noqa: BLE001 - logged with its traceback, counted, and felt by one peer
            _log.exception("lane_step_failed", lane=self.service)
            self._survive(routing, frames)

    def _survive(self, routing: bytes, frames: Sequence[bytes]) -> None:
        """Tell a frame's sender after a defect that its request fails, and drop it; it may say hello again."""
        self.counters["internal_errors"] += 1
        client = self._by_routing.get(routing)
        if client is None:
            return
        with suppress(Exception):
            head = unpack_header(frames[0])
            if head.kind == Kind.REQUEST:
                fault = BusError(
                    "internal", f"{head.type} {head.message_id} met a defect of {self.instance}; see its log"
                )
                self.answer(client.instance, head, make_failure_answer(fault, limits.BODY_MAX_BYTES))
        try:
            self._lose(client)
        except Exception:  # noqa: BLE001 - the defect may be in who is told: it is forgotten all the same
            self._unbind(client)

    def _receive(self, routing: bytes, frames: Sequence[bytes]) -> None:
        if len(frames) != 2:  # noqa: PLR2004 - header and body
            if len(frames) == 1 and not frames[0] and routing not in self._by_routing:
                self._send(routing, Kind.WELCOME, Rehello())  # a new connection: who is it?
            else:
                self.counters["malformed"] += 1
            return
        try:
            head = unpack_header(frames[0])
        except BusError:
            self.counters["malformed"] += 1
            return
        if head.kind == _HELLO:
            self._take_hello(routing, frames[1])
            return
        client = self._by_routing.get(routing)
        if client is None:
            if self._asking.allows(routing, self.clock.monotonic()):
                self._send(routing, Kind.WELCOME, Rehello())
            return
        client.heard_at = self.clock.monotonic()
        # The lane's word, not the sender's; but whoever asks beside the broker works for others, and says for whom.
        principal = (self._is_beside and head.principal) or client.principal
        stamped = header_of((*head[:-2], principal, client.instance))
        self._from_client(client, stamped, frames)

    def _from_client(self, client: _Client, head: Header, frames: Sequence[bytes]) -> None:
        if head.kind in _ASKS and (wrong := find_malformation(head, len(frames[0]))):
            self._refuse_malformed(client, head, wrong)
        elif head.kind in _ASKS:
            self._take_request(client, head, frames[1])
        elif head.kind == Kind.BEAT:
            self._say(client.routing, Kind.BEAT, Beat, _ALIVE)
        elif head.kind == Kind.BYE:
            self._lose(client)
        elif head.kind not in (Kind.READY, Kind.CREDIT):  # a lane has no use for those two
            self._tap("malformed", head, frames[1])
            self.counters["malformed"] += 1

    def _refuse_malformed(self, client: _Client, head: Header, wrong: str) -> None:
        """Refuse without tapping, and without quoting what may be too long."""
        self.counters["denied"] += 1
        if head.kind == _REQUEST:
            told = head._replace(message_id=head.message_id[:ID_MAX_CHARS], trace="")
            fault = BusError("malformed", wrong)
            self.answer(client.instance, told, make_failure_answer(fault, limits.BODY_MAX_BYTES))

    def _take_request(self, client: _Client, head: Header, body: bytes) -> None:
        fault = self._find_refusal(head, body)
        if fault is not None and head.kind == Kind.REQUEST:
            self.counters["denied"] += 1
            self._fail(client, head, fault, body)
            return
        self._tap("delivered", head, body)
        if self._deliver is not None:
            self._deliver(head, body, ReplyRoute(self.service, partial(self.answer, client.instance)))

    def _fail(self, client: _Client, head: Header, fault: RuntimeFault, body: bytes = b"") -> None:
        self._tap("denied", head, body)
        self.answer(client.instance, head, make_failure_answer(fault, limits.BODY_MAX_BYTES))

    def _find_refusal(self, head: Header, body: bytes) -> RuntimeFault | None:
        limit = limits.BODY_MAX_BYTES
        if len(body) > limit:
            return BusError("too_large", f"a body of {len(body)} bytes; the limit is {limit}")
        row = self._rows.get(head.type)
        if row is None:
            return BusError("denied", f"the {self.service} lane does not take {head.type!r}")
        if get_role(head.sender) not in row.senders:
            return BusError("denied", f"{head.sender} may not send {head.type} to {self.service}")
        if is_foreign(head.message_id, head.sender):
            return BusError("denied", f"the message id {head.message_id} is counted under another peer's name")
        return None

    # --- connections ------------------------------------------------------------------------------------------------

    def _take_hello(self, routing: bytes, body: bytes) -> None:
        refused = self._check_hello(routing, body)
        if refused is None:
            return
        self.counters["refused"] += 1
        if self._refusing.allows(routing, self.clock.monotonic()):
            self._send(routing, Kind.WELCOME, refused)

    def _check_hello(self, routing: bytes, body: bytes) -> Refused | None:
        try:
            hello = decode(Hello, body, limits.BODY_MAX_BYTES)
        except RuntimeFault as fault:
            return Refused(code="malformed", detail=fault.detail)
        refused = find_refusal(hello) or self.authenticate(hello)
        if refused is None:
            self._welcome(routing, hello.instance)
        return refused

    def _welcome(self, routing: bytes, instance: str) -> None:
        """Welcome an instance proved by its token; its newest connection is its only one.

        An earlier incarnation of its name, whose token is worth nothing any more, is heard no longer.
        """
        for earlier in (self._by_instance.get(instance), self._by_routing.get(routing)):
            if earlier is not None:
                self._unbind(earlier)
        name = f"{get_name(instance)}@"
        for earlier in [one for known, one in self._by_instance.items() if known.startswith(name)]:
            self._lose(earlier)
        client = _Client(routing, instance, get_principal(instance), self.clock.monotonic())
        self._by_routing[routing] = self._by_instance[instance] = client
        self.counters["welcomed"] += 1
        welcome = Welcome(
            epoch=get_epoch(self.instance),
            beat_interval_ms=self.settings.beat_interval_ms,
            peer_timeout_ms=self.settings.peer_timeout_ms,
        )
        self._send(routing, Kind.WELCOME, welcome)
        if self._is_resting:
            self._say(routing, Kind.CREDIT, Credit, _NOTHING_NEW)

    def rest(self) -> None:
        """Answer what was asked, and let clients send what is new by the broker; for a lane that is beside it."""
        if self._is_beside and not self._is_resting:
            self._is_resting = True
            for routing in list(self._by_routing):
                self._say(routing, Kind.CREDIT, Credit, _NOTHING_NEW)

    def _unbind(self, client: _Client) -> None:
        if self._by_routing.get(client.routing) is client:
            del self._by_routing[client.routing]
        if self._by_instance.get(client.instance) is client:
            del self._by_instance[client.instance]

    def _lose(self, client: _Client) -> None:
        """Drop a client that left: nobody waits for answers to what it asked."""
        self._unbind(client)
        if self._on_gone is not None:
            self._on_gone(client.instance, self.service)

    def sweep(self, now: float) -> None:
        """Forget connections silent for longer than the peer time-out; if they speak, they are asked for a hello."""
        limit = self.settings.peer_timeout_ms / 1000
        for client in list(self._by_routing.values()):
            if now - client.heard_at > limit:
                self._lose(client)

    def is_behind(self, principal: str) -> bool:
        """Return whether so many answers of a principal have not left yet that its next requests wait.

        Over all its connections: `limits.UNSENT_MAX_BYTES` each, of all together `limits.ALL_UNSENT_MAX_BYTES`.
        """
        unsent = self._transport.unsent() if self._transport is not None else {}
        if not unsent:
            return False
        clients = (self._by_routing.get(routing) for routing in unsent)
        its = sum(
            size
            for client, size in zip(clients, unsent.values(), strict=True)
            if client is not None and client.principal == principal
        )
        return its > limits.UNSENT_MAX_BYTES or (its > 0 and sum(unsent.values()) > limits.ALL_UNSENT_MAX_BYTES)

    def unbind_all(self) -> None:
        """Have everybody say hello again and send again what is still wanted (after a standstill of this process)."""
        self._by_routing.clear()
        self._by_instance.clear()

    def connected(self) -> list[str]:
        """Return the instances that are bound, oldest connection first."""
        return [client.instance for client in self._by_routing.values()]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self.unbind_all()

    # --- leaving ----------------------------------------------------------------------------------------------------

    def answer(self, instance: str, request: Header, answer: KeptReply) -> None:
        """Send an answer to the connection that `instance` has now; drop and count it if there is none."""
        client = self._by_instance.get(instance)
        row = self._rows.get(request.type)
        head = header_of((
            HEADER_VERSION, int(answer.kind), self._next_id(), request.message_id, request.message_id, answer.type,
            answer.type_version, instance, "", 0, 1, row is not None and row.sensitive, request.trace, "",
            self.instance,
        ))  # fmt: skip
        packed = pack_header(head)
        if client is None:
            self.counters["unreachable"] += 1
        is_there = client is not None and self._hand_over(client.routing, packed, answer.body)
        if self.on_frame is not None:
            self.on_frame("delivered" if is_there else "late", packed, answer.body)

    def _send(self, routing: bytes, kind: Kind, message: Message) -> None:
        self._say(routing, kind, type(message), encode(message, limits.BODY_MAX_BYTES))

    def _say(self, routing: bytes, kind: Kind, of: type[Message], body: bytes) -> None:
        head = make_header(kind, self._next_id(), type=of.TYPE, type_version=of.VERSION, sender=self.instance)
        self._hand_over(routing, pack_header(head), body)

    def _hand_over(self, routing: bytes, head: bytes, body: bytes) -> bool:
        if self._transport is not None and self._transport.send(routing, head, body):
            return True
        self.counters["unreachable"] += 1
        client = self._by_routing.get(routing)
        if client is not None:
            self._lose(client)
        return False

    def _tap(self, verdict: str, head: Header, body: bytes) -> None:
        if self.on_frame is not None:
            self.on_frame(verdict, pack_header(head), body)

    def _next_id(self) -> str:
        self._count += 1
        return f"{self.instance}:{self.service}:{self._count}"
