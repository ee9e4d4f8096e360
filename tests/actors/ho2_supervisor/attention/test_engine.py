"""The engine: which template, which stages, within which budget, and what becomes of what does not end well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hobus.actors.ho2_supervisor.attention.context import Fragment, make_fragment
from hobus.actors.ho2_supervisor.attention.pipeline import Room
from hobus.bus.errors import BusError, ConfigError
from tests.actors.ho2_supervisor.attention.assembling import (
    ADMIN,
    SYNTHESIZE,
    Assembling,
    fragments,
    requiring,
    template,
)

SEARCH = {
    "query": "{{ user_input }}", "sources": ["ledger"], "max_results": 2, "relevance_threshold": 0.5,
}  # fmt: skip
HALTING = {"min_fragments": 2, "min_tokens": 0, "satisfaction_threshold": 0.0}
MEMORY, HISTORY = {"type": "memory"}, {"type": "history"}


def texts(context: Any) -> list[str]:
    """What each fragment says."""
    return [fragment.content for fragment in context.fragments]


def statuses(context: Any) -> list[tuple[str, str]]:
    """Type and status of each stage of the trace."""
    return [(stage.type, stage.status) for stage in context.stages]


# --- stages -----------------------------------------------------------------------------------------------------------


async def test_stages_run_in_order_and_the_trace_has_each_of_them() -> None:
    """Fragments, tokens and status of every stage; one that is off is skipped, one that gives nothing is empty."""
    one = template(
        MEMORY, {"type": "liveness", "enabled": False}, HISTORY, {"type": "custom", "config": {"handler": "moment"}}
    )
    assembling = Assembling(
        [one], {"memory": fragments("memory", "a line"), "history": fragments("history", "said\n"), "custom": []}
    )
    context = await assembling.assembled()
    assert context.context_text == "a line\nsaid\n"
    assert statuses(context) == [("memory", "ok"), ("liveness", "skipped"), ("history", "ok"), ("custom", "empty")]
    assert [(stage.fragments, stage.tokens) for stage in context.stages] == [
        (1, 1),
        (0, 0),
        (1, 1),
        (0, 0),
    ]
    assert (context.stopped_by, context.fallback, context.template_hash) == ("completion", "", b"ATT-TEST-001")
    assert (context.tokens_assembled, context.queries_executed) == (3, 3)


async def test_a_stage_without_a_source_is_skipped_with_a_warning() -> None:
    """The rest goes on."""
    assembling = Assembling([template({"type": "liveness"}, MEMORY)], {"memory": fragments("memory", "a line")})
    context = await assembling.assembled()
    assert statuses(context) == [("liveness", "skipped"), ("memory", "ok")]
    assert context.warnings == ("liveness_0: nothing here answers stages of type liveness",)


async def test_a_source_that_fails_is_a_warning_and_no_end() -> None:
    """What it gave before stays, the code of its fault is told, and later stages run."""

    async def failing(_config: Any, _room: Room) -> AsyncGenerator[Fragment, None]:
        yield make_fragment("file", "a", "one")
        raise BusError("peer_lost", "gone")

    reading = {"type": "file_read", "config": {"paths": ["a", "b"], "max_size_bytes": 10}}
    assembling = Assembling([template(reading, MEMORY)], {"memory": fragments("memory", "x")}, {"file_read": failing})
    context = await assembling.assembled()
    assert texts(context) == ["one", "x"]
    assert statuses(context) == [("file_read", "failed"), ("memory", "ok")]
    assert context.warnings == ("file_read_0: peer_lost",)


async def test_what_structuring_leaves_out_is_told() -> None:
    """The least relevant go, the stage is truncated, and a warning says how many went; a repetition is none of them."""
    found = [*fragments("search", "long enough", score=0.9), *fragments("search", "the least", "the least", score=0.1)]
    for tokens, kept, status in ((3, ["long enough"], "truncated"), (9, ["long enough", "the least"], "ok")):
        order = {"type": "structuring", "config": {"strategy": "relevance", "max_tokens": tokens}}
        search = {
            "type": "horizontal_search",
            "config": {"query": "x", "sources": ["ledger"], "max_results": 9, "relevance_threshold": 0.0},
        }
        context = await Assembling([template(search, order)], {"horizontal_search": found}).assembled()
        assert (texts(context), statuses(context)[-1]) == (kept, ("structuring", status))
        said = ("structuring_1: 1 of 2 fragments left out, the least relevant (max_tokens)",)
        assert context.warnings == (said if status == "truncated" else ())


# --- resolution and merge ---------------------------------------------------------------------------------------------


async def test_an_override_goes_first_and_an_unknown_one_is_an_error() -> None:
    """However specific another one is, and whatever its own selectors say."""
    selected = template(MEMORY, template_id="ATT-A-001", applies_to={"agent_class": ["ADMIN"]})
    other, foreign = (
        template(HISTORY, template_id=name, applies_to=whose)
        for name, whose in (("ATT-B-001", {}), ("ATT-D-001", {"agent_class": ["RESIDENT"]}))
    )
    assembling = Assembling([selected, other, foreign], {"memory": [], "history": []})
    assert (await assembling.assembled()).template_id == "ATT-A-001"
    assert (await assembling.assembled(template_override="ATT-B-001")).template_id == "ATT-B-001"
    assert (await assembling.assembled(template_override="ATT-D-001")).template_id == "ATT-D-001"
    with pytest.raises(ConfigError, match="ATT-C-001"):
        await assembling.assembled(template_override="ATT-C-001")


async def test_two_of_one_specificity_are_an_error_that_names_both() -> None:
    """Never a guess."""
    one = template(MEMORY, template_id="ATT-A-001", applies_to={"tier": ["hot"]})
    other = template(MEMORY, template_id="ATT-B-001", applies_to={"tier": ["hot", "ho2"]})
    with pytest.raises(ConfigError, match="ATT-A-001 and ATT-B-001"):
        await Assembling([one, other]).assembled()


async def test_without_a_template_the_required_files_are_read_and_a_warning_says_so() -> None:
    """Nothing else of what the contract requires."""
    contract = requiring(file_refs=["a.md", "b.md"], framework_refs=["FMWK-000"])
    other = template(MEMORY, applies_to={"agent_class": ["RESIDENT"]})
    assembling = Assembling([other], {"file_read": fragments("file", "x"), "registry_query": []})
    context = await assembling.assembled(contract=contract)
    assert context.template_id == "ATT-DEFAULT-000"
    assert [config.paths for _, config in assembling.asked] == [("a.md",), ("b.md",)]
    assert context.warnings[0] == "no attention template applies to agent ADMIN"


async def test_what_the_contract_requires_comes_before_structuring_unless_the_template_has_it() -> None:
    """Ledger queries, frameworks, files: each once, the template's own stages first."""
    contract = requiring(
        ledger_queries=[{"max_entries": 3}, {"event_type": "ESCALATION", "max_entries": 1}],
        framework_refs=["FMWK-000", "FMWK-004"],
        file_refs=["a.md", "b.md", "a.md"],
    )
    one = template(
        {"type": "file_read", "config": {"paths": ["b.md"], "max_size_bytes": 5}},
        {"type": "ledger_query", "config": {"max_entries": 3}},
        {"type": "registry_query", "config": {"registry": "frameworks", "filters": {"framework_id": "FMWK-004"}}},
        {"type": "structuring", "config": {"strategy": "relevance"}},
        MEMORY,
    )
    given_: dict[str, Any] = {"file_read": [], "ledger_query": [], "registry_query": [], "memory": []}
    context = await Assembling([one], given_).assembled(contract=contract)
    assert [stage.stage for stage in context.stages] == [
        "file_read_0", "ledger_query_1", "registry_query_2", "required_ledger_2", "required_framework_1", "required_file_1",
        "structuring_3", "memory_4",
    ]  # fmt: skip


# --- budgets ----------------------------------------------------------------------------------------------------------


async def test_what_does_not_fit_ends_the_pipeline_with_what_there_is() -> None:
    """To the character: 11 tokens of 4 hold 47 characters, line ends included."""
    one = template({**MEMORY}, HISTORY, budget={"max_context_tokens": 11, "max_queries": 9, "timeout_ms": 9})
    exact = Assembling([one], {"memory": fragments("memory", "x" * 23, "y" * 22), "history": []})
    context = await exact.assembled()
    assert (context.tokens_assembled, context.stopped_by) == (11, "completion")
    over = Assembling([one], {"memory": fragments("memory", "x" * 23, "y" * 23), "history": fragments("history", "z")})
    context = await over.assembled()
    assert texts(context) == ["x" * 23]
    assert statuses(context) == [("memory", "truncated"), ("history", "skipped")]
    assert (context.stopped_by, context.fallback) == ("tokens", "return_partial")


async def test_the_budget_of_the_use_caps_the_template_s() -> None:
    """budget.projection_budget, whatever a template says."""
    config = Assembling([]).config
    capped = config.model_copy(update={"budget": config.budget.model_copy(update={"projection_budget": 5})})
    assembling = Assembling([template(MEMORY)], {"memory": fragments("memory", "x" * 40)}, config=capped)
    context = await assembling.assembled()
    assert (context.max_context_tokens, context.fragments, context.stopped_by) == (5, (), "tokens")


async def test_questions_are_counted_before_they_are_asked() -> None:
    """The one too many is not asked."""
    one = template(MEMORY, HISTORY, MEMORY, budget={"max_context_tokens": 100, "max_queries": 2, "timeout_ms": 9})
    assembling = Assembling([one], {"memory": [], "history": fragments("history", "said")})
    context = await assembling.assembled()
    assert statuses(context) == [("memory", "empty"), ("history", "ok"), ("memory", "truncated")]
    assert (context.queries_executed, context.stopped_by, texts(context)) == (2, "queries", ["said"])


async def test_a_source_that_hangs_is_cut_off_by_the_template_s_time() -> None:
    """What it gave before stays."""

    async def hanging(_config: Any, _room: Room) -> AsyncGenerator[Fragment, None]:
        yield make_fragment("memory", "m", "first")
        await asyncio.get_running_loop().create_future()

    one = template(MEMORY, HISTORY, budget={"max_context_tokens": 100, "max_queries": 2, "timeout_ms": 5})
    assembling = Assembling([one], {"history": []}, {"memory": hanging})
    context = await assembling.assembled()
    assert statuses(context) == [("memory", "timeout"), ("history", "skipped")]
    assert (texts(context), context.stopped_by) == (["first"], "time")


async def test_time_is_looked_at_between_fragments_too() -> None:
    """A source that never waits does not outlive the template's time either."""
    assembling = Assembling([template(MEMORY, HISTORY)], {"history": []})

    async def slow(_config: Any, _room: Room) -> AsyncGenerator[Fragment, None]:
        for fragment in fragments("memory", "a", "b", "c"):
            assembling.clock.at_s += 0.4
            yield fragment

    assembling.sources["memory"] = slow
    context = await assembling.assembled()
    assert (texts(context), context.stopped_by) == (["a", "b"], "time")
    assert context.stages[0].duration_ms == 1200


PRODUCING = st.sampled_from(["memory", "history", "liveness", "file_read", "horizontal_search"])
CONFIGS: dict[str, Any] = {
    "file_read": {"paths": ["a"], "max_size_bytes": 9}, "horizontal_search": SEARCH,
}  # fmt: skip
STAGES = st.one_of(
    PRODUCING.map(lambda kind: {"type": kind, **({"config": CONFIGS[kind]} if kind in CONFIGS else {})}),
    st.builds(
        lambda strategy, tokens: {"type": "structuring", "config": {"strategy": strategy, "max_tokens": tokens}},
        st.sampled_from(["chronological", "relevance", "hierarchical"]),
        st.none() | st.integers(1, 60),
    ),
    st.builds(
        lambda least, share: {
            "type": "halting",
            "config": {"min_fragments": least, "min_tokens": 0, "satisfaction_threshold": share},
        },
        st.integers(0, 6),
        st.sampled_from([0.0, 1.0]),
    ),
)
FRAGMENTS = st.lists(
    st.builds(
        lambda source, number, text, score, at_us: make_fragment(source, str(number), text, score=score, at_us=at_us),
        st.sampled_from(["memory", "history", "file", "search"]),
        st.integers(0, 5),
        st.text("ab \n", max_size=60),
        st.none() | st.floats(0, 1),
        st.integers(0, 3),
    ),
    max_size=6,
)


@given(pipeline=st.lists(STAGES, min_size=1, max_size=7),
    given_=st.fixed_dictionaries(dict.fromkeys(("memory", "history", "liveness", "file_read", "horizontal_search"), FRAGMENTS)),
    tokens_max=st.integers(1, 60),
    queries_max=st.integers(0, 6),
    on_empty=st.sampled_from(["proceed_empty", "use_default"]),
)  # fmt: skip
def test_no_pipeline_goes_over_its_budget(
    pipeline: list[Any], given_: dict[str, Any], tokens_max: int, queries_max: int, on_empty: str
) -> None:
    """Whichever stages: text and questions within the template's budget, and twice the same gives the same."""
    one = template(
        *pipeline,
        budget={"max_context_tokens": tokens_max, "max_queries": queries_max, "timeout_ms": 1000},
        fallback={"on_timeout": "return_partial", "on_empty": on_empty},
    )
    found = [asyncio.run(Assembling([one], given_).assembled()) for _ in range(2)]
    context = found[0]
    assert len(context.context_text) // 4 <= tokens_max
    assert len(context.context_text) // 4 == context.tokens_assembled
    assert context.queries_executed <= queries_max
    assert (context.context_text, context.context_hash, context.stages) == (
        found[1].context_text, found[1].context_hash, found[1].stages,
    )  # fmt: skip


# --- halting, fallback, cache -----------------------------------------------------------------------------------------


async def test_a_halting_that_is_satisfied_ends_the_pipeline() -> None:
    """What stands behind it is skipped, and the trace says why."""
    one = template(MEMORY, {"type": "halting", "config": HALTING}, HISTORY)
    assembling = Assembling([one], {"memory": fragments("memory", "a", "b"), "history": fragments("history", "c")})
    context = await assembling.assembled()
    assert (texts(context), context.stopped_by, statuses(context)[-1]) == (
        ["a", "b"],
        "satisfaction",
        ("history", "skipped"),
    )


async def test_one_that_is_not_has_the_searches_asked_once_more_with_half_the_threshold_and_twice_the_results() -> None:
    """Once; what was found before is not there twice, and order is made again."""
    asked: list[tuple[float, int]] = []

    async def searching(config: Any, room: Room) -> AsyncGenerator[Fragment, None]:
        room.account.query()
        asked.append((config.relevance_threshold, config.max_results))
        hits = [make_fragment("search", str(n), f"hit {n}", score=0.9 - n / 10) for n in range(4)]
        for hit in hits[: 1 if config.relevance_threshold == 0.5 else 3][: config.max_results]:
            yield hit

    one = template(
        {"type": "horizontal_search", "config": SEARCH},
        {"type": "structuring", "config": {"strategy": "relevance"}},
        {"type": "halting", "config": {**HALTING, "min_fragments": 3}},
        {"type": "halting", "config": {**HALTING, "min_fragments": 9}},
    )
    context = await Assembling([one], {}, {"horizontal_search": searching}).assembled()
    assert asked == [(0.5, 2), (0.25, 4)]
    assert texts(context) == ["hit 0", "hit 1", "hit 2"]
    assert [stage.stage for stage in context.stages] == [
        "horizontal_search_0", "structuring_1", "horizontal_search_0+relaxed", "structuring_1+relaxed", "halting_2", "halting_3",
    ]  # fmt: skip
    assert context.stopped_by == "satisfaction"


async def test_satisfaction_is_the_share_of_what_the_contract_requires() -> None:
    """Of a query, two frameworks and a file three gave something: 0.75."""
    contract = requiring(
        ledger_queries=[{"max_entries": 1}], framework_refs=["FMWK-000", "FMWK-004"], file_refs=["a.md"]
    )
    given_: dict[str, Any] = {
        "ledger_query": fragments("ledger", "e"), "registry_query": [make_fragment("registry", "FMWK-000", "f")], "file_read": [make_fragment("file", "a.md", "t")],
    }  # fmt: skip
    for threshold, ended in ((0.75, "satisfaction"), (0.76, "completion")):
        halting = {"min_fragments": 0, "min_tokens": 0, "satisfaction_threshold": threshold}
        one = template({"type": "halting", "config": halting})
        context = await Assembling([one], given_).assembled(contract=contract)
        assert (context.stopped_by, context.fallback) == (ended, "" if ended == "satisfaction" else "proceed_empty")


@pytest.mark.parametrize("on_empty", ["proceed_empty", "fail", "use_default"])
async def test_nothing_found_is_what_on_empty_says(on_empty: str) -> None:
    """As it is; none at all; or once the files that the contract requires."""
    one = template(MEMORY, fallback={"on_timeout": "fail", "on_empty": on_empty})
    assembling = Assembling([one], {"memory": [], "file_read": []})
    context = await assembling.assembled(contract=requiring(file_refs=["a.md"]))
    assert (context.fragments, context.fallback, context.template_id) == ((), on_empty, "ATT-TEST-001")
    assert [kind for kind, _ in assembling.asked].count("file_read") == (2 if on_empty == "use_default" else 1)


@pytest.mark.parametrize("on_timeout", ["return_partial", "fail", "use_cached"])
async def test_a_limit_that_is_met_is_what_on_timeout_says(on_timeout: str) -> None:
    """The part that there is; none; or what was assembled for the same before, and if there is nothing, the part."""
    one = template(
        MEMORY, budget={"max_context_tokens": 2, "max_queries": 9, "timeout_ms": 9},
        fallback={"on_timeout": on_timeout, "on_empty": "fail"},
    )  # fmt: skip
    assembling = Assembling([one], {"memory": fragments("memory", "short", "much too long")})
    context = await assembling.assembled()
    found = [] if on_timeout == "fail" else ["short"]
    assert (texts(context), context.fallback, context.is_cached) == (found, on_timeout, False)
    assert [said.partition(":")[0] for said in context.warnings] == (
        ["use_cached"] if on_timeout == "use_cached" else []
    )


async def test_use_cached_gives_the_last_whole_context_however_old() -> None:
    """Flagged as such, with the trace of what was tried now."""
    one = template(
        MEMORY, budget={"max_context_tokens": 2, "max_queries": 9, "timeout_ms": 9},
        fallback={"on_timeout": "use_cached", "on_empty": "fail"},
    )  # fmt: skip
    assembling = Assembling([one], {"memory": fragments("memory", "whole")})
    await assembling.assembled()
    assembling.clock.at_s += assembling.config.attention.cache_ttl_s + 1
    assembling.given = {"memory": fragments("memory", "part", "much too long")}
    context = await assembling.assembled()
    assert (texts(context), context.is_cached, context.fallback, context.stopped_by) == (
        ["whole"],
        True,
        "use_cached",
        "tokens",
    )
    assert statuses(context) == [("memory", "truncated")]


CHANGED: dict[str, Any] = {
    "another order": {"work_order_id": "WO-x"},
    "another session": {"session_id": "y"},
    "another contract": {"contract": SYNTHESIZE.model_copy(update={"contract_id": "PRC-CLASSIFY-001"})},
    "another version of it": {"contract": SYNTHESIZE.model_copy(update={"version": "9.0.0"})},
    "another class": {"agent": ADMIN.model_copy(update={"agent_class": "RESIDENT"})},
    "another template": {"template_override": "ATT-OTHER-001"},
}


@pytest.mark.parametrize("changed", CHANGED)
async def test_a_context_is_used_again_for_the_same_and_for_nothing_else(changed: str) -> None:
    """Within its time; whatever of the key differs is assembled anew."""
    other = template(MEMORY, template_id="ATT-OTHER-001")
    both = {"tier": ["hot"], "contract": ["PRC-SYNTHESIZE-001", "PRC-CLASSIFY-001"]}
    assembling = Assembling([template(MEMORY, applies_to=both), other], {"memory": fragments("memory", "a")})
    first = await assembling.assembled()
    again = await assembling.assembled()
    assert (again, len(assembling.asked)) == (replace(first, is_cached=True), 1)
    assert not (await assembling.assembled(**CHANGED[changed])).is_cached
    assembling.clock.at_s += assembling.config.attention.cache_ttl_s + 0.1
    assert not (await assembling.assembled()).is_cached


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes."""
    monkeypatch.setattr("hobus.actors.ho2_supervisor.limits.CACHE_MAX", 2)
    assembling = Assembling([template(MEMORY)], {"memory": []})
    for order in ("a", "b", "c"):
        await assembling.assembled(work_order_id=order)
    assert [(await assembling.assembled(work_order_id=order)).is_cached for order in ("c", "b", "a")] == [
        True,
        True,
        False,
    ]
