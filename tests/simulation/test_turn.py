"""One honest turn in the simulated cluster: all actors, the real ledger, the offline model, virtual time."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest

from bench.builders import shipped_snapshot, shipped_with
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import TurnResult
from tests.journals import check_record, count_of, list_answers, tool_runs
from tests.simulated import SimulatedCluster

QUESTIONS = (
    ("what packages are installed?", "list_packages", "PKG-ADMIN-AGENT-001"),
    ("is the ledger intact?", "verify_ledger", "intact"),
    ("what did this session cost?", "session_cost", "tokens"),
    ("which tools do you have?", "list_tools", "verify_ledger"),
)
NEVER_TAUGHT = ("ho3.gate_high", 1000.0)
"""No gate is crossed, however often a question is asked: nothing runs but turns."""


@cache
def answered() -> tuple[dict[str, TurnResult], list[Entry]]:
    """Each question's answer, in a session of its own, and the record of them all."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        results = {question: cluster.ask(question, input_id=tool) for question, tool, _ in QUESTIONS}
        entries = cluster.entries()
        assert cluster.verify().ok
    check_record(entries)
    return results, entries


@pytest.mark.parametrize(("question", "tool", "word"), QUESTIONS)
def test_an_administration_question_is_answered_from_a_tool(question, tool, word):
    """The built-in tool runs once, and the answer holds what it said."""
    results, record = answered()
    result = results[question]
    entries = [entry for entry in record if entry.provenance.session_id == result.session_id]
    assert (result.outcome, result.code, result.quality_gate_passed) == ("success", None, True)
    assert [(call.tool_id, call.status) for call in result.tool_calls] == [(tool, "Succeeded")]
    assert word in result.response
    assert result.cost.llm_calls == len(result.exchange_entry_ids) == 3
    assert tool_runs(entries) == 1
    assert list_answers(record, tool) == [f"RunCompleted:{result.run_id}"]


def test_a_session_goes_on_and_a_repeated_input_gets_the_recorded_answer():
    """Another turn in its session; the same input id again runs nothing and answers the same; other text is a conflict."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        first = cluster.ask(QUESTIONS[0][0], input_id="in-1")
        question, _, word = QUESTIONS[1]
        assert word in cluster.ask(question, input_id="in-2", session_id=first.session_id).response
        cluster.world.run(asyncio.sleep(0.1))  # what nobody waits for is in the record too
        before = len(cluster.entries())
        again = cluster.ask(QUESTIONS[0][0], input_id="in-1", session_id=first.session_id)
        conflict = cluster.ask("something else", input_id="in-1", session_id=first.session_id)
        entries = cluster.entries()
    assert again == first.model_copy(update={"elapsed_ms": again.elapsed_ms})
    assert (conflict.outcome, conflict.code) == ("error", "input_conflict")
    assert [entry.event_type for entry in entries[before:] if entry.event_type != "RunAttached"] == []
    check_record(entries)


def test_the_same_seed_gives_the_same_frames_and_another_seed_other_ids_only():
    """The digest over every delivered frame is a function of the seed."""

    def digest(seed):
        with SimulatedCluster(shipped_snapshot(), seed=seed) as cluster:
            cluster.ask(QUESTIONS[0][0], input_id="in-1")
            return cluster.world.trace_digest()

    assert digest(7) == digest(7)


def test_a_blank_message_is_refused_without_a_model_call():
    """Outcome error with code invalid_input; nothing was sent to a provider and no run was begun."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        results = {text: cluster.ask(text, input_id=f"in-{len(text)}") for text in ("", "   ", "\n\t")}
        entries = cluster.entries()
    assert {text: (result.outcome, result.code) for text, result in results.items()} == dict.fromkeys(
        results, ("error", "invalid_input")
    )
    assert count_of(entries, "PROMPT_SENT") == count_of(entries, "RunRequested") == 0


@pytest.mark.parametrize("role", ["ho1", "ho2", "ho3", "gateway"])
def test_a_turn_survives_the_loss_of_a_process_at_any_moment(role):
    """A process dies at moment after moment of a turn and a new incarnation starts: one answer, nothing executed twice."""
    moment_s, struck = 0.0, 0
    with SimulatedCluster(shipped_with(NEVER_TAUGHT), ho1=1) as cluster:
        while True:
            strike = cluster.strike(role, after_s=moment_s, back_after_s=0.5)
            result = cluster.ask(QUESTIONS[0][0], input_id=f"in-{struck}")
            cluster.world.run(asyncio.sleep(1))  # it is back, and has closed what the killed one left open
            assert result.outcome in ("success", "degraded"), (role, moment_s, result.code)
            if not strike.hit_a_turn:
                break
            struck += 1
            moment_s += 0.0005
        entries = cluster.entries()
        assert cluster.verify().ok
    assert struck >= 3
    assert [len(list_answers(entries, f"in-{number}")) for number in range(struck + 1)] == [1] * (struck + 1)
    check_record(entries)
