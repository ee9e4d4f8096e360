"""What is alive in a session, read off the record: the model to which its fold is held.

Joined across its streams by the orders' ids; order is the ledger's sequence, so that no clock decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from hobus.actors.ho2_supervisor.projection.liveness import IntentLife, IntentStatus, LivenessState, map_by_id
from hobus.actors.ho2_supervisor.session.order_lives import OrderLives, read_failure
from hobus.bus.messages.ids import format_iso_us
from hobus.bus.messages.ledger import Entry
from hobus.bus.record import session_facts as events
from hobus.bus.record.journal import read_event, read_recorded
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.orders import ConsolidationDispatched, Escalation

_JOURNAL = "session/"


def reduce_liveness(ho2m_entries: Iterable[Entry], ho1m_entries: Iterable[Entry]) -> LivenessState:
    """What is alive in one session, whatever the order in which its entries are given.

    `ho2m_entries`: what HO2 wrote of it, its journal and stream ho2m; `ho1m_entries`: stream ho1m. Entries that are
    about neither intents nor orders are passed over, and so are those that were erased. Raises ValueError for entries
    of several sessions.
    """
    entries = {entry.sequence: entry for entry in (*ho2m_entries, *ho1m_entries)}
    sessions = {entry.provenance.session_id for entry in entries.values()} - {""}
    if len(sessions) > 1:
        raise ValueError(f"entries of {len(sessions)} sessions: {', '.join(sorted(sessions))}")
    fold = _Fold()
    for sequence in sorted(entries):
        fold.take(entries[sequence])
    return fold.state()


class _Fold:
    """Entries in the order of the record."""

    def __init__(self) -> None:
        self._intents: dict[str, IntentLife] = {}
        self._orders = OrderLives()
        self._is_open = False

    def state(self) -> LivenessState:
        return LivenessState(self._intents, map_by_id(self._orders), self._is_open)

    def take(self, entry: Entry) -> None:
        """One more; the pool's record of an order, its journal's, and what HO2 says beside that."""
        order, at = entry.provenance.work_order_id, format_iso_us(entry.at_us)
        match entry.event_type:
            case "TOOL_STARTED":
                self._orders.started(order)
            case "WO_COMPLETED":
                self._orders.ended(order, at, failure="")
            case "WO_FAILED":
                self._orders.ended(order, at, failure=entry.reason or "execution_error")
            case "ESCALATION":
                if (said := read_payload(Escalation, entry)) is not None:
                    self._orders.note_escalated(said.wo_id, at)
            case "WO_DISPATCHED" if not entry.stream.startswith(_JOURNAL):
                if (given := read_payload(ConsolidationDispatched, entry)) is not None:
                    self._orders.note_dispatched(order or given.order.wo_id, given.order)
            case _ if entry.stream.startswith(_JOURNAL) and read_recorded(entry) is not None:
                self._of_journal(read_event(entry).event)
            case _:
                pass

    def _of_journal(self, event: events.SessionFact) -> None:
        match event:
            case events.SessionStarted():
                self._is_open = True
            case events.SessionEnded():
                self._is_open = False
                for intent_id in [one for one, life in self._intents.items() if life.status == "active"]:
                    self._over(intent_id, "closed", event.at)
            case events.IntentDeclared():
                life = IntentLife("active", event.scope, event.objective_ref, event.at)
                self._intents[event.intent_id] = life
            case events.IntentSuperseded():
                self._over(event.intent_id, "superseded", event.at)
            case events.IntentClosed():
                self._over(event.intent_id, "closed", event.at)
            case events.OrderDispatched():
                self._orders.note_dispatched(event.wo_id, event.order)
            case events.OrderEnded():
                self._orders.ended(event.wo_id, event.receipt.completed_at, failure=read_failure(event.receipt))
            case _:
                pass

    def _over(self, intent_id: str, status: IntentStatus, at: str) -> None:
        life = self._intents.get(intent_id)
        if life is not None:
            self._intents[intent_id] = life._replace(status=status, closed_at=at)
