"""Who is there: hello, readiness, credit, leaving, and what the loss of a peer means.

Two connections never share a name. The same incarnation on a new connection has reconnected and replaces the old
connection; a different incarnation fences the older one, which never comes back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from hobus.bus import limits
from hobus.bus.broker.admission import Announced, find_excess, find_refusal
from hobus.bus.broker.endings import Endings, remember_late
from hobus.bus.broker.enrolment import Enrolment
from hobus.bus.broker.events import CutKey, CutOff, Origin
from hobus.bus.broker.peers import BoundPeer, Late
from hobus.bus.broker.placing import Placement
from hobus.bus.broker.records import RecordBook
from hobus.bus.broker.state import State
from hobus.bus.codec import decode
from hobus.bus.envelope import Header, Kind, make_header
from hobus.bus.errors import BusError, RuntimeFault
from hobus.bus.lanes import BESIDE_BROKER, LANES, LEASE_HOLDERS
from hobus.bus.messages.control import (
    SEPARATOR,
    AnnounceTools,
    Beat,
    Bye,
    Credit,
    Drain,
    Hello,
    Lease,
    Leases,
    Ready,
    Refused,
    Rehello,
    RotateKey,
    ToolWord,
    Welcome,
)
from hobus.bus.window import remember

TOLD: dict[int, type[Beat | Ready | Credit | AnnounceTools]] = {
    int(Kind.BEAT): Beat, int(Kind.READY): Ready, int(Kind.CREDIT): Credit, int(Kind.TOOLS): AnnounceTools,
}  # fmt: skip
"""What a bound peer tells of itself, by the kind of frame."""


@dataclass
class Membership:
    """Bind connections to principals and unbind them."""

    _state: State
    _endings: Endings
    _placement: Placement
    _records: RecordBook
    _enrolment: Enrolment

    def hello(self, connection: bytes, frame: Header, body: bytes, origin: Origin) -> None:
        """Bind the connection, or refuse it and leave it unbound."""
        state = self._state
        try:
            hello = decode(Hello, body, limits.BODY_MAX_BYTES)
        except RuntimeFault as fault:
            self._refuse(connection, frame, "", Refused(code="malformed", detail=fault.detail))
            return
        if excess := find_excess(hello):
            self._refuse(connection, frame, hello.instance, Refused(code="malformed", detail=excess))
            return
        refused = (
            find_refusal(hello) or self._enrolment.identify(hello, origin) or self._find_conflict(connection, hello)
        )
        if refused is not None:
            self._refuse(connection, frame, hello.instance, refused)
            return
        name = hello.instance.partition("@")[0]
        peer = state.names.get(name)
        if peer is not None and peer.instance != hello.instance:
            self.lose(peer, f"fenced by {hello.instance}", is_final=True)
            peer = None
        if peer is None:
            peer = self._join(connection, hello)
        else:
            self._rejoin(peer, connection)
        state.conduct.bound(connection)
        self._take_particulars(peer, hello, origin)
        welcome = Welcome(
            epoch=state.epoch,
            beat_interval_ms=state.settings.beat_interval_ms,
            peer_timeout_ms=state.settings.peer_timeout_ms,
            config_digest=state.me.config_digest,
        )
        state.control(connection, Kind.WELCOME, welcome)
        state.beat(connection)
        self._tell_drained(peer)
        state.tap("control", _without_body(frame), peer.instance)
        self._reconcile(peer, hello)
        state.note_met(peer.instance)

    def join(self, connection: bytes, frame: Header, body: bytes, origin: Origin) -> None:
        """Enrol a worker elsewhere or say why not."""
        answer = self._enrolment.join(body, origin)
        if isinstance(answer, Refused):
            self._refuse(connection, frame, "", answer)
        else:
            self._state.control(connection, Kind.WELCOME, answer)
            self._state.tap("control", _without_body(frame), "", worker=answer.name, code="joined")

    def take_told(self, peer: BoundPeer, frame: Header, body: bytes) -> None:
        """Take in what a bound peer says of itself (one of TOLD); refuse what it may not say."""
        state, whole = self._state, None
        try:
            # An idle peer's beat is its last one again, which was looked at.
            is_known = frame.kind == Kind.BEAT and body == peer.beaten
            said = peer.beat if is_known else decode(TOLD[frame.kind], body, limits.BODY_MAX_BYTES)
            if not is_known and (excess := find_excess(said)):
                raise BusError("too_large", excess)
            if isinstance(said, AnnounceTools):
                whole = peer.announcement.add(said, len(body))
        except RuntimeFault as fault:
            self._turn_down(peer, frame, body, fault)
            return
        tapped = partial(state.tap, "control", frame, peer.instance, body=body)
        if isinstance(said, Beat):
            was_behind, did_lag, peer.beat, peer.beaten = not peer.has_slot, peer.lags, said, body
            tapped()
            if was_behind and peer.has_slot:
                self._placement.pump(peer)
            if peer.lags != did_lag and peer.takes_leases:
                state.is_readiness_new = True
            state.beat(peer.connection)  # and it learns that the broker lives
        elif isinstance(said, Ready):
            peer.ready_state, peer.reason = said.state, said.reason
            peer.config_digest = said.config_digest or peer.config_digest
            tapped(code=said.state)
            self._rejudge(peer)
        elif isinstance(said, Credit):
            peer.slots = said.slots
            tapped(code=str(said.slots))
            self._placement.pump(peer)
        else:
            tapped(code=f"{said.part}/{said.parts}")
            if whole is not None:
                self._replace_tools(peer, whole)

    def _replace_tools(self, peer: BoundPeer, whole: Announced) -> None:
        """Replace the peer's tools; place anew what waits for one that it no longer has."""
        had = peer.tool_queues
        peer.announced_tools = self._keep_known_words(whole)
        harmless = [name for name, word in whole.tools.items() if word.idempotent and not word.writes]
        peer.harmless_tools = [name for name in harmless if SEPARATOR not in name][: limits.LEASED_TOOLS_MAX]
        self._state.is_readiness_new = True
        peer.can_run(whole.tools)
        self._replace_waiting_in(peer, had)
        self._placement.pump(peer)

    def tell_readiness(self) -> None:
        """Tell all peers when a role gains its first ready peer or loses its last; tell launchers of each change."""
        state = self._state
        state.is_readiness_new, word = False, state.word_on_readiness
        ready = [peer.role for peer in state.connections.values() if peer.shown_state == "ready"]
        state.word_on_readiness = said = Beat(
            ready_roles=sorted(set(ready)),
            is_whole=not state.is_collecting,
            ready_count=len(ready),
            config_digest=state.me.config_digest,
        )
        if said == word:
            return
        is_for_all = said.model_copy(update={"ready_count": word.ready_count}) != word
        for connection, peer in state.connections.items():
            if is_for_all or peer.role == "launcher":
                state.beat(connection)

    def tell_leases(self) -> None:
        """Supervisors learn at once which executors they may send orders to by a lane, how many, and which are gone.

        Each has an equal share of the slots, the broker keeps one for what it places itself. Nobody has any of those
        that are behind or draining, nor while workers elsewhere would have less to do than is theirs.
        """
        state = self._state
        if state.is_collecting:
            return
        holders = [peer for peer in state.connections.values() if peer.role in LEASE_HOLDERS and peer.takes_leases]
        executors = [peer for peer in state.services["ho1"].offering if peer.takes_work or peer.takes_leases]
        is_local = all(peer.takes_leases for peer in executors)
        leases: list[Lease] = []
        for peer in sorted(executors, key=lambda peer: peer.name):
            share = peer.slots // (len(holders) + 1) if is_local and peer.takes_work and not peer.lags else 0
            if peer.takes_leases:
                leases.append(Lease(instance=peer.instance, slots=share, tools=peer.harmless_tools))
            peer.leased = share * len(holders)
        said = Leases(leases=leases)
        for peer in holders:
            if peer.told_leases != said:
                peer.told_leases = said
                state.control(peer.connection, Kind.WELCOME, said)

    def say_bye(self, peer: BoundPeer, frame: Header) -> None:
        self._state.tap("control", frame, peer.instance)
        self.lose(peer, "said bye", is_final=True, counted_as="peers_left")

    def drain(self, peer: BoundPeer) -> None:
        """Give the peer no new work; what it works on, it may finish.

        The peer is told: no launcher ends one elsewhere, and one here that has a lane takes nothing new by that either.
        Until its next beat such a one counts as busy: what its lane brought since the last one, no beat has told.
        """
        peer.is_drained = True
        if peer.role in BESIDE_BROKER:
            counters = {**peer.beat.counters, limits.AT_WORK: max(1, peer.at_work)}
            peer.beat, peer.beaten = peer.beat.model_copy(update={"counters": counters}), None
        self._tell_drained(peer)
        self._rejudge(peer)

    def _tell_drained(self, peer: BoundPeer) -> None:
        if peer.address and peer.service is not None and self._enrolment.is_rotating(peer.key):
            peer.is_drained = True
            self._state.control(peer.connection, Kind.WELCOME, RotateKey(name=peer.name))
        elif peer.is_drained and peer.address:
            self._state.control(peer.connection, Kind.WELCOME, Drain(instance=peer.instance))
        elif peer.is_drained and peer.role in LANES:
            self._state.control(peer.connection, Kind.CREDIT, Credit(slots=0))

    def connected(self, connection: bytes) -> None:
        """Ask a new connection for a hello: its peer may believe that it is bound since before a restart."""
        if connection not in self._state.connections:
            self._state.control(connection, Kind.WELCOME, Rehello())

    def unknown(self, connection: bytes, frame: Header | None) -> None:
        """Drop a frame of an unbound connection and ask its sender to say hello."""
        state = self._state
        state.counts["unbound_frames"] += 1
        if frame is not None and state.asking.allows(connection, state.now):
            state.control(connection, Kind.WELCOME, Rehello())
            state.tap("denied", _without_body(frame), "", code="unbound")

    def count_unbound(self, connection: bytes, size_bytes: int, origin: Origin) -> None:
        """Count bytes of a connection that has not said hello; cut off one from elsewhere beyond the bound."""
        if not origin.address or connection in self._state.connections:
            return
        if why := self._state.conduct.unbound(connection, size_bytes):
            self.cut_off(connection, why)

    def malformed(self, connection: bytes, origin: Origin) -> None:
        """Count a malformed frame; cut off a connection from elsewhere at the bound."""
        if origin.address and (why := self._state.conduct.malformed(connection)):
            self.cut_off(connection, why)

    def cut_off(self, connection: bytes, why: str) -> None:
        """End the connection; its peer, if it had one, is lost and may come back."""
        state = self._state
        peer = state.connections.get(connection)
        name = peer.instance if peer is not None else ""
        state.counts["cut_off"] += 1
        self._records.note("DENIED", "cut_off", name or "unbound", None, "")
        if peer is not None:
            self.lose(peer, why, is_final=False)
        state.actions.append(CutOff(connection, name, why))

    def revoke(self, name: str) -> None:
        """Revoke this worker's key: end its connections, give its work to others. Raises BusError."""
        key = self._enrolment.revoke(name)
        peer = self._state.names.get(name)
        if peer is not None:
            self.lose(peer, "its key was revoked", is_final=True)
        self._state.actions.append(CutKey(key))

    def rotate(self, name: str, grace_s: int) -> None:
        """Have this worker finish and come back with another key; this one is good until then. Raises BusError."""
        self._enrolment.rotate(name, grace_s)
        if (peer := self._state.names.get(name)) is not None and peer.service is not None:
            self.drain(peer)

    def look_at_keys(self) -> None:
        """Keys of ephemeral tokens whose workers are gone for their time, and those not rotated in theirs, end."""
        for name in self._enrolment.list_overdue(self._state.names):
            with suppress(BusError):  # a disk that is full: tried again at the next look
                self.revoke(name)

    def lose(self, peer: BoundPeer, why: str, *, is_final: bool, counted_as: str = "peers_lost") -> None:
        """Drop the peer: give its work to others or fail it, free its keys; its own requests stay."""
        state = self._state
        if peer.is_lost:
            return
        peer.is_lost = True
        peer.judge()
        self._state.is_readiness_new = True
        del state.connections[peer.connection]
        del state.names[peer.name]
        if is_final:
            self.forget(peer.instance, why)
        state.counts[counted_as] += 1
        state.tap("lost", make_header(Kind.BYE, "", type=Bye.TYPE), peer.instance, code=why)
        service = peer.service
        if service is None:
            return
        del service.offering[peer]
        service.sticky.release(peer)
        service.note_presence(state.now)
        for pending in list(peer.in_flight.values()):
            if pending.worker is peer:
                self._placement.take_back(pending, peer)
        for pending in service.waiting.list_waiting_for(peer.instance):
            if pending.state != "waiting":
                continue
            if pending.direct and not pending.is_post:
                self._endings.fail(pending, "peer_lost", f"{peer.instance} was lost ({why})")
            else:
                self._placement.replace_waiting([pending])
        self._replace_waiting_in(peer, peer.tool_queues)  # perhaps it was the last one that had the tool

    def _replace_waiting_in(self, peer: BoundPeer, queues: tuple[str, ...]) -> None:
        service = peer.service
        if service is not None and service.waiting.count:
            for queue in queues:
                self._placement.replace_waiting(service.waiting.list_waiting_for(queue))

    def forget(self, instance: str, why: str) -> None:
        """Forget an incarnation that never comes back."""
        self._state.note_met(instance)
        remember(self._state.gone, instance, why, at_most=limits.DEDUPE_WINDOW)

    def _find_conflict(self, connection: bytes, hello: Hello) -> Refused | None:
        why = self._state.gone.get(hello.instance)
        if why is not None:
            return Refused(code="name_taken", detail=f"{hello.instance} is gone ({why}) and cannot come back")
        bound = self._state.connections.get(connection)
        if bound is not None and bound.instance != hello.instance:
            return Refused(code="name_taken", detail=f"this connection is {bound.instance} for as long as it lives")
        return None

    def _refuse(self, connection: bytes, frame: Header, claimed: str, refused: Refused) -> None:
        state = self._state
        state.counts[f"refused_{refused.code}"] += 1
        state.counts["denied"] += 1
        self._records.note("DENIED", refused.code, "unbound", None, "")
        if state.refusing.allows(connection, state.now):
            state.control(connection, Kind.WELCOME, refused)
            state.tap("denied", _without_body(frame), "", worker=claimed[:160], code=refused.code)

    def _join(self, connection: bytes, hello: Hello) -> BoundPeer:
        state = self._state
        peer = BoundPeer(connection, hello.instance, hello.role, state.now)
        state.connections[connection] = peer
        state.names[peer.name] = peer
        if hello.offers:
            service = state.services.get(hello.role)
            if service is not None:
                peer.service = service
                service.offering[peer] = None
                service.note_presence(state.now)
        return peer

    def _rejoin(self, peer: BoundPeer, connection: bytes) -> None:
        state = self._state
        del state.connections[peer.connection]
        state.connections[connection] = peer
        peer.connection = connection
        peer.last_seen = state.now
        peer.connected_at = state.now
        peer.ready_state, peer.reason = "starting", ""
        peer.judge()
        self._state.is_readiness_new = True

    def _take_particulars(self, peer: BoundPeer, hello: Hello, origin: Origin) -> None:
        peer.host, peer.address, peer.key = hello.host, origin.address, origin.key
        peer.slots = hello.slots
        peer.can_run(hello.tools)
        peer.announced_tools, peer.harmless_tools = None, []
        peer.config_digest = hello.config_digest
        peer.version = hello.version
        peer.takes_leases, peer.told_leases = hello.leases and not origin.address, None
        self._state.is_readiness_new = True

    def _reconcile(self, peer: BoundPeer, hello: Hello) -> None:
        """Believe what the peer's hello says of work in progress, answers and owned keys."""
        if peer.service is None:
            return
        state = self._state
        bound = limits.DEDUPE_WINDOW
        in_progress = dict.fromkeys(hello.in_progress[-bound:])
        answered = dict.fromkeys(hello.answered[-bound:])
        for message_id in [known for known in peer.late if known not in in_progress]:
            peer.used -= peer.late.pop(message_id).holds_slot
        peer.announced = {**dict.fromkeys(in_progress, False), **dict.fromkeys(answered, True)}
        if peer.announced:
            peer.service.announcing[peer] = None
        for message_id, pending in list(peer.in_flight.items()):
            is_answered = peer.announced.pop(message_id, None)
            if is_answered is None:
                self._placement.take_back(pending, peer)  # the frame was lost with the old connection
            elif is_answered:
                self._endings.unbind(pending)
                self._placement.deliver(pending, peer)  # its answer may have been lost: the window answers again
        for message_id in in_progress:
            if message_id not in peer.in_flight and message_id not in peer.late:
                holds_slot = peer.slots > 0
                remember_late(peer, message_id, Late(holds_slot, attempt=0), bound=bound)
                peer.used += holds_slot
        self._stop_cancelled(peer, in_progress)
        for key in hello.keys[-bound:]:
            peer.service.sticky.claim(key, peer, state.now)
        self._attach_waiting(peer)

    def _stop_cancelled(self, peer: BoundPeer, in_progress: dict[str, None]) -> None:
        """Cancel at this worker what was cancelled while the broker restarted."""
        service = peer.service
        if service is None or not service.early_cancels:
            return
        for message_id in in_progress:
            cancelled = service.early_cancels.pop(message_id, None)
            if cancelled is not None and peer.announced.pop(message_id, None) is False:
                self._placement.stop(peer, *cancelled)

    def _attach_waiting(self, peer: BoundPeer) -> None:
        """Attach waiting requests that this peer announced to it alone."""
        if not peer.announced or peer.service is None:
            return
        for pending in peer.service.waiting.list_all():
            if pending.is_post or pending.state != "waiting":
                continue
            is_answered = peer.announced.pop(pending.header.message_id, None)
            if is_answered is None:
                continue
            if is_answered:
                self._placement.take_out(pending)
                self._placement.deliver(pending, peer)
            else:
                self._placement.adopt(pending, peer)

    def _rejudge(self, peer: BoundPeer) -> None:
        was_leaving = peer.is_leaving
        peer.judge()
        self._state.is_readiness_new = True
        service = peer.service
        if service is None:
            return
        service.note_presence(self._state.now)
        if peer.is_leaving and not was_leaving:
            service.sticky.release(peer)
            self._placement.replace_waiting(service.waiting.list_waiting_for(peer.instance))
            self._replace_waiting_in(peer, peer.tool_queues)
        elif peer.takes_work:
            if not self._state.is_collecting:
                keyed = [p for p in service.waiting.list_waiting_for("") if p.header.key]
                self._placement.replace_waiting(keyed)
            self._placement.pump(peer)

    def _keep_known_words(self, whole: Announced) -> Announced:
        """Keep texts that another worker announced as well only once."""
        known: dict[str, ToolWord] = {}
        for other in self._state.names.values():
            if other.announced_tools is not None:
                known |= other.announced_tools.tools
        return whole._replace(
            tools={
                tool_id: known[tool_id] if known.get(tool_id) == word else word for tool_id, word in whole.tools.items()
            }
        )

    def _turn_down(self, peer: BoundPeer, frame: Header, body: bytes, fault: RuntimeFault) -> None:
        """Refuse what a bound peer may not say: count, record, tell the peer why, change nothing."""
        state = self._state
        state.counts["malformed"] += 1
        self._records.note("DENIED", "malformed", peer.instance, None, "")
        state.tap("malformed", frame, peer.instance, body=body, code=fault.code)
        if state.refusing.allows(peer.connection, state.now):
            state.control(peer.connection, Kind.WELCOME, fault.as_failure())
        if fault.code == "malformed":
            self.malformed(peer.connection, Origin(address=peer.address))


def _without_body(frame: Header) -> Header:
    """Return the frame as it may be tapped: no body (a hello's holds a token), no claimed names."""
    return frame._replace(sensitive=True, sender="")
