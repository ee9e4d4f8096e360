"""Intents in their turns: declared, gone on with, superseded, closed; on every order; the same after any crash."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho2_supervisor.session.record import SessionRecord
from hobus.actors.ho2_supervisor.turn.turn import compute_history_limits
from hobus.actors.ho2_supervisor.turn.views import make_view
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import EndSession, SessionClosed, SessionView
from hobus.bus.messages.work_order import WorkOrder, WorkOrderError
from hobus.bus.record.journal import read_event, read_recorded
from tests.actors.ho2_supervisor.rig import CLASSIFIED, SESSION, Answer, Rig, classified, one_tool, text_of
from tests.rig import names

FAILED = WorkOrderError(code="execution_error", message="broken")


def saying(**signals: tuple[str, str] | None) -> Any:
    """A pool whose classification of each message says this (action, objective); None: the classification fails."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type != "classify":
            return f"answer to {text_of(order, 'user_input')}"
        signal = signals[text_of(order, "user_input")]
        if signal is None:
            return FAILED
        action, objective = signal
        return classified(CLASSIFIED | {"intent_signal": {"action": action, "candidate_objective": objective}})

    return script


def told(rig: Rig, *texts: str) -> list[Entry]:
    """So many turns in a new session; its journal's entries about intents."""
    rig.run(rig.start_session())
    for number, text in enumerate(texts, 1):
        assert rig.run(rig.turn(f"i{number}", text)).outcome == "success"
    return of_intents(rig)


def of_intents(rig: Rig) -> list[Entry]:
    """The session's entries about intents."""
    return [entry for entry in rig.run(rig.entries()) if entry.event_type.startswith("INTENT_")]


def said(entry: Entry) -> dict[str, Any]:
    """What the event says."""
    return read_event(entry).event.model_dump()


def test_a_session_that_goes_on_declares_once() -> None:
    """Three turns, one INTENT_DECLARED; its words are its own body, and every order of the later turns names it."""
    signals = {"a": ("new", "see the packages"), "b": ("continue", "more"), "c": ("", "")}
    with Rig(script=saying(**signals)) as rig:
        [declared] = told(rig, "a", "b", "c")
        assert declared.event_type == "INTENT_DECLARED"
        assert declared.submission_id == f"INTENT_DECLARED:{SESSION}/001"
        assert declared.bodies[1:] == [b"see the packages"]
        assert said(declared) | {"at": ""} == {
            "intent_id": f"INT-{SESSION}-001", "scope": "session", "parent_intent_id": None,
            "objective_ref": f"INTENT_DECLARED:{SESSION}/001/1", "at": "",
        }  # fmt: skip
        assert [order.intent_id for order in rig.pool.orders] == [None, *[f"INT-{SESSION}-001"] * 5]


def test_another_goal_supersedes_and_a_goodbye_closes() -> None:
    """Superseded before the next one is declared, which names the one before it; after a close nothing is active."""
    signals = {"a": ("new", "first"), "b": ("new", "second"), "bye": ("close", ""), "c": ("continue", "third")}
    with Rig(script=saying(**signals)) as rig:
        entries = told(rig, "a", "b", "bye", "c")
        assert names(entries) == [
            "INTENT_DECLARED", "INTENT_SUPERSEDED", "INTENT_DECLARED", "INTENT_CLOSED", "INTENT_DECLARED",
        ]  # fmt: skip
        assert said(entries[1])["superseded_by_intent_id"] == said(entries[2])["intent_id"] == f"INT-{SESSION}-002"
        assert said(entries[2])["parent_intent_id"] == f"INT-{SESSION}-001"
        assert said(entries[3])["outcome"] == "closed"
        assert [order.intent_id and order.intent_id[-3:] for order in rig.pool.orders] == [
            None, "001", "001", "002", "002", None, None, "003",
        ]  # fmt: skip


def test_a_doubt_stands_in_the_record_and_in_the_view() -> None:
    """Unclear: the turn goes on, and who looks at the session sees that it was not certain."""
    with Rig(script=saying(a=("new", "first"), b=("unclear", ""))) as rig:
        entries = told(rig, "a", "b")
        assert names(entries) == ["INTENT_DECLARED", "INTENT_CONFLICT"]
        view: SessionView = rig.run(rig.view())
        assert [one.objective for one in view.active_intents] == ["first"]
        assert view.newest_conflict is not None
        assert (view.intent_conflicts, view.newest_conflict.reason) == (1, "unclear_signal")
        assert view.newest_conflict.chosen == f"INT-{SESSION}-001"


@pytest.mark.parametrize("is_off", [False, True])
def test_without_a_classification_the_message_is_the_objective(is_off: bool) -> None:
    """Bridge: the first turn declares all the same, by the message's own ref and without a copy of it."""
    with Rig(("ho2.classify", not is_off), script=saying(**{"show  me": None})) as rig:
        [declared] = told(rig, "show  me")
        assert said(declared)["objective_ref"] == f"RunRequested:{SESSION}/i1/1"
        assert len(declared.bodies) == 1
        assert [one.objective for one in rig.run(rig.view()).active_intents] == ["show me"]


def test_classification_is_told_the_active_objective() -> None:
    """By the ref under which it stands; in the first message there is none."""
    with Rig(script=saying(a=("new", "see  the packages"), b=("continue", ""))) as rig:
        told(rig, "a", "b")
        first, second = [order for order in rig.pool.orders if order.wo_type == "classify"]
        assert [s for s in first.input_context if s.name == "active_intent"] == []
        [shown] = [s for s in second.input_context if s.name == "active_intent"]
        assert (shown.text, shown.ref) == ("see the packages", f"INTENT_DECLARED:{SESSION}/001/1")


def test_end_of_the_session_closes_what_is_active() -> None:
    """Before SESSION_END, in its outcome; asked twice it is closed once."""
    with Rig(script=saying(a=("new", "first"))) as rig:
        told(rig, "a")
        for _ in range(2):
            rig.run(rig.ask(EndSession(session_id=SESSION), SessionClosed))
        journal = rig.run(rig.entries())
        assert names(journal)[-2:] == ["INTENT_CLOSED", "SESSION_END"]
        assert said(journal[-2])["outcome"] == "session_ended"
        assert names(journal).count("INTENT_CLOSED") == 1
        assert rig.run(rig.view()).active_intents == []


@pytest.mark.parametrize("every", [6, 10_000], ids=["from a snapshot", "from the first entry"])
def test_intents_survive_their_supervisor(every: int) -> None:
    """Whoever reads the journal, or the newest snapshot of it, has the same intents with their words."""
    with Rig(script=saying(a=("new", "first"), b=("unclear", "")), snapshot_entries=every) as rig:
        told(rig, "a", "b")
        rig.run(rig.host.sleep(1))
        before: SessionView = rig.run(rig.view())
        assert ("STATE_SNAPSHOT" in names(rig.run(rig.entries()))) == (every == 6)
        rig.world.kill(rig.instances[0])
        rig.supervise()
        rig.run(rig.world.settled())
        after: SessionView = rig.run(rig.view())
        assert after.active_intents == before.active_intents != []
        assert (after.intent_conflicts, after.newest_conflict) == (1, before.newest_conflict)


@pytest.mark.parametrize("number", [1, 2, 4, 6, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 5))])
@pytest.mark.parametrize("is_answered", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_kill_in_the_middle_of_a_turn_declares_nothing_twice(number: int, is_answered: bool) -> None:
    """Killed while its n-th order is on its way, or just answered: the same intents, one declaration, the same ids."""
    with Rig(script=one_tool) as rig:
        rig.supervise()
        seen: list[str] = []

        def script(order: WorkOrder) -> Answer:
            if order.wo_id not in seen:
                seen.append(order.wo_id)
                if len(seen) == number:
                    owner = rig.instances[0] if rig.supervisors[0].counters()["runs"] else rig.instances[1]
                    rig.world.loop.call_later(0.0004 if is_answered else 0.0, lambda: rig.world.kill(owner))
            return one_tool(order)

        rig.pool.script = script
        [declared] = told(rig, "what packages are installed?")
        assert said(declared)["intent_id"] == f"INT-{SESSION}-001"
        view: SessionView = rig.run(rig.view())
        assert [one.objective for one in view.active_intents] == ["see"]
        assert {order.intent_id for order in rig.pool.orders if order.wo_type != "classify"} == {f"INT-{SESSION}-001"}


def test_an_erased_objective_says_so() -> None:
    """Words that are gone from the record are gone from what is folded of it; the intent stays."""
    with Rig(script=saying(a=("new", "first"))) as rig:
        told(rig, "a")
        journal = rig.run(rig.entries())
        record = SessionRecord(SESSION, compute_history_limits(rig.config))
        for entry in journal:
            bodies = [entry.bodies[0], None] if entry.event_type == "INTENT_DECLARED" else entry.bodies
            taken = read_recorded(entry._replace(bodies=bodies))
            assert taken is not None
            record.take(taken)
        view = make_view(record)
        assert view is not None
        assert [one.objective for one in view.active_intents] == ["[erased]"]
