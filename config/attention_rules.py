"""Which attention template fills whose context, and how much of it. Plain functions.

An override goes first. An agent that lists templates is given one of these, any other agent one of all: the most
specific whose selectors all match. Two that are equally specific are an error that names both, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hobus.bus.errors import ConfigError
from hobus.config.assets import BUDGET_SETTINGS, AgentFile, BudgetPurpose, Contract
from hobus.config.attention_template import (
    ANSWERS,
    CLASSIFICATIONS,
    CONSOLIDATIONS,
    AppliesTo,
    LedgerQuery,
    Prompts,
    Template,
    Tokens,
)
from hobus.config.sections.turns import BudgetConfig

Specificity = tuple[bool, bool, bool]


_OF_ANSWERS = (
    "ledger_query", "registry_query", "file_read", "horizontal_search", "custom", "history", "liveness", "memory",
)  # fmt: skip
USES: Mapping[Prompts, tuple[BudgetPurpose, tuple[str, ...]]] = {
    ANSWERS: ("projection", _OF_ANSWERS),
    CLASSIFICATIONS: ("classify", ("liveness", "history")),
    CONSOLIDATIONS: ("consolidate", ("history",)),
}
"""Contract -> the budget that caps its contexts, and the types of stages that its prompts have a place for."""


def choose(
    templates: Mapping[str, Template], agent: AgentFile, override: str | None = None, *, contract: Prompts = ANSWERS
) -> Template | None:
    """Return the template that fills this agent's contexts of prompts under this contract; None: no selectors match.

    An override is used whatever its selectors say. Raises ConfigError for an unknown override, for an unknown template
    in the agent's own list, and for two that are equally specific.
    """
    if override is not None:
        if fault := find_override_fault(templates, override):
            raise ConfigError(fault)
        return templates[override]
    listed = [_get_named(templates, template_id, f"agents/{agent.agent_id}.json") for template_id in agent.attention]
    best = list_candidates(listed, templates, agent, contract)
    if len(best) > 1:
        raise ConfigError(describe_ambiguity(agent, best))
    return best[0] if best else None


def list_candidates(
    listed: Sequence[Template], templates: Mapping[str, Template], agent: AgentFile, contract: Prompts
) -> list[Template]:
    """Return the templates of the agent's own list, if any of it is for such prompts, else all."""
    own = [template for template in listed if contract in list_prompts(template)]
    return choose_most_specific(own or templates.values(), agent, contract)


def list_prompts(template: Template) -> tuple[Prompts, ...]:
    return template.applies_to.contract or (ANSWERS,)


def find_override_fault(templates: Mapping[str, Template], template_id: str) -> str:
    """Return why nobody can ask for this template; empty: it exists."""
    there = ", ".join(templates) or "none"
    return "" if template_id in templates else f"there is no attention template {template_id[:64]!r}; there are {there}"


def find_override_warning(template: Template, agent: AgentFile) -> str:
    """Return what to say of a template that was named for answers of this agent; empty: it applies anyway."""
    if ANSWERS in list_prompts(template) and matches(template.applies_to, agent):
        return ""
    named = template.template_id
    return f"attention template {named} was named, although its applies_to selects other prompts"


def get_tokens(tokens: Tokens, budget: BudgetConfig) -> int:
    """Return the number behind a number or the name of a budget."""
    found: int = getattr(budget, tokens) if isinstance(tokens, str) else tokens
    return found


def compute_context_tokens(
    template: Template, budget: BudgetConfig, agent: AgentFile, *, purpose: BudgetPurpose = "projection"
) -> int:
    """Return what a context of this agent that this template fills may take, by the agent's caps."""
    cap, named = agent.budget_tokens(purpose, budget), template.budget.max_context_tokens
    return cap if named == BUDGET_SETTINGS[purpose] else min(get_tokens(named, budget), cap)


def _get_named(templates: Mapping[str, Template], template_id: str, who: str) -> Template:
    template = templates.get(template_id)
    if template is None:
        known = ", ".join(templates) or "none"
        raise ConfigError(f"{who} names attention template {template_id[:64]}, which does not exist; there are {known}")
    return template


def choose_most_specific(templates: Iterable[Template], agent: AgentFile, contract: Prompts) -> list[Template]:
    """Return the most specific templates whose selectors all match; more than one: they are equally specific."""
    matching = [one for one in templates if contract in list_prompts(one) and matches(one.applies_to, agent)]
    top = max((compute_specificity(template.applies_to) for template in matching), default=None)
    return [template for template in matching if compute_specificity(template.applies_to) == top]


def matches(selectors: AppliesTo, agent: AgentFile) -> bool:
    """Return whether the agent has every selector that is stated."""
    pairs = (
        (selectors.framework_id, agent.framework_id),
        (selectors.agent_class, agent.agent_class),
        (selectors.tier, agent.tier),
    )
    return all(not wanted or value in wanted for wanted, value in pairs)


def compute_specificity(selectors: AppliesTo) -> Specificity:
    """Return how much the selectors say of whom they are for; the greater wins."""
    return bool(selectors.framework_id), bool(selectors.agent_class), bool(selectors.tier)


def describe_ambiguity(agent: AgentFile, templates: Sequence[Template]) -> str:
    """Return that these templates apply to the agent equally, and what to do."""
    named = " and ".join(template.template_id for template in templates)
    return (
        f"agents/{agent.agent_id}.json: attention: {named} apply to it equally; narrow the applies_to of one, or list "
        "in `attention` the right one"
    )


def list_required_queries(contract: Contract) -> list[LedgerQuery]:
    """Return the ledger queries that a checked contract requires, as stages have them."""
    return [LedgerQuery.model_validate(query) for query in contract.required_context.ledger_queries]
