"""The intents of a turn: what its message does to them is journaled, once however often the run is driven."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.attention.context import Fragment
from hobus.actors.ho2_supervisor.limits import HISTORY_DIGEST_CHARS
from hobus.actors.ho2_supervisor.session.intents import has_own_words
from hobus.actors.ho2_supervisor.turn.classification import Classification
from hobus.actors.ho2_supervisor.turn.history import ERASED, make_one_line
from hobus.actors.ho2_supervisor.turn.intent_rules import resolve_intent_transition
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
    events = resolve_intent_transition(
        before.active, derive_intent_id(run.session.session_id, before.next_seq), signal=labels.action,
        objective=objective, message_ref=run.requested.input_ref, at=run.session.now(),
    )  # fmt: skip
    for event in events:
        has_words = isinstance(event, IntentDeclared) and bool(objective)
        run.effects.step(event, bodies=[objective.encode()] if has_words else [])


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
