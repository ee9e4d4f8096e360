"""What must hold of attention templates, and of what agents and contracts say about contexts. Plain functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from hobus.bus.limits import READ_FILE_MAX_BYTES
from hobus.bus.record.catalog import EVENT_TYPES
from hobus.config import limits
from hobus.config.assets import BUDGET_SETTINGS, AgentFile, BudgetPurpose, Contract, Framework, RequiredContext
from hobus.config.attention_rules import (
    USES,
    describe_ambiguity,
    get_tokens,
    list_candidates,
    list_prompts,
    matches,
)
from hobus.config.attention_template import (
    CLASSIFICATIONS,
    CONSOLIDATIONS,
    USER_INPUT,
    AnyStage,
    HorizontalSearch,
    LedgerField,
    LedgerQuery,
    Template,
    Tokens,
)
from hobus.config.parse import check_model
from hobus.config.prompt_contracts import list_purposes
from hobus.config.registries import FIELDS
from hobus.config.schema import AdminConfig
from hobus.config.sections.turns import BudgetConfig

_NOTHING_REPLACED = "holds a placeholder, and nothing is replaced here; write it out"
_GIVES_NOTHING = ("tier_select", "structuring", "halting")


def find_attention_faults(
    config: AdminConfig,
    templates: Mapping[str, Template],
    agents: Mapping[str, AgentFile],
    contracts: Mapping[str, Contract],
    frameworks: Mapping[str, Framework],
) -> list[str]:
    faults = [
        f"attention/{template_id}.json: {fault}"
        for template_id, template in templates.items()
        for fault in _find_template_faults(template, config, frameworks, agents)
    ]
    for agent in agents.values():
        faults += _find_agent_faults(agent, templates)
    for contract_id, contract in contracts.items():
        purposes = {purpose for agent in agents.values() for purpose in list_purposes(agent, contract_id)}
        is_without = contract_id in (CLASSIFICATIONS, CONSOLIDATIONS) or purposes & {"classify", "consolidate"}
        if is_without and contract.required_context != RequiredContext():
            faults.append(
                f"contracts/{contract_id}.json: required_context: its prompts have no place for it; leave it out"
            )
        faults += [f"contracts/{contract_id}.json: {fault}" for fault in _find_required_faults(contract, frameworks)]
    return faults


def _find_template_faults(
    template: Template,
    config: AdminConfig,
    frameworks: Mapping[str, Framework],
    agents: Mapping[str, AgentFile],
) -> Iterator[str]:
    budget = config.budget
    purposes: list[BudgetPurpose] = [USES[contract][0] for contract in list_prompts(template)]
    named = [agent.budget.get(purpose, BUDGET_SETTINGS[purpose]) for agent in agents.values() for purpose in purposes]
    cap = max(
        (name for name in (*(BUDGET_SETTINGS[one] for one in purposes), *named) if name in BudgetConfig.model_fields),
        key=partial(get_tokens, budget=budget),
    )
    for framework_id in template.applies_to.framework_id:
        if framework_id not in frameworks:
            yield f"applies_to.framework_id: no framework {framework_id}; known: {', '.join(frameworks) or 'none'}"
    yield from _find_token_faults("budget.max_context_tokens", template.budget.max_context_tokens, budget, cap)
    yield from _check_at_most("budget.max_queries", template.budget.max_queries, limits.QUERIES_MAX)
    yield from _check_at_most("budget.timeout_ms", template.budget.timeout_ms, limits.TIMEOUT_MAX_MS)
    if (count := len(template.pipeline)) > limits.STAGES_MAX:
        yield f"pipeline: has {count} stages; at most {limits.STAGES_MAX} are taken"
    if not template.pipeline:
        yield 'pipeline: has no stage; write one, such as {"stage": "said", "type": "history"}'
    names: set[str] = set()
    for number, stage in enumerate(template.pipeline):
        path = f"pipeline.{number}"
        if stage.stage in names:
            yield f"{path}.stage: a stage {stage.stage!r} is there twice; rename one"
        names.add(stage.stage)
        yield from (f"{path}.config.{fault}" for fault in _find_stage_faults(stage))
        for contract in list_prompts(template):
            if stage.type not in (*_GIVES_NOTHING, *USES[contract][1]):
                places = ", ".join(USES[contract][1])
                yield f"{path}.type: prompts under {contract} have no place for what it gives, only for: {places}"
        tokens = getattr(stage.config, "max_tokens", None)
        if tokens is not None:
            yield from _find_token_faults(f"{path}.config.max_tokens", tokens, budget, cap)


def _find_token_faults(path: str, tokens: Tokens, budget: BudgetConfig, cap_setting: str) -> Iterator[str]:
    budgets = [name for name in BudgetConfig.model_fields if name.endswith(("_budget", "_token_limit"))]
    if isinstance(tokens, str) and tokens not in budgets:
        yield f"{path}: no setting budget.{tokens}; name one of {', '.join(budgets)}, or write a number"
        return
    cap, wanted = get_tokens(cap_setting, budget), get_tokens(tokens, budget)
    if wanted > cap:
        said = f"budget.{tokens} ({wanted})" if isinstance(tokens, str) else str(wanted)
        yield f"{path}: {said} is above budget.{cap_setting} ({cap}); lower the first or raise the second"


def _find_stage_faults(stage: AnyStage) -> Iterator[str]:
    needed = {"tier_select": "tiers", "file_read": "paths", "horizontal_search": "sources"}.get(stage.type)
    if needed is not None and not getattr(stage.config, needed):
        yield f"{needed}: is empty; name one, or set enabled to false"
    match stage.type:
        case "ledger_query":
            yield from _find_event_faults(stage.config)
        case "registry_query":
            known = FIELDS[stage.config.registry]
            unknown = [name for name in stage.config.filters if name not in known]
            for name in unknown:
                yield f"filters.{name}: {stage.config.registry} have no such field; there are {', '.join(known)}"
            yield from _find_placeholder_faults(stage.config.filters)
        case "horizontal_search":
            yield from _search_faults(stage.config)
            most = limits.RESULTS_MAX
            yield from _check_at_most("max_results", stage.config.max_results, most)
            yield from _find_path_faults(stage.config.paths)
        case "file_read":
            yield from _check_at_most("max_size_bytes", stage.config.max_size_bytes, READ_FILE_MAX_BYTES)
            yield from _find_path_faults(stage.config.paths)
        case _:
            pass


def _search_faults(search: HorizontalSearch) -> Iterator[str]:
    if _is_marked(search.query.replace(USER_INPUT, "")):
        yield f"query: has an unknown placeholder; the only one is `{USER_INPUT}`"
    if ("files" in search.sources) != bool(search.paths):
        yield "paths: need the source files, which needs them; write both or none"


def _is_marked(text: str) -> bool:
    return "{{" in text or "}}" in text


def _find_placeholder_faults(filters: Mapping[LedgerField, str | int] | Mapping[str, str]) -> Iterator[str]:
    for name, value in filters.items():
        if isinstance(value, str) and _is_marked(value):
            yield f"filters.{name}: {_NOTHING_REPLACED}"


def _find_path_faults(paths: Sequence[str]) -> Iterator[str]:
    if len(paths) > limits.QUERIES_MAX:  # each is a question
        yield f"paths: are {len(paths)}; at most {limits.QUERIES_MAX} are asked for"
    for number, path in enumerate(paths):
        if fault := find_path_fault(path):
            yield f"paths.{number}: {fault}"


def _find_event_faults(query: LedgerQuery) -> Iterator[str]:
    yield from _check_at_most("max_entries", query.max_entries, limits.ENTRIES_MAX)
    yield from _find_placeholder_faults(query.filters)
    for name, value in query.filters.items():
        if isinstance(value, int) != (name == "run_seq"):
            yield f"filters.{name}: is {value!r}; write {'the number of a run' if name == 'run_seq' else 'a text'}"
    if query.event_type is not None and query.event_type not in EVENT_TYPES:
        yield f"event_type: the record has no entries {query.event_type[:64]!r}; see: hobus ledger show --help"


def _check_at_most(path: str, wanted: int, most: int) -> Iterator[str]:
    """Yield the fault of a value above a bound, which every turn would pay for."""
    if wanted > most:
        yield f"{path}: {wanted} is above {most}, the most that is taken"


def find_path_fault(path: str) -> str:
    """Return why no file can be read by this path, wherever it is; empty: it may be one."""
    if path.startswith(("/", "~")) or "\\" in path or "\0" in path:
        return "is absolute; write it relative to a root of permissions.paths"
    if not path.strip():
        return "is blank; write a text that is not blank"
    if not path.isprintable():
        return "holds a line break or another character that is not printed; write it without"
    if _is_marked(path):
        return _NOTHING_REPLACED
    return "leads outside by `..`; write it without" if ".." in path.split("/") else ""


def _find_agent_faults(agent: AgentFile, templates: Mapping[str, Template]) -> Iterator[str]:
    unknown = [template_id for template_id in agent.attention if template_id not in templates]
    for template_id in unknown:
        known = ", ".join(templates) or "none"
        yield f"agents/{agent.agent_id}.json: attention: no attention/{template_id}.json; there are {known}"
    for template_id in agent.attention:
        if template_id in templates and not matches(templates[template_id].applies_to, agent):
            yield (
                f"agents/{agent.agent_id}.json: attention: {template_id} does not apply to it; widen its applies_to, "
                "or take it off the list"
            )
    if unknown:
        return
    for contract in USES:
        best = list_candidates([templates[name] for name in agent.attention], templates, agent, contract)
        if len(best) > 1:
            yield describe_ambiguity(agent, best)
            return


def _find_required_faults(contract: Contract, frameworks: Mapping[str, Framework]) -> Iterator[str]:
    required = contract.required_context
    for number, value in enumerate(required.ledger_queries):
        query, found = check_model(LedgerQuery, value)
        found = found if query is None else list(_find_event_faults(query))
        yield from (f"required_context.ledger_queries.{number}.{fault}" for fault in found)
    for number, framework_id in enumerate(required.framework_refs):
        if framework_id not in frameworks:
            known = ", ".join(frameworks) or "none"
            yield f"required_context.framework_refs.{number}: no framework {framework_id}; known: {known}"
    for number, path in enumerate(required.file_refs):
        if fault := find_path_fault(path):
            yield f"required_context.file_refs.{number}: {fault}"
