"""Which worker gets a request, and what happens when there is none right now.

Rules, in order: a request to an instance goes there only; one that needs a tool goes to the least loaded worker that
announced it, or, where the tool's server keeps state for somebody, to the worker that had the last one for them; one
with a key goes to the key's owner and waits for it; any other goes to the least loaded worker with room, then to the
one that has been idle longest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hobus.bus import limits
from hobus.bus.broker.admission import PROBE_ROW
from hobus.bus.broker.endings import Endings
from hobus.bus.broker.events import Send
from hobus.bus.broker.peers import BoundPeer, OpenRequest, Service
from hobus.bus.broker.state import State
from hobus.bus.broker.sticky import choose_owner
from hobus.bus.broker.waiting import ANYBODY
from hobus.bus.codec import pack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, header_of, make_header
from hobus.bus.messages.control import Cancelled


class Placement:
    """Deliver requests or let them wait."""

    def __init__(self, state: State, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        self._grace_s = state.settings.service_grace_ms / 1000
        self._mailbox_max = limits.MAILBOX_MAX
        self._queue_max = limits.QUEUE_MAX

    def place(self, pending: OpenRequest, *, bounded: bool = False) -> None:
        """Deliver the request, queue it, or fail it; `bounded`: refuse it where the queue is full."""
        service = pending.service
        if self._state.is_collecting:
            self._wait(pending, pending.direct or pending.shared_queue, bounded=bounded)
        elif pending.tool:
            self._place_by_tool(pending, bounded=bounded)
        elif pending.direct:
            self._place_direct(pending, bounded=bounded)
        elif pending.sticky:
            self._place_at(self._find_owner(pending, service.offering), pending, bounded=bounded)
        else:
            worker = choose_least_loaded(service.offering, slotted=pending.slotted, mailbox_max=self._mailbox_max)
            if worker is not None:
                self.deliver(pending, worker)
            else:
                self._await_service(pending, bounded=bounded)

    def _place_direct(self, pending: OpenRequest, *, bounded: bool) -> None:
        worker = self._state.find(pending.direct)
        if worker is None or worker.service is not pending.service:
            self._await_instance(pending, bounded=bounded)
        elif pending.row is PROBE_ROW:
            self.deliver(pending, worker)
        elif worker.is_leaving:
            self._endings.fail(pending, "no_route", f"{worker.instance} takes no new work: it is draining")
        else:
            self._place_at(worker, pending, bounded=bounded)

    def _place_at(self, worker: BoundPeer | None, pending: OpenRequest, *, bounded: bool) -> None:
        """Deliver to this worker and no other: now, or when it has room."""
        if worker is None:
            self._await_service(pending, bounded=bounded)
        elif worker.takes_work and self._has_room(worker, pending):
            self.deliver(pending, worker)
        else:
            self._wait(pending, worker.instance, bounded=bounded)

    def _place_by_tool(self, pending: OpenRequest, *, bounded: bool) -> None:
        """Deliver to a worker that announced the tool, or wait for one as for a service."""
        able = [peer for peer in pending.service.offering if pending.tool in peer.tools]
        worker = choose_least_loaded(able, slotted=pending.slotted, mailbox_max=self._mailbox_max)
        if pending.sticky and (owner := self._find_owner(pending, able)) is not None:
            pending.unable_since = None
            self._place_at(owner, pending, bounded=bounded)
        elif worker is not None:
            pending.unable_since = None
            self.deliver(pending, worker)
        elif self._is_without_hope(pending):
            self._end_without_service(pending)
        else:
            self._note_ability(pending, able)
            self._wait(pending, pending.shared_queue, bounded=bounded)

    def _note_ability(self, pending: OpenRequest, able: list[BoundPeer]) -> None:
        if able:
            pending.unable_since = None
        elif pending.unable_since is None:
            pending.unable_since = self._state.now
            self._state.deadlines.hasten(pending, self._state.now + self._grace_s)

    def look_at_tool(self, pending: OpenRequest) -> None:
        """Fail a request for whose tool no worker came within the grace and nobody is still starting its source.

        The failure is not retryable.
        """
        self._note_ability(pending, [peer for peer in pending.service.offering if pending.tool in peer.tools])
        if pending.unable_since is None:
            return
        grace_ends_at, look_again_at = pending.unable_since + self._grace_s, self._state.now + self._grace_s
        if self._state.now < grace_ends_at:
            self._state.deadlines.hasten(pending, grace_ends_at)
            return
        if look_again_at < pending.deadline and _is_on_its_way(pending):
            # Else what was begun elsewhere would end without need, though it may run again here in a moment.
            self._state.deadlines.hasten(pending, look_again_at)
            return
        words = f"no worker of {pending.service.name} announces the tool {pending.tool[:64]}; see `hobus tools`"
        if pending.header.attempt > 1:
            # Whoever had it before may have run the tool: that nobody has it now says nothing about that.
            words = f"it was delivered before, its worker is gone, and {words}"
        code = "no_route" if pending.header.attempt == 1 else "peer_lost"
        said = f"{pending.header.type} {pending.header.message_id}: {words}"
        self._endings.fail(pending, code, said, retryable=False)

    def deliver(self, pending: OpenRequest, worker: BoundPeer) -> None:
        """Send the stamped request with what is left of its deadline to the worker."""
        state = self._state
        frame = pending.header
        now = state.now
        remaining_ms = int((pending.deadline - now) * 1000)
        if pending.is_post:
            remaining_ms = 0
        elif remaining_ms <= 0:
            self._endings.expire(pending)
            return
        message_id = frame.message_id
        if message_id in worker.in_flight:
            self._endings.fail(pending, "denied", f"id {message_id} is in use by another role: choose another id")
            return
        late = worker.late.get(message_id)
        if late is not None and late.attempt:
            # It may still fail the earlier one: by the attempt in that answer it is known (`Delivery.answer`).
            pending.answers_from = max(frame.attempt, late.attempt + 1)
            pending.header = frame._replace(attempt=pending.answers_from)
        self._forward(pending, worker, remaining_ms)
        pending.service.note_work(worker)
        if pending.slotted:
            state.note_wait(now - pending.waits_since)
        pending.service.delivered += 1
        if pending.is_post:
            self._endings.finish(pending, "handed_over")
        else:
            self._bind(pending, worker)

    def ask_anew(self, pending: OpenRequest, worker: BoundPeer, *, is_stopped: bool = True) -> None:
        """Send the worker the request that it works on once more: a requester joined and may have missed its stream.

        A request that was told to stop goes out as its next attempt, so that the stopped run's failure is known by its
        attempt (`Delivery.answer`).
        """
        remaining_ms = int((pending.deadline - self._state.now) * 1000)
        if remaining_ms <= 0:
            self._endings.expire(pending)
            return
        if is_stopped:
            pending.answers_from = pending.header.attempt + 1
            pending.header = pending.header._replace(attempt=pending.answers_from)
        self._forward(pending, worker, remaining_ms)

    def _forward(self, pending: OpenRequest, worker: BoundPeer, remaining_ms: int) -> None:
        state, frame = self._state, pending.header
        stamped = header_of((
            HEADER_VERSION, frame.kind, frame.message_id, "", frame.causation_id, frame.type, frame.type_version,
            frame.destination, frame.key, remaining_ms, frame.attempt, pending.row.sensitive, frame.trace,
            pending.principal, pending.requester.instance,
        ))  # fmt: skip
        state.actions.append(Send(worker.connection, pack_header(stamped), pending.body))
        state.tap("delivered", stamped, stamped.sender, worker=worker.instance, body=pending.body)

    def stop(self, worker: BoundPeer, cancel: Header, requester: str, body: bytes) -> None:
        """Tell the worker that a request is not wanted any more."""
        stamped = make_header(
            Kind.CANCEL,
            cancel.message_id,
            correlation_id=cancel.correlation_id,
            type=Cancelled.TYPE,
            destination=worker.instance,
            trace=cancel.trace,
            sender=requester,
        )
        self._state.send(worker, stamped, body)
        self._state.tap("delivered", stamped, requester, worker=worker.instance, body=body)

    def adopt(self, pending: OpenRequest, worker: BoundPeer) -> None:
        """Mark a re-announced request as in flight at the worker that says so, and tell that worker of it."""
        if pending.state == "waiting":
            pending.service.waiting.remove(pending)
        self._bind(pending, worker)
        self.ask_anew(pending, worker, is_stopped=False)

    def _bind(self, pending: OpenRequest, worker: BoundPeer) -> None:
        message_id = pending.header.message_id
        pending.move("bound")
        pending.worker = worker
        worker.in_flight[message_id] = pending
        self._state.in_flight += 1
        pending.service.in_flight += 1
        late = worker.late.pop(message_id, None)  # its own earlier delivery, if it expired there
        holds_slot = late is not None and late.holds_slot
        if not pending.slotted:
            worker.immediate += 1
            worker.used -= holds_slot
        elif not holds_slot:
            worker.used += 1
        if pending.sticky:
            pending.service.sticky.started(pending.sticky, worker)

    def pump(self, worker: BoundPeer) -> None:
        """Deliver what waits to the worker as far as it has room."""
        service = worker.service
        if service is None or not worker.takes_work or self._state.is_collecting:
            return
        room = service.waiting
        while room.count and worker.has_slot:
            pending = room.take(worker.instance, worker.tool_queues, slotted=True)
            if pending is None:
                break
            pending.move("taken_out")
            self.place(pending)
        while room.count and worker.immediate < self._mailbox_max and worker.takes_work:
            pending = room.take(worker.instance, worker.tool_queues, slotted=False)
            if pending is None:
                break
            pending.move("taken_out")
            self.place(pending)

    def take_back(self, pending: OpenRequest, worker: BoundPeer) -> None:
        """Deliver a lost worker's request to another one if it may be redelivered, else tell the requester."""
        self._endings.unbind(pending)
        name, message_id = worker.instance, pending.header.message_id
        if pending.after("worker_lost") == "done":
            words = f"{message_id} was cancelled; {name} is lost"
            self._endings.fail(pending, "cancelled", words, by="worker_lost")
        elif not pending.row.redeliver or pending.direct:
            self._endings.fail(pending, "peer_lost", f"{name} was lost while it worked on {message_id}")
        elif pending.header.attempt >= self._state.settings.attempts_max:
            self._endings.dead_letter(pending, "attempts_exhausted")
        else:
            pending.move("worker_lost")
            pending.header = pending.header._replace(attempt=pending.header.attempt + 1)
            self._state.counts["redelivered"] += 1
            pending.waits_since = self._state.now
            self.place(pending)

    def replace_waiting(self, waiting: Iterable[OpenRequest]) -> None:
        """Place anew what waited under conditions that no longer hold."""
        for pending in waiting:
            if pending.state == "waiting":
                self.take_out(pending)
                self.place(pending)

    def take_out(self, pending: OpenRequest) -> None:
        """Take a request out of its queue, to be placed anew."""
        pending.service.waiting.remove(pending)
        pending.move("taken_out")

    def flush_absent(self, service: Service) -> None:
        """Fail requests for a service that nobody offered within its grace, or that was given up; posts wait on."""
        for pending in service.waiting.list_all():
            if pending.state == "waiting" and not pending.direct and (not pending.is_post or service.is_given_up):
                self._end_without_service(pending)

    def _find_owner(self, pending: OpenRequest, able: Collection[BoundPeer]) -> BoundPeer | None:
        """Return the owner of the request's key, one of `able`."""
        sticky, key = pending.service.sticky, pending.sticky
        owner = sticky.owner(key, self._state.now)
        if owner is None or owner not in able:
            ready = [peer for peer in able if peer.takes_work]
            owner = choose_owner(key, ready) if ready else None
            if owner is not None:
                sticky.assign(key, owner, self._state.now)
        return owner

    def _has_room(self, worker: BoundPeer, pending: OpenRequest) -> bool:
        if pending.slotted:
            return worker.has_slot
        return pending.is_post or worker.immediate < self._mailbox_max

    def _await_service(self, pending: OpenRequest, *, bounded: bool) -> None:
        if self._is_without_hope(pending):
            self._end_without_service(pending)
        else:
            self._wait(pending, ANYBODY, bounded=bounded)

    def _is_without_hope(self, pending: OpenRequest) -> bool:
        """Return whether nobody has offered the service for its grace, or nobody will."""
        service = pending.service
        absent_since = service.absent_since
        return absent_since is not None and (
            service.is_given_up or (not pending.is_post and self._state.now >= absent_since + self._grace_s)
        )

    def _await_instance(self, pending: OpenRequest, *, bounded: bool) -> None:
        why = self._state.gone.get(pending.direct)
        if why is not None:
            self._endings.fail(pending, "no_route", f"{pending.direct} is gone ({why})")
            return
        self._state.deadlines.hasten(pending, self._state.now + self._grace_s)
        self._wait(pending, pending.direct, bounded=bounded)

    def _end_without_service(self, pending: OpenRequest) -> None:
        name = pending.service.name
        why = "was given up by the launcher" if pending.service.is_given_up else "is offered by nobody"
        self._endings.fail(
            pending, "no_route", f"{pending.header.type} {pending.header.message_id}: {name} {why}; see `hobus ps`"
        )

    def _wait(self, pending: OpenRequest, target: str, *, bounded: bool) -> None:
        service = pending.service
        if bounded and service.waiting.count >= self._queue_max:
            self._endings.fail(pending, "busy", f"{service.waiting.count} requests wait for {service.name}: try later")
            return
        pending.move("queued")
        service.waiting.add(pending, target)
        self._state.tap(
            "queued", pending.make_tap_header(), pending.requester.instance, worker=target, body=pending.body
        )


def _is_on_its_way(pending: OpenRequest) -> bool:
    """Return whether a worker says that it is starting what may bring the tool; such a start ends by itself."""
    said = [peer.announced_tools for peer in pending.service.offering if not peer.is_leaving]
    return any(
        source.state == "starting" and source.may_bring(pending.tool)
        for announced in said
        if announced is not None
        for source in announced.sources.values()
    )


def choose_least_loaded(offering: Iterable[BoundPeer], *, slotted: bool, mailbox_max: int) -> BoundPeer | None:
    """Return the worker with room that has the least to do; of equals the first.

    `offering`: the one idle longest first.

    A worker without any work ends the search, so that an order among thousands costs what it costs among few.
    """
    best: BoundPeer | None = None
    best_load = 0.0
    for peer in offering:
        if not peer.takes_work:
            continue
        if slotted:
            if not peer.has_slot:
                continue
            load = max(peer.used, peer.at_work) / peer.slots
        else:
            if peer.immediate >= mailbox_max:
                continue
            load = float(peer.immediate)
        if not load:
            return peer
        if best is None or load < best_load:
            best, best_load = peer, load
    return best
