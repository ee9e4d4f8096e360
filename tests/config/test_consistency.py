"""What must hold between parts that are valid each by itself."""

from __future__ import annotations

import pytest

from hobus.bus.limits import BODY_MAX_BYTES, SOURCE_EVENTS_MAX
from hobus.config.assets import AgentFile, Contract
from hobus.config.consistency import BUDGET_KEYS, find_inconsistencies, find_snapshot_faults
from hobus.config.limits import FILES_MAX_BYTES, SAID_MAX_BYTES
from hobus.config.load import read
from hobus.config.schema import AdminConfig

GOVERNED = read().governed()


def changed(section: str, **values: object) -> AdminConfig:
    """The shipped settings with some values of one section replaced."""
    whole = GOVERNED.config.model_dump()
    whole[section] |= values
    return AdminConfig.model_validate(whole)


def faults(
    config: AdminConfig = GOVERNED.config, agent: AgentFile | None = None, contract: Contract | None = None
) -> list[str]:
    agents = dict(GOVERNED.agents) | ({agent.agent_id: agent} if agent else {})
    contracts = dict(GOVERNED.contracts) | ({contract.contract_id: contract} if contract else {})
    return find_inconsistencies(config, agents, contracts, GOVERNED.prompt_packs, GOVERNED.frameworks)


def admin(**values: object) -> AgentFile:
    return AgentFile.model_validate(GOVERNED.agents["ADMIN"].model_dump() | values)


def test_shipped_parts_fit_together() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("section", "low", "high"),
    [
        ("bus", "beat_interval_ms", "peer_timeout_ms"),
        ("launcher", "restart_backoff_min_ms", "restart_backoff_max_ms"),
        ("host", "degrade_reserve_ms", "turn_timeout_ms"),
        ("ho3", "gate_low", "gate_high"),
    ],
)
def test_lower_setting_may_equal_but_not_exceed_the_upper(section: str, low: str, high: str) -> None:
    top = getattr(getattr(GOVERNED.config, section), high)
    assert faults(changed(section, **{low: top})) == []
    (fault,) = faults(changed(section, **{low: top + 1}))
    assert fault.startswith(f"{section}.{low}: {top + 1} is above {section}.{high} ({top})")


def test_a_restart_comes_while_requests_still_wait_for_it() -> None:
    """A back-off longer than the grace would fail what a restart recovers; the fault names both settings."""
    grace = GOVERNED.config.bus.service_grace_ms
    assert faults(changed("launcher", restart_backoff_max_ms=grace)) == []
    (fault,) = faults(changed("launcher", restart_backoff_max_ms=grace + 1))
    assert fault.startswith(f"launcher.restart_backoff_max_ms: {grace + 1} is above bus.service_grace_ms ({grace})")


def test_a_turn_may_not_last_longer_than_its_run() -> None:
    """Else whoever waited for it would be answered without tools, long after the run had ended."""
    limit_ms = GOVERNED.config.host.turn_timeout_ms
    [fault] = faults(changed("budget", timeout_seconds=3))
    assert fault.startswith(f"host.turn_timeout_ms: {limit_ms} is above 1000 times budget.timeout_seconds (3000)")


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [
        ("memory", True),
        ("m.2", True),
        ("", False),
        ("..", False),
        ("a/b", False),
        ("/m", False),
        ("ledger", False),
        ("run", False),
    ],
)
def test_the_directory_of_memory_is_its_own_below_the_home(name: str, is_fine: bool) -> None:
    found = faults(changed("ho3", memory_dir=name))
    assert (found == []) is is_fine
    assert is_fine or found[0].startswith("ho3.memory_dir: ")


def test_a_missing_section_of_memory_is_no_fault() -> None:
    """It is memory switched off; a section that is there must be whole."""
    off = GOVERNED.config.model_copy(update={"ho3": None})
    assert faults(off) == [] and off.memory is None
    assert changed("ho3", enabled=False).memory is None and GOVERNED.config.memory == GOVERNED.config.ho3


def test_a_message_of_a_user_fits_the_bodies_of_an_entry() -> None:
    needed = 2 * GOVERNED.config.host.prompt_max_bytes
    whole = GOVERNED.config.model_dump()
    needed = max(needed, whole["tools"]["output_max_bytes"] + FILES_MAX_BYTES + SAID_MAX_BYTES)
    whole["host"]["prompt_max_bytes"] = needed // 2

    def with_bodies_of(size: int) -> list[str]:
        whole["ledger"]["bodies_max_bytes"] = size
        return faults(AdminConfig.model_validate(whole))

    assert with_bodies_of(needed) == []
    fault, *_ = with_bodies_of(needed - 1)
    assert fault.startswith(f"2 times host.prompt_max_bytes: {needed} is above ledger.bodies_max_bytes ({needed - 1})")


def test_an_entry_with_its_bodies_fits_a_message() -> None:
    named = [fault.split(":")[0] for fault in faults(changed("ledger", bodies_max_bytes=BODY_MAX_BYTES))]
    assert named == ["ledger.bodies_max_bytes + 65536"]
    (fault,) = faults(changed("ho3", gate_count_threshold=SOURCE_EVENTS_MAX + 1))
    assert fault.startswith(f"ho3.gate_count_threshold: {SOURCE_EVENTS_MAX + 1} is above {SOURCE_EVENTS_MAX}")


def test_the_configuration_itself_fits_the_record() -> None:
    config = changed("ledger", bodies_max_bytes=20_000)
    assert find_snapshot_faults(config, 20_000) == []
    (fault,) = find_snapshot_faults(config, 20_001)
    assert fault == "ledger.bodies_max_bytes: 20000 is below the 20001 bytes of this configuration itself; raise it"


def test_a_model_that_is_its_own_fallback_is_a_fault() -> None:
    route = {"provider_id": "offline", "model_id": "offline-rules-1"}
    (fault,) = faults(changed("gateway", fallbacks=[route | {"routes": [route]}]))
    assert fault == "gateway.fallbacks.0.routes.0: offline/offline-rules-1 is its own fallback; remove it"


def test_route_to_a_provider_or_model_that_is_not_configured_is_a_fault() -> None:
    (unknown,) = faults(changed("gateway", default_route={"provider_id": "cloud", "model_id": "x"}))
    assert unknown == "gateway.default_route.provider_id: no provider 'cloud'; configured: offline"
    route = {"classification": {"provider_id": "offline", "model_id": "x"}}
    (model,) = faults(changed("gateway", domain_tag_routes=route))
    assert model.startswith("gateway.domain_tag_routes.classification.model_id: provider 'offline' has no such model")


def test_a_route_for_a_tag_that_no_prompt_has_is_a_fault() -> None:
    """A misspelt tag would route nothing, and nobody would notice."""
    route = {"provider_id": "offline", "model_id": "offline-rules-1"}
    (fault,) = faults(changed("gateway", domain_tag_routes={"clasification": route, "consolidation": route}))
    known = "tags: classification, consolidation"
    assert fault == f"gateway.domain_tag_routes.clasification: no prompt has this tag; {known}"


def test_a_profile_of_a_provider_that_there_is_not_is_a_fault() -> None:
    settings = {"temperature": 0.1, "reasoning_effort": None, "max_tokens": None}
    profiles = {"precise": {"provider_id": "offline", **settings}, "lost": {"provider_id": "cloud", **settings}}
    (fault,) = faults(changed("gateway", profiles=profiles))
    assert fault == "gateway.profiles.lost.provider_id: no provider 'cloud'; configured: offline"


def test_default_agent_must_exist() -> None:
    (fault,) = faults(changed("host", agent_id="NOBODY"))
    assert fault == "host.agent_id: no agent 'NOBODY'; shipped and added agents: ADMIN"


def test_contract_without_its_prompt_pack_is_a_fault() -> None:
    contract = GOVERNED.contracts["PRC-CLASSIFY-001"].model_copy(update={"prompt_pack_id": "PRM-NONE-001"})
    (fault,) = faults(contract=contract)
    assert "PRC-CLASSIFY-001.json: prompt_pack_id: no prompt_packs/PRM-NONE-001.txt" in fault


def test_contract_for_an_unknown_provider_is_a_fault() -> None:
    shipped = GOVERNED.contracts["PRC-CLASSIFY-001"]
    boundary = shipped.boundary.model_copy(update={"provider_id": "cloud"})
    (fault,) = faults(contract=shipped.model_copy(update={"boundary": boundary}))
    assert "boundary.provider_id: no provider 'cloud'; configured: offline" in fault


def test_agent_tool_that_is_not_permitted_is_a_fault() -> None:
    _, fault = faults(agent=admin(tools=["list_packages", "format_disk"]))  # nor is there such a tool
    assert fault == "agents/ADMIN.json: tools: 'format_disk' is not permitted; add it to permissions.tools or remove it"


def test_agent_budget_names_a_setting_for_a_known_purpose() -> None:
    purpose, key = faults(agent=admin(budget={"lunch": "session_token_limit", "session": "turn_limit"}))
    assert "budget.lunch: there is no such purpose" in purpose
    assert "budget.session: no setting budget.turn_limit; name one of " in key
    assert "session_token_limit" in BUDGET_KEYS
    assert "followup_min_remaining" not in BUDGET_KEYS


def test_agent_of_an_unknown_framework_or_provider_is_a_fault() -> None:
    assert [
        "framework_id: no framework 'FMWK-999'" in fault for fault in faults(agent=admin(framework_id="FMWK-999"))
    ] == [True]
    permissions = GOVERNED.agents["ADMIN"].permissions.model_dump() | {"providers": ["cloud"]}
    (fault,) = faults(agent=admin(permissions=permissions))
    assert "permissions.providers: no provider 'cloud'" in fault


@pytest.mark.parametrize(
    ("allowed", "name", "answer"), [(["a"], "a", True), (["a"], "b", False), (["*"], "b", True), ([], "a", False)]
)
def test_permission_is_an_exact_name_or_a_star(allowed: list[str], name: str, answer: bool) -> None:
    permissions = GOVERNED.agents["ADMIN"].permissions.model_copy(update={"tools": tuple(allowed)})
    assert permissions.allows("tools", name) is answer


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "*", "*_TOKEN", "MY_SECRET"])
def test_no_secret_is_handed_to_every_process(name: str) -> None:
    (fault,) = faults(changed("launcher", environment=["PATH", name]))
    assert fault.startswith("launcher.environment.1: ")
    assert "tools.environment" in fault


@pytest.mark.parametrize(
    ("turn_limit", "classify", "count"), [(1, True, 1), (1, False, 0), (2, True, 0), (50, True, 0)]
)
def test_a_classified_turn_has_room_for_its_answer(turn_limit: int, classify: bool, count: int) -> None:
    """With one round alone every turn would end at its limit, classified and unanswered; the fault names both fixes."""
    whole = GOVERNED.config.model_dump()
    whole["budget"]["turn_limit"] = turn_limit
    whole["ho2"]["classify"] = classify
    found = faults(AdminConfig.model_validate(whole))
    assert len(found) == count
    assert all("budget.turn_limit" in fault and "ho2.classify" in fault for fault in found)


def test_an_agent_names_the_settings_that_bound_it() -> None:
    """What it names counts; a purpose that it leaves out has the setting of its own name."""
    budget = GOVERNED.config.budget
    agent = admin(budget={"synthesize": "classify_budget"})
    assert agent.budget_tokens("synthesize", budget) == budget.classify_budget
    assert agent.budget_tokens("classify", budget) == budget.classify_budget
    assert agent.budget_tokens("consolidate", budget) == budget.consolidation_budget
    assert agent.budget_tokens("agent", budget) == budget.agent_token_limit


@pytest.mark.parametrize(
    ("root", "count"),
    [("/srv/docs", 0), ("~/docs", 0), ("*", 0), ("docs", 1), ("./docs", 1), ("", 1), ("~other/docs", 1)],
)
def test_a_root_for_files_means_the_same_place_for_every_process(root: str, count: int) -> None:
    """A relative one would be read from wherever a process happens to stand."""
    permissions = GOVERNED.agents["ADMIN"].permissions.model_dump() | {"paths": (root,)}
    said = faults(agent=admin(permissions=permissions))
    assert len(said) == count and all("permissions.paths.0" in fault for fault in said)


def test_every_agent_knows_a_chat_clients_errand_unless_its_file_says_otherwise() -> None:
    """Also one of one's own that has no such key; an empty list takes none."""
    values = {key: value for key, value in GOVERNED.agents["ADMIN"].model_dump().items() if key != "errands"}
    title = "### Task:\nSuggest a title."
    assert AgentFile.model_validate(values).is_errand(title) and not AgentFile.model_validate(values).is_errand("Task")
    assert not admin(errands=[]).is_errand(title)
    question = "### Task:\nRespond to the user query using the provided context, incorporating inline citations."
    assert not AgentFile.model_validate(values).is_errand(question), "a person's, with documents"


@pytest.mark.parametrize("name", ["shares_texts", "takes_sampling"])
@pytest.mark.parametrize("value", ["yes", "no", 1, None])
def test_what_is_true_or_false_is_nothing_else(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="valid boolean"):
        admin(**{name: value})
