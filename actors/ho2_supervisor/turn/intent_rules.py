"""What a turn's message does to the intents of its session. Pure; the whole of it is one table.

A session is for one thing at a time: what is new takes the place of what was. Where that is not certain, the turn goes
on under the newest intent, and says so in the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple

from hobus.actors.ho2_supervisor.session.intents import IntentFact
from hobus.bus.messages.base import canonical_bytes, compute_digest
from hobus.bus.messages.ids import derive_body_ref, derive_intent_entry_id
from hobus.bus.record.session_facts import IntentClosed, IntentConflict, IntentDeclared, IntentScope, IntentSuperseded

Held = Literal["none", "one", "several"]
Signal = Literal["new", "continue", "close", "unclear", ""]
Action = Literal["declare", "continue", "supersede", "close", "noop"]

HELD: tuple[Held, ...] = ("none", "one", "several")
SIGNALS: tuple[Signal, ...] = ("new", "continue", "close", "unclear", "")
"""What a classification says of the message's intent; empty: nothing, or there is no classification."""


_SIGNAL_OF: Mapping[str, Signal] = {signal: signal for signal in SIGNALS}


class Rule(NamedTuple):
    """What is done, and why that is not certain (a closed code; empty: it is)."""

    action: Action
    conflict: str = ""


RULESET: Mapping[tuple[Held, Signal], Rule] = {
    ("none", "new"): Rule("declare"),
    ("none", "continue"): Rule("declare"),
    ("none", "unclear"): Rule("declare"),
    ("none", ""): Rule("declare"),
    ("none", "close"): Rule("noop"),
    ("one", "continue"): Rule("continue"),
    ("one", ""): Rule("continue"),
    ("one", "new"): Rule("supersede"),
    ("one", "close"): Rule("close"),
    ("one", "unclear"): Rule("continue", "unclear_signal"),
    **dict.fromkeys(product(("several",), SIGNALS), Rule("continue", "several_active")),
}
"""Active intents x signal -> rule (docs/glossary.md, intent)."""


class ActiveIntents(NamedTuple):
    """The active intents in the order of their declaration, and the id that the next one would get."""

    intents: Sequence[IntentDeclared]
    next_intent_id: str


class ClassifyResult(NamedTuple):
    """What is known of a message's intent. `objective`: in a model's words; empty: the message itself."""

    action: str
    objective: str
    message_ref: str


class NewIntent(NamedTuple):
    """An intent to be declared."""

    intent_id: str
    scope: IntentScope
    objective_ref: str


class ConflictFlag(NamedTuple):
    """Why the decision is not certain."""

    reason: str
    active_intent_ids: tuple[str, ...]
    chosen: str


class Decision(NamedTuple):
    """What becomes of the intents in this turn."""

    action: Action
    new_intent: NewIntent | None = None
    closed_intent_id: str | None = None
    conflict_flag: ConflictFlag | None = None


def resolve_intent_transition(
    active_intents: ActiveIntents, classify_result: ClassifyResult, ruleset: Mapping[tuple[Held, Signal], Rule]
) -> Decision:
    """Return the table's decision; an unknown signal counts as none."""
    active = active_intents.intents
    held = HELD[min(len(active), 2)]
    signal = _SIGNAL_OF.get(classify_result.action, "")
    rule = ruleset[held, signal]
    newest = active[-1].intent_id if active else None
    flag = None
    if rule.conflict and newest is not None:
        flag = ConflictFlag(rule.conflict, tuple(intent.intent_id for intent in active), newest)
    return Decision(
        action=rule.action,
        new_intent=_make_new(active_intents, classify_result) if rule.action in ("declare", "supersede") else None,
        closed_intent_id=newest if rule.action in ("supersede", "close") else None,
        conflict_flag=flag,
    )


def _make_new(active_intents: ActiveIntents, classify_result: ClassifyResult) -> NewIntent:
    intent_id = active_intents.next_intent_id
    own_ref = derive_body_ref(derive_intent_entry_id("INTENT_DECLARED", intent_id), 1)
    return NewIntent(intent_id, "session", own_ref if classify_result.objective else classify_result.message_ref)


def list_events(decision: Decision, at: str) -> list[IntentFact]:
    """Return the journal's events of a decision, in order: an intent is superseded before the next is declared."""
    new, closed, flag = decision.new_intent, decision.closed_intent_id, decision.conflict_flag
    events: list[IntentFact] = []
    if closed is not None and new is not None:
        events.append(
            IntentSuperseded(
                intent_id=closed, superseded_by_intent_id=new.intent_id, reason="new_objective", at=at
            )
        )  # fmt: skip
    elif closed is not None:
        events.append(IntentClosed(intent_id=closed, outcome="closed", reason="close_signal", at=at))
    if new is not None:
        events.append(
            IntentDeclared(
                intent_id=new.intent_id,
                scope=new.scope,
                objective_ref=new.objective_ref,
                parent_intent_id=closed,
                at=at,
            )
        )
    if flag is not None:
        active_ids = list(flag.active_intent_ids)
        events.append(IntentConflict(reason=flag.reason, active_intent_ids=active_ids, chosen=flag.chosen, at=at))
    return events


def list_closing_events(active: Sequence[IntentDeclared], at: str) -> list[IntentFact]:
    """Return the events that close what is active at SESSION_END."""
    return [
        IntentClosed(intent_id=intent.intent_id, outcome="session_ended", reason="session_ended", at=at)
        for intent in active
    ]


def list_ruleset_rows() -> list[list[str]]:
    """Return the table as rows in a fixed order, of which its hash is made."""
    return [[*key, *RULESET[key]] for key in product(HELD, SIGNALS)]


def hash_canonical(rules: object) -> str:
    """Return `sha256:<hex>` of rules and settings as one canonical value."""
    return compute_digest(canonical_bytes(rules))
