"""The broker: one event in, actions out. No clock, no socket, no loop in it.

    core = BrokerCore(settings, epoch="1a2b3c", authenticate=tokens.authenticate, now=clock.monotonic(),
                      wall_now=clock.now())
    for action in core.step(FrameReceived(connection, header, body), clock.monotonic()):
        ...  # Send: give it to the transport (if that fails: step(ConnectionLost(connection))); Tap: for who listens

`now` is monotonic seconds; `wall_now` is what the tap and the records call the time. The caller steps a `Tick` when
`next_wakeup()` has come, after it has given all frames that it had. `step` never raises for anything that a peer can
do; if it does, that is a defect: the loop logs it, and `survive` limits its cost to whoever sent the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from hobus.bus import limits
from hobus.bus.broker.delivery import Delivery
from hobus.bus.broker.endings import Endings
from hobus.bus.broker.enrolment import Authenticate, Enrolment
from hobus.bus.broker.events import (
    Action,
    Connected,
    ConnectionLost,
    Event,
    FrameGarbage,
    FrameReceived,
    Origin,
    Tick,
)
from hobus.bus.broker.membership import TOLD, Membership
from hobus.bus.broker.operations import Operations
from hobus.bus.broker.peers import BoundPeer
from hobus.bus.broker.placing import Placement
from hobus.bus.broker.records import RecordBook
from hobus.bus.broker.state import State
from hobus.bus.catalog import find_row
from hobus.bus.codec import unpack_header
from hobus.bus.envelope import Header, Kind, make_header
from hobus.bus.errors import BusError

if TYPE_CHECKING:
    from hobus.bus.settings import BusSettings
    from hobus.bus.zeromq.key_book import KeyFiles

_ASKS = (int(Kind.REQUEST), int(Kind.POST))
_ANSWERS = (int(Kind.REPLY), int(Kind.FAILURE), int(Kind.STREAM))
_GARBAGE = make_header(Kind.POST, "")  # stands in the tap for what has no header


class BrokerCore:
    """Route, queue, stamp, enforce policy, watch peers: one event in, actions out."""

    def __init__(  # noqa: PLR0913 - what a broker knows at its start
        self,
        settings: BusSettings,
        *,
        epoch: str,
        authenticate: Authenticate,
        now: float,
        wall_now: float,
        keys: KeyFiles | None = None,
        config_digest: str = "",
        expected: Iterable[str] | None = None,
    ) -> None:
        """Begin empty.

        `expected`: every instance that may come back, to end the collecting of hellos; None: unknown.
        """
        self._state = state = State(settings, epoch=epoch, now=now, wall_now=wall_now)
        state.me.config_digest = config_digest
        self._records = RecordBook(settings, instance=state.me.instance)
        self._records.set_time(wall_now)
        endings = Endings(state, self._records)
        self._placement = Placement(state, endings)
        self._delivery = Delivery(state, endings, self._placement)
        self._enrolment = Enrolment(state, self._records, authenticate, keys)
        self._membership = Membership(state, endings, self._placement, self._records, self._enrolment)
        self._operations = Operations(state, endings, self._placement, self._membership, self._enrolment)
        self._liveness = Liveness(state, self._membership)
        self._endings = endings
        self._services = tuple(state.services.values())
        if expected is not None:
            state.expected = set(expected)
            state.note_met("")
        self._grace_s = settings.service_grace_ms / 1000

    @property
    def instance(self) -> str:
        """Return `broker/1@<epoch>`."""
        return self._state.me.instance

    @property
    def is_collecting(self) -> bool:
        """Whether it still waits for those who may come back, and routes nothing."""
        return self._state.is_collecting

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._state.counts)

    @property
    def peers(self) -> list[str]:
        return [peer.instance for peer in self._state.names.values()]

    def count(self, seen: Mapping[str, int]) -> None:
        """Add to the counters what the transport saw."""
        for what, count in seen.items():
            self._state.counts[what] += count

    def set_wall(self, now: float, wall_now: float) -> None:
        """Set the wall clock at `now`; the loop repeats this, since clocks drift."""
        self._state.wall_offset = wall_now - now

    def step(self, event: Event, now: float) -> list[Action]:
        state = self._state
        state.now = now
        actions = state.actions = []
        if isinstance(event, FrameReceived):
            self._take_frame(event.connection, event.header, event.body, event.origin)
        elif isinstance(event, Tick):
            self._tick()
        elif isinstance(event, ConnectionLost):
            peer = state.connections.get(event.connection)
            if peer is not None:
                self._membership.lose(peer, "connection closed", is_final=False)
        elif isinstance(event, Connected):
            self._membership.connected(event.connection)
        elif isinstance(event, FrameGarbage):
            self._count_garbage(event.connection, event.detail, event.size_bytes, event.origin)
        else:
            self._enrolment.note_refused_key(event.fingerprint, event.address)
        if state.own_answers:
            for answer, body in state.own_answers:
                self._records.settle(answer, body)
            state.own_answers.clear()
        if state.is_readiness_new:
            self._membership.tell_readiness()
            self._membership.tell_leases()
        return actions

    def survive(self, event: Event, now: float) -> list[Action]:
        """Return the actions decided before `step(event, now)` failed; tell the frame's sender, and drop it.

        The sender's request fails as `internal`; the sender may connect again. Never raises.
        """
        state = self._state
        state.now = now
        state.counts["internal_errors"] += 1
        actions = state.actions
        connection = getattr(event, "connection", b"")
        peer = state.connections.get(connection)
        if peer is None:
            return actions
        with suppress(Exception):
            if isinstance(event, FrameReceived):
                self._delivery.fail_for_a_defect(peer, unpack_header(event.header))
        try:
            self._membership.lose(peer, "a frame of it met a defect of the broker", is_final=False)
        except Exception:  # noqa: BLE001 - the defect may be in what loses peers: it is forgotten as far as possible
            state.forget(peer)
        return actions

    def next_wakeup(self) -> float | None:
        """Return when a Tick is due; None if never."""
        state = self._state
        at = self._liveness.next_at()
        for other in (state.deadlines.earliest(), self._records.next_at()):
            if other is not None and other < at:
                at = other
        if state.is_collecting:
            return min(at, state.collects_until)
        for service in self._services:
            if service.waiting.count and service.absent_since is not None and not service.is_flushed:
                at = min(at, service.absent_since + self._grace_s)
        return at

    def _take_frame(self, connection: bytes, data: bytes, body: bytes, origin: Origin) -> None:
        state = self._state
        peer = state.connections.get(connection)
        try:
            frame = unpack_header(data)
        except BusError as fault:
            self._count_garbage(connection, fault.detail, len(data) + len(body), origin)
            return
        kind = frame.kind
        if peer is None:
            if kind == Kind.HELLO:
                self._membership.hello(connection, frame, body, origin)
            elif kind == Kind.JOIN:
                self._membership.join(connection, frame, body, origin)
            else:
                self._membership.unknown(connection, frame)
            self._membership.count_unbound(connection, len(data) + len(body), origin)
            return
        peer.last_seen = state.now
        if kind in _ASKS:
            self._ask(peer, frame, len(data), body)
        elif kind in _ANSWERS:
            self._delivery.answer(peer, frame, body, len(data))
        elif kind == Kind.CANCEL:
            self._delivery.cancel(peer, frame, body)
        else:
            self._control(peer, frame, body, origin)

    def _ask(self, peer: BoundPeer, frame: Header, header_bytes: int, body: bytes) -> None:
        row = self._delivery.admit(peer, frame, header_bytes, body)
        if row is None:
            return
        if frame.destination in ("broker", self._state.me.instance):
            self._operations.handle(peer, frame, body)
        else:
            self._delivery.ask(peer, frame, body, row)

    def _control(self, peer: BoundPeer, frame: Header, body: bytes, origin: Origin) -> None:
        membership = self._membership
        if frame.kind in TOLD:
            membership.take_told(peer, frame, body)
        elif frame.kind == Kind.HELLO:
            membership.hello(peer.connection, frame, body, origin)
        elif frame.kind == Kind.BYE:
            membership.say_bye(peer, frame)
        elif frame.kind == Kind.PUBLISH:
            self._endings.deny(peer, frame, body, "unknown_type", "nothing is published by this catalog")
        else:
            self._count_garbage(peer.connection, f"kind {frame.kind} is not for a broker", len(body), origin)

    def _count_garbage(self, connection: bytes, detail: str, size_bytes: int, origin: Origin) -> None:
        """Count, tap and record something that is no frame."""
        state = self._state
        peer = state.connections.get(connection)
        sender = peer.instance if peer is not None else ""
        state.counts["malformed"] += 1
        self._records.note("DENIED", "malformed", sender or "unbound", None, "")
        state.tap("malformed", _GARBAGE, sender, code=detail[:80])
        self._membership.malformed(connection, origin)
        self._membership.count_unbound(connection, size_bytes, origin)

    def _tick(self) -> None:
        state = self._state
        self._records.set_time(state.now + state.wall_offset)
        if state.is_collecting and state.now >= state.collects_until:
            self._end_collecting()
        for pending in state.deadlines.take_due(state.now):
            if pending.state != "done":  # ended by what became of an earlier one
                self._delivery.look_at(pending)
        for service in state.services.values():
            service.sticky.expire(state.now)
            if service.absent_since is None or service.is_flushed or state.is_collecting:
                continue
            if state.now >= service.absent_since + self._grace_s:
                service.is_flushed = True
                self._placement.flush_absent(service)
        self._liveness.tick()
        write = self._records.due(state.now)
        if write is not None:
            row = find_row("ledger", write[0].type)
            assert row is not None, "the catalog has ledger.write"  # noqa: S101 - a programming error
            self._delivery.ask(state.me, write[0], write[1], row)

    def _end_collecting(self) -> None:
        state = self._state
        state.is_collecting, state.is_readiness_new = False, True
        for service in state.services.values():
            self._placement.replace_waiting(service.waiting.list_all())
            for peer in list(service.offering):
                self._placement.pump(peer)
        self._operations.release()


class Liveness:
    """Look at every peer when the longest silence could be over, and at busy ones each probe interval.

    A killed peer shows as a send that cannot be done, so workers with work are probed often; a frozen one shows as
    silence. If the broker itself stood still, nobody is blamed for that.
    """

    def __init__(self, state: State, membership: Membership) -> None:
        self._state = state
        self._membership = membership
        self._timeout_s = state.settings.peer_timeout_ms / 1000
        self._probe_s = limits.PROBE_INTERVAL_MS / 1000
        self._patience_s = state.settings.beat_interval_ms / 1000
        self._next_scan = state.now + self._timeout_s
        self._next_probe = state.now

    def next_at(self) -> float:
        """Return when to look next."""
        is_probing = self._state.in_flight and self._next_probe < self._next_scan
        return self._next_probe if is_probing else self._next_scan

    def tick(self) -> None:
        """Drop peers that were silent too long; probe silent ones that have work."""
        state = self._state
        if state.now >= self._next_scan:
            self._scan()
        if state.in_flight and state.now >= self._next_probe:
            self._next_probe = state.now + self._probe_s
            for peer in state.connections.values():
                if peer.in_flight and state.now - peer.last_seen >= self._probe_s:
                    state.beat(peer.connection)

    def _scan(self) -> None:
        state = self._state
        stood_still_s = state.now - self._next_scan
        if stood_still_s > self._patience_s:
            # The look comes late because the broker stood still: what peers sent meanwhile is still unread.
            state.counts["stood_still"] += 1
            for peer in state.connections.values():
                peer.last_seen = min(state.now, peer.last_seen + stood_still_s)
        for peer in list(state.connections.values()):
            if peer.last_seen + self._timeout_s <= state.now:  # as next_at() is made: no rounding between them
                self._membership.lose(peer, f"silent for {state.settings.peer_timeout_ms} ms", is_final=False)
        self._membership.look_at_keys()
        oldest = min((peer.last_seen for peer in state.connections.values()), default=state.now)
        self._next_scan = oldest + self._timeout_s
