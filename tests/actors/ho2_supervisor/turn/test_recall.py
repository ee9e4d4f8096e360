"""Memory lines in a prompt: read beside the classification, recorded before they are sent, the same after any crash."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.bus.errors import BusError
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import WorkOrder
from hobus.bus.record.catalog import read_body
from hobus.bus.record.journal import read_event
from tests.actors.ho2_supervisor.remembering import Remembering, bias
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, calls, classified, one_tool, question_and_answer
from tests.rig import names, of_type

pytestmark = pytest.mark.slow

ON = (("ho3.enabled", True),)


def remembering(rig: Rig, *artifact_ids: str) -> Remembering:
    """HO3 with these artifacts about the turn's domain."""
    memory = Remembering([bias(artifact_id) for artifact_id in artifact_ids])
    rig.world.start(memory, role="ho3")
    rig.run(rig.world.settled())
    return memory


def asked(rig: Rig, input_id: str = "i1", **fields: Any) -> Any:
    """A turn in the rig's session."""
    rig.run(rig.start_session())
    return rig.run(rig.turn(input_id, "what packages are installed?", **fields))


def context_of(rig: Rig) -> tuple[Entry, Any]:
    """The one CONTEXT_ASSEMBLED entry and its payload."""
    [entry] = of_type(rig.run(rig.entries("ho2_context_authority")), "CONTEXT_ASSEMBLED")
    return entry, read_body(entry)


def lines_of(order: WorkOrder) -> list[tuple[str | None, str]]:
    """What the order shows of memory, separators left out."""
    return [(s.artifact_id, s.text) for s in order.input_context if s.name == "ho3_biases" and s.text != "\n"]


def test_lines_stand_after_the_system_prompt_and_the_record_names_them_before_they_leave() -> None:
    """Both lines, verbatim, strongest first, in every round; CONTEXT_ASSEMBLED has ids, lines by ref, and as of what."""
    with Rig(*ON, script=one_tool) as rig:
        memory = remembering(rig, "ART-1", "ART-2")
        memory.biases.append(
            bias("ART-3", scope="session", session_id=SESSION, labels={"domain": ["docs"], "task": []})
        )
        assert asked(rig).outcome == "success"
        rounds = [order for order in rig.pool.orders if order.wo_type == "synthesize"]
        assert len(rounds) == 2
        for order in rounds:
            assert lines_of(order) == [("ART-1", "line of ART-1"), ("ART-2", "line of ART-2")]
            assert [s.name for s in order.input_context][:4] == ["system", "ho3_biases", "ho3_biases", "ho3_biases"]
        [question] = memory.reads
        requested = next(e for e in rig.run(rig.entries()) if e.event_type == "RunRequested")
        assert (question.agent_id, question.session_id) == ("ADMIN", SESSION)
        assert question.as_of_ts == read_event(requested).event.at
        entry, payload = context_of(rig)
        assert (payload.as_of_ts, payload.as_of_seq, payload.in_force) == (question.as_of_ts, 41, 3)
        assert payload.artifact_ids == ("ART-1", "ART-2")
        assert entry.bodies[1:] == [b"line of ART-1", b"line of ART-2"]
        dispatched = [e.sequence for e in rig.run(rig.entries()) if e.event_type == "WO_DISPATCHED"]
        assert dispatched[0] < entry.sequence < dispatched[1]


def test_reading_takes_no_time_of_its_own() -> None:
    """The READ is on its way while the message is classified."""
    taken: dict[float, int] = {}
    for delay_s in (0.0, 0.15):
        with Rig(*ON) as rig:
            remembering(rig, "ART-1").delay_s = delay_s
            rig.pool.delay_s = lambda order: 0.2 if order.wo_type == "classify" else 0.0
            taken[delay_s] = asked(rig).elapsed_ms
    assert taken[0.15] == taken[0.0]


@pytest.mark.parametrize("how", ["silent", "gone", "refusing"])
def test_a_turn_without_memory_is_a_turn_and_the_record_says_so(how: str) -> None:
    """HO3 hangs, is not there, or fails: answered within its time-outs, no line in the prompt, the reason in the record."""
    with Rig(*ON) as rig:
        if how != "gone":
            memory = remembering(rig, "ART-1")
            memory.delay_s = 60.0 if how == "silent" else 0.0
            memory.fault = BusError("internal", "broken") if how == "refusing" else None
        result = asked(rig)
        assert (result.outcome, result.response) == ("success", "answer to what packages are installed?")
        limits = rig.snapshot.config.ho3
        assert limits is not None
        assert result.elapsed_ms <= limits.read_timeout_ms + 50
        assert [lines_of(order) for order in rig.pool.orders] == [[], []]
        entry, payload = context_of(rig)
        assert entry.reason == {"silent": "expired", "gone": "no_route", "refusing": "internal"}[how]
        assert (payload.as_of_seq, payload.artifact_ids) == (None, ())
        warnings = [e for e in rig.run(rig.entries("ho2m")) if e.event_type == "MEMORY_WARNING"]
        assert [e.reason for e in warnings] == [entry.reason]


def test_a_failed_classification_leaves_only_what_is_global() -> None:
    """Without labels nothing but global artifacts reaches the prompt."""

    def script(order: WorkOrder) -> Answer:
        return BusError("internal", "no") if order.wo_type == "classify" else question_and_answer(order)

    with Rig(*ON, script=script) as rig:
        remembering(rig, "ART-1").biases.append(bias("ART-2", scope="global"))
        asked(rig)
        assert lines_of(rig.pool.orders[-1]) == [("ART-2", "line of ART-2")]


@pytest.mark.parametrize("killed_at", [1, 2, 3, 4])
def test_after_a_crash_the_lines_are_those_that_were_shown(killed_at: int) -> None:
    """Whatever memory says meanwhile: once an order with lines was dispatched, every round shows them, and is not read anew."""
    with Rig(*ON) as rig:
        memory = remembering(rig, "ART-1")
        seen: list[str] = []

        def script(order: WorkOrder) -> Answer:
            if order.wo_id not in seen:
                seen.append(order.wo_id)
                if len(seen) == killed_at:
                    rig.world.kill(rig.instances[0])
                    memory.biases = [bias("ART-9")]
                    rig.supervise()
            if order.wo_type == "classify":
                return classified()
            if order.wo_type == "tool_call":
                return "done"
            return calls("list_tools") if len(order.exchanges) < 1 else "answer"

        rig.pool.script = script
        assert asked(rig).outcome == "success"
        rounds = [order for order in rig.pool.orders if order.wo_type == "synthesize"]
        shown = "ART-9" if killed_at == 1 else "ART-1"
        assert [lines_of(order) for order in rounds] == [[(shown, f"line of {shown}")]] * len(rounds)
        assert len(memory.reads) == (2 if killed_at == 1 else 1)
        by_round = {order.wo_id: order for order in rounds}
        assert all(by_round[order.wo_id] == order for order in rounds)
        _, payload = context_of(rig)
        assert payload.artifact_ids == (shown,)


def test_memory_off_changes_nothing() -> None:
    """Section missing or `enabled: false`: nothing is asked, its context has no lines, the journal has the same bytes."""
    journals: list[list[list[bytes | None]]] = []
    for changes in ((), (("ho3", None),), (("ho3.enabled", False),)):
        with Rig(*changes, script=one_tool) as rig:
            memory = remembering(rig, "ART-1")
            memory.crossing = lambda _: True
            result = asked(rig)
            assert result.consolidation_candidates == []
            rig.run(rig.host.sleep(1))
            assert (memory.reads, memory.logs) == ([], [])
            _, payload = context_of(rig)
            assert (payload.artifact_ids, payload.in_force, payload.as_of_seq) == ((), 0, None)
            assert names(rig.run(rig.entries("ho2_context_authority"))) == [
                "CONTEXT_ASSEMBLED", "PROJECTION_COMPUTED",
            ]  # fmt: skip
            assert names(rig.run(rig.entries("ho2m"))) == []
            journals.append([entry.bodies for entry in rig.run(rig.entries())])
    assert journals[0] == journals[1] == journals[2]


def test_what_is_in_force_is_read_page_by_page_as_of_one_moment() -> None:
    """However many lines there are: all are looked at, for the session's principal, and the best of them shown."""
    with Rig(*ON) as rig:
        memory = remembering(rig, *(f"ART-{number:04}" for number in range(700)))
        memory.page_max = 100
        asked(rig)
        assert len(memory.reads) == 7 and {read.principal for read in memory.reads} == {"local"}
        assert [read.as_of_seq for read in memory.reads] == [None] + [41] * 6
        _, context = context_of(rig)
        assert context.in_force == 700 and len(context.artifact_ids) > 100
