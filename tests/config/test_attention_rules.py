"""Attention templates: which one applies to whom, and what a start refuses, with file, place and fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hobus.bus.errors import ConfigError
from hobus.config.assets import AgentFile
from hobus.config.attention_rules import (
    choose,
    compute_context_tokens,
    find_override_fault,
    find_override_warning,
    get_tokens,
)
from hobus.config.attention_template import Template
from hobus.config.files import SHIPPED_ROOT, Layers
from hobus.config.snapshot import Snapshot, load_snapshot

SHIPPED = load_snapshot()
ADMIN = SHIPPED.agents["ADMIN"]
PLAIN: dict[str, Any] = json.loads((SHIPPED_ROOT / "attention/ATT-TURN-001.json").read_text(encoding="utf-8"))


def template(template_id: str, **applies_to: Any) -> Template:
    return Template.model_validate({**PLAIN, "template_id": template_id, "applies_to": applies_to})


def chosen(*templates: Template, agent: AgentFile = ADMIN, override: str | None = None) -> str | None:
    """The id of the one that applies."""
    found = choose({one.template_id: one for one in templates}, agent, override)
    return None if found is None else found.template_id


def home_with(directory: Path, *values: dict[str, Any], agent: dict[str, Any] | None = None) -> Snapshot:
    """The snapshot of a home with these templates, and ADMIN changed."""
    for value in values:
        path = directory / "attention" / f"{value['template_id']}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
    if agent is not None:
        (directory / "agents").mkdir()
        whole = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text(encoding="utf-8")) | agent
        (directory / "agents/ADMIN.json").write_text(json.dumps(whole), encoding="utf-8")
    return load_snapshot(Layers(own=directory))


def faults_of(directory: Path, *values: dict[str, Any], agent: dict[str, Any] | None = None) -> list[str]:
    """What a start says of such a home."""
    with pytest.raises(ConfigError) as refused:
        home_with(directory, *values, agent=agent)
    return refused.value.facts["faults"]


# --- which one --------------------------------------------------------------------------------------------------------


def test_all_selectors_that_are_stated_must_match() -> None:
    assert chosen(template("ATT-A-001", agent_class=["ADMIN"], tier=["ho1"])) is None
    assert chosen(template("ATT-A-001", agent_class=["ADMIN"], tier=["ho1", "hot"])) == "ATT-A-001"
    assert chosen(template("ATT-A-001")) == "ATT-A-001"


def test_the_most_specific_wins_framework_before_class_before_tier() -> None:
    everybody = template("ATT-A-001")
    of_tier = template("ATT-B-001", tier=["hot"])
    of_class = template("ATT-C-001", agent_class=["ADMIN"])
    of_both = template("ATT-D-001", agent_class=["ADMIN"], tier=["hot"])
    of_framework = template("ATT-E-001", framework_id=["FMWK-107"])
    ranked = [everybody, of_tier, of_class, of_both, of_framework]
    for count in range(1, len(ranked) + 1):
        assert chosen(*ranked[:count]) == ranked[count - 1].template_id
        assert chosen(*reversed(ranked[:count])) == ranked[count - 1].template_id


def test_templates_of_other_prompts_are_no_rivals_of_those_of_answers() -> None:
    answers, sorting = template("ATT-A-001"), template("ATT-B-001", contract=["PRC-CLASSIFY-001"])
    known = {one.template_id: one for one in (answers, sorting)}
    assert choose(known, ADMIN) is answers
    assert choose(known, ADMIN, contract="PRC-CLASSIFY-001") is sorting
    assert choose(known, ADMIN, contract="PRC-CONSOLIDATE-001") is None
    both = template("ATT-C-001", contract=["PRC-SYNTHESIZE-001", "PRC-CLASSIFY-001"], tier=["hot"])
    assert [
        choose(known | {"ATT-C-001": both}, ADMIN, contract=one) for one in ("PRC-SYNTHESIZE-001", "PRC-CLASSIFY-001")
    ] == [both, both]
    assert "ATT-B-001 was named" in find_override_warning(sorting, ADMIN)
    agent = ADMIN.model_copy(update={"attention": ("ATT-A-001",)})
    assert choose(known, agent, contract="PRC-CLASSIFY-001") is sorting


def test_an_agent_s_own_list_is_all_that_is_looked_at() -> None:
    agent = ADMIN.model_copy(update={"attention": ("ATT-A-001",)})
    assert chosen(template("ATT-A-001"), template("ATT-B-001", framework_id=["FMWK-107"]), agent=agent) == "ATT-A-001"


def test_an_override_that_there_is_not_is_an_error_that_names_it() -> None:
    assert chosen(template("ATT-A-001"), template("ATT-B-001", tier=["hot"]), override="ATT-B-001") == "ATT-B-001"
    with pytest.raises(ConfigError, match="ATT-C-001"):
        chosen(template("ATT-A-001"), override="ATT-C-001")


def test_every_agent_that_is_shipped_or_made_has_a_template() -> None:
    templates = SHIPPED.templates
    assert chosen(*templates.values()) == "ATT-ADMIN-001"
    for agent_class in ("RESIDENT", "KERNEL.syntactic", "KERNEL.semantic"):
        agent = ADMIN.model_copy(update={"agent_class": agent_class, "framework_id": "FMWK-000", "tier": "ho2"})
        assert chosen(*templates.values(), agent=agent) == "ATT-TURN-001"


def test_a_size_is_a_number_or_a_budget_s_name_and_never_above_the_use_s() -> None:
    budget = SHIPPED.config.budget
    assert (get_tokens(7, budget), get_tokens("history_budget", budget)) == (7, budget.history_budget)
    small = SHIPPED.templates["ATT-ADMIN-001"]
    assert compute_context_tokens(small, budget, ADMIN) == budget.projection_budget
    assert compute_context_tokens(small, budget.model_copy(update={"projection_budget": 5}), ADMIN) == 5


def test_an_agent_names_another_budget_for_its_contexts() -> None:
    """Larger or smaller: what a template calls projection_budget is the agent's, and caps the others."""
    budget = SHIPPED.config.budget
    small = SHIPPED.templates["ATT-ADMIN-001"]
    more = ADMIN.model_copy(update={"budget": {"projection": "synthesize_budget"}})
    less = ADMIN.model_copy(update={"budget": {"projection": "classify_budget"}})
    assert compute_context_tokens(small, budget, more) == budget.synthesize_budget
    assert compute_context_tokens(small, budget, less) == budget.classify_budget
    fixed = Template.model_validate({**PLAIN, "budget": {**PLAIN["budget"], "max_context_tokens": 3000}})
    assert [compute_context_tokens(fixed, budget, one) for one in (ADMIN, more, less)] == [
        3000,
        3000,
        budget.classify_budget,
    ]


def test_a_template_may_take_what_an_agent_is_given(tmp_path: Path) -> None:
    large = {**PLAIN, "template_id": "ATT-LARGE-001", "applies_to": {"framework_id": ["FMWK-107"]}}
    large["budget"] = {**PLAIN["budget"], "max_context_tokens": 20_000}
    given = {"budget": {"projection": "synthesize_budget"}}
    assert home_with(tmp_path, large, agent=given).templates["ATT-LARGE-001"].budget.max_context_tokens == 20_000
    large["budget"] = {**PLAIN["budget"], "max_context_tokens": 200_001}
    [fault] = faults_of(tmp_path / "b", large, agent=given) if (tmp_path / "b").mkdir() is None else []
    assert "200001 is above budget.synthesize_budget" in fault


# --- what a start refuses ---------------------------------------------------------------------------------------------


def test_a_home_brings_templates_of_its_own_and_replaces_shipped_ones(tmp_path: Path) -> None:
    own = {**PLAIN, "template_id": "ATT-MINE-001", "applies_to": {"framework_id": ["FMWK-000"]}}
    snapshot = home_with(tmp_path, own, {**PLAIN, "version": "9.0.0"})
    assert (snapshot.templates["ATT-MINE-001"].version, snapshot.templates["ATT-TURN-001"].version) == (
        "1.1.0",
        "9.0.0",
    )
    assert snapshot.digest != SHIPPED.digest
    assert Snapshot.from_bytes(snapshot.to_bytes()).templates == snapshot.templates
    hashes = snapshot.map_template_hashes()
    assert hashes["ATT-TURN-001"] != SHIPPED.map_template_hashes()["ATT-TURN-001"]
    assert hashes["ATT-ADMIN-001"] == SHIPPED.map_template_hashes()["ATT-ADMIN-001"]


SEARCH = {"query": "x", "sources": ["ledger"], "max_results": 1, "relevance_threshold": 0.5}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a key that no stage has": (
        {"pipeline": [{"stage": "a", "type": "memory", "config": {"max_token": 3}}]},
        "pipeline.0.config.max_token: unknown key",
    ),
    "a key beside it": ({"pipeline": [{"stage": "a", "type": "memory", "on": True}]}, "pipeline.0.on: unknown key"),
    "a type that there is not": ({"pipeline": [{"stage": "a", "type": "guess"}]}, "pipeline.0.type: is 'guess'; one of"),
    "no stage": ({"pipeline": []}, "pipeline: has no stage"),
    "nothing to read": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": [], "max_size_bytes": 1}}]},
        "pipeline.0.config.paths: is empty",
    ),
    "a name twice": (
        {"pipeline": [{"stage": "a", "type": "memory"}, {"stage": "a", "type": "history"}]},
        "pipeline.1.stage: a stage 'a' is there twice",
    ),
    "a handler that nobody registered": (
        {"pipeline": [{"stage": "a", "type": "custom", "config": {"handler": "exec"}}]}, "pipeline.0.config.handler",
    ),
    "more than its use may take": (
        {"budget": {"max_context_tokens": 10001, "max_queries": 1, "timeout_ms": 1}},
        "budget.max_context_tokens: 10001 is above budget.projection_budget (10000)",
    ),
    "a budget above it": (
        {"budget": {"max_context_tokens": "session_token_limit", "max_queries": 1, "timeout_ms": 1}},
        "budget.max_context_tokens: budget.session_token_limit (200000) is above budget.projection_budget",
    ),
    "a budget that there is not": (
        {"pipeline": [{"stage": "a", "type": "history", "config": {"max_tokens": "all"}}]},
        "pipeline.0.config.max_tokens: no setting budget.all",
    ),
    "a framework that there is not": ({"applies_to": {"framework_id": ["FMWK-999"]}}, "applies_to.framework_id: no framework FMWK-999"),
    "an event that there is not": (
        {"pipeline": [{"stage": "a", "type": "ledger_query", "config": {"event_type": "WO_FAILD", "max_entries": 1}}]},
        "pipeline.0.config.event_type: the record has no entries 'WO_FAILD'",
    ),
    "a field that a registry has not": (
        {"pipeline": [{"stage": "a", "type": "registry_query", "config": {"registry": "specs", "filters": {"path": "x"}}}]},
        "pipeline.0.config.filters.path: specs have no such field",
    ),
    "a path that leads outside": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": ["ok", "a/../../b"], "max_size_bytes": 1}}]},
        "pipeline.0.config.paths.1: leads outside by `..`",
    ),
    "a path of two lines": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": ["a\nb"], "max_size_bytes": 1}}]},
        "pipeline.0.config.paths.0: holds a line break or another character that is not printed; write it without",
    ),
    "an empty path": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": [""], "max_size_bytes": 1}}]},
        "pipeline.0.config.paths.0: is blank; write a text that is not blank",
    ),
    **{
        f"the placeholder {query}": (
            {"pipeline": [{"stage": "a", "type": "horizontal_search", "config": {**SEARCH, "query": query}}]},
            "pipeline.0.config.query: has an unknown placeholder; the only one is `{{ user_input }}`",
        )
        for query in ("{{user_input}}", "{{ message }}", "{{ user_input }} {{", "{{ user_input }} {{ User_input }}")
    },
    "a placeholder in a path": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": ["{{ user_input }}"], "max_size_bytes": 1}}]},
        "pipeline.0.config.paths.0: holds a placeholder, and nothing is replaced here; write it out",
    ),
    "a placeholder in a filter": (
        {"pipeline": [{"stage": "a", "type": "ledger_query", "config": {"max_entries": 1, "filters": {"reason": "{{ x }}"}}}]},
        "pipeline.0.config.filters.reason: holds a placeholder, and nothing is replaced here",
    ),
    "half of a character": (
        {"pipeline": [{"stage": "a", "type": "ledger_query", "config": {"max_entries": 1, "filters": {"reason": "\ud800"}}}]},
        "pipeline.0.config.filters.reason: holds \\ud800, half of a character; write the character itself, or leave it out",
    ),
    "a title of half a character": ({"title": "x\udcff"}, "title: holds \\udcff, half of a character; write the character"),
    "a key of half a character": ({"\ud800": 1}, "\\ud800: a key with half of a character; write the character"),
    "an absolute path": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": ["/etc/passwd"], "max_size_bytes": 1}}]},
        "pipeline.0.config.paths.0: is absolute",
    ),
    "a stage that a classification has no place for": (
        {"applies_to": {"contract": ["PRC-CLASSIFY-001"], "tier": ["hot"]}, "pipeline": [{"stage": "a", "type": "memory"}],
         "budget": {"max_context_tokens": "classify_budget", "max_queries": 1, "timeout_ms": 1}},
        "pipeline.0.type: prompts under PRC-CLASSIFY-001 have no place for what it gives, only for: liveness, history",
    ),
    "prompts that have no context": ({"applies_to": {"contract": ["PRC-DEGRADED-001"]}}, "applies_to.contract.0"),
    "more stages than a turn records": (
        {"pipeline": [{"stage": f"s{n}", "type": "memory"} for n in range(33)]}, "pipeline: has 33 stages; at most 32 are taken",
    ),
    "a run that is no number": (
        {"pipeline": [{"stage": "a", "type": "ledger_query", "config": {"max_entries": 1, "filters": {"run_seq": "x"}}}]},
        "pipeline.0.config.filters.run_seq: is 'x'; write the number of a run",
    ),
    "a reason that is no text": (
        {"pipeline": [{"stage": "a", "type": "ledger_query", "config": {"max_entries": 1, "filters": {"reason": 5}}}]},
        "pipeline.0.config.filters.reason: is 5; write a text",
    ),
    "files without paths": (
        {"pipeline": [{"stage": "a", "type": "horizontal_search", "config": {**SEARCH, "sources": ["files"]}}]},
        "pipeline.0.config.paths: need the source files",
    ),
    "a searched path that leads outside": (
        {"pipeline": [{"stage": "a", "type": "horizontal_search",
                       "config": {**SEARCH, "sources": ["files"], "paths": ["../x"]}}]},
        "pipeline.0.config.paths.0: leads outside by `..`",
    ),
    "a threshold above 1": (
        {"pipeline": [{"stage": "a", "type": "horizontal_search", "config": {**SEARCH, "relevance_threshold": 1.1}}]},
        "pipeline.0.config.relevance_threshold",
    ),
    "more questions than a turn pays for": (
        {"budget": {"max_context_tokens": 100, "max_queries": 10**9, "timeout_ms": 1}},
        "budget.max_queries: 1000000000 is above 64",
    ),
    "more time than a turn waits": (
        {"budget": {"max_context_tokens": 100, "max_queries": 1, "timeout_ms": 10**12}},
        "budget.timeout_ms: 1000000000000 is above 10000",
    ),
    "more entries": (
        {"pipeline": [{"stage": "a", "type": "ledger_query", "config": {"max_entries": 10**9, "scope": "cluster"}}]},
        "pipeline.0.config.max_entries: 1000000000 is above 256",
    ),
    "more of a file than is ever read": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": ["a"], "max_size_bytes": 10**12}}]},
        "pipeline.0.config.max_size_bytes: 1000000000000 is above 262144",
    ),
    "more files than questions": (
        {"pipeline": [{"stage": "a", "type": "file_read", "config": {"paths": [f"p{n}" for n in range(65)], "max_size_bytes": 1}}]},
        "pipeline.0.config.paths: are 65; at most 64 are asked for",
    ),
    "more results": (
        {"pipeline": [{"stage": "a", "type": "horizontal_search", "config": {**SEARCH, "max_results": 10**9}}]},
        "pipeline.0.config.max_results: 1000000000 is above 100",
    ),
    "a fallback that there is not": ({"fallback": {"on_timeout": "retry", "on_empty": "fail"}}, "fallback.on_timeout"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_template_that_cannot_work_is_refused_at_the_start(wrong: str, tmp_path: Path) -> None:
    changes, told = WRONG[wrong]
    [fault] = faults_of(tmp_path, {**PLAIN, **changes})
    place = "attention/ATT-TURN-001.json: "
    assert place in fault
    assert fault.partition(place)[2].startswith(told)


def test_two_that_apply_to_an_agent_equally_are_refused_and_both_named(tmp_path: Path) -> None:
    own = {**PLAIN, "template_id": "ATT-MINE-001", "applies_to": {"agent_class": ["ADMIN", "RESIDENT"]}}
    [fault] = faults_of(tmp_path, own)
    assert "agents/ADMIN.json: attention: ATT-ADMIN-001 and ATT-MINE-001 apply to it equally" in fault
    assert home_with(tmp_path, own, agent={"attention": ["ATT-MINE-001"]}).templates


def test_an_agent_lists_templates_that_there_are_and_that_apply_to_it(tmp_path: Path) -> None:
    other = {**PLAIN, "template_id": "ATT-A-001", "applies_to": {"agent_class": ["RESIDENT"]}}
    found = faults_of(tmp_path, other, agent={"attention": ["ATT-NONE-001", "ATT-A-001"]})
    assert [fault.partition(";")[0].removeprefix(f"{tmp_path}/") for fault in found] == [
        "agents/ADMIN.json: attention: no attention/ATT-NONE-001.json",
        "agents/ADMIN.json: attention: ATT-A-001 does not apply to it",
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"pipeline": [{"stage": "a", "type": "guess"}]}, {"version": "1"}, {"template_id": "ATT-OTHER-001"}, {"title": 1}, None],
)  # fmt: skip
def test_a_fault_in_a_template_is_one_fault(wrong: dict[str, Any] | None, tmp_path: Path) -> None:
    (tmp_path / "attention").mkdir()
    text = "{" if wrong is None else json.dumps({**PLAIN, "template_id": "ATT-A-001"} | wrong)
    (tmp_path / "attention/ATT-A-001.json").write_text(text, encoding="utf-8")
    [fault] = faults_of(tmp_path, agent={"attention": ["ATT-A-001"]})
    assert "attention/ATT-A-001.json: " in fault


def test_selectors_that_are_at_fault_are_one_fault(tmp_path: Path) -> None:
    """Without them the template would apply to everybody, as another one does: that is not what its author wrote."""
    [fault] = faults_of(tmp_path, {**PLAIN, "template_id": "ATT-A-001", "applies_to": {"tier": ["cold"]}})
    assert "attention/ATT-A-001.json: applies_to.tier.0: is 'cold'" in fault


def test_what_a_contract_requires_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "contracts").mkdir()
    contract = json.loads((SHIPPED_ROOT / "contracts/PRC-SYNTHESIZE-001.json").read_text(encoding="utf-8"))
    contract["required_context"] = {
        "ledger_queries": [{"max_entries": 0}, {"event_type": "NOPE", "max_entries": 1}, {"max_entries": 257}],
        "framework_refs": ["FMWK-999"],
        "file_refs": ["../x"],
    }
    (tmp_path / "contracts/PRC-SYNTHESIZE-001.json").write_text(json.dumps(contract), encoding="utf-8")
    found = faults_of(tmp_path)
    assert [fault.split(": ")[1] for fault in found] == [
        "required_context.ledger_queries.0.max_entries", "required_context.ledger_queries.1.event_type",
        "required_context.ledger_queries.2.max_entries",
        "required_context.framework_refs.0", "required_context.file_refs.0",
    ]  # fmt: skip


def test_an_override_is_used_if_there_is_one_whatever_its_selectors_say() -> None:
    """Unknown: what there is; of other agents or prompts: a warning."""
    known = {"ATT-OTHER-001": template("ATT-OTHER-001", agent_class=["RESIDENT"]), "ATT-X-001": template("ATT-X-001")}
    assert find_override_fault(known, "ATT-NONE-001").endswith("there are ATT-OTHER-001, ATT-X-001")
    assert find_override_fault({}, "ATT-NONE-001").endswith("there are none")
    assert len(find_override_fault(known, "ATT-" + "X" * 100_000)) < 300
    for name, one in known.items():
        assert choose(known, ADMIN, name) is one and find_override_fault(known, name) == ""
        assert bool(find_override_warning(one, ADMIN)) is (name == "ATT-OTHER-001")
