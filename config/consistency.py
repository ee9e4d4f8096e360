"""What must hold between settings and between assets: plain functions, every fault in words with the fix."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from hobus.bus import limits
from hobus.bus.messages.work_order import DOMAIN_TAGS
from hobus.config.assets import BUDGET_SETTINGS, AgentFile, Contract
from hobus.config.limits import ENTRY_MAX_BYTES, FILES_MAX_BYTES, SAID_MAX_BYTES
from hobus.config.model_choice import choose_model, find_choice_fault
from hobus.config.prompt_contracts import SHIPPED, find_contract_faults, get_contract_id
from hobus.config.schema import AdminConfig
from hobus.config.secret_refs import is_secret_name
from hobus.config.sections.gateway import GatewayConfig, Route
from hobus.config.sections.record import Ho3Config
from hobus.config.sections.turns import BudgetConfig
from hobus.config.tool_faults import find_tool_faults

BUDGET_KEYS = tuple(name for name in BudgetConfig.model_fields if name.endswith(("_budget", "_token_limit")))
"""Token budgets of section `budget`: what an agent may name."""

_PROVIDER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_HOME_DIRECTORIES = ("config", "packages", "run", "logs", "ledger", "spool")
"""What lies below a home already."""

_MEMORY_DIR = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def find_inconsistencies(
    config: AdminConfig,
    agents: Mapping[str, AgentFile],
    contracts: Mapping[str, Contract],
    prompt_packs: Collection[str],
    frameworks: Collection[str],
) -> list[str]:
    """Return every fault between valid parts; empty if they fit together."""
    faults = [
        *_find_order_faults(config),
        *_find_instance_faults(config.gateway),
        *_find_round_faults(config),
        *_route_faults(config.gateway),
        *_find_memory_faults(config.ho3),
        *_find_environment_faults(config.launcher.environment),
        *find_tool_faults(config.tools, agents),
    ]
    if config.host.agent_id not in agents:
        faults.append(f"host.agent_id: no agent {config.host.agent_id!r}; shipped and added agents: {_names(agents)}")
    for contract_id, contract in contracts.items():
        if contract.prompt_pack_id not in prompt_packs:
            faults.append(
                f"contracts/{contract_id}.json: prompt_pack_id: no prompt_packs/{contract.prompt_pack_id}.txt; add it"
            )
        if contract.boundary.provider_id is not None:
            path = f"contracts/{contract_id}.json: boundary.provider_id"
            faults.extend(_find_provider_faults(path, contract.boundary.provider_id, config.gateway))
    for agent_id, agent in agents.items():
        told = [
            *_find_agent_faults(agent, config, frameworks),
            *_find_output_faults(agent.output_schema),
            *find_contract_faults(agent, contracts),
            *_find_named_model_faults(agent, config.gateway, contracts),
        ]
        faults.extend(f"agents/{agent_id}.json: {fault}" for fault in told)
    return faults


def _find_environment_faults(names: Iterable[str]) -> list[str]:
    """Return faults of variables with which every process is started: any user of the machine's tools may see them."""
    return [
        f"launcher.environment.{number}: {name[:64]!r} would hand a secret to every process; name it in "
        "tools.environment, or refer to it as `env:NAME` where it is needed"
        for number, name in enumerate(names)
        if is_secret_name(name) or name.startswith("*")
    ]


def _names(values: Iterable[str]) -> str:
    return ", ".join(values) or "none"


_NOT_ABOVE = (
    ("bus.beat_interval_ms", "bus.peer_timeout_ms"),
    ("ho1.count + ho2.count + http.count", "launcher.processes_max"),
    ("launcher.restart_backoff_min_ms", "launcher.restart_backoff_max_ms"),
    ("launcher.restart_backoff_max_ms", "bus.service_grace_ms"),
    # A turn that brings results of tools is recorded as its words and result by result.
    ("2 times host.prompt_max_bytes", "ledger.bodies_max_bytes"),
    (f"ledger.bodies_max_bytes + {ENTRY_MAX_BYTES}", f"{limits.BODY_MAX_BYTES}"),
    (
        f"{limits.READ_FILE_MAX_BYTES}",
        "ledger.bodies_max_bytes",
    ),
    ("host.degrade_reserve_ms", "host.turn_timeout_ms"),
    ("host.turn_timeout_ms", "1000 times budget.timeout_seconds"),
    (f"tools.output_max_bytes + {FILES_MAX_BYTES + SAID_MAX_BYTES}", "ledger.bodies_max_bytes"),
    ("ho3.gate_low", "ho3.gate_high"),
    ("ho3.gate_count_threshold", f"{limits.SOURCE_EVENTS_MAX}"),
)
"""Settings, and limits of the code, of which the first must not be above the second; without `ho3` memory is off."""


def _find_order_faults(config: AdminConfig) -> Iterator[str]:
    for low, high in _NOT_ABOVE:
        if config.ho3 is None and low.startswith("ho3."):
            continue
        low_value, high_value = _sum_of(config, low), _sum_of(config, high)
        if low_value > high_value:
            yield f"{low}: {low_value} is above {high} ({high_value}); lower the first or raise the second"


def _sum_of(config: AdminConfig, words: str) -> float:
    """Return the value of a setting or number, of one several times, or of some together."""
    times, _, added = words.rpartition(" times ")
    parts = added.split(" + ")
    return int(times or 1) * sum(int(part) if part.isdigit() else attrgetter(part)(config) for part in parts)


def _find_round_faults(config: AdminConfig) -> Iterator[str]:
    """Yield faults of rounds: a classification is the first one of its turn, so one alone would never answer."""
    if config.ho2.classify and config.budget.turn_limit <= 1:
        fault = "budget.turn_limit: 1 leaves no round for an answer behind the classification; raise it to 2 or more"
        yield f"{fault}, or set ho2.classify to false"


def _find_memory_faults(ho3: Ho3Config | None) -> Iterator[str]:
    """Yield faults of memory; a missing section is memory switched off, and no fault."""
    if ho3 is not None and (_MEMORY_DIR.fullmatch(ho3.memory_dir) is None or ho3.memory_dir in _HOME_DIRECTORIES):
        taken = _names(_HOME_DIRECTORIES)
        yield f"ho3.memory_dir: expected the name of one directory below the home, and none of {taken}"


def find_snapshot_faults(config: AdminConfig, size_bytes: int) -> list[str]:
    """Return faults of size: the snapshot is itself one body in the record; with it passes whatever a hello needs."""
    limit = config.ledger.bodies_max_bytes
    if size_bytes <= limit:
        return []
    return [f"ledger.bodies_max_bytes: {limit} is below the {size_bytes} bytes of this configuration itself; raise it"]


def _route_faults(gateway: GatewayConfig) -> Iterator[str]:
    named = {f"gateway.provider_rates.{name}": name for name in gateway.provider_rates}
    named |= {f"gateway.profiles.{name[:64]}.provider_id": one.provider_id for name, one in gateway.profiles.items()}
    for path, provider_id in named.items():
        yield from _find_provider_faults(path, provider_id, gateway)
    for tag in gateway.domain_tag_routes:
        if tag not in DOMAIN_TAGS:
            yield f"gateway.domain_tag_routes.{tag[:64]}: no prompt has this tag; tags: {_names(DOMAIN_TAGS)}"
    routes: dict[str, Route] = {"gateway.default_route": gateway.default_route}
    routes |= {f"gateway.domain_tag_routes.{tag}": route for tag, route in gateway.domain_tag_routes.items()}
    for number, link in enumerate(gateway.fallbacks):
        path = f"gateway.fallbacks.{number}"
        routes[path] = link
        for place, route in enumerate(link.routes):
            routes[f"{path}.routes.{place}"] = route
            if (route.provider_id, route.model_id) == (link.provider_id, link.model_id):
                yield f"{path}.routes.{place}: {link.provider_id}/{link.model_id} is its own fallback; remove it"
    for path, route in routes.items():
        yield from _find_model_faults(path, route, gateway)


def _find_model_faults(path: str, route: Route, gateway: GatewayConfig) -> Iterator[str]:
    yield from _find_provider_faults(f"{path}.provider_id", route.provider_id, gateway)
    provider = gateway.providers.get(route.provider_id)
    models = [] if provider is None else [model.model_id for model in provider.models]
    if provider is not None and not provider.any_model and route.model_id not in models:
        known = _names(models)
        yield f"{path}.model_id: provider {route.provider_id!r} has no such model; configured: {known}"


def _find_instance_faults(gateway: GatewayConfig) -> Iterator[str]:
    """Yield names under which a provider cannot be recorded or typed, and models that are there twice."""
    for provider_id, provider in gateway.providers.items():
        path = f"gateway.providers.{provider_id[:64]}"
        if _PROVIDER_ID.fullmatch(provider_id) is None:
            yield f"{path}: a provider is named with letters, digits, `.`, `_` and `-`, at most 64 of them"
        models = [model.model_id for model in provider.models]
        yield from (f"{path}.models: {name!r} is there twice" for name in sorted(set(models)) if models.count(name) > 1)
        if not all(name.strip() for name in models):
            yield f"{path}.models: a model_id is blank"


def _find_provider_faults(path: str, provider_id: str, gateway: GatewayConfig) -> Iterator[str]:
    if provider_id not in gateway.providers:
        yield f"{path}: no provider {provider_id!r}; configured: {_names(gateway.providers)}"


def _find_output_faults(schema: dict[str, Any] | None) -> Iterator[str]:
    if schema is not None:
        # By name: its library costs 40 ms, and few agents have one.
        json_schema: Any = importlib.import_module("hobus.config.json_schema")
        if fault := json_schema.find_schema_fault(schema):
            yield f'output_schema: {fault}; write the JSON Schema of an object ("type": "object")'


def _find_agent_faults(agent: AgentFile, config: AdminConfig, frameworks: Collection[str]) -> Iterator[str]:
    if agent.framework_id not in frameworks:
        yield f"framework_id: no framework {agent.framework_id!r}; known: {_names(frameworks)}"
    for purpose, key in agent.budget.items():
        if purpose not in BUDGET_SETTINGS:
            yield f"budget.{purpose}: there is no such purpose; purposes: {_names(BUDGET_SETTINGS)}"
        if key not in BUDGET_KEYS:
            yield f"budget.{purpose}: no setting budget.{key}; name one of {_names(BUDGET_KEYS)}"
    for tool in agent.tools:
        if not _is_permitted(agent, tool):
            yield f"tools: {tool!r} is not permitted; add it to permissions.tools or remove it"
    yield from _find_path_faults(agent.permissions.paths)
    for provider in agent.permissions.providers:
        if provider != "*" and provider not in config.gateway.providers:
            known = _names(config.gateway.providers)
            yield f"permissions.providers: no provider {provider!r}; configured: {known}"


def _find_named_model_faults(
    agent: AgentFile, gateway: GatewayConfig, contracts: Mapping[str, Contract]
) -> Iterator[str]:
    """Yield what the agent or a contract of its prompts names, and it cannot have or may not use."""
    for purpose in SHIPPED:
        choice = choose_model(gateway, agent, contracts.get(get_contract_id(agent, purpose)))
        fault = find_choice_fault(choice, agent, gateway) if choice.named_by in ("agent", "contract") else None
        if fault is not None and (choice.named_by == "agent" or fault.code == "FORBIDDEN"):
            mend = "; name another, or add it: hobus provider add" if fault.code.endswith("_NOT_FOUND") else ""
            yield f"{'model' if choice.named_by == 'agent' else f'contracts.{purpose}'}: {fault.detail}{mend}"
            return


def _find_path_faults(paths: Iterable[str]) -> Iterator[str]:
    for number, root in enumerate(paths):
        if root != "*" and not root.startswith(("/", "~/")):
            yield f"permissions.paths.{number}: {root[:200]!r} is relative; begin it with / or ~/"
        elif ".." in root.split("/"):
            yield f"permissions.paths.{number}: {root[:200]!r} leads elsewhere by `..`; write the place itself"


def _is_permitted(agent: AgentFile, tool: str) -> bool:
    """Return whether the tool is permitted; of a wildcard it is enough that something below it is."""
    if agent.permissions.allows("tools", tool):
        return True
    return tool.endswith("*") and any(name.startswith(tool[:-1]) for name in agent.permissions.tools)
