"""The built-in tools: true, sorted, bounded answers without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from bench.builders import SESSION, shipped_snapshot, tool_order
from hobus.actors.ho1_executor.tools.child_main import resolve
from hobus.actors.ho1_executor.tools.definition import ToolFault
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.actors.ho1_executor.tools.table import list_permitted_tools, make_snapshot_view
from hobus.config.assets import Permissions
from hobus.config.json_schema import find_object_fault
from hobus.config.registries import list_rows
from hobus.config.secret_refs import HIDDEN
from hobus.launch.launcher.gates import report_of
from hobus.launch.process.roles.ho1 import GATES
from tests.actors.ho1_executor.rig import ScriptedGateway, cluster

VIEW = make_snapshot_view(shipped_snapshot(), BUILTIN)


class Host:
    """A host that answers from a table and remembers what it was asked."""

    def __init__(self, agent_id: str = "ADMIN", view: Mapping[str, Any] = VIEW, **answers: Any) -> None:
        self.snapshot = view
        self.context = {"session_id": SESSION, "agent_id": agent_id, "wo_id": "W", "idempotency_key": "W"}
        self.answers = answers
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    async def request(self, service: str, type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The prepared answer of this service."""
        self.asked.append((service, type_name, dict(body)))
        return self.answers[service]

    async def check(self, name: str) -> Mapping[str, Any]:
        return self.answers[name]


async def value_of(tool_id: str, host: Host, **arguments: Any) -> Any:
    return await BUILTIN[tool_id].run(arguments, host)


def test_the_agent_s_tools_exist_and_are_safe_to_repeat() -> None:
    assert set(shipped_snapshot().agents["ADMIN"].tools) == set(BUILTIN)
    for tool_id, tool in BUILTIN.items():
        assert find_object_fault(tool.parameters, 99, is_run=False) == ""
        assert (tool.tool_id, tool.idempotent, tool.parameters["additionalProperties"]) == (tool_id, True, False)
    assert list(BUILTIN) == sorted(BUILTIN)


async def test_packages_are_those_of_the_snapshot() -> None:
    value = await value_of("list_packages", Host())
    assert value["count"] == len(shipped_snapshot().packages) > 0
    assert [row["package_id"] for row in value["packages"]] == sorted(shipped_snapshot().packages)
    first = shipped_snapshot().packages[value["packages"][0]["package_id"]]
    assert value["packages"][0] == {
        "package_id": first.package_id, "version": first.version, "title": first.title,
        "framework_id": first.framework_id,
    }  # fmt: skip


async def test_frameworks_are_those_of_the_snapshot() -> None:
    value = await value_of("list_frameworks", Host())
    assert [row["framework_id"] for row in value["frameworks"]] == sorted(shipped_snapshot().frameworks)


async def test_specs_and_files_are_those_of_the_registries() -> None:
    assert [row["spec_id"] for row in (await value_of("list_specs", Host()))["specs"]] == sorted(
        shipped_snapshot().specs
    )
    value = await value_of("list_files", Host())
    owned = [row.row_id for row in list_rows("file_ownership", shipped_snapshot().manifests, {})]
    assert value["count"] == len(owned) > 20 and [row["path"] for row in value["files"]] == sorted(owned)
    mine = await value_of("list_files", Host(), package_id="PKG-ATTENTION-001")
    assert {row["package_id"] for row in mine["files"]} == {"PKG-ATTENTION-001"}
    assert "attention/ATT-TURN-001.json" in {row["path"] for row in mine["files"]} and mine["count"] < len(owned)
    with pytest.raises(ToolFault, match="packages that own some: PKG-ADMIN-AGENT-001"):
        await value_of("list_files", Host(), package_id="PKG-NOBODY-001")


async def test_tools_are_those_of_the_agent_that_asks() -> None:
    assert (await value_of("list_tools", Host()))["count"] == len(BUILTIN)
    assert (await value_of("list_tools", Host(agent_id="NOBODY"))) == {"count": 0, "tools": []}


@pytest.mark.parametrize(("permitted", "expected"), [(("a",), ["a"]), (("*",), ["a", "b"]), ((), []), (("c",), [])])
def test_a_tool_must_be_had_and_permitted(permitted: tuple[str, ...], expected: list[str]) -> None:
    permissions = Permissions(tools=permitted, providers=(), models=(), paths=())
    agent = shipped_snapshot().agents["ADMIN"].model_copy(update={"tools": ("b", "a"), "permissions": permissions})
    tools = dict.fromkeys(("a", "b", "c"), BUILTIN["list_tools"])
    assert list_permitted_tools(agent, tools) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("budget.session_token_limit", 200_000),
        ("projection", {"mode": "enforce"}),
        ("gateway.default_route.provider_id", "offline"),
    ],
)
async def test_a_setting_or_section_is_shown(path: str, value: Any) -> None:
    assert await value_of("show_config", Host(), path=path) == {"path": path, "value": value}


async def test_without_a_path_the_sections_are_named() -> None:
    value = await value_of("show_config", Host())
    assert value["config_digest"] == shipped_snapshot().digest
    assert {"bus", "budget", "ledger"} <= set(value["sections"])


@pytest.mark.parametrize("path", ["nonsense", "budget.nonsense", "budget.session_token_limit.x", ".", "__class__"])
async def test_an_unknown_path_is_refused_with_what_there_is(path: str) -> None:
    with pytest.raises(ToolFault, match="known there"):
        await value_of("show_config", Host(), path=path)


async def test_secrets_are_hidden_before_a_tool_sees_them() -> None:
    """The view holds none: what a tool does not have it cannot tell."""
    provider = shipped_snapshot().config.gateway.providers["offline"]
    section = shipped_snapshot().config.gateway.model_copy(
        update={"providers": {"api_key": provider, "password": "hunter2"}}
    )
    snapshot = replace(shipped_snapshot(), config=shipped_snapshot().config.model_copy(update={"gateway": section}))
    with pytest.warns(UserWarning, match="serializer"):  # the planted value is no ProviderConfig
        view = make_snapshot_view(snapshot, BUILTIN)
    assert (await value_of("show_config", Host(view=view), path="gateway.providers.password"))["value"] == HIDDEN
    assert "hunter2" not in json.dumps(view)


async def test_ledger_entries_are_shown_by_ids_and_codes() -> None:
    entry = {
        "sequence": 3, "event_type": "WO_COMPLETED", "stream": "ho1m", "submission_id": "s", "decision": "COMPLETED",
        "reason": "", "bodies": [b"secret"], "trace": "t",
    }  # fmt: skip
    host = Host(ledger={"entries": [entry], "more": True, "head": 9})
    value = await value_of("query_ledger", host, session_id="this", event_type="WO_COMPLETED", limit=1)
    body = {"where": {"event_type": "WO_COMPLETED", "session_id": SESSION}, "limit": 1, "newest_first": True}
    assert host.asked == [("ledger", "ledger.query", body)]
    shown = {name: entry[name] for name in ("sequence", "event_type", "stream", "submission_id", "decision", "reason")}
    assert value == {"entries": [shown], "shown": 1, "more": True, "head": 9}


@pytest.mark.parametrize(
    ("arguments", "is_valid"),
    [
        ({}, True),
        ({"limit": 1}, True),
        ({"limit": 50}, True),
        ({"limit": 0}, False),
        ({"limit": 51}, False),
        ({"x": 1}, False),
    ],
)
def test_a_query_is_bounded(arguments: dict[str, Any], is_valid: bool) -> None:
    assert Draft202012Validator(BUILTIN["query_ledger"].parameters).is_valid(arguments) is is_valid


def scope(name: str, **changed: Any) -> dict[str, Any]:
    row = {
        "scope": name, "limit": 100, "used": 10, "reserved": 5, "remaining": 85, "calls": 2, "cost_usd": None,
        "unknown_calls": 1,
    }  # fmt: skip
    return {**row, **changed}


async def test_the_cost_of_this_session_is_its_own_row() -> None:
    rows = [scope("agent:ADMIN", used=99), scope(f"session:{SESSION}"), scope("session:other", used=98)]
    host = Host(gateway={"mode": "warn", "scopes": rows})
    assert await value_of("session_cost", host) == {
        "session_id": SESSION, "budget_mode": "warn", "calls": 2, "tokens_used": 10, "tokens_reserved": 5,
        "tokens_limit": 100, "tokens_remaining": 85, "cost_usd": None, "calls_of_unknown_outcome": 1,
    }  # fmt: skip
    assert host.asked == [("gateway", "gateway.read_budget", {"session_id": SESSION})]


async def test_a_session_without_a_budget_has_no_invented_cost() -> None:
    with pytest.raises(ToolFault, match="no budget of session"):
        await value_of("session_cost", Host(gateway={"mode": "warn", "scopes": [scope("agent:ADMIN")]}))


async def test_all_budgets_are_listed_by_scope() -> None:
    value = await value_of("budget_status", Host(gateway={"mode": "enforce", "scopes": [scope("b"), scope("a")]}))
    assert ([row["scope"] for row in value["scopes"]], value["budget_mode"]) == (["a", "b"], "enforce")


async def test_the_ledger_s_report_is_passed_on() -> None:
    report = {"ok": False, "entries": 3, "fault": {"file": "0.seg", "byte": 7}}
    assert await value_of("verify_ledger", Host(verify_ledger=report)) == report


async def test_the_gates_say_of_a_home_what_the_command_says(tmp_path) -> None:
    assert await value_of("run_gates", Host(run_gates=report_of(tmp_path))) == report_of(tmp_path)
    assert report_of(tmp_path)["ok"] and resolve(GATES) is report_of
    (tmp_path / "config" / "agents").mkdir(parents=True)
    (tmp_path / "config" / "agents" / "BAD.json").write_text("{")
    broken = report_of(tmp_path)
    assert not broken["ok"] and any("BAD.json" in one["file"] for one in broken["findings"])


def test_in_a_cluster_they_tell_what_is_true() -> None:
    with cluster(ScriptedGateway(), executors=2) as made:

        async def text(tool_id: str, number: int, **arguments: Any) -> Any:
            given = tool_order(tool_id, arguments, wo_id=f"WO-{SESSION}-1.1.1.{number:03d}")
            receipt = await made.execute(given)
            assert receipt.output_result is not None, receipt.error
            return json.loads(receipt.output_result.text.text)

        async def main() -> None:
            await made.world.settled()
            processes = (await text("cluster_status", 1))["processes"]
            assert [row["role"] for row in processes] == [
                "broker",
                "gateway",
                "ho1",
                "ho1",
                "ho2",
                "ledger",
                "operator",
            ]
            assert (await text("session_cost", 2))["tokens_remaining"] == 700
            given = tool_order("show_config", {"path": "nonsense"}, wo_id=f"WO-{SESSION}-1.1.1.003")
            assert (await made.execute(given)).state == "failed"
            await made.ho2.sleep(1.0)  # the index is at most 200 ms behind
            found = await text("query_ledger", 4, session_id="this", event_type="WO_FAILED")
            assert [entry["event_type"] for entry in found["entries"]] == ["WO_FAILED"]

        made.world.run(main())
