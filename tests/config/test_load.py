"""Reading and checking of the governed files: every fault at once, with its place and the fix."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hobus.bus.errors import ConfigError
from hobus.config.files import SHIPPED_ROOT, Layers
from hobus.config.load import read
from hobus.config.parse import check_model
from hobus.config.schema import AdminConfig

SHIPPED: dict[str, Any] = json.loads((SHIPPED_ROOT / "admin_config.json").read_text(encoding="utf-8"))


FREE = {
    ("gateway", "domain_tag_routes"),
    ("gateway", "profiles"),
    ("gateway", "providers"),
    ("gateway", "provider_rates"),
    ("tools", "mcp_servers"),
    ("tools", "mcp_profiles"),
}
"""Mappings whose keys are names that a user chooses."""


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every setting; what stands inside a mapping of free names is one setting."""
    if isinstance(value, dict) and path not in FREE:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path


def objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every object with fixed keys."""
    if isinstance(value, dict):
        if path not in FREE:
            yield path
        for key, item in value.items():
            yield from objects(item, (*path, key))
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from objects(item, (*path, number))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def faults_of(tmp_path: Path, value: Any) -> list[str]:
    """The faults of an admin_config.json that holds `value` (text: as it is)."""
    file = tmp_path / "mine.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read(Layers(config_file=file)).governed()
    return caught.value.facts["faults"]


def override(tmp_path: Path, name: str, text: str) -> Path:
    """An overrides directory with one file."""
    file = tmp_path / "config" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return tmp_path / "config"


def test_shipped_files_are_valid() -> None:
    reading = read()
    governed, found = reading.governed(), reading.files
    assert governed.config.host.agent_id in governed.agents
    assert {file.origin for file in found.values()} == {"shipped"}


def test_each_missing_setting_is_named_by_its_path() -> None:
    value = copy.deepcopy(SHIPPED)
    for path in leaves(SHIPPED):
        holder = at(value, path[:-1])
        taken = holder.pop(path[-1])
        _, faults = check_model(AdminConfig, value, strict=True)
        assert faults == [f"{'.'.join(path)}: missing; add it"]
        holder[path[-1]] = taken
    assert value == SHIPPED


@pytest.mark.parametrize("path", list(objects(SHIPPED)), ids=lambda path: ".".join(map(str, path)) or "top")
def test_unknown_key_is_refused_at_every_depth(path: tuple[str | int, ...]) -> None:
    value = copy.deepcopy(SHIPPED)
    at(value, path)["surprise"] = 1
    _, faults = check_model(AdminConfig, value, strict=True)
    assert faults == [f"{'.'.join(map(str, (*path, 'surprise')))}: unknown key; remove it"]


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    value = copy.deepcopy(SHIPPED)
    value["budget"]["session_token_limit"] = 0
    value["gateway"]["attempts_max"] = "many"
    value["ho1"]["sluts"] = 1
    value["http"]["listen"] = "nowhere"
    faults = faults_of(tmp_path, value)
    assert len(faults) == 4 and any("write HOST:PORT, such as 127.0.0.1:8080" in fault for fault in faults)
    assert all(
        any(path in fault for fault in faults) for path in ("budget.session_token_limit", "gateway.attempts_max", "ho1")
    )


def test_faults_of_one_file_hide_none_of_another_and_what_does_not_fit_together_is_told_once_each_is_mended(
    tmp_path: Path,
) -> None:
    """Each with the file in which it is fixed; nothing is told that may only follow from another fault."""
    agents = override(tmp_path, "agents/ADMIN.json", "{")
    mine = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text(encoding="utf-8"))
    mine |= {"agent_id": "MINE", "colour": "red", "framework_id": "FMWK-999"}
    override(tmp_path, "agents/MINE.json", json.dumps(mine))
    override(tmp_path, "prompt_packs/PRM-MINE-001.txt", "no section")
    override(tmp_path, "prompt_packs/PRM-OTHER-001.txt", "\ufeff[[user]]\nhi")
    own: dict[str, Any] = {
        "ho2": {"sessions_mx": 1},
        "bus": {"beat_interval_ms": "soon"},
        "gateway": {"default_route": {"provider_id": "nobody"}},
        "launcher": {"environment": ["MY_TOKEN"]},
    }
    override(tmp_path, "admin_config.json", json.dumps(own))

    def found() -> list[str]:
        with pytest.raises(ConfigError) as caught:
            read(Layers(own=agents)).governed()
        told = [fault.removeprefix(f"{tmp_path / 'config'}/").split(": ") for fault in caught.value.facts["faults"]]
        return sorted(f"{file}: {path.partition(' (')[0]}" for file, path, *_ in told)

    assert found() == [
        "admin_config.json: bus.beat_interval_ms",
        "admin_config.json: ho2.sessions_mx",
        "agents/ADMIN.json: line 1, column 2",
        "agents/MINE.json: colour",
        "prompt_packs/PRM-MINE-001.txt: PRM-MINE-001",
        "prompt_packs/PRM-OTHER-001.txt: begins with a byte order mark",
    ]
    for name in ("agents/ADMIN.json", "prompt_packs/PRM-MINE-001.txt", "prompt_packs/PRM-OTHER-001.txt"):
        (tmp_path / "config" / name).unlink()
    del own["ho2"], own["bus"], mine["colour"]
    override(tmp_path, "agents/MINE.json", json.dumps(mine))
    override(tmp_path, "admin_config.json", json.dumps(own))
    assert found() == [
        "admin_config.json: gateway.default_route.provider_id",
        "admin_config.json: launcher.environment.0",
        "agents/MINE.json: framework_id",
    ]


def test_misspelt_key_names_the_setting_that_was_meant(tmp_path: Path) -> None:
    value = copy.deepcopy(SHIPPED)
    value["budget"]["sesion_token_limit"] = value["budget"].pop("session_token_limit")  # the shipped one counts then
    assert any("did you mean 'session_token_limit'?" in fault for fault in faults_of(tmp_path, value))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("gateway", "attempts_max"), "64"),
        (("gateway", "attempts_max"), 1.5),
        (("gateway", "attempts_max"), True),
        (("gateway", "attempts_max"), 0),
        (("gateway", "attempts_max"), None),
        (("budget", "budget_mode"), "Enforce"),
        (("projection", "mode"), "Shadow"),
        (("ho3", "gate_mode"), "guess"),
        (("classify_labels", "domain"), "system"),
        (("host", "agent_id"), 7),
        (("quality_gate", "requires_response_text"), "yes"),
        (("launcher", "orphan_drain_s"), 0),
        (("ho1",), []),
    ],
)
def test_wrong_type_or_range_is_refused(tmp_path: Path, path: tuple[str, ...], wrong: Any) -> None:
    value = copy.deepcopy(SHIPPED)
    at(value, path[:-1])[path[-1]] = wrong
    assert any(f": {'.'.join(path)}: " in fault for fault in faults_of(tmp_path, value))


@pytest.mark.parametrize("path", [("gateway", "providers"), ("tools", "mcp_servers")])
def test_an_id_that_would_hide_its_settings_is_refused(tmp_path: Path, path: tuple[str, ...]) -> None:
    """What stands below `llm-key` is shown as a secret is, and refused as one that is written out."""
    value = copy.deepcopy(SHIPPED)
    at(value, path)["llm-key"] = value["gateway"]["providers"]["offline"]
    (fault,) = [fault for fault in faults_of(tmp_path, value) if "choose another" in fault]
    assert f"{'.'.join(path)}.llm-key" in fault


def test_whole_number_serves_where_a_fraction_may_stand(tmp_path: Path) -> None:
    value = copy.deepcopy(SHIPPED)
    value["launcher"]["orphan_drain_s"] = 5
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    assert read(Layers(config_file=file)).governed().config == read().governed().config


def test_fault_never_repeats_text_of_a_setting(tmp_path: Path) -> None:
    """Somebody may have typed a secret in the wrong place; the error does not carry it on."""
    value = copy.deepcopy(SHIPPED)
    value["gateway"]["attempts_max"] = "sk-planted"
    value["gateway"]["providers"]["offline"]["api_key"] = "sk-planted"
    faults = faults_of(tmp_path, value)
    assert len(faults) == 2
    assert "sk-planted" not in "\n".join(faults)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "bus": {,}\n}', "line 2, column 11: not JSON"),
        ("", "is empty; write what belongs there"),
        ('{"bus": 1, "bus": 2}', "'bus' is written twice"),
        ('{"bus": NaN}', "NaN is not a number"),
        ("[]", "holds list, not an object"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_text_that_is_not_a_json_object_is_told_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    (fault,) = faults_of(tmp_path, text)
    assert "mine.json" in fault
    assert place in fault


def test_missing_config_file_is_a_fault_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json: cannot be read: No such file"):
        read(Layers(config_file=tmp_path / "nowhere.json")).governed()


def test_file_that_is_not_utf8_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "config" / "prompt_packs" / "PRM-EXTRA-001.txt"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"ab\xff")
    with pytest.raises(ConfigError, match="byte 2 is not UTF-8"):
        read(Layers(own=tmp_path / "config")).governed()


def test_override_replaces_one_file_and_leaves_the_others(tmp_path: Path) -> None:
    agent = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text(encoding="utf-8"))
    agent["system_prompt"] = "Mine."
    reading = read(Layers(own=override(tmp_path, "agents/ADMIN.json", json.dumps(agent))))
    governed, found = reading.governed(), reading.files
    assert governed.agents["ADMIN"].system_prompt == "Mine."
    assert [name for name, file in found.items() if file.origin != "shipped"] == ["agents/ADMIN.json"]
    assert found["agents/ADMIN.json"].origin == str(tmp_path / "config/agents/ADMIN.json")
    assert governed.contracts == read().governed().contracts


def test_override_adds_an_agent(tmp_path: Path) -> None:
    agent = json.loads((SHIPPED_ROOT / "agents/ADMIN.json").read_text(encoding="utf-8")) | {"agent_id": "HELPER"}
    governed = read(Layers(own=override(tmp_path, "agents/HELPER.json", json.dumps(agent)))).governed()
    assert list(governed.agents) == ["ADMIN", "HELPER"]


def test_config_file_wins_over_the_override_of_admin_config(tmp_path: Path) -> None:
    value = copy.deepcopy(SHIPPED)
    value["ho1"]["count"] = 3
    overrides = override(tmp_path, "admin_config.json", "not read")
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    reading = read(Layers(own=overrides, config_file=file))
    governed, found = reading.governed(), reading.files
    assert governed.config.ho1.count == 3
    assert found["admin_config.json"].origin == str(file)


def test_override_that_nothing_reads_is_a_fault(tmp_path: Path) -> None:
    """A misplaced file would be a change that silently does nothing; a hidden file is left alone."""
    override(tmp_path, ".DS_Store", "")
    overrides = override(tmp_path, "admin-config.json", "{}")
    with pytest.raises(ConfigError) as caught:
        read(Layers(own=overrides)).governed()
    (fault,) = caught.value.facts["faults"]
    assert "admin-config.json: no governed file has this place" in fault


def test_home_without_overrides_is_the_shipped_configuration(tmp_path: Path) -> None:
    assert read(Layers(own=tmp_path / "config")).governed() == read().governed()


@pytest.mark.parametrize(
    ("name", "id_field"),
    [
        ("agents/OTHER.json", "agent_id"),
        ("contracts/PRC-OTHER-001.json", "contract_id"),
        ("packages/PKG-OTHER-001/manifest.json", "package_id"),
    ],
)
def test_asset_in_a_file_of_another_name_is_a_fault(tmp_path: Path, name: str, id_field: str) -> None:
    shipped = {
        "agent_id": "agents/ADMIN.json",
        "contract_id": "contracts/PRC-CLASSIFY-001.json",
        "package_id": "packages/PKG-GOVERNANCE-001/manifest.json",
    }[id_field]
    overrides = override(tmp_path, name, (SHIPPED_ROOT / shipped).read_text(encoding="utf-8"))
    with pytest.raises(ConfigError, match=f"{id_field}: is .* but the file is named for"):
        read(Layers(own=overrides)).governed()


def test_second_folder_for_one_framework_is_a_fault(tmp_path: Path) -> None:
    manifest = (SHIPPED_ROOT / "frameworks/FMWK-107_Admin_Agent/manifest.yaml").read_text(encoding="utf-8")
    overrides = override(tmp_path, "frameworks/FMWK-107_Other/manifest.yaml", manifest)
    with pytest.raises(ConfigError, match="'FMWK-107' is defined by another file too"):
        read(Layers(own=overrides)).governed()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("spec_id: [\n", "line 2, column 1: not YAML"),
        ("spec_id: " + "[" * 100_000, "not YAML: "),  # RecursionError, or the depth at which PyYAML gives up
        ("spec_id: a\nspec_id: b\n", "'spec_id' is written twice"),
        ("!!python/object/apply:os.getcwd []", "not YAML"),
        ("spec_id: SPEC-MINE-001\n", "framework_id: missing"),
        ("- 1\n", "holds list, not an object"),
    ],
)
def test_bad_manifest_is_told_with_its_place(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(Layers(own=override(tmp_path, "specs/SPEC-MINE-001/manifest.yaml", text))).governed()
    assert fault in caught.value.detail
    assert "specs/SPEC-MINE-001/manifest.yaml" in caught.value.detail


@pytest.mark.parametrize(("mode", "said"), [(None, "null"), (True, "true"), (7, "7"), ("x", "'x'"), ([], "a list")])
def test_a_value_that_is_none_of_those_that_there_are_is_shown_as_it_is_written(
    tmp_path: Path, mode: object, said: str
) -> None:
    value = copy.deepcopy(SHIPPED)
    value["projection"]["mode"] = mode
    (fault,) = faults_of(tmp_path, value)
    assert f"projection.mode: is {said}; write " in fault


@pytest.mark.parametrize("number", ["9007199254740993", "-9007199254740993", "1" + "0" * 30, "1e999"])
def test_a_number_that_no_message_can_carry_is_a_fault_of_its_setting(tmp_path: Path, number: str) -> None:
    """Beyond 2**53 readers of JSON and MessagePack differ or fail: the setting is named instead."""
    value = copy.deepcopy(SHIPPED)
    value["ho2"]["history_turns_max"] = "HERE"
    (fault,) = faults_of(tmp_path, json.dumps(value).replace('"HERE"', number))
    assert (
        fault.startswith(str(tmp_path)) and "ho2.history_turns_max: a number beyond 9007199254740992 (2**53)" in fault
    )


def test_a_number_of_thousands_of_digits_is_a_fault(tmp_path: Path) -> None:
    value = json.dumps({"a": "HERE"}).replace('"HERE"', "1" * 5000)
    (fault,) = faults_of(tmp_path, value)
    assert "beyond 9007199254740992" in fault


def test_a_text_that_is_known_is_not_parsed_again_and_another_one_is(tmp_path: Path) -> None:
    """What is read twice is the same model; the next look after a change has the change, and a fault each time."""
    agent = tmp_path / "agents" / "ADMIN.json"
    agent.parent.mkdir()
    sound: dict[str, Any] = json.loads((SHIPPED_ROOT / "agents" / "ADMIN.json").read_text(encoding="utf-8"))
    agent.write_text(json.dumps(sound | {"system_prompt": "first"}))
    first, again = (read(Layers(own=tmp_path)) for _ in range(2))
    assert first.assets["agent"]["ADMIN"] is again.assets["agent"]["ADMIN"] and first.config is again.config
    agent.write_text(json.dumps(sound | {"system_prompt": "second"}))
    (tmp_path / "admin_config.json").write_text('{"bus": {"attempts_max": 7}}')
    changed = read(Layers(own=tmp_path))
    assert changed.assets["agent"]["ADMIN"].system_prompt == "second"
    assert changed.config is not None and changed.config.bus.attempts_max == 7
    agent.write_text(json.dumps(sound | {"system_prompt": 3}))
    told = [read(Layers(own=tmp_path)).faults for _ in range(2)]
    assert told[0] == told[1] and any(fault.startswith(f"{agent}: system_prompt: ") for fault in told[0])
