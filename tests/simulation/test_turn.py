"""One honest turn in the simulated cluster: all actors, the real ledger, the offline model, virtual time."""

from __future__ import annotations

import asyncio

import pytest

from bench.builders import shipped_snapshot
from bench.simulated import SimulatedCluster
from tests.journals import answers_of, check_record, count_of

QUESTIONS = (
    ("what packages are installed?", "list_packages", "PKG-ADMIN-AGENT-001"),
    ("is the ledger intact?", "verify_ledger", "intact"),
    ("what did this session cost?", "session_cost", "tokens"),
    ("which tools do you have?", "list_tools", "verify_ledger"),
)


@pytest.mark.parametrize(("question", "tool", "word"), QUESTIONS)
def test_an_administration_question_is_answered_from_a_tool(question, tool, word):
    """The built-in tool runs once, and the answer holds what it said."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        result = cluster.ask(question, input_id="in-1")
        entries = cluster.entries()
        assert cluster.verify().ok
    assert (result.outcome, result.code, result.quality_gate_passed) == ("success", None, True)
    assert [(call.tool_id, call.status) for call in result.tool_calls] == [(tool, "Succeeded")]
    assert word in result.response
    assert result.cost.llm_calls == len(result.exchange_entry_ids) == 3
    assert count_of(entries, "TOOL_STARTED") == 1
    assert answers_of(entries, "in-1") == [f"RunCompleted:{result.run_id}"]
    check_record(entries)


def test_a_session_goes_on_and_a_repeated_input_gets_the_recorded_answer():
    """Five turns in one session; the same input id again runs nothing and answers the same; other text is a conflict."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        first = cluster.ask(QUESTIONS[0][0], input_id="in-1")
        for number, (question, _, word) in enumerate(QUESTIONS[1:], start=2):
            assert word in cluster.ask(question, input_id=f"in-{number}", session_id=first.session_id).response
        cluster.world.run(asyncio.sleep(0.1))  # what nobody waits for is in the record too
        before = len(cluster.entries())
        again = cluster.ask(QUESTIONS[0][0], input_id="in-1", session_id=first.session_id)
        conflict = cluster.ask("something else", input_id="in-1", session_id=first.session_id)
        entries = cluster.entries()
    assert again.model_dump(exclude={"elapsed_ms"}) == first.model_dump(exclude={"elapsed_ms"})
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


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_a_blank_message_is_refused_without_a_model_call(text):
    """Outcome error with code invalid_input; nothing was sent to a provider and no run was begun."""
    with SimulatedCluster(shipped_snapshot()) as cluster:
        result = cluster.ask(text, input_id="in-1")
        entries = cluster.entries()
    assert (result.outcome, result.code) == ("error", "invalid_input")
    assert count_of(entries, "PROMPT_SENT") == count_of(entries, "RunRequested") == 0


@pytest.mark.parametrize("step_s", [0.0029, pytest.param(0.0005, marks=pytest.mark.slow)])
@pytest.mark.parametrize("role", ["ho1", "ho2", "ho3", "gateway"])
def test_a_turn_survives_the_loss_of_a_process_at_any_moment(role, step_s):
    """A process dies at moment after moment of a turn and a new incarnation starts: one answer, nothing executed twice."""
    moment_s, struck = 0.0, 0
    while True:
        with SimulatedCluster(shipped_snapshot(), ho1=1) as cluster:
            strike = cluster.strike(role, after_s=moment_s, back_after_s=0.5)
            result = cluster.ask(QUESTIONS[0][0], input_id="in-1")
            cluster.world.run(asyncio.sleep(1))  # it is back, and has closed what the killed one left open
            entries = cluster.entries()
            assert cluster.verify().ok
        assert result.outcome in ("success", "degraded"), (role, moment_s, result.code)
        assert len(answers_of(entries, "in-1")) == 1
        check_record(entries)
        if not strike.hit_a_turn:
            break
        struck += 1
        moment_s += step_s
    assert struck >= 3
