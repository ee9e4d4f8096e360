"""From an open gate to an artifact: what a model may say and what it may not, ids, excerpts, every field's origin."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho2_supervisor.learning import consolidation
from hobus.actors.ho2_supervisor.learning.consolidation import Crossing, Lesson, judge
from hobus.actors.ho2_supervisor.turn.history import DeliveredTurn
from hobus.actors.ho2_supervisor.turn.work_orders import find_faults
from hobus.bus.limits import SOURCE_EVENTS_MAX
from hobus.bus.messages.ids import RunId, compute_window_key, derive_artifact_id
from hobus.bus.messages.memory import Accumulator, Labels
from hobus.bus.messages.work_order import Segment
from hobus.config.sections.record import Ho3Config
from hobus.config.sections.turns import ClassifyLabels
from tests.actors.ho2_supervisor.remembering import crossed
from tests.actors.ho2_supervisor.rig import SESSION, snapshot

ON = snapshot(("ho3.enabled", True))
VOCABULARY = ClassifyLabels(domain=["system", "config"], task=["inspect"])
AS_OF = "2026-03-10T12:00:00.000000Z"
GOOD = {"artifact_type": "topic_affinity", "labels": {"domain": ["system"]}, "context_line": "One line.", "weight": 0.6}


def memory(**changes: Any) -> Ho3Config:
    """The shipped section with some values changed."""
    assert ON.config.ho3 is not None
    return ON.config.ho3.model_copy(update=changes)


def crossing(events: int = 5) -> Crossing:
    """The gate of domain:system, open on so many events."""
    evidence = Accumulator(
        signal_id="domain:system", principal="local", count=events, last_seen=AS_OF, session_ids=["s1", "s2", "s3"],
        event_ids=[f"EVT-{SESSION}-{n}-domain:system" for n in range(1, events + 1)], decay=1.0,
    )  # fmt: skip
    run_id = RunId(session_id=SESSION, run_seq=9)
    return Crossing(ON.agents["ADMIN"], run_id, crossed("domain:system"), evidence, AS_OF)


def test_excerpts_fit_their_room_together_and_the_first_is_always_there() -> None:
    """Whole turns, the newest first; half of the consolidation's budget by estimate (`budget.consolidation_budget`)."""
    turns = [turn("x" * 40, "y" * 40) for _ in range(5)]

    def count(room: int) -> int:
        return len(consolidation.cut_excerpts(turns, 100, room=room))

    one = sum(len(fragment.content) for fragment in consolidation.cut_excerpts(turns[:1], 100, room=0))
    assert [count(room) for room in (0, 2 * one - 1, 2 * one, 99 * one)] == [1, 1, 2, 5]
    tokens = ON.agents["ADMIN"].budget_tokens("consolidate", ON.config.budget)
    room = consolidation.compute_excerpts_room(ON.agents["ADMIN"], ON.config)
    assert room == tokens * ON.config.attention.chars_per_token // 2


def test_an_event_leads_to_its_run_and_nothing_else_does() -> None:
    """The id of a turn's signal names session and run; an explicit statement's, or junk, names none."""
    assert consolidation.run_of(f"EVT-{SESSION}-12-tool:x-1-y") == RunId(session_id=SESSION, run_seq=12)
    for other in ("EVT-1", f"EVT-{SESSION}-0-x", f"EVT-{SESSION}-x", "explicit:abc", f"{SESSION}-1-x", ""):
        assert consolidation.run_of(other) is None


def test_an_order_id_says_agent_signal_window_and_number() -> None:
    """The same within a window, another one beyond its border, for another number."""
    first = consolidation.derive_order_id(crossing(), 1, memory())
    assert first.startswith("WO-CONS-") and first.endswith("-1")
    assert consolidation.derive_order_id(crossing(), 2, memory()) == f"{first[:-2]}-2"
    assert consolidation.derive_order_id(crossing(), 1, memory(gate_window_hours=1)) != first


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"artifact_type": "mood"}, "artifact_type"),
        ({"artifact_type": ["topic_affinity"]}, "artifact_type"),
        ({"labels": {}}, "no label"),
        ({"labels": {"domain": ["weather"]}}, "no label"),
        ({"labels": "system"}, "no label"),
        ({"context_line": ""}, "blank"),
        ({"context_line": " \t"}, "blank"),
        ({"context_line": 7}, "blank"),
        ({"context_line": "x" * 241}, "241 characters"),
        ({"context_line": "two\nlines"}, "control"),
        ({"context_line": "bidi \u202e override"}, "control"),
        ({"context_line": "separated\u2028line"}, "control"),
        ({"weight": 1.01}, "weight"),
        ({"weight": -0.01}, "weight"),
        ({"weight": True}, "weight"),
        ({"weight": "0.5"}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"weight": None}, "weight"),
    ],
)
def test_an_answer_outside_the_rules_teaches_nothing(changes: dict[str, Any], fault: str) -> None:
    """Each breach alone is found and named; nothing of the answer is taken."""
    judged = judge(GOOD | changes, VOCABULARY, memory())
    assert judged.lesson is None
    assert len(judged.faults) == 1 and fault in judged.faults[0]


def test_no_answer_and_every_fault_at_once() -> None:
    """An answer that is no object; an empty one has all faults, in words."""
    assert judge(None, VOCABULARY, memory()).faults == ("the answer is not an object",)
    assert len(judge({}, VOCABULARY, memory()).faults) == 4


@pytest.mark.parametrize("changes", [{"weight": 0}, {"weight": 1}, {"context_line": "x" * 240}])
def test_borders_pass(changes: dict[str, Any]) -> None:
    """0, 1 and exactly the limit of characters."""
    assert judge(GOOD | changes, VOCABULARY, memory()).lesson is not None


def test_more_than_was_asked_for_is_dropped_and_named() -> None:
    """Scope, ids and expiry are not the model's to say; labels outside the vocabulary neither."""
    answer = GOOD | {
        "scope": "global",
        "artifact_id": "ART-x",
        "labels": {"domain": ["system", "weather"], "task": "x"},
    }
    judged = judge(answer, VOCABULARY, memory())
    assert judged.lesson == Lesson("topic_affinity", Labels(domain=["system"]), "One line.", 0.6)
    assert judged.dropped == ("scope", "artifact_id", "domain", "task")


def test_what_is_global_needs_no_label() -> None:
    """A line that every turn gets must not match anything."""
    judged = judge(GOOD | {"labels": {}}, VOCABULARY, memory(artifact_scope="global"))
    assert judged.lesson is not None


def test_every_other_field_comes_from_gate_and_configuration() -> None:
    """Scope, times, sources and ids: none of them from the model."""
    lesson = Lesson("topic_affinity", Labels(domain=["system"]), "One line.", 0.6)
    made = consolidation.make_artifact(crossing(), lesson, model="m", pack_version="P@1", memory=memory())
    key = compute_window_key(AS_OF, 168)
    assert made.artifact_id == derive_artifact_id("local", ["domain:system"], key, model="m", prompt_pack_version="P@1")
    assert (made.scope, made.session_id, made.enabled, made.decay_modifier) == ("agent", None, True, 1.0)
    assert (made.source_signal_ids, len(made.source_event_ids)) == (["domain:system"], 5)
    assert made.created_at_event_ts == made.consolidation_event_ts == made.window_end == AS_OF
    assert made.window_start == "2026-03-03T12:00:00.000000Z"
    assert made.expires_at_event_ts == "2026-06-08T12:00:00.000000Z"
    assert (made.gate_snapshot, made.model, made.prompt_pack_version) == (crossing().gate, "m", "P@1")
    of_session = consolidation.make_artifact(
        crossing(), lesson, model="m", pack_version="P@1", memory=memory(artifact_scope="session")
    )
    assert of_session.session_id == SESSION


def test_an_artifact_names_the_newest_of_its_source_events() -> None:
    """At most `SOURCE_EVENTS_MAX` of them, so that an answer that holds artifacts does not grow without end."""
    lesson = Lesson("topic_affinity", Labels(domain=["system"]), "One line.", 0.6)
    made = consolidation.make_artifact(crossing(300), lesson, model="m", pack_version="P@1", memory=memory())
    assert made.source_event_ids == crossing(300).evidence.event_ids[-SOURCE_EVENTS_MAX:]


def turn(asked: str, answered: str | None, tools: tuple[str, ...] = ()) -> DeliveredTurn:
    """A turn of the past."""
    return DeliveredTurn("i", "R/1", "C/2", asked, answered, tools)


def excerpts(turns: list[DeliveredTurn], chars_max: int) -> list[Segment]:
    """As a prompt has them."""
    return consolidation.make_segments(consolidation.cut_excerpts(turns, chars_max, room=1000))


def test_excerpts_are_bounded_and_whole_texts_keep_their_refs() -> None:
    """Of each turn at most so many characters, what was asked first; what was cut is the excerpt's own text."""
    shown = excerpts([turn("12345", "67890", ("list_tools",)), turn("1234567890x", "y")], 10)
    assert "".join(s.text for s in shown) == ("user: 12345\nassistant (used list_tools): 67890\nuser: 123456789…\n")
    assert [s.ref for s in shown if s.ref] == ["R/1", "C/2"]
    cut = excerpts([turn("12345", "6789012345")], 10)
    assert "".join(s.text for s in cut) == "user: 12345\nassistant: 6789…\n"
    assert [s.ref for s in cut if s.ref] == ["R/1"]


def test_the_order_names_no_model_and_shows_bounded_ids() -> None:
    """Valid as it is planned; its domain tag routes it; a signal with thousands of events makes no endless prompt."""
    order = consolidation.make_order(
        crossing(5000), "WO-CONS-x-1", excerpts([turn("a", "b")], 100), config=ON.config,
        memory=memory(), package_id="PKG-X", digest="d", planned_at=AS_OF,
        model=ON.choose_model_for(crossing(5000).agent, "consolidate"),
    )  # fmt: skip
    assert find_faults(order, ()) == []
    assert order.package_id == "PKG-X"
    limits = order.constraints
    assert (limits.provider_id, limits.model_id, limits.domain_tags) == (None, None, ["consolidation"])
    assert (limits.token_budget, limits.prompt_contract_id) == (4000, "PRC-CONSOLIDATE-001")
    texts = {segment.name: segment.text for segment in order.input_context}
    assert texts["event_ids"].splitlines() == crossing(5000).evidence.event_ids[-8:]
    assert (texts["count"], texts["session_count"], texts["task_labels"]) == (
        "5", "3", "inspect, modify, create, debug, plan, general",
    )  # fmt: skip
