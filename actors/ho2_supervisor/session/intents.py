"""The intents of a session as its journal folds them: those that are active, and whether they were ever in doubt. Pure.

What a turn does to them decides `turn/intent_rules.py`; here stands what may follow what. An objective is a ref, never
its words.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from hobus.bus.messages.base import Count
from hobus.bus.messages.ids import Sequence, derive_intent_id
from hobus.bus.record.session_facts import IntentClosed, IntentConflict, IntentDeclared, IntentSuperseded

IntentFact = IntentDeclared | IntentSuperseded | IntentClosed | IntentConflict


class Intents(Struct, frozen=True, array_like=True):
    """The intents of one session; no part is ever changed in place."""

    active: list[IntentDeclared] = []  # in the order of their declaration
    next_seq: Sequence = 1
    conflict_count: Count = 0
    newest_conflict: IntentConflict | None = None

    @property
    def newest(self) -> IntentDeclared | None:
        """Return the intent by which a turn goes; None: none is active."""
        return self.active[-1] if self.active else None

    @property
    def active_ids(self) -> list[str]:
        """Return the ids of active intents in the order of their declaration."""
        return [intent.intent_id for intent in self.active]


NO_INTENTS = Intents()


def has_own_words(objective_ref: str) -> bool:
    """Return whether a body holds the objective and nothing else; False: it is the beginning of a message."""
    return objective_ref.startswith("INTENT_DECLARED:")


def apply_fact(intents: Intents, event: IntentFact, session_id: str) -> Intents | str:
    """Return the intents after the event, or why the event does not apply."""
    match event:
        case IntentDeclared():
            return _declare(intents, event, session_id)
        case IntentConflict():
            return _mark_in_doubt(intents, event)
        case _:
            return _close(intents, event, session_id)


def _declare(intents: Intents, event: IntentDeclared, session_id: str) -> Intents | str:
    expected = derive_intent_id(session_id, intents.next_seq)
    if event.intent_id != expected:
        return f"intent {event.intent_id[:80]}, the next one is {expected}"
    return replace(intents, active=[*intents.active, event], next_seq=intents.next_seq + 1)


def _close(intents: Intents, event: IntentSuperseded | IntentClosed, session_id: str) -> Intents | str:
    if event.intent_id not in intents.active_ids:
        return f"intent {event.intent_id[:80]} is not active"
    if isinstance(event, IntentSuperseded) and event.superseded_by_intent_id != derive_intent_id(
        session_id, intents.next_seq
    ):
        return f"superseded by {event.superseded_by_intent_id[:80]}, which is not the next one"
    return replace(intents, active=[intent for intent in intents.active if intent.intent_id != event.intent_id])


def _mark_in_doubt(intents: Intents, event: IntentConflict) -> Intents | str:
    if event.active_intent_ids != intents.active_ids or event.chosen not in intents.active_ids:
        return "a conflict names the active intents, and chooses one of them"
    return replace(intents, conflict_count=intents.conflict_count + 1, newest_conflict=event)
