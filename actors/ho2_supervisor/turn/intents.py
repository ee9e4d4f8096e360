"""The intents of a turn: what its message does to them is journaled, once however often the run is driven."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.attention.context import Fragment
from hobus.actors.ho2_supervisor.limits import HISTORY_DIGEST_CHARS
from hobus.actors.ho2_supervisor.session.intents import IntentFact, has_own_words
from hobus.actors.ho2_supervisor.turn import intent_rules
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.history import ERASED, make_one_line
from hobus.actors.ho2_supervisor.turn.intent_rules import ActiveIntents, ClassifyResult
from hobus.actors.ho2_supervisor.turn.run import Run
from hobus.bus.messages.ids import derive_intent_id
from hobus.bus.record.session_facts import IntentDeclared
from hobus.bus.record.text_parts import TextPart


def settle(run: Run, labels: Classification) -> None:
    """Journal what this message does to the intents that were active when its run was requested.

    Driven again, the run decides the same; what its journal has of that already is not recorded again.
    """
    before = run.memo.intents
    objective = make_one_line(labels.objective, HISTORY_DIGEST_CHARS)
    decision = intent_rules.resolve_intent_transition(
        ActiveIntents(before.active, derive_intent_id(run.session.session_id, before.next_seq)),
        ClassifyResult(labels.action, objective, run.requested.input_ref),
        intent_rules.RULESET,
    )
    for event in intent_rules.list_events(decision, run.session.now()):
        run.effects.step(event, bodies=_list_words(event, objective))


def show_active_objective(run: Run) -> list[Fragment]:
    """Return the session's objective for a classification; by ref where the words stand alone in the record.

    Empty where no intent is active.
    """
    intent = run.memo.intents.newest
    if intent is None:
        return []
    words, ref = run.session.record.objectives.get(intent.objective_ref), intent.objective_ref
    part = TextPart(None, ERASED) if words is None else TextPart(ref if has_own_words(ref) else None, words)
    return [Fragment("liveness", intent.intent_id, (part,))]


def _list_words(event: IntentFact, objective: str) -> list[bytes]:
    return [objective.encode()] if isinstance(event, IntentDeclared) and objective else []
