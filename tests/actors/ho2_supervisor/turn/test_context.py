"""A turn's context: what its template says and nothing else, recorded before it is sent, the same after any crash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.work_order import WorkOrder
from hobus.bus.record.catalog import read_body
from hobus.bus.record.payloads.orders import ContextAssembled
from tests.actors.ho2_supervisor.attention.assembling import template
from tests.actors.ho2_supervisor.rig import SESSION, Answer, Rig, calls, classified, text_of

QUESTION = "what packages are installed?"
SPECS = {"type": "registry_query", "config": {"registry": "specs"}}
MOMENT = {"type": "custom", "config": {"handler": "moment"}}
MEMORY, HISTORY = {"type": "memory"}, {"type": "history"}


def turns(rig: Rig, count: int, first: int = 1) -> list[WorkOrder]:
    """So many turns; the order that asks for each one's answer."""

    async def run() -> None:
        await rig.start_session()
        for number in range(first, first + count):
            assert (await rig.turn(f"i{number}", f"{QUESTION} {number}")).outcome == "success"

    rig.run(run())
    return [order for order in rig.pool.orders if order.wo_type == "synthesize"]


def contexts(rig: Rig) -> list[tuple[Entry, ContextAssembled]]:
    """CONTEXT_ASSEMBLED of each turn."""
    return [(entry, read_body(entry)) for entry in rig.run(rig.entries("ho2_context_authority"))]


def inputs(order: WorkOrder) -> list[str]:
    """What the order's inputs are called, in order, each once."""
    return list(dict.fromkeys(segment.name for segment in order.input_context))


def test_what_a_prompt_shows_is_what_its_template_says() -> None:
    """Nothing is put together beside it: without a history stage there is no history, with a registry its rows are there."""
    with Rig(templates=[template(SPECS, MOMENT)]) as rig:
        _, second = turns(rig, 2)
        assert inputs(second) == ["system", "assembled_context", "classification", "user_input"]
        shown = text_of(second, "assembled_context").splitlines()
        assert shown[0].startswith("SPEC-ADMIN-001 ")
        assert len(shown) == len(shipped_snapshot().specs) + 1
        assert shown[-1].startswith("The message was sent at ")
    with Rig() as rig:
        _, second = turns(rig, 2)
        assert inputs(second) == ["system", "history", "classification", "user_input"]
        assert f"{QUESTION} 1" in text_of(second, "history")


def test_what_changes_least_stands_first() -> None:
    """The agent's words, then what was said, then what was looked up for this message, then it."""
    with Rig(templates=[template(MOMENT, HISTORY)]) as rig:
        _, second = turns(rig, 2)
        assert inputs(second) == ["system", "history", "assembled_context", "classification", "user_input"]


def test_the_record_says_by_which_template_and_what_ended_it() -> None:
    """Every turn, also with memory off: id, version, hash, stages, what was used; and where each fragment came from."""
    with Rig(templates=[template(SPECS, MEMORY, HISTORY)]) as rig:
        orders = turns(rig, 2)
        (entry, first), (_, second) = contexts(rig)
        assert (first.template_id, first.template_version) == ("ATT-TEST-001", "1.0.0")
        assert first.template_hash == rig.snapshot.template_hashes()["ATT-TEST-001"]
        assert [(stage.type, stage.status) for stage in second.stages] == [
            ("registry_query", "ok"), ("memory", "empty"), ("history", "ok"),
        ]  # fmt: skip
        assert [stage.status for stage in first.stages] == ["ok", "empty", "empty"]
        assert (second.stopped_by, second.fallback, second.queries_executed, second.warnings) == (
            "completion",
            "",
            1,
            (),
        )
        assert [(one.source, one.source_id) for one in second.fragments] == [
            ("registry", spec) for spec in rig.snapshot.specs
        ]
        shown = text_of(orders[1], "assembled_context") + text_of(orders[1], "history")
        assert second.context_hash == hashlib.sha256(shown.encode()).digest()
        assert second.tokens_assembled == len(shown) // 4
        assert (entry.provenance.session_id, entry.provenance.run_seq) == (SESSION, 1)
        journal = rig.run(rig.entries())
        sent = [one.sequence for one in journal if one.event_type == "WO_DISPATCHED"]
        assert sent[0] < entry.sequence < sent[1]


def test_no_text_of_a_person_stands_in_a_context_s_own_body() -> None:
    """History is named part by part, by the refs under which its texts were recorded first."""
    with Rig(templates=[template(MOMENT, HISTORY)]) as rig:
        turns(rig, 3)
        bodies = [
            body
            for entry in rig.run(rig.entries())
            if entry.event_type == "WO_DISPATCHED" and entry.submission_id.endswith(".2.1")
            for body in entry.bodies
        ]
        said = [body for body in bodies if body is not None and f"{QUESTION} 1".encode() in body]
        assert said == []


def failing(kind: str) -> Mapping[str, Any]:
    """A template whose context is none: nothing was found, or a limit was met."""
    fallback = {"on_timeout": "fail", "on_empty": "fail"}
    if kind == "empty":
        return {"fallback": fallback}
    return {"fallback": fallback, "budget": {"max_context_tokens": 3, "max_queries": 1, "timeout_ms": 1000}}


@pytest.mark.parametrize("kind", ["empty", "tokens"])
def test_an_assembly_that_fails_is_no_end_of_a_turn(kind: str) -> None:
    """It is answered without context, and the record says why there is none."""
    stages = [MEMORY] if kind == "empty" else [SPECS]
    with Rig(templates=[template(*stages, **failing(kind))]) as rig:
        [order] = turns(rig, 1)
        assert inputs(order) == ["system", "classification", "user_input"]
        [(_, payload)] = contexts(rig)
        assert (payload.fallback, payload.stopped_by) == ("fail", "completion" if kind == "empty" else "tokens")
        assert payload.tokens_assembled == 0


def test_where_no_template_applies_the_turn_goes_on_and_says_so() -> None:
    """With what the contract requires, of which nothing here reads files yet."""
    other = template(HISTORY, applies_to={"agent_class": ["RESIDENT"]})
    with Rig(templates=[other], required={"file_refs": ["a.md"]}) as rig:
        turns(rig, 1)
        [(_, payload)] = contexts(rig)
        assert payload.template_id == "ATT-DEFAULT-000"
        assert payload.warnings[0] == "no attention template applies to agent ADMIN"
        assert [(stage.stage, stage.type) for stage in payload.stages] == [("required_file_1", "file_read")]


def test_facts_of_the_record_are_those_of_before_the_turn() -> None:
    """The newest first, of this session; what the turn itself has written meanwhile is not among them."""
    query = {"type": "ledger_query", "config": {"event_type": "RunCompleted", "max_entries": 2}}
    with Rig(templates=[template(query)]) as rig:
        for number in range(1, 5):
            turns(rig, 1, first=number)
            rig.run(rig.host.sleep(1))  # the index is behind by up to 200 ms
        shown = text_of([o for o in rig.pool.orders if o.wo_type == "synthesize"][-1], "assembled_context")
        assert [line.split("(")[1] for line in shown.splitlines()] == [
            f"RunCompleted:{SESSION}-3)", f"RunCompleted:{SESSION}-2)",
        ]  # fmt: skip


def test_what_the_contract_requires_is_in_the_prompt() -> None:
    """Beside what the template asks for: a framework with its rules."""
    with Rig(templates=[template(HISTORY)], required={"framework_refs": ["FMWK-004"]}) as rig:
        [order] = turns(rig, 1)
        assert text_of(order, "assembled_context").startswith("FMWK-004 ")
        assert "\n- MUST: " in text_of(order, "assembled_context")


@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_after_a_crash_a_turn_shows_the_context_that_was_shown(killed_at: int) -> None:
    """Once an order with it was dispatched, every round has it, whatever a stage would give by then."""
    query = {"type": "ledger_query", "config": {"scope": "cluster", "max_entries": 50}}
    with Rig(templates=[template(query, HISTORY)]) as rig:
        turns(rig, 1)
        rig.run(rig.host.sleep(1))
        rig.pool.received.clear()
        seen: list[str] = []

        def script(order: WorkOrder) -> Answer:
            if order.wo_id not in seen:
                seen.append(order.wo_id)
                if len(seen) == killed_at:
                    rig.world.kill(rig.instances[0])
                    rig.supervise()
            if order.wo_type == "classify":
                return classified()
            if order.wo_type == "tool_call":
                return "done"
            return calls("list_tools") if len(order.exchanges) < 1 else "answer"

        rig.pool.script = script
        rounds = turns(rig, 1, first=2)
        assert len({order.wo_id for order in rounds}) == 2
        assert len({text_of(order, "assembled_context") for order in rounds}) == 1
        assert len({text_of(order, "history") for order in rounds}) == 1
        assert len(contexts(rig)) == 2


def test_the_same_journal_gives_the_same_context_byte_for_byte() -> None:
    """Two clusters that were told the same."""
    found: list[list[tuple[bytes, list[tuple[str, str]]]]] = []
    for _ in range(2):
        with Rig(templates=[template(SPECS, MOMENT, HISTORY)]) as rig:
            orders = turns(rig, 3)
            hashes = [payload.context_hash for _, payload in contexts(rig)]
            texts = [[(segment.name, segment.text) for segment in order.input_context] for order in orders]
            found.append(list(zip(hashes, texts, strict=True)))
    assert found[0] == found[1]
