"""Clients' requests on their way in: at their rate while others ask, too (`bus/pacing.py`); the rest waits here."""

from __future__ import annotations

from hobus.bus.broker.admission import row_for
from hobus.bus.broker.endings import Endings
from hobus.bus.broker.intake import Asked, share_of, shares_of
from hobus.bus.broker.membership import Membership
from hobus.bus.broker.peers import BoundPeer
from hobus.bus.broker.state import State
from hobus.bus.catalog import Row
from hobus.bus.envelope import Header, Kind
from hobus.bus.pacing import TOO_MUCH, may_wait_whole


class Paced:
    """Who has its turn, who waits for it, and what was asked too often to wait."""

    def __init__(self, state: State, endings: Endings, membership: Membership) -> None:
        self._state = state
        self._endings = endings
        self._membership = membership

    def has_turn(self, peer: BoundPeer, frame: Header, header_bytes: int, body: bytes) -> bool:
        """Whether this may come in now, and is charged; if not it waits, or was told `busy`."""
        state = self._state
        pacing, now = state.pacing, state.now
        state.others.heard(peer.principal, now)
        row = _row_of(frame)
        share = _share_of(peer, row)
        if pacing.arrives(share, peer.principal, now):
            self._charge(peer, share, row, len(body))
            return True
        fits = may_wait_whole(pacing.sizes, share, len(body), state.settings)
        asked = Asked(peer, frame, header_bytes, body if fits else None, len(body), now)
        kept = len(body) if fits else 0
        verdict = pacing.wait(share, _key_of(peer, frame.message_id), asked, kept, dropped_bytes=len(body) - kept)
        if verdict == "cut off":
            self._membership.cut_off(peer.connection, TOO_MUCH)
        elif verdict == "full":
            self.refuse(asked, f"{state.settings.client_waiting_max} requests wait (bus.client_waiting_max)")
        return False

    def due(self) -> list[Asked]:
        """Whose turn has come, with the time left to it, charged; who was lost meanwhile will ask again."""
        state = self._state
        found: list[Asked] = []
        for asked in state.pacing.take(state.now):
            row, body = _row_of(asked.frame), asked.body
            self._charge(asked.peer, _share_of(asked.peer, row), row, asked.size_bytes)
            if asked.peer.is_lost:
                continue
            waited_ms = int((state.now - asked.arrived_at) * 1000)
            left_ms = max(0, asked.frame.deadline_ms - waited_ms)
            asked = asked._replace(frame=asked.frame._replace(deadline_ms=left_ms))  # noqa: PLW2901 - with its time
            if body is None:
                self.refuse(asked, f"bodies of {asked.peer.principal} wait (bus.client_open_max_bytes)")
            else:
                found.append(asked)
        return found

    def cancel(self, peer: BoundPeer, message_id: str) -> bool:
        """Whether it waited here; it does not any more, and whoever asked is told so."""
        for share in shares_of(peer.principal):
            asked = self._state.pacing.leave(share, _key_of(peer, message_id))
            if asked is not None:
                detail = f"{asked.frame.type} {message_id} was cancelled before it came in"
                self._end(asked, "cancelled", detail)
                return True
        return False

    def refuse(self, asked: Asked, why: str) -> None:
        """It does not come in for now."""
        self._end(asked, "busy", f"{asked.frame.type} {asked.frame.message_id}: {why}")

    def _end(self, asked: Asked, code: str, detail: str) -> None:
        if asked.frame.kind == Kind.REQUEST:
            self._endings.refuse(asked.peer, asked.frame, code, detail)

    def _charge(self, peer: BoundPeer, share: str, row: Row | None, size_bytes: int) -> None:
        units = (row.work if row is not None else 1) + size_bytes // self._state.settings.fair_unit_bytes
        self._state.pacing.charge(share, peer.principal, units, self._state.now)


def _key_of(peer: BoundPeer, message_id: str) -> str:
    """Two connections of one process may ask under the same id, and both want to be told."""
    return f"{peer.instance} {message_id}"


def _row_of(frame: Header) -> Row | None:
    return row_for(frame.destination.partition("/")[0], frame)


def _share_of(peer: BoundPeer, row: Row | None) -> str:
    return share_of(peer, row) if row is not None else peer.principal
