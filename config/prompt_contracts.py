"""Which contract an agent's prompts stand under, by what they are for; an agent may name contracts of its own.

A contract decides the pack that a prompt is made of, its limits and the form of its answer. What a prompt is given is
the same whatever contract it stands under: contracts that want something else cannot be named. Plain functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hobus.bus.messages.ids import DEGRADED
from hobus.config.assets import AgentFile, Contract, ContractPurpose
from hobus.config.attention_template import ANSWERS, CLASSIFICATIONS, CONSOLIDATIONS, Prompts

SHIPPED: Mapping[ContractPurpose, Prompts] = {
    "synthesize": ANSWERS,
    "classify": CLASSIFICATIONS,
    "consolidate": CONSOLIDATIONS,
}
"""Purpose -> the contract of agents that name no other; by its id templates say for which prompts they are."""

TIER = "ho1"
"""Where orders with prompts are executed."""


class Given(NamedTuple):
    """The inputs of a prompt for one purpose."""

    needed: frozenset[str]
    """What it is about, and never blank: a contract has to take each of them."""
    others: frozenset[str]
    """Context, notes and vocabulary: in some prompts and not in others, so no contract may require them."""

    @property
    def names(self) -> frozenset[str]:
        return self.needed | self.others


def _make_given(needed: str, others: str) -> Given:
    return Given(frozenset(needed.split()), frozenset(others.split()))


GIVEN: Mapping[ContractPurpose, Given] = {
    "synthesize": _make_given(
        "system user_input",
        "classification assembled_context ho3_biases tools domain_labels task_labels",
    ),
    "classify": _make_given("user_input domain_labels task_labels", "active_intent earlier system"),
    "consolidate": _make_given(
        "signal_id count session_count recent_events domain_labels task_labels", "session_ids event_ids system"
    ),
}


def get_contract_id(agent: AgentFile, purpose: ContractPurpose) -> str:
    """Return the contract that the agent names for this purpose, else the shipped one."""
    return agent.contracts.get(purpose, SHIPPED[purpose])


def list_purposes(agent: AgentFile, contract_id: str) -> list[ContractPurpose]:
    """Return what this agent's prompts under a contract are for; of a sound agent one purpose, or none."""
    return [purpose for purpose in SHIPPED if get_contract_id(agent, purpose) == contract_id]


def find_contract_faults(agent: AgentFile, contracts: Mapping[str, Contract]) -> Iterator[str]:
    for purpose, contract_id in agent.contracts.items():
        path, contract = f"contracts.{purpose}", contracts.get(contract_id)
        if contract is None:
            fitting = [name for name, one in contracts.items() if not any(_find_faults(one, agent, purpose))]
            known = ", ".join(fitting) or "none"
            yield f"{path}: no contract {contract_id!r}; add contracts/{contract_id}.json, or name one of {known}"
            continue
        if others := [one for one in list_purposes(agent, contract_id) if one != purpose]:
            yield f"{path}: {contract_id} is that of {others[0]} too; give each purpose a contract of its own"
        yield from (f"{path}: {contract_id}: {fault}" for fault in _find_faults(contract, agent, purpose))


def _find_faults(contract: Contract, agent: AgentFile, purpose: ContractPurpose) -> Iterator[str]:
    if contract.agent_class not in (None, agent.agent_class):
        yield f"agent_class: is for {contract.agent_class}, the agent is {agent.agent_class}; leave it out there"
    if contract.tier not in (None, TIER):
        yield f"tier: is for {contract.tier}, but prompts are executed at {TIER}; write that, or leave it out"
    schema, given = contract.input_schema, GIVEN[purpose]
    properties, required = _names_in(schema.get("properties", {})), _names_in(schema.get("required", []))
    for name in sorted(given.needed - properties):
        yield f"input_schema: takes no {name}, which a prompt to {purpose} is about; add it to properties and required"
    for name in sorted(required - given.needed):
        always = ", ".join(sorted(given.needed))
        said = "is not in every prompt" if name in given.others else "is never given"
        yield f"input_schema: requires {name}, which {said}; require of {always} alone, and give it a default"
    if schema.get("additionalProperties") is False:
        for name in sorted(given.names - properties):
            yield f"input_schema: refuses {name}, which prompts to {purpose} have; add it, or allow additional ones"
    if purpose != "synthesize" and not _is_object(contract):
        yield f'output_schema: the result of {purpose} is read as an object; set its type to "object"'


def _names_in(value: Any) -> frozenset[str]:
    """Return the names of a part of a schema; nothing where it is malformed, which gate G3 tells."""
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, dict | list) else frozenset()


def _is_object(contract: Contract) -> bool:
    schema = contract.output_schema
    return contract.boundary.structured_output or (schema is not None and schema.get("type") == "object")


def find_unused(
    contracts: Mapping[str, Contract], packs: Mapping[str, Any], agents: Mapping[str, AgentFile]
) -> tuple[list[str], list[str]]:
    """Return contracts that are no agent's, and prompt packs that are of none that is used.

    The shipped contracts count as used, the one of the session's host, too.
    """
    used = {DEGRADED, *SHIPPED.values(), *(named for agent in agents.values() for named in agent.contracts.values())}
    shown = {contract.prompt_pack_id for contract_id, contract in contracts.items() if contract_id in used}
    return sorted(set(contracts) - used), sorted(set(packs) - shown)
