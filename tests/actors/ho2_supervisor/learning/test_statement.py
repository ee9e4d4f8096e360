"""What a turn states is a signal and, at once, an artifact; the answer says what became of it, whoever answers."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.learning import statement
from hobus.actors.ho2_supervisor.session.record import EndedRun
from hobus.actors.ho2_supervisor.turn.classification import Stated, read_stated
from hobus.bus.errors import MemoryFault, RuntimeFault
from hobus.bus.messages.given_history import with_history
from hobus.bus.messages.ids import derive_artifact_id, derive_statement_id
from hobus.bus.messages.memory import Artifact, Labels
from hobus.bus.messages.session import Remembered, TurnResult
from hobus.bus.messages.work_order import WorkOrder
from hobus.bus.record.catalog import read_body
from hobus.config.sections.record import Ho3Config
from hobus.config.sections.turns import ClassifyLabels
from tests.actors.ho2_supervisor.rig import CLASSIFIED, SESSION, Answer, Rig, classified, snapshot, text_of
from tests.actors.ho2_supervisor.turn.test_recall import ON, remembering

VOCABULARY = ClassifyLabels(domain=["system", "config"], task=["inspect"])
AT = "2026-03-10T12:00:00.000000Z"
BRIEF = {"statement": "Always answer briefly.", "scope": "global"}
SIGNAL = derive_statement_id("length")


def memory(**changes: Any) -> Ho3Config:
    """The shipped section with some values changed."""
    shipped = snapshot(*ON).config.ho3
    assert shipped is not None
    return shipped.model_copy(update=changes)


def ended(**said: Any) -> EndedRun:
    """A run whose message was classified as stating this."""
    return EndedRun(3, "i3", AT, CLASSIFIED | {"explicit_preference": said}, (), "success", "RunCompleted:x")


def made(message: str = "", **said: Any) -> Artifact:
    """The artifact of such a run; the message says the statement and no more, unless said otherwise."""
    read = read_stated({"explicit_preference": {"scope": "global"} | said}, VOCABULARY)
    assert read is not None
    stated = statement.judge_wish(read, message or read.statement, 50_000)
    assert stated is not None
    signal = statement.make_signal(stated, ended(**said), SESSION, "key/bob")
    return statement.make_artifact(stated, signal, memory())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (BRIEF, Stated("Always answer briefly.")),
        (BRIEF | {"statement": "  Always\nanswer  briefly. "}, Stated("Always answer briefly.")),
        (BRIEF | {"scope": "config"}, Stated("Always answer briefly.", domain="config")),
        (BRIEF | {"scope": "weather"}, Stated("Always answer briefly.")),
        (BRIEF | {"kind": "constraint"}, Stated("Always answer briefly.", is_constraint=True)),
        (BRIEF | {"kind": ["constraint"]}, Stated("Always answer briefly.")),
        ({"statement": " "}, None),
        ({"statement": 7, "scope": "global"}, None),
        ({}, None),
    ],
)
def test_a_statement_is_read_of_a_checked_answer(said: dict[str, Any], expected: Stated | None) -> None:
    """White space is single; a scope outside the vocabulary is everywhere; nothing else is guessed."""
    assert read_stated({"explicit_preference": said}, VOCABULARY) == expected


def test_without_a_classification_nothing_is_stated() -> None:
    """Failed, absent, or of another form."""
    for parsed in (None, {}, {"explicit_preference": "always"}):
        assert read_stated(parsed, VOCABULARY) is None


def test_a_statement_rests_on_its_own_turn() -> None:
    """Window key `explicit`, no gate, no model; its principal the session's; its event the turn's own."""
    artifact = made(**BRIEF)
    words = "answer briefly"
    assert artifact.artifact_id == derive_artifact_id(
        "key/bob", [SIGNAL], "explicit", model="", prompt_pack_version=words
    )
    assert (artifact.principal, artifact.artifact_type, artifact.scope) == ("key/bob", "interaction_style", "global")
    assert (artifact.source_signal_ids, artifact.source_event_ids) == ([SIGNAL], [f"EVT-{SESSION}-3-{SIGNAL}"])
    assert (artifact.gate_snapshot, artifact.weight, artifact.expires_at_event_ts) == (None, 1.0, None)
    assert {artifact.created_at_event_ts, artifact.window_start, artifact.window_end} == {AT}
    assert "briefly" not in artifact.model_copy(update={"context_line": ""}).model_dump_json()
    of_config = made(statement="Never edit it.", kind="constraint", scope="config")
    assert (of_config.artifact_type, of_config.scope) == ("constraint", "agent")
    assert of_config.labels == Labels(domain=["config"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"statement": "Always answer in German."}, {"statement": "always  ANSWER in German"}),
        ({"statement": "Nunca use emojis!"}, {"statement": "nunca use  emojis"}),
        ({"statement": "Always answer in German."}, {"statement": "Please always reply to me in German"}),
        ({"statement": "Be brief"}, {"statement": "From now on, be brief, please."}),
        ({"statement": "Always use tables."}, {"statement": "In future always use tables"}),
        ({"statement": "Nunca use emojis!"}, {"statement": "Nunca use emojis.", "scope": "config"}),
    ],
)
def test_twins_are_one_artifact(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Whatever their case, spaces, politeness, the mark at their end, and the scope that a model gives them.

    So one undo undoes both.
    """
    assert made(**one).artifact_id == made(**other).artifact_id


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"statement": "Always answer in German."}, {"statement": "From now on answer in English"}, True),
        ({"statement": "Never use emojis."}, {"statement": "Always use emojis."}, True),
        ({"statement": "Never use emojis."}, {"statement": "Never use tables."}, False),
        ({"statement": "Always answer in German."}, {"statement": "Never answer in German."}, True),
        ({"statement": "Don't answer in one line any more"}, {"statement": "Answer in one line, please"}, True),
        ({"statement": "Never tell it in German."}, {"statement": "Answer in German."}, False),
        ({"statement": "Antworte auf Deutsch.", "about": "language"}, {"statement": "Answer in English."}, True),
        ({"statement": "Antworte auf Deutsch."}, {"statement": "Answer in English."}, False),
        ({"statement": "Never delete it.", "kind": "constraint", "about": "length"}, {"statement": "Be brief."}, False),
    ],
)
def test_wishes_about_the_same_rest_on_one_signal(one: dict[str, Any], other: dict[str, Any], is_same: bool) -> None:
    """So that the newer one supersedes the older. What forbids an act is about nothing that a model may name."""
    first, second = made(**one), made(**other)
    assert first.artifact_id != second.artifact_id
    assert (first.source_signal_ids == second.source_signal_ids) == is_same


def test_all_that_is_not_on_the_closed_list_waits_whatever_a_model_calls_it() -> None:
    """A preference by the model's word, a constraint by HO2's; the other way round the model's caution stands."""
    assert made(**BRIEF).artifact_type == "interaction_style"
    assert made(statement="Never tell anybody about the outage.", kind="preference").artifact_type == "constraint"
    assert made(**BRIEF, kind="constraint").artifact_type == "constraint"
    assert made("Hello. Always answer briefly.", **BRIEF).artifact_type == "constraint"


# --- in a turn --------------------------------------------------------------------------------------------------------


def stating(**said: Any) -> Any:
    """A pool that finds this stated in every message."""

    def script(order: WorkOrder) -> Answer:
        if order.wo_type == "classify":
            return classified(CLASSIFIED | {"explicit_preference": BRIEF | said})
        return f"answer to {text_of(order, 'user_input')}"

    return script


SAID = "Always answer briefly. What packages are installed?"


def asked(rig: Rig, text: str = SAID) -> TurnResult:
    """A turn in the rig's session."""
    rig.run(rig.start_session())
    return rig.run(rig.turn("i1", text))


def due(rig: Rig) -> Any:
    """What CONSOLIDATION_DUE says."""
    [entry] = [e for e in rig.run(rig.entries("ho2m")) if e.event_type == "CONSOLIDATION_DUE"]
    assert entry.bodies[1] == b"Always answer briefly." and b"briefly" not in (entry.bodies[0] or b"")
    return read_body(entry)


def test_an_answer_says_what_was_remembered_and_says_so_again_after_a_crash() -> None:
    """One signal more in the turn's one message, then the artifact; the record has it, and every later answer."""
    with Rig(*ON, script=stating()) as rig:
        memory = remembering(rig)
        result = asked(rig)
        [log] = memory.logs
        assert log.signals[-1].signal_id == SIGNAL and {one.principal for one in log.signals} == {"local"}
        [artifact] = memory.overlays
        expected = Remembered(statement=BRIEF["statement"], artifact_id=artifact.artifact_id, state="active")
        assert (result.remembered, result.consolidation_candidates) == (expected, [])
        assert due(rig).remembered_id == artifact.artifact_id
        rig.world.kill(rig.instances[0])
        rig.supervise()
        assert rig.run(rig.turn("i1", SAID)) == result


def test_what_a_model_reads_and_the_person_did_not_write_waits_for_their_yes() -> None:
    """In the model's words: asked, never in force; `is_active` is memory's word, which knows a constraint."""
    with Rig(*ON, script=stating()) as rig:
        memory = remembering(rig)
        result = asked(rig, "please keep it short from now on")
        [artifact] = memory.overlays
        assert result.remembered is not None and artifact.artifact_type == "constraint"


def test_what_a_client_gave_of_earlier_talk_is_not_learnt() -> None:
    """No signal, no artifact, nothing in the answer."""
    with Rig(*ON, script=stating()) as rig:
        memory = remembering(rig)
        result = asked(rig, with_history([BRIEF["statement"]], [], "what packages are installed?"))
        assert (result.outcome, result.remembered, memory.overlays) == ("success", None, [])
        assert [one.signal_id for one in memory.logs[0].signals if one.signal_id.startswith("explicit:")] == []


def test_a_weight_of_zero_learns_nothing_that_is_stated() -> None:
    """`ho3.stated_weight`."""
    with Rig(*ON, ("ho3.stated_weight", 0.0), script=stating()) as rig:
        memory = remembering(rig)
        assert (asked(rig).remembered, memory.overlays) == (None, [])


@pytest.mark.parametrize("too_many", [0, 1])
def test_a_message_that_is_mostly_pasted_states_nothing(monkeypatch: pytest.MonkeyPatch, too_many: int) -> None:
    """`limits.STATED_IN_MAX_CHARS`, the border included."""
    most = 2 * len(SAID)
    monkeypatch.setattr(limits, "STATED_IN_MAX_CHARS", most)
    with Rig(*ON, script=stating()) as rig:
        memory = remembering(rig)
        result = asked(rig, SAID + " " * (most - len(SAID) + too_many))
        assert (result.remembered is None, len(memory.overlays)) == (bool(too_many), 1 - too_many)


def test_a_statement_that_memory_refuses_goes_into_quarantine_and_is_told_as_refused() -> None:
    """With the reason and the line, under the statement's own signal; the turn is a success all the same."""
    with Rig(*ON, script=stating()) as rig:
        memory = remembering(rig)
        memory.overlay_fault = MemoryFault("invalid_overlay", "ART-x: context_line holds a role marker")
        result = asked(rig)
        assert result.outcome == "success" and result.remembered is not None
        assert result.remembered.state == due(rig).remembered_state == "refused"
        [failure] = memory.failures
        assert (failure.signal_id, failure.principal, failure.line) == (SIGNAL, "local", BRIEF["statement"])
        assert "role marker" in failure.reason


def test_memory_that_is_away_remembers_nothing_and_answer_and_record_say_so() -> None:
    """The statement's signal is among those of which nobody knows whether they count; asked again it is told again."""
    with Rig(*ON, script=stating()) as rig:
        memory = remembering(rig)
        memory.overlay_fault = RuntimeFault("unavailable", "away")
        result = asked(rig)
        assert result.outcome == "success" and result.remembered is not None
        assert (result.remembered.statement, result.remembered.state) == (BRIEF["statement"], "unanswered")
        assert due(rig).remembered_state == "unanswered"
        [warning] = [e for e in rig.run(rig.entries("ho2m")) if e.event_type == "MEMORY_WARNING"]
        said: Any = read_body(warning)
        assert SIGNAL in said.signal_ids
        rig.world.kill(rig.instances[0])
        rig.supervise()
        assert rig.run(rig.turn("i1", SAID)) == result


def test_what_memory_was_too_slow_for_is_logged_once_more_behind_the_answer() -> None:
    """A process that stands still for some seconds loses no wish; the answer said that nobody knew yet."""
    with Rig(*ON, script=stating()) as rig:
        memory = remembering(rig)
        memory.delay_s = 5.0
        result = asked(rig)
        assert result.remembered is not None and result.remembered.state == "unanswered"
        assert not memory.overlays
        rig.run(rig.host.sleep(30))
        assert [one.context_line for one in memory.overlays] == [BRIEF["statement"]]
        assert [one.signals for one in memory.logs] == [memory.logs[0].signals] * 2


def test_memory_that_is_not_there_at_all_is_told_in_the_answer() -> None:
    """No process of it: given up, or never started."""
    with Rig(*ON, script=stating()) as rig:
        result = asked(rig)
        assert result.outcome == "success" and result.remembered is not None
        assert result.remembered.state == "unanswered"
