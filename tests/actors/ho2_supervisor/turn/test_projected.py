"""The projection in its turn: what the prompt shows by mode, what the record says of it, and once per turn."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from hobus.actors.ho2_supervisor.limits import HISTORY_DIGEST_CHARS
from hobus.actors.ho2_supervisor.projection.liveness import LivenessState
from hobus.actors.ho2_supervisor.turn.projected import hash_ruleset
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import OutputResult, Segment, WorkOrder, WorkOrderError
from hobus.bus.record.catalog import read_body
from tests.actors.ho2_supervisor.liveness_model import reduce_liveness
from tests.actors.ho2_supervisor.remembering import Remembering, bias
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, classified, going_on, one_tool, text_of
from tests.rig import names

pytestmark = pytest.mark.slow

QUESTION = "what packages are installed?"
STREAM = "ho2_context_authority"


def in_mode(mode: str, *more: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Settings."""
    return [("projection.mode", mode), *more]


def told(rig: Rig, *texts: str) -> None:
    """Turns of a new session."""
    rig.run(rig.start_session())
    for number, text in enumerate(texts, 1):
        assert rig.run(rig.turn(f"i{number}", text)).outcome == "success"


def computed(rig: Rig, event_type: str = "PROJECTION_COMPUTED") -> list[tuple[Entry, Any]]:
    """The entries of this type and their payloads."""
    entries = [entry for entry in rig.run(rig.entries(STREAM)) if entry.event_type == event_type]
    return [(entry, read_body(entry)) for entry in entries]


def contexts(rig: Rig) -> list[str]:
    """The assembled context of every round of an answer."""
    return [text_of(order, "assembled_context") for order in rig.pool.orders if order.wo_type == "synthesize"]


def failing_tool(order: WorkOrder) -> Answer:
    """The first turn asks for a tool that fails."""
    if order.wo_type == "tool_call" and order.tool_call is not None and order.tool_call.tool_id == "list_tools":
        return WorkOrderError(code="tool_failed", message="broken")
    if order.wo_type == "classify" and text_of(order, "user_input") != QUESTION:
        return classified({"speech_act": "question", "ambiguity": "low", "intent_signal": {"action": "continue"}})
    return one_tool(order)


def test_enforced_the_prompt_shows_intent_and_failures() -> None:
    """In the next turn: what the session is for, and what failed; the words of the intent by their ref.

    Of a first turn that would be its own message once more.
    """
    with Rig(*in_mode("enforce"), script=failing_tool) as rig:
        told(rig, QUESTION, "and now?")
        first, _, second, _ = contexts(rig)
        assert first == ""
        assert second == "active intent: see\nfailed: call of list_tools in turn 1 (tool_failed)"
        order = rig.pool.orders[-1]
        refs = [s.ref for s in order.input_context if s.name == "assembled_context" and s.text == "see"]
        assert refs == [f"INTENT_DECLARED:{SESSION}/001/1"]


@pytest.mark.parametrize("turns_max", [20, 1])
def test_an_intent_is_told_when_its_message_is_not_in_the_prompt(turns_max: int) -> None:
    """Without words of its own it is a message: told once no whole turn that a prompt can show begins with that."""
    plain = classified({"speech_act": "question", "ambiguity": "low"})
    settings = in_mode("enforce", ("ho2.history_turns_max", turns_max))
    with Rig(*settings, script=lambda order: plain if order.wo_type == "classify" else "fine") as rig:
        told(rig, QUESTION, "and now?", "and then?")
        last = "" if turns_max > 1 else f"active intent: {QUESTION}"
        assert contexts(rig) == ["", "", last]


def test_every_turn_records_what_it_projected() -> None:
    """The fields of the specification; ids without what they share, the hash of the very text that was sent."""
    with Rig(*in_mode("enforce"), script=failing_tool) as rig:
        told(rig, QUESTION, "and now?")
        found = computed(rig)
        assert [entry.provenance.run_seq for entry, _ in found] == [1, 2]
        entry, said = found[-1]
        assert entry.provenance.session_id == SESSION
        config = rig.config
        assert said._asdict() | {"timestamp": ""} == {
            "mode": "enforce", "timestamp": "", "token_budget": config.budget.projection_budget,
            "tokens_used": 5 + 13, "fragment_count": 2,
            "context_hash": hashlib.sha256(contexts(rig)[-1].encode()).digest(),
            "ruleset_hash": hash_ruleset(config.attention.chars_per_token, HISTORY_DIGEST_CHARS),
            "active_intents": ("001",), "open_work_orders": (), "failed_items": ("1.2.2.002",), "escalations": (),
            "ho3_artifacts_injected": (),
        }  # fmt: skip
        assert said.ruleset_hash.startswith("sha256:")


def test_off_computes_and_appends_nothing() -> None:
    """No context, no entry; intents are declared all the same."""
    with Rig(*in_mode("off"), script=one_tool) as rig:
        told(rig, QUESTION)
        assert set(contexts(rig)) == {""}
        assert names(rig.run(rig.entries(STREAM))) == ["CONTEXT_ASSEMBLED"]
        assert "INTENT_DECLARED" in names(rig.run(rig.entries()))


def test_shadow_records_both_contexts_and_their_difference() -> None:
    """The model is shown what it was shown before; the record has that, the projection, and what one has alone."""
    with Rig(("ho3.enabled", True), *in_mode("shadow"), script=going_on) as rig:
        rig.world.start(Remembering([bias("ART-1")]), role="ho3")
        rig.run(rig.world.settled())
        told(rig, QUESTION, "and now?")
        assert set(contexts(rig)) == {""}
        assert [said.mode for _, said in computed(rig)] == ["shadow"] * 2
        [_, (entry, said)] = computed(rig, "PROJECTION_SHADOW_COMPARE")
        shown, projected = [(body or b"").decode() for body in entry.bodies[1:]]
        line = text_of(rig.pool.orders[-1], "ho3_biases")
        assert (shown, projected) == (line, f"active intent: see\n{line}")
        assert (said.only_shown, said.only_projected) == ((), (f"INT-{SESSION}-001",))
        assert said.shown_hash == hashlib.sha256(shown.encode()).digest()


@pytest.mark.parametrize("mode", ["off", "shadow", "enforce"])
def test_memory_lines_reach_the_model_in_every_mode(mode: str) -> None:
    """As `ho3_biases`, each with its artifact; enforced they are fragments of the projection, too."""
    with Rig(("ho3.enabled", True), *in_mode(mode), script=one_tool) as rig:
        rig.world.start(Remembering([bias("ART-1"), bias("ART-2")]), role="ho3")
        rig.run(rig.world.settled())
        told(rig, QUESTION)
        order = rig.pool.orders[-1]
        assert [s.artifact_id for s in order.input_context if s.artifact_id] == ["ART-1", "ART-2"]
        assert [said.ho3_artifacts_injected for _, said in computed(rig)] == [("ART-1", "ART-2")] * (mode != "off")


def test_budget_of_the_projection_is_kept() -> None:
    """What does not fit is left out, lines of memory first; what is recorded is what was shown."""
    settings = in_mode("enforce", ("ho3.enabled", True), ("budget.projection_budget", 5))
    with Rig(*settings, script=going_on) as rig:
        rig.world.start(Remembering([bias("ART-1")]), role="ho3")
        rig.run(rig.world.settled())
        told(rig, QUESTION, "and now?")
        [_, (_, said)] = computed(rig)
        assert (said.tokens_used, said.fragment_count, said.ho3_artifacts_injected) == (5, 1, ())
        assert text_of(rig.pool.orders[-1], "ho3_biases") == ""


def test_an_answer_that_was_given_up_is_a_failure_of_the_next_projection() -> None:
    """ESCALATION after a work order marks it failed, also for the one who only reads the journal."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "classify":
            return classified({"speech_act": "question", "ambiguity": "low"})
        return OutputResult(text=Segment(text=" " if text_of(order, "user_input") == "a" else "fine"))

    with Rig(*in_mode("enforce"), script=script) as rig:
        told(rig, "a", "b")
        said = computed(rig)[-1][1]
        assert said.escalations == said.failed_items == ("1.3.1",)
        assert "its answer was not good enough" in contexts(rig)[-1]


@pytest.mark.parametrize("number", [1, 2, 4, 6, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 5))])
@pytest.mark.parametrize("is_answered", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_kill_in_the_middle_of_a_turn_projects_once(number: int, is_answered: bool) -> None:
    """Whenever the supervisor dies there is one PROJECTION_COMPUTED of the turn, and every round shows its text."""
    with Rig(*in_mode("enforce"), script=one_tool) as rig:
        rig.supervise()
        seen: list[str] = []

        def script(order: WorkOrder) -> Answer:
            if order.wo_id not in seen:
                seen.append(order.wo_id)
                if len(seen) == number:
                    owner = rig.instances[0] if rig.supervisors[0].counters()["runs"] else rig.instances[1]
                    rig.world.loop.call_later(0.0004 if is_answered else 0.0, lambda: rig.world.kill(owner))
            is_doubt = order.wo_type == "classify"
            return classified({"speech_act": "question", "ambiguity": "low"}) if is_doubt else one_tool(order)

        told(rig, "before")
        rig.pool.script = script
        assert rig.run(rig.turn("i2", QUESTION)).outcome == "success"
        [_, (_, said)] = computed(rig)
        rounds = contexts(rig)[2:]
        assert set(rounds) == {"active intent: see"}
        assert said.context_hash == hashlib.sha256(b"active intent: see").digest()


def test_a_supervisor_that_only_read_the_journal_projects_the_same_bytes() -> None:
    """Determinism: one that held the session all along, and one that took it over, send the same context."""
    found: list[tuple[str, Any]] = []
    for is_killed in (False, True):
        with Rig(*in_mode("enforce"), script=failing_tool, snapshot_entries=10) as rig:
            told(rig, QUESTION, "and now?")
            rig.run(rig.host.sleep(1))
            if is_killed:
                rig.world.kill(rig.instances[0])
                rig.supervise()
                rig.run(rig.world.settled())
            assert rig.run(rig.turn("i3", "and then?")).outcome == "success"
            found.append((contexts(rig)[-1], computed(rig)[-1][1]._replace(timestamp="")))
    assert found[0] == found[1]
    assert "failed: call of list_tools" in found[0][0]


def test_what_a_session_folds_is_what_the_record_says() -> None:
    """The incremental liveness of a turn and the reducer over all streams agree on what is alive."""
    with Rig(*in_mode("enforce"), script=failing_tool) as rig:
        told(rig, QUESTION, "and now?", "and then?")
        whole: LivenessState = reduce_liveness(rig.run(rig.entries()), rig.run(rig.entries("ho1m")))
        said = computed(rig)[-1][1]
        assert [one[-3:] for one in whole.active_intents] == list(said.active_intents)
        assert [item.wo_id.removeprefix(f"WO-{SESSION}-") for item in whole.failed_items] == [
            *said.failed_items, "3.2.2.002",
        ]  # fmt: skip
        assert whole.open_work_orders == []
        assert whole.session_open
