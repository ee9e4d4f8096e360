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
from hobus.bus.record.session_facts import IntentClosed, IntentConflict, IntentDeclared, IntentSuperseded

Action = Literal["declare", "continue", "supersede", "close", "noop"]

HELD = ("none", "one", "several")
SIGNALS = ("new", "continue", "close", "unclear", "")
"""What a classification says of the message's intent; empty: nothing, or there is no classification."""


class Rule(NamedTuple):
    """What is done, and why that is not certain (a closed code; empty: it is)."""

    action: Action
    conflict: str = ""


RULESET: Mapping[tuple[str, str], Rule] = {
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


def resolve_intent_transition(  # noqa: PLR0913 - what is known of a message's intent
    active: Sequence[IntentDeclared], next_intent_id: str, *, signal: str, objective: str, message_ref: str, at: str
) -> list[IntentFact]:
    """Return the journal's events of the table's decision, in order: one is superseded before the next is declared.

    `active`: in the order of their declaration. An unknown signal counts as none. `objective`: in a model's words;
    empty: the message itself.
    """
    held, newest = HELD[min(len(active), 2)], active[-1].intent_id if active else ""
    rule = RULESET.get((held, signal)) or RULESET[held, ""]
    events: list[IntentFact] = []
    if rule.action == "supersede":
        events.append(
            IntentSuperseded(
                intent_id=newest, superseded_by_intent_id=next_intent_id, reason="new_objective", at=at
            )
        )  # fmt: skip
    if rule.action == "close":
        events.append(IntentClosed(intent_id=newest, outcome="closed", reason="close_signal", at=at))
    if rule.action in ("declare", "supersede"):
        own_ref = derive_body_ref(derive_intent_entry_id("INTENT_DECLARED", next_intent_id), 1)
        events.append(
            IntentDeclared(
                intent_id=next_intent_id, scope="session", objective_ref=own_ref if objective else message_ref,
                parent_intent_id=newest or None, at=at,
            )
        )  # fmt: skip
    if rule.conflict:
        active_ids = [intent.intent_id for intent in active]
        events.append(IntentConflict(reason=rule.conflict, active_intent_ids=active_ids, chosen=newest, at=at))
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
