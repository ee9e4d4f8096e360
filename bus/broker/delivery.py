"""Frames between peers: asking (request, post), answering (reply, failure, stream), cancelling.

Every request is answered exactly once. An answer is accepted only from the connection that was given the request.
"""

from __future__ import annotations

from hobus.bus import limits
from hobus.bus.broker.admission import DEADLINE_MAX_MS, find_denial, find_frame_row, find_malformation
from hobus.bus.broker.endings import Endings
from hobus.bus.broker.events import Send
from hobus.bus.broker.peers import BoundPeer, OpenRequest, Service, find_principal, name_share
from hobus.bus.broker.placing import Placement
from hobus.bus.broker.state import State
from hobus.bus.catalog import CLIENT_ROLES, ROWS, Row
from hobus.bus.codec import pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, header_of
from hobus.bus.lanes import get_role, is_foreign
from hobus.bus.limits import POST_HOLD_MS
from hobus.bus.messages.gateway import Prompt
from hobus.bus.messages.ids import get_order_of_call
from hobus.bus.window import remember

_POST, _STREAM, _FAILURE = int(Kind.POST), int(Kind.STREAM), int(Kind.FAILURE)  # compared with every frame's
_CANCEL_MAX_BYTES = 256
"""A reason code; what is kept for a worker that has not come back yet is no more than that."""


class Delivery:
    """Carry frames between peers."""

    def __init__(self, state: State, endings: Endings, placement: Placement) -> None:
        self._state = state
        self._endings = endings
        self._placement = placement
        self._post_hold_s = POST_HOLD_MS / 1000

    def admit(self, peer: BoundPeer, frame: Header, header_bytes: int, body: bytes) -> Row | None:
        """Return the catalog row under which an asking frame may pass; answer and return None where it may not."""
        fault = find_malformation(frame, header_bytes)
        if fault:
            # The id may be what is wrong, so only a usable one is answered.
            self._endings.refuse(peer, frame._replace(message_id=frame.message_id[:400]), "malformed", fault)
            return None
        row = find_frame_row(get_role(frame.destination), frame)
        reason = find_denial(row, peer.role, frame)
        if reason or row is None:
            detail = f"{peer.role} may not send this type to this destination ({reason}); see bus/PROTOCOL.md"
            self._endings.deny(peer, frame, body, reason, detail)
            return None
        if not self._is_own_id(peer, frame.message_id, frame.type):
            self._endings.deny(peer, frame, body, "foreign_id", "the message id is another peer's, or of its order")
            return None
        if len(body) > limits.BODY_MAX_BYTES:
            detail = f"a body of {len(body)} bytes; the limit is {limits.BODY_MAX_BYTES}"
            self._endings.refuse(peer, frame, "too_large", detail)
            return None
        return row

    def _is_own_id(self, peer: BoundPeer, message_id: str, type_name: str) -> bool:
        """Return whether the peer may use this id: no other peer's, and from elsewhere only calls of its own orders."""
        if not peer.address:
            return not is_foreign(message_id, peer.instance)
        if message_id.startswith(f"{peer.instance}:"):
            return type_name != Prompt.TYPE
        order = get_order_of_call(message_id)
        return order in peer.in_flight or (self._state.is_collecting and order in peer.announced)

    def ask(self, peer: BoundPeer, frame: Header, body: bytes, row: Row) -> None:
        """Deliver, queue or fail a request or post that may pass."""
        state = self._state
        is_post = frame.kind == _POST
        service = state.services.get(get_role(frame.destination))
        if service is None:
            self._endings.deny(peer, frame, body, "unknown_service", "no such service; see bus/PROTOCOL.md")
            return
        if is_post:
            deadline = state.now + self._post_hold_s
        elif frame.deadline_ms > 0:
            deadline = state.now + min(frame.deadline_ms, DEADLINE_MAX_MS) / 1000
            asked = state.asked[peer.role]
            known = asked.get(frame.message_id)
            if known is not None:
                self._attach(known, peer, frame, body, deadline)
                return
        else:
            self._endings.refuse(peer, frame, "expired", f"{frame.type} {frame.message_id} arrived after its deadline")
            return
        pending = self._take_in(peer, frame, body, row, service, deadline)
        if pending is None:
            return
        if not is_post:
            state.asked[peer.role][frame.message_id] = pending
        state.deadlines.set(pending, deadline)
        if service.early_cancels:
            service.early_cancels.pop(frame.message_id, None)  # wanted again
        holder = self._find_announced_holder(pending)
        if holder is None:
            self._placement.place(pending, bounded=True)
        elif holder.announced.pop(frame.message_id):
            self._placement.deliver(pending, holder)  # answered before: its window answers again
        else:
            shown = pending.make_tap_header()
            state.tap("queued", shown, peer.instance, worker=holder.instance, body=body, code="attached")
            self._placement.adopt(pending, holder)

    def _take_in(  # noqa: PLR0913, PLR0917 - what a request consists of
        self, peer: BoundPeer, frame: Header, body: bytes, row: Row, service: Service, deadline: float
    ) -> OpenRequest | None:
        """Return the request, counted in its principal's share; None when that is full, which the sender is told."""
        state = self._state
        principal = find_principal(peer, frame)
        share = name_share(peer, row, principal)
        if share:
            over = state.shares.excess(share, len(body), least_bytes=limits.FAIR_UNIT_BYTES)
            if over:
                self._endings.refuse(peer, frame, "busy", f"{frame.type} {frame.message_id}: {over}")
                return None
        pending = OpenRequest(
            frame, body, row,
            service=service, requester=peer, principal=principal, deadline=deadline, came_at=state.now,
        )  # fmt: skip
        if share:
            pending.share = share
            state.shares.take(share, len(body))
        return pending

    def answer(self, worker: BoundPeer, frame: Header, body: bytes, header_bytes: int) -> None:
        """Pass a reply or failure to the requester and free the slot; a stream frame only passes."""
        state = self._state
        pending = worker.in_flight.get(frame.correlation_id)
        if pending is None:
            self._tap_stray(worker, frame, body)
            return
        if frame.attempt < pending.answers_from and frame.kind != Kind.REPLY:
            state.tap("late", frame, worker.instance, worker=worker.instance, body=body)  # of the run that was stopped
            return
        fault = self._answer_fault(pending, frame, body, header_bytes)
        if fault:
            self._endings.unbind(pending)
            self._endings.fail(pending, "internal", f"{worker.instance} answered with {fault}")
            self._placement.pump(worker)
            return
        self._pass_on(pending, worker, frame, body)
        if frame.kind == _STREAM:
            return
        if frame.kind == _FAILURE:
            pending.service.failed["by_worker"] += 1
        pending.service.note_work(worker)
        self._endings.unbind(pending)
        self._endings.finish(pending, "answered")
        if pending.service.waiting.count:
            self._placement.pump(worker)

    def _pass_on(self, pending: OpenRequest, worker: BoundPeer, frame: Header, body: bytes) -> None:
        """Send the stamped frame to every requester that still lives."""
        state, requester, asked = self._state, pending.requester, pending.header
        stamped = header_of((
            HEADER_VERSION, frame.kind, frame.message_id, frame.correlation_id, frame.causation_id, frame.type,
            frame.type_version, requester.instance, asked.key, 0, asked.attempt, pending.row.sensitive,
            frame.trace or asked.trace, pending.principal, worker.instance,
        ))  # fmt: skip
        if requester is state.me:
            state.own_answers.append((stamped, body))
        elif not requester.is_lost:
            state.actions.append(Send(requester.connection, pack_header(stamped), body))
        for other in pending.also:
            if not other.is_lost:
                state.actions.append(
                    Send(other.connection, pack_header(stamped._replace(destination=other.instance)), body)
                )
        verdict = "late" if requester.is_lost else "delivered"
        state.tap(verdict, stamped, worker.instance, worker=worker.instance, body=body)

    def cancel(self, peer: BoundPeer, frame: Header, body: bytes) -> None:
        """End a waiting request as cancelled; pass the cancel to the worker of one in progress, whose answer counts."""
        state = self._state
        if len(body) > _CANCEL_MAX_BYTES:
            self._endings.deny(peer, frame, b"", "malformed", "the body of a cancel is a reason code")
            return
        pending = state.asked[peer.role].get(frame.correlation_id)
        if pending is None:
            self._cancel_announced(peer, frame, body)
            return
        if pending.requester is not peer and peer not in pending.also:
            self._endings.deny(peer, frame, body, "not_requester", "only who asked may cancel")
            return
        if not pending.leave(peer):
            state.tap("cancelled", pending.make_tap_header(), peer.instance, body=body)  # others still wait for it
            return
        worker = pending.worker
        if worker is None:
            words = f"{pending.header.message_id} was cancelled before a worker had it"
            self._endings.fail(pending, "cancelled", words, by="cancelled")
        else:
            pending.move("cancelled")
            self._placement.stop(worker, frame, peer.instance, body)

    def _cancel_announced(self, peer: BoundPeer, frame: Header, body: bytes) -> None:
        """Cancel a request that an earlier broker had and whose worker may still have it.

        The requester is not known then: the role must be one that may ask this service, the id must not be another
        peer's, and a client's must be counted under its own name.
        """
        state = self._state
        service = state.services.get(frame.destination.partition("/")[0])
        if (
            service is None
            or not any(row.service == service.name and peer.role in row.senders for row in ROWS)
            or is_foreign(frame.correlation_id, peer.instance)
        ):
            state.tap("late", frame, peer.instance, body=body)
            return
        if peer.role in CLIENT_ROLES and not frame.correlation_id.startswith(f"{peer.instance}:"):
            state.tap("late", frame, peer.instance, body=body)  # clients of one role are different people
            return
        for worker in service.offering:
            if worker.announced.get(frame.correlation_id) is False:
                del worker.announced[frame.correlation_id]  # whoever asks for it from now on asks anew
                self._placement.stop(worker, frame, peer.instance, body)
                return
        state.tap("late", frame, peer.instance, body=body)
        if state.is_collecting:
            cancel = (frame, peer.instance, body)
            remember(service.early_cancels, frame.correlation_id, cancel, at_most=limits.DEDUPE_WINDOW)

    def fail_for_a_defect(self, peer: BoundPeer, frame: Header) -> None:
        """Tell the requester that the broker failed, unless it has its answer."""
        state = self._state
        if frame.kind != Kind.REQUEST:
            return
        pending = state.asked[peer.role].get(frame.message_id)
        words = f"the broker failed on {frame.type} {frame.message_id}; see its log"
        if pending is not None:
            self._endings.fail(pending, "internal", words)
        elif not any(
            isinstance(action, Send) and unpack_header(action.header).correlation_id == frame.message_id
            for action in state.actions
        ):
            self._endings.refuse(peer, frame, "internal", words)

    def look_at(self, pending: OpenRequest) -> None:
        """Check a request whose time to be looked at has come."""
        state = self._state
        if state.now >= pending.deadline:
            if pending.is_post:
                self._endings.dead_letter(pending, "post_hold_over")
            else:
                self._endings.expire(pending)
            return
        state.deadlines.set(pending, pending.deadline)  # which may have been prolonged
        if pending.state != "waiting" or state.is_collecting:
            return
        if pending.tool:
            self._placement.look_at_tool(pending)
        elif pending.direct and not state.find(pending.direct):
            self._endings.fail(pending, "no_route", f"{pending.direct} is not there; see `hobus ps`")

    def _attach(self, known: OpenRequest, peer: BoundPeer, frame: Header, body: bytes, deadline: float) -> None:
        """Join a request that is sent again, by its sender or a successor; all living requesters get the one answer."""
        state = self._state
        is_other = (known.header.type, known.header.destination) != (frame.type, frame.destination)
        if is_other or not _may_join(known.requester, peer):
            self._endings.deny(peer, frame, body, "id_in_use", "another request with this id is pending")
            return
        is_successor = peer is not known.requester
        known.join(peer)
        known.deadline = max(known.deadline, deadline)  # seen when the earlier one has come: a re-send costs no memory
        was = known.state
        known.move("asked_again")
        if was == "stopping" and known.worker is not None:
            self._placement.ask_anew(known, known.worker)
            return
        if is_successor and known.worker is not None:
            self._placement.ask_anew(known, known.worker, is_stopped=False)
        holder = known.worker.instance if known.worker is not None else ""
        state.tap("queued", known.make_tap_header(), peer.instance, worker=holder, body=body, code="attached")

    def _find_announced_holder(self, pending: OpenRequest) -> BoundPeer | None:
        """Return the peer that announced this id in its hello as in progress or answered."""
        service = pending.service
        for peer in list(service.announcing):
            if not peer.announced or peer not in service.offering:
                del service.announcing[peer]
            elif pending.header.message_id in peer.announced and not pending.is_post:
                return peer
        return None

    def _answer_fault(self, pending: OpenRequest, frame: Header, body: bytes, header_bytes: int) -> str:
        if len(body) > limits.BODY_MAX_BYTES:
            return f"a body of {len(body)} bytes; the limit is {limits.BODY_MAX_BYTES}"
        if frame.kind == Kind.REPLY and pending.row.reply is not None and frame.type != pending.row.reply.TYPE:
            return "a reply of another type than the catalog's"
        return find_malformation(frame, header_bytes) if header_bytes > 1024 else ""  # noqa: PLR2004 - short ones fit

    def _tap_stray(self, worker: BoundPeer, frame: Header, body: bytes) -> None:
        """Tap an answer to nothing that this worker has: late, or forged."""
        state = self._state
        message_id = frame.correlation_id
        late = worker.late.get(message_id)
        if late is not None:
            state.tap("late", frame, worker.instance, worker=worker.instance, body=body)
            if frame.kind != Kind.STREAM:
                del worker.late[message_id]
                worker.used -= late.holds_slot
                if message_id in worker.announced:
                    worker.announced[message_id] = True
                self._placement.pump(worker)
            return
        is_elsewhere = any(message_id in asked for asked in state.asked.values())
        if worker.service is None or is_elsewhere:
            self._endings.deny(worker, frame, body, "forged_answer", "this connection was not given that request")
        else:
            state.counts["late"] += 1
            state.tap("late", frame, worker.instance, worker=worker.instance, body=body)


def _may_join(asked: BoundPeer, peer: BoundPeer) -> bool:
    """Return whether `peer` may take over a request: instances of an actor may, clients are different people."""
    return peer.role not in CLIENT_ROLES or peer.instance.partition("@")[0] == asked.instance.partition("@")[0]
