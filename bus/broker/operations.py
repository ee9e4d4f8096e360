"""What the broker answers itself: service `broker` (peers, queues, drain, the launcher's word)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec.structs import asdict

from hobus.bus import limits
from hobus.bus.broker.admission import find_excess
from hobus.bus.broker.endings import Endings
from hobus.bus.broker.enrolment import Enrolment
from hobus.bus.broker.membership import Membership
from hobus.bus.broker.peers import BoundPeer
from hobus.bus.broker.placing import Placement
from hobus.bus.broker.state import State
from hobus.bus.broker.tap_record import VERDICTS, BodyFacts
from hobus.bus.catalog import find_row
from hobus.bus.codec import decode, encode, unpack_header
from hobus.bus.envelope import Header, Kind
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.lanes import get_role
from hobus.bus.messages import control
from hobus.bus.messages.base import Message, Record, pack
from hobus.bus.messages.control import WORKERS_SHOWN_MAX, SourceRow, ToolRow, ToolSource, ToolWord
from hobus.bus.window import remember

_TO_WORKERS, _ENDS = (int(Kind.REQUEST), int(Kind.CANCEL)), (int(Kind.REPLY), int(Kind.FAILURE))

_ABOUT_PEERS = (control.ReadPeers.TYPE, control.ReadPeer.TYPE, control.ReadTools.TYPE)
"""What is answered only once everybody has had the time to come back."""


class Operations:
    """Answer requests to service `broker`; hold questions about peers until a restarted broker has collected hellos."""

    def __init__(
        self, state: State, endings: Endings, placement: Placement, membership: Membership, enrolment: Enrolment
    ) -> None:
        self._state = state
        self._endings = endings
        self._placement = placement
        self._membership = membership
        self._enrolment = enrolment
        self._held: list[tuple[BoundPeer, Header, Message]] = []
        self._by_lane: OrderedDict[str, tuple[str, float]] = OrderedDict()  # open there: its histogram, when it came
        self._answers: dict[str, tuple[type[Message], Callable[..., Message | None]]] = {
            control.ReadPeers.TYPE: (control.ReadPeers, self._read_peers),
            control.ReadPeer.TYPE: (control.ReadPeer, self._read_peer),
            control.ReadTools.TYPE: (control.ReadTools, self._read_tools),
            control.ReadQueues.TYPE: (control.ReadQueues, self._read_queues),
            control.Drain.TYPE: (control.Drain, self._drain),
            control.CreateToken.TYPE: (control.CreateToken, self._enrolment.create_token),
            control.RevokeKey.TYPE: (control.RevokeKey, self._revoke_key),
            control.RotateKey.TYPE: (control.RotateKey, self._rotate_key),
            control.InstanceLost.TYPE: (control.InstanceLost, self._lose_instance),
            control.ServiceGivenUp.TYPE: (control.ServiceGivenUp, self._give_up_service),
            control.UseSnapshot.TYPE: (control.UseSnapshot, self._use_snapshot),
            control.Probe.TYPE: (control.Probe, self._probe),
        }

    def handle(self, peer: BoundPeer, frame: Header, body: bytes) -> None:
        if frame.type == control.LaneFrames.TYPE:
            self._mirror(peer, frame, body)
            return
        cls, _ = self._answers[frame.type]
        try:
            message = decode(cls, body, limits.BODY_MAX_BYTES)
        except RuntimeFault as fault:
            self._endings.refuse(peer, frame, fault.code, fault.detail)
            return
        if self._state.is_collecting and frame.type in _ABOUT_PEERS:
            self._hold(peer, frame, message, body)
        else:
            self._answer(peer, frame, message, body)

    def release(self) -> None:
        """Answer what was held, now that the collecting is over."""
        held, self._held = self._held, []
        for peer, frame, message in held:
            self._answer(peer, frame, message, b"")

    def _hold(self, peer: BoundPeer, frame: Header, message: Message, body: bytes) -> None:
        """Keep the question without the bytes in which it came, which may be far more."""
        state = self._state
        if len(self._held) >= limits.QUEUE_MAX:
            self._endings.refuse(peer, frame, "busy", "the broker has just started; try later")
            return
        self._held.append((peer, frame, message))
        state.tap("queued", frame, peer.instance, worker=state.me.instance, body=body)

    def _answer(self, peer: BoundPeer, frame: Header, message: Message, body: bytes) -> None:
        state = self._state
        _, answer = self._answers[frame.type]
        try:
            reply = answer(message)
            data = b"" if reply is None else encode(reply, limits.BODY_MAX_BYTES)
        except RuntimeFault as fault:
            self._endings.refuse(peer, frame, fault.code, fault.detail)
            return
        state.tap("delivered", frame, peer.instance, worker=state.me.instance, body=body)
        if reply is None:
            return
        stamped = state.say(peer, Kind.REPLY, reply, correlation_id=frame.message_id, trace=frame.trace, body=data)
        state.tap("delivered", stamped, state.me.instance, worker=state.me.instance, body=data)

    def _mirror(self, peer: BoundPeer, frame: Header, body: bytes) -> None:
        """Tap a lane's frames in place of the post that told of them, and time its calls."""
        state = self._state
        if peer.address:  # it has no lane here
            self._endings.deny(peer, frame, body, "sender_not_allowed", "lanes are this machine's alone")
            return
        try:
            told = decode(control.LaneFrames, body, limits.BODY_MAX_BYTES)
            if excess := find_excess(told):
                raise BusError("too_large", excess)
            if any(one.verdict not in VERDICTS for one in told.frames):
                raise BusError("malformed", "no verdict of the tap")
            mirrored = [(one, unpack_header(one.header)) for one in told.frames]
        except RuntimeFault as fault:
            self._endings.refuse(peer, frame, fault.code, fault.detail, body=body)
            return
        for one, head in mirrored:
            at = state.now - one.ago_us / 1_000_000
            worker = peer.instance if head.kind in _TO_WORKERS else ""
            state.tap(one.verdict, head, head.sender, worker=worker, told=BodyFacts(one.size, one.sha256), at=at)
            if head.kind == Kind.REQUEST and one.verdict == "delivered":
                self._note_beginning(get_role(peer.instance), head, at)
            elif head.kind in _ENDS and (began := self._by_lane.pop(head.correlation_id, None)) is not None:
                state.times[began[0]].add(at - began[1])

    def _note_beginning(self, service: str, head: Header, at: float) -> None:
        self._state.services[service].delivered += 1
        row = find_row(service, head.type)
        if row is not None and row.mode == "slot":
            self._state.note_wait(0.0)  # it found one there
        if row is not None and row.timed:
            remember(self._by_lane, head.message_id, (row.timed, at), at_most=limits.MAILBOX_MAX)

    def _read_peers(self, asked: control.ReadPeers) -> control.Peers:
        state = self._state
        state.me.last_seen = state.now
        known = {peer.instance: peer for peer in (state.me, *state.names.values())}
        rows, ends_with = cut_page(
            known, lambda key: self._make_row(known[key]), after=asked.after, max_bytes=limits.PAGE_MAX_BYTES
        )
        return control.Peers(
            epoch=state.epoch,
            peers=rows,
            listens=self._enrolment.listens,
            refused_keys=[] if asked.after else self._enrolment.refused_keys(),
            next=ends_with,
        )

    def _read_peer(self, message: control.ReadPeer) -> control.PeerRow:
        peer = self._state.find(message.instance)
        if peer is not None:
            return self._make_row(peer)
        why = self._state.gone.get(message.instance)
        if why is None:
            raise BusError("not_found", f"no peer {message.instance[:160]}; see `hobus ps`")
        role = message.instance.partition("/")[0]
        return control.PeerRow(
            instance=message.instance,
            role=role,
            offers=[],
            state="lost",
            reason=why,
            slots=0,
            in_flight=0,
            keys=0,
            last_beat_ms=0,
            connected_ms=0,
        )

    def _read_tools(self, asked: control.ReadTools) -> control.Tools:
        listing = ToolListing(self._state.names.values())
        rows, ends_with = cut_page(listing.keys(), listing.row, after=asked.after, max_bytes=limits.PAGE_MAX_BYTES)
        return control.Tools(
            epoch=self._state.epoch,
            tools=[row for row in rows if isinstance(row, control.ToolRow)],
            sources=[row for row in rows if isinstance(row, control.SourceRow)],
            next=ends_with,
        )

    def _make_row(self, peer: BoundPeer) -> control.PeerRow:
        state = self._state
        is_me = peer is state.me
        return control.PeerRow.model_validate(
            {
                "instance": peer.instance,
                "role": peer.role,
                "offers": ["broker"] if is_me else [peer.service.name] if peer.service is not None else [],
                "state": "ready" if is_me else peer.shown_state,
                "reason": peer.reason,
                "slots": peer.slots,
                "in_flight": peer.at_work,
                "keys": len(peer.keys),
                "last_beat_ms": max(0, int((state.now - peer.last_seen) * 1000)),
                "connected_ms": max(0, int((state.now - peer.connected_at) * 1000)),
                "tools": list(peer.tools),
                "missing_tools": _list_missing_tools(peer),
                "config_digest": peer.config_digest,
                "version": peer.version,
                "host": peer.host,
                "address": peer.address,
                "counters": state.counters() if is_me else dict(peer.counters),
            }
        )

    def _read_queues(self, _: control.ReadQueues) -> control.Queues:
        return control.Queues(
            queues=[
                control.QueueRow(
                    service=service.name,
                    queued=service.waiting.count,
                    in_flight=max(service.in_flight, sum(peer.at_work for peer in service.offering)),
                    delivered=service.delivered,
                    failed=dict(sorted(service.failed.items())),
                )
                for service in self._state.services.values()
                if service.name != "broker"
            ]
        )

    def _drain(self, message: control.Drain) -> control.Done:
        peer = self._state.find(message.instance)
        if peer is None:
            raise BusError("not_found", f"no peer {message.instance[:160]}; see `hobus ps`")
        self._membership.drain(peer)
        return control.Done()

    def _revoke_key(self, message: control.RevokeKey) -> control.Done:
        self._membership.revoke(message.name)
        return control.Done()

    def _rotate_key(self, message: control.RotateKey) -> control.Done:
        self._membership.rotate(message.name, message.grace_s)
        return control.Done()

    def _lose_instance(self, message: control.InstanceLost) -> None:
        peer = self._state.find(message.instance)
        if peer is not None:
            self._membership.lose(peer, message.exit[:80], is_final=True)
        else:
            self._membership.forget(message.instance, message.exit[:80])

    def _give_up_service(self, message: control.ServiceGivenUp) -> None:
        service = self._state.services.get(message.service)
        if service is None:
            return
        service.is_given_up = message.given_up
        if service.is_given_up and service.absent_since is not None:
            self._placement.flush_absent(service)

    def _use_snapshot(self, message: control.UseSnapshot) -> control.Done:
        self._enrolment.use_snapshot(message.config_digest)
        self._state.me.config_digest = message.config_digest
        self._state.is_readiness_new = True  # everybody hears it with the word on readiness
        return control.Done()

    def _probe(self, _: control.Probe) -> control.Probed:
        return control.Probed(instance=self._state.me.instance, state="ready")


def _list_missing_tools(peer: BoundPeer) -> list[str]:
    said = peer.announced_tools
    return [] if said is None else [source.name for source in said.sources.values() if source.state == "failed"]


class ToolListing:
    """What all workers say of their tools, as rows in one order: sources by worker, then tools by id."""

    def __init__(self, peers: Iterable[BoundPeer]) -> None:
        self._words: dict[str, ToolWord] = {}
        self._workers: dict[str, list[str]] = {}
        self._sources: dict[str, tuple[str, ToolSource, int]] = {}
        for peer in sorted(peers, key=lambda peer: peer.instance):
            said = peer.announced_tools
            if said is None or peer.service is None:
                continue
            brought = Counter(word.source for word in said.tools.values())
            for source in said.sources.values():
                self._sources[f"source {peer.instance} {source.name}"] = (peer.instance, source, brought[source.name])
            for tool_id, word in said.tools.items():
                self._words.setdefault(f"tool {tool_id}", word)
                self._workers.setdefault(f"tool {tool_id}", []).append(peer.instance)

    def keys(self) -> Iterator[str]:
        """Yield where a page may end; `source ...` comes before `tool ...`."""
        yield from self._sources
        yield from self._words

    def row(self, key: str) -> SourceRow | ToolRow:
        if key in self._sources:
            instance, source, brought = self._sources[key]
            return SourceRow(instance=instance, tools=brought, **asdict(source))
        workers = self._workers[key]
        return ToolRow(workers=workers[:WORKERS_SHOWN_MAX], worker_count=len(workers), **asdict(self._words[key]))


R = TypeVar("R", bound=Record)


def cut_page(keys: Iterable[str], row: Callable[[str], R], *, after: str, max_bytes: int) -> tuple[list[R], str]:
    """Return the rows behind `after`, at least one, and where the next page begins ('' if this is the last).

    Each row that stays is read exactly once, whatever rows come and go between two pages.
    """
    found: list[R] = []
    size, last = 0, ""
    for key in sorted(key for key in keys if key > after):
        record = row(key)
        size += len(pack(record.model_dump()))
        if found and size > max_bytes:
            return found, last
        found.append(record)
        last = key
    return found, ""
