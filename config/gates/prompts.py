"""G3: contracts can be run, their packs can be filled from their inputs, and both fit their budgets. Pure.

What loading finds by itself (a pack that is none, a template above its cap, a file that a contract may not require) is
told by `load.py`; here is what no single file shows. And G2, in part: no secret stands in the
configuration; a value is never repeated, only its place.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hobus.bus.errors import ConfigError
from hobus.bus.messages.work_order import Segment
from hobus.config.assets import AgentFile, BudgetPurpose, Contract
from hobus.config.gates.finding import Finding
from hobus.config.own_settings import flatten_settings
from hobus.config.prompt_contracts import find_unused, list_purposes
from hobus.config.prompt_pack import PromptPack, fill_pack, parse_pack
from hobus.config.schema import AdminConfig
from hobus.config.secret_refs import looks_secret, redact

_WRITTEN_OUT = "put it into the environment or a file, and write `env:NAME` or `file:PATH` here"


def check_prompts(  # noqa: PLR0913 - one per kind of what a prompt is made of
    config: AdminConfig,
    contracts: Mapping[str, Contract],
    packs: Mapping[str, str],
    agents: Mapping[str, AgentFile],
    paths: Mapping[str, str],
    *,
    run_before: Collection[str] = (),
) -> Iterator[Finding]:
    """Yield every contract that could not be run. `paths`: name of a governed file -> its path on disk.

    `run_before`: contracts whose schemas are known to run, by their hash.
    """
    for contract_id, contract in contracts.items():
        place = paths.get(f"contracts/{contract_id}.json", contract_id)
        if contract_id not in run_before:
            yield from _check_schema(contract, place)
        text = packs.get(contract.prompt_pack_id)
        try:
            pack = None if text is None else parse_pack(contract.prompt_pack_id, text)
        except ConfigError:
            pack = None  # told by the load
        if pack is not None:
            yield from _check_inputs(contract, pack, place)
            yield from _check_budget(contract, pack, place, config, agents)


def find_unused_parts(
    contracts: Mapping[str, Contract],
    packs: Mapping[str, str],
    agents: Mapping[str, AgentFile],
    paths: Mapping[str, str],
) -> Iterator[Finding]:
    """Yield notes on what no prompt will ever be made with."""
    no_contracts, no_packs = find_unused(contracts, packs, agents)
    for contract_id in no_contracts:
        name = f"contracts/{contract_id}.json"
        example = json.dumps({"synthesize": contract_id})
        reason = f"no agent uses it; one that names it in `contracts` does, for example {example}"
        yield Finding("G3", paths.get(name, name), reason, "", severity="note")
    for pack_id in no_packs:
        name = f"prompt_packs/{pack_id}.txt"
        reason = "no contract that an agent uses names it (prompt_pack_id)"
        yield Finding("G3", paths.get(name, name), reason, "", severity="note")


def _check_schema(contract: Contract, place: str) -> Iterator[Finding]:
    # By name: what reads JSON Schemas takes longer to load than all gates together take.
    json_schema: Any = importlib.import_module("hobus.config.json_schema")
    for name, schema in (("input_schema", contract.input_schema), ("output_schema", contract.output_schema)):
        try:
            if schema is not None:
                json_schema.get_validator(schema)
        except json_schema.SchemaFault as fault:
            yield Finding("G3", place, f"{name}: {fault}", "write a JSON Schema (2020-12) that can be run")


def _check_inputs(contract: Contract, pack: PromptPack, place: str) -> Iterator[Finding]:
    """Yield inputs that the pack names and nobody gives, without a default; then render the pack."""
    properties: Any = contract.input_schema.get("properties", {})
    required: Any = contract.input_schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return  # told above
    missing = [name for name in pack.variables if name not in properties]
    for name in missing:
        reason = f"input_schema: {pack.pack_id} shows {{{{ {name} }}}}, which is no input"
        yield Finding("G3", place, reason, "add it to properties, or take it out of the pack")
    for name in pack.variables:
        schema = properties.get(name)
        if name in missing or name in required or (isinstance(schema, dict) and "default" in schema):
            continue
        reason = f"input_schema: {name} may be left out and has no default, and {pack.pack_id} shows it"
        yield Finding("G3", place, reason, "require it, or give it a default")
    if not missing:
        fill_pack(pack, {name: [Segment(name=name, text="x")] for name in pack.variables})


def _check_budget(
    contract: Contract, pack: PromptPack, place: str, config: AdminConfig, agents: Mapping[str, AgentFile]
) -> Iterator[Finding]:
    """Yield packs and answers that leave no room in the budget of an agent that uses them.

    Calls under a contract that is no agent's are paid by their session alone.
    """
    fixed = sum(map(len, pack.texts)) // config.attention.chars_per_token
    least = fixed + contract.boundary.max_tokens
    paid: list[tuple[str, BudgetPurpose]] = [
        (agent_id, purpose)
        for agent_id, agent in agents.items()
        for purpose in list_purposes(agent, contract.contract_id)
    ]
    for agent_id, purpose in paid or [(agent_id, "session") for agent_id in agents]:
        try:
            tokens = agents[agent_id].budget_tokens(purpose, config.budget)
        except AttributeError:
            continue  # a key of `budget` that there is not: told by the load
        if least > tokens:
            reason = (
                f"{pack.pack_id} ({fixed} tokens) and boundary.max_tokens ({contract.boundary.max_tokens}) are above "
                f"the budget `{purpose}` of agent {agent_id} ({tokens})"
            )
            yield Finding("G3", place, reason, "shorten the pack, lower boundary.max_tokens, or raise that budget")


def find_secrets(
    config: AdminConfig, packs: Mapping[str, str], agents: Mapping[str, AgentFile], paths: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield settings that hold a secret; a text of a prompt that looks like one is a warning: it may be an example."""
    whole: dict[str, Any] = config.model_dump(mode="json")
    shown = flatten_settings(redact(whole))
    place = paths.get("admin_config.json", "admin_config.json")
    for path, value in flatten_settings(whole).items():
        if shown[path] != value:
            yield Finding("G2", place, f"{path}: holds a secret, by its name or form", _WRITTEN_OUT)
    texts = {f"prompt_packs/{name}.txt": text for name, text in packs.items()}
    texts |= {f"agents/{name}.json": agent.system_prompt for name, agent in agents.items()}
    for name, text in texts.items():
        if looks_secret(text):
            reason = "a text in it has the form of a secret, and every prompt would show it"
            yield Finding("G2", paths.get(name, name), reason, "take it out, unless it is an example", "warn")
