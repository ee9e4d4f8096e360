"""How a request ends without a reply: the typed Failure, the tap's verdict, the counters. Exactly once per request."""

from __future__ import annotations

from hobus.bus import limits
from hobus.bus.broker.peers import BoundPeer, Late, OpenRequest
from hobus.bus.broker.records import RecordBook
from hobus.bus.broker.state import State
from hobus.bus.broker.transitions import RequestEvent
from hobus.bus.envelope import Header, Kind
from hobus.bus.errors import BusError
from hobus.bus.messages.control import Cancelled

_VERDICTS = {"denied": "denied", "malformed": "malformed", "expired": "expired", "cancelled": "cancelled"}


class Endings:
    """End pending requests and refuse frames."""

    def __init__(self, state: State, records: RecordBook) -> None:
        self._state = state
        self._records = records

    def finish(self, pending: OpenRequest, by: RequestEvent) -> None:
        """Take the request out of every table and release its body; the heap may still hold its shell."""
        if pending.state == "waiting":
            pending.service.waiting.remove(pending)
        pending.move(by)
        if not pending.is_post:
            del self._state.asked[pending.requester.role][pending.header.message_id]
        if pending.row.timed:
            self._state.times[pending.row.timed].add(self._state.now - pending.came_at)
        if pending.share:
            self._state.shares.give_back(pending.share, len(pending.body))
        pending.body = b""
        self._state.deadlines.forget(pending)

    def unbind(self, pending: OpenRequest, *, keeps_slot: bool = False) -> None:
        """Detach the request from its worker; `keeps_slot`: the worker goes on, and its answer is nobody's."""
        worker = pending.worker
        if worker is None:
            return
        state = self._state
        message_id = pending.header.message_id
        pending.worker = None
        del worker.in_flight[message_id]
        state.in_flight -= 1
        pending.service.in_flight -= 1
        if not pending.slotted:
            worker.immediate -= 1
        elif not keeps_slot:
            worker.used -= 1
        if keeps_slot:
            late = Late(holds_slot=pending.slotted, attempt=pending.header.attempt)
            remember_late(worker, message_id, late, bound=limits.DEDUPE_WINDOW)
        if pending.sticky:
            pending.service.sticky.ended(pending.sticky, worker, state.now)

    def fail(
        self,
        pending: OpenRequest,
        code: str,
        detail: str,
        *,
        retryable: bool | None = None,
        by: RequestEvent = "failed",
    ) -> None:
        """Answer the requester with a Failure (retryable as its code says, unless given); make a post a dead letter."""
        self.unbind(pending)
        self.finish(pending, by)
        pending.service.failed[code] += 1
        for requester in (pending.requester, *pending.also):
            verdict = _VERDICTS.get(code, "failed")
            self._answer(requester, pending.header, code, detail, verdict, retryable=retryable)

    def expire(self, pending: OpenRequest) -> None:
        """End a request whose deadline passed: tell the requester, and tell the worker to stop."""
        worker = pending.worker
        if worker is not None:
            self.unbind(pending, keeps_slot=True)
            message_id = pending.header.message_id
            self._state.say(worker, Kind.CANCEL, Cancelled(reason="deadline"), correlation_id=message_id)
        where = f"at {worker.instance}" if worker is not None else "in the queue"
        words = f"{_name_frame(pending.header)} was not answered within its deadline; it was {where}"
        self.fail(pending, "expired", words, by="expired")

    def dead_letter(self, pending: OpenRequest, code: str) -> None:
        """Give a request or post up: count, tap, record; a request's sender gets `peer_lost`, a post's nothing."""
        state = self._state
        state.counts["dead_letters"] += 1
        self._records.note("DEAD_LETTER", code, pending.requester.instance, pending.header, pending.service.name)
        if pending.is_post:
            self.finish(pending, "failed")
            pending.service.failed[code] += 1
            state.tap("dead", pending.header, pending.requester.instance, code=code)
            return
        state.tap("dead", pending.header, pending.requester.instance, code=code)
        self.fail(
            pending,
            "peer_lost",
            f"{_name_frame(pending.header)} lost its worker {pending.header.attempt} times (bus.attempts_max "
            f"{state.settings.attempts_max}); see what kills the workers of {pending.service.name}",
        )

    def deny(self, peer: BoundPeer, frame: Header, body: bytes, reason: str, detail: str) -> None:
        """Refuse a frame that the policy forbids: count, tap, record, and answer it if it asked."""
        state = self._state
        state.counts["denied"] += 1
        frame = frame._replace(sensitive=True)  # what it holds is unknown
        service = frame.destination.partition("/")[0]
        self._records.note("DENIED", reason, peer.instance, frame, service if service in state.services else "")
        if frame.kind in (Kind.REQUEST, Kind.POST):
            self._answer(peer, frame, "denied", detail, "denied", body=body, shown=reason)
        else:
            state.tap("denied", frame, peer.instance, body=body, code=reason)

    def refuse(self, peer: BoundPeer, frame: Header, code: str, detail: str, *, body: bytes = b"") -> None:
        """Answer an asking frame that never became pending with a Failure."""
        self._state.counts[code] += 1
        self._answer(peer, frame, code, detail, _VERDICTS.get(code, "failed"), body=body)

    def _answer(  # noqa: PLR0913 - what a failure says
        self,
        to: BoundPeer,
        frame: Header,
        code: str,
        detail: str,
        verdict: str,
        *,
        body: bytes = b"",
        shown: str = "",
        retryable: bool | None = None,
    ) -> None:
        state = self._state
        retry_after_ms = limits.BUSY_RETRY_MS if code == "busy" else None
        failure = BusError(code, detail, retryable=retryable, retry_after_ms=retry_after_ms).as_failure()
        state.say(to, Kind.FAILURE, failure, correlation_id=frame.message_id, trace=frame.trace)
        state.tap(verdict, frame, to.instance, body=body, code=shown or code)


def remember_late(worker: BoundPeer, message_id: str, late: Late, *, bound: int) -> None:
    """Remember that an answer may still come for this id; beyond `bound` forget the oldest and free their slots."""
    worker.late[message_id] = late
    while len(worker.late) > bound:
        _, forgotten = worker.late.popitem(last=False)
        worker.used -= forgotten.holds_slot


def _name_frame(frame: Header) -> str:
    return f"{frame.type} {frame.message_id} to {frame.destination}"
