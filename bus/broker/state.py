"""The broker's memory, and the actions of the running step."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from hobus.bus.broker.events import Action, Send
from hobus.bus.broker.peers import BoundPeer, OpenRequest, Service
from hobus.bus.broker.tap_record import BodyFacts, Tap
from hobus.bus.catalog import ROLES, ROWS
from hobus.bus.codec import encode, pack_header
from hobus.bus.conduct import Conduct, Pace
from hobus.bus.deadlines import Deadlines
from hobus.bus.envelope import Header, Kind, make_header
from hobus.bus.fair import Shares
from hobus.bus.histogram import Histogram
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Beat

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings

_QUEUE_WAIT = "queue_wait"

SERVICES: tuple[str, ...] = tuple(sorted({row.service for row in ROWS}))


class State:
    """What the parts of the core share; `now` and `actions` belong to the running step."""

    def __init__(self, settings: BusSettings, *, epoch: str, now: float, wall_now: float) -> None:
        self.settings = settings
        self.epoch = epoch
        self.now = now
        self.wall_offset = wall_now - now
        self.actions: list[Action] = []
        self.me = BoundPeer(b"", f"broker/1@{epoch}", "broker", now)
        self.connections: dict[bytes, BoundPeer] = {}
        self.names: dict[str, BoundPeer] = {}  # `<role>/<n>` -> the incarnation that has the name
        self.services: dict[str, Service] = {name: Service(name, now) for name in SERVICES}
        self.asked: dict[str, dict[str, OpenRequest]] = {
            role: {} for role in ROLES
        }  # requester's role -> id -> request
        self.shares = Shares()  # what is open of those who ask from outside
        self.deadlines: Deadlines[OpenRequest] = Deadlines()
        self.gone: OrderedDict[str, str] = OrderedDict()  # instances that never come back -> why
        self.counts: Counter[str] = Counter()
        self.times = {name: Histogram() for name in (_QUEUE_WAIT, *sorted({row.timed for row in ROWS if row.timed}))}
        self.in_flight = 0
        self.is_collecting = settings.reannounce_grace_ms > 0
        self.collects_until = now + settings.reannounce_grace_ms / 1000
        self.is_readiness_new = True  # somebody's readiness changed, or who counts
        self.word_on_readiness = Beat()
        self._beaten: tuple[Beat | None, bytes, bytes] = (None, b"", b"")  # the word that is packed, and its frame
        """Of which roles somebody is ready, as all peers were last told."""
        self.expected: set[str] | None = None  # instances whose hellos end the collecting early; None: not known
        self.started_at = now
        self.sequence = 0
        self.own_answers: list[tuple[Header, bytes]] = []
        self.conduct = Conduct()
        self.asking, self.refusing = Pace(settings), Pace(settings)  # for a hello; why somebody was refused

    def note_wait(self, elapsed_s: float) -> None:
        """Note how long a request that takes a slot waited for one."""
        self.times[_QUEUE_WAIT].add(elapsed_s)

    def counters(self) -> dict[str, int]:
        """Return what the broker has counted and timed since its start, named as in a heartbeat."""
        counts = dict(sorted(self.counts.items()))
        return counts | {key: value for name, one in self.times.items() for key, value in one.counters(name).items()}

    def find(self, instance: str) -> BoundPeer | None:
        peer = self.names.get(instance.partition("@")[0])
        return peer if peer is not None and peer.instance == instance else None

    def forget(self, peer: BoundPeer) -> None:
        """Remove the peer from the tables of connections and services; what it worked on ends by its deadline."""
        peer.is_lost = True
        peer.judge()
        self.is_readiness_new = True
        self.connections.pop(peer.connection, None)
        self.names.pop(peer.name, None)
        if peer.service is not None and peer in peer.service.offering:
            del peer.service.offering[peer]
            peer.service.note_presence(self.now)

    def note_met(self, instance: str) -> None:
        """Note that an expected instance has come or never will; after the last one the collecting is over."""
        if self.expected is not None:
            self.expected.discard(instance)
            if not self.expected:
                self.collects_until = min(self.collects_until, self.now)

    def tap(  # noqa: PLR0913 - what is said about a frame
        self,
        verdict: str,
        frame: Header,
        sender: str,
        *,
        worker: str = "",
        body: bytes = b"",
        code: str = "",
        told: BodyFacts | None = None,
        at: float | None = None,
    ) -> None:
        """`at`: when, if not now."""
        self.sequence += 1
        at = (self.now if at is None else at) + self.wall_offset
        self.actions.append(Tap(self.sequence, at, verdict, frame, sender, worker, body, code, told))

    def send(self, to: BoundPeer, frame: Header, body: bytes) -> None:
        """Hand a frame to a peer; keep what is meant for the broker itself."""
        if to is self.me:
            self.own_answers.append((frame, body))
        elif not to.is_lost:
            self.actions.append(Send(to.connection, pack_header(frame), body))

    def say(  # noqa: PLR0913 - what a frame of the broker's own says
        self, to: BoundPeer, kind: Kind, message: Message, *, correlation_id: str, trace: str = "", body: bytes = b""
    ) -> Header:
        """Send an answer or a cancel of the broker's own (`body`: packed already) and return its header."""
        frame = make_header(
            kind, f"{self.me.instance}:{self.sequence + 1}", correlation_id=correlation_id, type=message.TYPE,
            destination=to.instance, trace=trace, sender=self.me.instance,
        )  # fmt: skip
        self.send(to, frame, body or encode(message, BODY_MAX_BYTES))
        return frame

    def control(self, connection: bytes, kind: Kind, message: Message) -> None:
        """Send a control frame of the broker's own."""
        self.actions.append(Send(connection, *self._pack(kind, message)))

    def beat(self, connection: bytes) -> None:
        """Send the word on readiness, which is packed once for all peers."""
        if self._beaten[0] is not self.word_on_readiness:
            self._beaten = (self.word_on_readiness, *self._pack(Kind.BEAT, self.word_on_readiness))
        self.actions.append(Send(connection, *self._beaten[1:]))

    def _pack(self, kind: Kind, message: Message) -> tuple[bytes, bytes]:
        frame = make_header(kind, "", type=message.TYPE, sender=self.me.instance)
        return pack_header(frame), encode(message, BODY_MAX_BYTES)
