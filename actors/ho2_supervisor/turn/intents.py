"""The intents of a turn: what its message does to them is journaled, once however often the run is driven."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.session.intents import IntentFact, Intents, has_own_words
from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.turn import intent_rules
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.history import ERASED, one_line
from hobus.actors.ho2_supervisor.turn.intent_rules import ActiveIntents, ClassifyResult
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.ids import intent_id
from hobus.bus.messages.work_order import Segment
from hobus.bus.record.session_facts import IntentDeclared


def settle(run: Run, labels: Classification) -> None:
    """The session's intents are what this message makes of those that were active when its run was requested.

    Driven again, the run decides the same; what its journal has of that already is not recorded again.
    """
    before = run.memo.intents
    objective = one_line(labels.objective, run.config.ho2.history_digest_chars)
    decision = intent_rules.resolve_intent_transition(
        ActiveIntents(before.active, intent_id(run.session.session_id, before.next_seq)),
        ClassifyResult(labels.action, objective, run.requested.input_ref),
        intent_rules.RULESET,
    )
    for event in intent_rules.events_of(decision, run.session.now()):
        run.effects.step(event, bodies=_words(event, objective))


def active_objective(run: Run) -> list[Segment]:
    """What the session is for so far, as a classification is told it; nothing where nothing is."""
    return objective_segments(run.session.record, run.memo.intents, "active_intent")


def objective_segments(record: SessionRecord, intents: Intents, name: str) -> list[Segment]:
    """The newest active intent's words; by ref where they stand alone in the record."""
    intent = intents.newest
    if intent is None:
        return []
    words, ref = record.objectives.get(intent.objective_ref), intent.objective_ref
    if words is None:
        return [Segment(name=name, text=ERASED)]
    return [Segment(name=name, ref=ref if has_own_words(ref) else None, text=words)]


def _words(event: IntentFact, objective: str) -> list[bytes]:
    return [objective.encode()] if isinstance(event, IntentDeclared) and objective else []
