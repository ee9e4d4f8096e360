"""Clients' requests on their way in: at their rate while others ask, too (`bus/pacing.py`); the rest waits here."""

from __future__ import annotations

from dataclasses import dataclass

from hobus.bus.broker.admission import row_for
from hobus.bus.broker.endings import Endings
from hobus.bus.broker.membership import Membership
from hobus.bus.broker.peers import BoundPeer, share_of, shares_of
from hobus.bus.broker.state import State
from hobus.bus.envelope import Header, Kind
from hobus.bus.pacing import TOO_MUCH, WaitingAsk


@dataclass
class Paced:
    """Who has its turn, who waits for it, and what was asked too often to wait."""

    _state: State
    _endings: Endings
    _membership: Membership

    def has_turn(self, peer: BoundPeer, frame: Header, header_bytes: int, body: bytes) -> bool:
        """Whether this may come in now, and is charged; if not it waits, or was told `busy`."""
        state = self._state
        state.others.heard(peer.principal, state.now)
        row = row_for(frame.destination.partition("/")[0], frame)
        verdict = state.pacing.takes(
            peer, frame, header_bytes, body, instance=peer.instance, principal=peer.principal,
            share=share_of(peer, row) if row is not None else peer.principal, work=row.work if row is not None else 1,
            now=state.now,
        )  # fmt: skip
        if verdict == "cut off":
            self._membership.cut_off(peer.connection, TOO_MUCH)
        elif verdict == "full":
            why = f"{state.settings.client_waiting_max} requests wait (bus.client_waiting_max)"
            self._end(peer, frame, "busy", f"{frame.type} {frame.message_id}: {why}")
        return verdict == "goes on"

    def due(self) -> list[WaitingAsk[BoundPeer]]:
        """Whose turn has come, with the time left to it, charged; who was lost meanwhile will ask again."""
        found: list[WaitingAsk[BoundPeer]] = []
        for asked in self._state.pacing.due(self._state.now):
            if asked.body is not None and not asked.client.is_lost:
                found.append(asked)
            elif not asked.client.is_lost:
                why = f"bodies of {asked.principal} wait (bus.client_open_max_bytes)"
                self._end(asked.client, asked.frame, "busy", f"{asked.frame.type} {asked.frame.message_id}: {why}")
        return found

    def cancel(self, peer: BoundPeer, message_id: str) -> bool:
        """Whether it waited here; it does not any more, and whoever asked is told so."""
        asked = self._state.pacing.given_up(peer.instance, message_id, *shares_of(peer.principal))
        if asked is not None:
            detail = f"{asked.frame.type} {message_id} was cancelled before it came in"
            self._end(asked.client, asked.frame, "cancelled", detail)
        return asked is not None

    def _end(self, peer: BoundPeer, frame: Header, code: str, detail: str) -> None:
        if frame.kind == Kind.REQUEST:
            self._endings.refuse(peer, frame, code, detail)
