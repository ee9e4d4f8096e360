"""Contracts that an agent names: what may be named, what is told with the mend, and what nobody uses."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.config.assets import AgentFile, Contract
from hobus.config.consistency import find_inconsistencies
from hobus.config.load import read
from hobus.config.prompt_contracts import GIVEN, SHIPPED, find_unused, get_contract_id

GOVERNED = read().governed()
POET = "PRC-POET-001"


def poet(purpose: str = "synthesize", contract_id: str = POET, **others: str) -> AgentFile:
    """ADMIN with a contract of its own for one purpose."""
    return AgentFile.model_validate(
        GOVERNED.agents["ADMIN"].model_dump() | {"contracts": {purpose: contract_id, **others}}
    )


def contract(purpose: str = "synthesize", **changed: Any) -> Contract:
    """The shipped one of a purpose, as another one."""
    shipped = GOVERNED.contracts[SHIPPED[purpose]].model_dump()  # type: ignore[index]
    return Contract.model_validate(shipped | {"contract_id": POET} | changed)


def faults(agent: AgentFile, own: Contract | None) -> list[str]:
    """Of the shipped parts with this agent, and with this contract beside them."""
    contracts = dict(GOVERNED.contracts) | ({} if own is None else {own.contract_id: own})
    agents = {**GOVERNED.agents, agent.agent_id: agent}
    return find_inconsistencies(GOVERNED.config, agents, contracts, GOVERNED.prompt_packs, GOVERNED.frameworks)


def schema(**changed: Any) -> dict[str, Any]:
    """The input schema of answers, changed."""
    return {"input_schema": GOVERNED.contracts[SHIPPED["synthesize"]].input_schema | changed}


@pytest.mark.parametrize("purpose", sorted(SHIPPED))
def test_a_contract_like_the_shipped_one_may_be_named_for_its_purpose_and_for_no_other(purpose: str) -> None:
    agent = poet(purpose)
    assert faults(agent, contract(purpose)) == []
    named = {one: get_contract_id(agent, one) for one in SHIPPED}
    assert named == {**SHIPPED, purpose: POET}
    known = GOVERNED.contracts[SHIPPED[purpose]].input_schema  # type: ignore[index]
    assert set(known["required"]) == GIVEN[purpose].needed and set(known["properties"]) <= GIVEN[purpose].names  # type: ignore[index]
    for other in set(SHIPPED) - {purpose}:
        assert faults(agent, contract(other)) != []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (schema(properties={"system": {}}, required=["system"]), "takes no user_input"),
        (schema(required=["system", "user_input", "mood"]), "requires mood, which is never given"),
        (schema(required=["system", "user_input", "tools"]), "requires tools, which is not in every prompt"),
        (schema(additionalProperties=False), "refuses domain_labels"),
        ({"agent_class": "RESIDENT"}, "agent_class: is for RESIDENT, the agent is ADMIN"),
        ({"tier": "hot"}, "tier: is for hot, but prompts are executed at ho1"),
    ],
)
def test_a_contract_that_no_prompt_could_stand_under_is_told_with_the_mend(changed: dict[str, Any], told: str) -> None:
    said = faults(poet(), contract(**changed))
    assert said and all(one.startswith("agents/ADMIN.json: contracts.synthesize: ") and "; " in one for one in said)
    assert any(told in one for one in said)


def test_what_there_is_not_and_what_is_named_twice_is_told() -> None:
    [missing] = faults(poet(), None)
    assert f"contracts.synthesize: no contract {POET!r}" in missing
    assert missing.endswith("or name one of PRC-SYNTHESIZE-001")  # what could be: none for another purpose
    twice = faults(poet(contract_id=SHIPPED["classify"]), None)
    assert any("is that of classify too" in one for one in twice)


def test_a_classification_that_is_no_object_is_told() -> None:
    """Its answer is read by its keys."""
    plain = {"output_schema": {"type": "string"}, "boundary": {"max_tokens": 100, "temperature": 0.0}}
    assert any('set its type to "object"' in one for one in faults(poet("classify"), contract("classify", **plain)))


def test_contracts_and_packs_that_nobody_uses_are_known() -> None:
    assert find_unused(GOVERNED.contracts, GOVERNED.prompt_packs, GOVERNED.agents) == ([], [])
    contracts = {**GOVERNED.contracts, POET: contract(prompt_pack_id="PRM-POET-001")}
    packs = {**GOVERNED.prompt_packs, "PRM-POET-001": ""}
    assert find_unused(contracts, packs, GOVERNED.agents) == ([POET], ["PRM-POET-001"])
    assert find_unused(contracts, packs, {"ADMIN": poet()}) == ([], [])
