"""What a message does to the intents of its session: the whole table, and what of it the journal gets."""

from __future__ import annotations

import pytest

from hobus.actors.ho2_supervisor.turn.intent_rules import (
    HELD,
    RULESET,
    SIGNALS,
    ActiveIntents,
    ClassifyResult,
    Decision,
    hash_canonical,
    list_closing_events,
    list_events,
    list_ruleset_rows,
    resolve_intent_transition,
)
from hobus.bus.record.session_facts import IntentDeclared
from tests.actors.ho2_supervisor.journals import SESSION, at

MESSAGE = f"RunRequested:{SESSION}/i1/1"
NEXT = f"INT-{SESSION}-003"
OWN_WORDS = f"INTENT_DECLARED:{SESSION}/003/1"


def intents(count: int) -> list[IntentDeclared]:
    """So many active ones."""
    ids = [f"INT-{SESSION}-{number:03d}" for number in range(1, count + 1)]
    return [
        IntentDeclared(intent_id=one, scope="session", objective_ref=f"INTENT_DECLARED:{SESSION}/{one[-3:]}/1", at=at())
        for one in ids
    ]


def resolved(active: int, signal: str, objective: str = "see settings") -> Decision:
    """The decision of the shipped table."""
    return resolve_intent_transition(
        ActiveIntents(intents(active), NEXT), ClassifyResult(signal, objective, MESSAGE), RULESET
    )


TABLE = [
    # active, signal -> action, declares, ends, conflict
    (0, "new", "declare", True, None, None),
    (0, "continue", "declare", True, None, None),
    (0, "unclear", "declare", True, None, None),
    (0, "", "declare", True, None, None),
    (0, "close", "noop", False, None, None),
    (1, "continue", "continue", False, None, None),
    (1, "", "continue", False, None, None),
    (1, "new", "supersede", True, "001", None),
    (1, "close", "close", False, "001", None),
    (1, "unclear", "continue", False, None, ("unclear_signal", "001")),
    *((2, signal, "continue", False, None, ("several_active", "002")) for signal in SIGNALS),
]


@pytest.mark.parametrize(("active", "signal", "action", "declares", "ends", "conflict"), TABLE)
def test_table_of_transitions(
    active: int, signal: str, action: str, *, declares: bool, ends: str | None, conflict: tuple[str, str] | None
) -> None:
    """Every cell of the specification's table, and nothing that its row does not name."""
    decision = resolved(active, signal)
    assert decision.action == action
    assert (decision.new_intent is not None) is declares
    assert decision.closed_intent_id == (ends and f"INT-{SESSION}-{ends}")
    flag = decision.conflict_flag
    assert (flag and (flag.reason, flag.chosen[-3:])) == conflict
    if flag is not None:
        assert list(flag.active_intent_ids) == [intent.intent_id for intent in intents(active)]


def test_table_is_whole() -> None:
    """Each number of active intents and each signal has a rule, and each of these is tried above."""
    assert set(RULESET) == {(held, signal) for held in HELD for signal in SIGNALS}
    assert {(HELD[active], signal) for active, signal, *_ in TABLE} == set(RULESET)


def test_signal_that_nobody_knows_counts_as_none() -> None:
    """A model that says another word than the contract's has said nothing."""
    assert resolved(0, "begin").action == "declare"
    assert resolved(1, "begin") == resolved(1, "")


def test_objective_is_named_and_never_copied() -> None:
    """A model's words are a body of the entry that declares them; without such the message is the objective."""
    by_model, by_message = resolved(0, "new").new_intent, resolved(0, "", objective="").new_intent
    assert by_model is not None and by_message is not None
    assert (by_model.intent_id, by_model.scope, by_model.objective_ref) == (NEXT, "session", OWN_WORDS)
    assert by_message.objective_ref == MESSAGE


def test_same_inputs_give_the_same_decision() -> None:
    """Pure: however often it is asked."""
    for active in range(4):
        for signal in SIGNALS:
            assert resolved(active, signal) == resolved(active, signal)


def test_a_superseded_intent_ends_before_the_next_one_begins() -> None:
    """At no entry of the journal two are active, and the new one says whose place it takes."""
    ended, declared = list_events(resolved(1, "new"), at(5))
    assert (ended.kind, declared.kind) == ("IntentSuperseded", "IntentDeclared")
    assert ended.model_dump() == {
        "intent_id": f"INT-{SESSION}-001", "superseded_by_intent_id": NEXT, "reason": "new_objective", "at": at(5),
    }  # fmt: skip
    assert declared.model_dump()["parent_intent_id"] == f"INT-{SESSION}-001"


def test_events_of_other_decisions() -> None:
    """Going on needs no event; a close has an outcome; a doubt that nobody can see would be none."""
    assert list_events(resolved(1, "continue"), at()) == []
    assert list_events(resolved(0, "close"), at()) == []
    [closed] = list_events(resolved(1, "close"), at())
    assert (closed.kind, closed.model_dump()["outcome"]) == ("IntentClosed", "closed")
    [doubt] = list_events(resolved(2, "new"), at())
    assert (doubt.kind, doubt.model_dump()["chosen"][-3:]) == ("IntentConflict", "002")


def test_session_end_closes_every_active_intent() -> None:
    """With the outcome that the specification names."""
    closed = list_closing_events(intents(2), at())
    assert [(one.kind, one.model_dump()["outcome"]) for one in closed] == [("IntentClosed", "session_ended")] * 2
    assert list_closing_events([], at()) == []


def test_hash_of_the_rules_changes_with_them() -> None:
    """Who reads a record knows by which table it was decided."""
    rows = list_ruleset_rows()
    assert len(rows) == len(RULESET)
    assert hash_canonical(rows) == hash_canonical(list_ruleset_rows())
    assert hash_canonical(rows) != hash_canonical([*rows[:-1], [*rows[-1][:2], "close", ""]])
