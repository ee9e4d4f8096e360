"""What a message does to the intents of its session: the whole table, and what of it the journal gets."""

from __future__ import annotations

import pytest

from hobus.actors.ho2_supervisor.session.intents import IntentFact
from hobus.actors.ho2_supervisor.turn.intent_rules import (
    HELD,
    RULESET,
    SIGNALS,
    hash_canonical,
    list_closing_events,
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


def resolved(active: int, signal: str, objective: str = "see settings") -> list[IntentFact]:
    """What the journal gets by the shipped table."""
    return resolve_intent_transition(
        intents(active), NEXT, signal=signal, objective=objective, message_ref=MESSAGE, at=at(5)
    )


def kinds(active: int, signal: str) -> list[str]:
    """Of what the journal gets, in order."""
    return [event.kind for event in resolved(active, signal)]


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
    assert RULESET[HELD[active], signal].action == action
    events = {event.kind: event.model_dump() for event in resolved(active, signal)}
    assert ("IntentDeclared" in events) is declares
    ended = events.get("IntentSuperseded") or events.get("IntentClosed")
    assert (ended and ended["intent_id"]) == (ends and f"INT-{SESSION}-{ends}")
    doubt = events.get("IntentConflict")
    assert (doubt and (doubt["reason"], doubt["chosen"][-3:])) == conflict
    if doubt is not None:
        assert doubt["active_intent_ids"] == [intent.intent_id for intent in intents(active)]
    assert len(events) == declares + (ends is not None) + (conflict is not None)


def test_table_is_whole() -> None:
    """Each number of active intents and each signal has a rule, and each of these is tried above."""
    assert set(RULESET) == {(held, signal) for held in HELD for signal in SIGNALS}
    assert {(HELD[active], signal) for active, signal, *_ in TABLE} == set(RULESET)


def test_signal_that_nobody_knows_counts_as_none() -> None:
    """A model that says another word than the contract's has said nothing."""
    assert resolved(0, "begin") == resolved(0, "")
    assert resolved(1, "begin") == resolved(1, "")


def test_objective_is_named_and_never_copied() -> None:
    """A model's words are a body of the entry that declares them; without such the message is the objective."""
    [by_model], [by_message] = resolved(0, "new"), resolved(0, "", objective="")
    assert isinstance(by_model, IntentDeclared) and isinstance(by_message, IntentDeclared)
    assert (by_model.intent_id, by_model.scope, by_model.objective_ref) == (NEXT, "session", OWN_WORDS)
    assert by_message.objective_ref == MESSAGE


def test_same_inputs_give_the_same_decision() -> None:
    """Pure: however often it is asked."""
    for active in range(4):
        for signal in SIGNALS:
            assert resolved(active, signal) == resolved(active, signal)


def test_a_superseded_intent_ends_before_the_next_one_begins() -> None:
    """At no entry of the journal two are active, and the new one says whose place it takes."""
    ended, declared = resolved(1, "new")
    assert (ended.kind, declared.kind) == ("IntentSuperseded", "IntentDeclared")
    assert ended.model_dump() == {
        "intent_id": f"INT-{SESSION}-001", "superseded_by_intent_id": NEXT, "reason": "new_objective", "at": at(5),
    }  # fmt: skip
    assert declared.model_dump()["parent_intent_id"] == f"INT-{SESSION}-001"


def test_events_of_other_decisions() -> None:
    """Going on needs no event; a close has an outcome; a doubt that nobody can see would be none."""
    assert kinds(1, "continue") == kinds(0, "close") == []
    [closed] = resolved(1, "close")
    assert (closed.kind, closed.model_dump()["outcome"]) == ("IntentClosed", "closed")
    assert kinds(2, "new") == ["IntentConflict"]


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
