"""What is alive in a session as fragments of a context, in the order of their priority. Pure.

First comes the active intent, then what failed, then what has no end yet, the newest first. How much of it a prompt
shows is the attention engine's to say, by its template and budget.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hobus.actors.ho2_supervisor.attention.context import Fragment, make_fragment
from hobus.actors.ho2_supervisor.projection.liveness import LivenessState
from hobus.actors.ho2_supervisor.session.intents import has_own_words
from hobus.actors.ho2_supervisor.session.order_lives import OrderLife
from hobus.actors.ho2_supervisor.turn.history import ERASED
from hobus.bus.record.text_parts import TextPart

PRIORITIES = ("intent", "failed", "open", "memory")
_SHORTENED = "CONTEXT_TOO_LONG"
"""Of a prompt that was shortened and asked again, or that ended its turn: another fact of it fills the window more."""
_LEAD = "active intent: "


def make_liveness_fragments(
    state: LivenessState, objectives: Mapping[str, str], shown: Collection[str]
) -> list[Fragment]:
    """Return what is active, by priority. `objectives`: ref -> words, else erased; `shown`: intents to be told."""
    active, orders = state.active_intents, _list_newest_first(state)
    told = [one for one in reversed(active) if one in shown]
    return [
        *(_make_intent(intent_id, state.intents[intent_id].objective, objectives) for intent_id in told),
        *(_make_failed(life) for life in orders if life.status == "failed" and life.reason != _SHORTENED),
        *(
            make_fragment("liveness", life.wo_id, f"without an end: {_describe_order(life)}")
            for life in orders
            if life.is_open
        ),
    ]


def _list_newest_first(state: LivenessState) -> list[OrderLife]:
    """Return orders without an intent, or of an active one, newest first; orders of closed intents concern nobody."""
    concerned = (None, *state.active_intents)
    return [life for life in list(state.work_orders.values())[::-1] if life.intent_id in concerned]


def _make_intent(intent_id: str, ref: str, objectives: Mapping[str, str]) -> Fragment:
    """Return an intent's words by their ref, which names them alone."""
    words = objectives.get(ref)
    if words is None or not has_own_words(ref):
        return make_fragment("liveness", intent_id, _LEAD + (ERASED if words is None else words))
    return Fragment("liveness", intent_id, (TextPart(None, _LEAD), TextPart(ref, words)))


def _make_failed(life: OrderLife) -> Fragment:
    why = "its answer was not good enough" if life.is_escalated else life.reason
    return make_fragment("liveness", life.wo_id, f"failed: {_describe_order(life)} ({why})")


def _describe_order(life: OrderLife) -> str:
    """Describe an order in words: what it was for, and its turn's number."""
    run = life.wo_id.rpartition("-")[2].partition(".")[0]
    what = f"call of {life.tool_id}" if life.tool_id else life.wo_type or "order"
    return f"{what} in turn {run}"
