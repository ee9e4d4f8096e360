"""Built-in tools about what the system is doing: record, budgets, costs, processes. Answers from its services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolFault, ToolHost

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_ENTRY_FIELDS = ("sequence", "event_type", "stream", "submission_id", "decision", "reason")
_PEER_FIELDS = ("instance", "role", "state", "reason", "slots", "in_flight")


async def _verify_ledger(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return dict(await host.verify_ledger())


async def _query_ledger(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Newest first; ids and codes only, never a body."""
    where = {name: arguments[name] for name in ("event_type", "session_id") if name in arguments}
    if where.get("session_id") == "this":
        where["session_id"] = host.context["session_id"]
    page = await host.request(
        "ledger", "ledger.query", {"where": where, "limit": arguments.get("limit", 10), "newest_first": True}
    )
    rows = [{name: entry[name] for name in _ENTRY_FIELDS} for entry in page["entries"]]
    return {"entries": rows, "shown": len(rows), "more": page["more"], "head": page["head"]}


async def _session_cost(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    session_id: str = host.context["session_id"]
    budget = await host.request("gateway", "gateway.read_budget", {"session_id": session_id})
    for row in budget["scopes"]:
        if row["scope"].startswith("session") and row["scope"].endswith(session_id):
            return {"session_id": session_id, "budget_mode": budget["mode"], **_spent(row)}
    raise ToolFault(f"the gateway has no budget of session {session_id}: it made no model call yet")


async def _budget_status(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    budget = await host.request("gateway", "gateway.read_budget", {"session_id": ""})
    rows = [{"scope": row["scope"], **_spent(row)} for row in budget["scopes"]]
    return {"budget_mode": budget["mode"], "scopes": sorted(rows, key=lambda row: row["scope"])}


async def _cluster_status(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    rows: list[dict[str, Any]] = []
    after, is_whole = "", False
    while not is_whole:  # each answer is one page
        answer = await host.request("broker", "broker.read_peers", {"after": after})
        rows += [{name: peer[name] for name in _PEER_FIELDS} for peer in answer["peers"]]
        after = answer["next"]
        is_whole = not after
    return {"count": len(rows), "processes": sorted(rows, key=lambda row: row["instance"])}


def _spent(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "calls": row["calls"],
        "tokens_used": row["used"],
        "tokens_reserved": row["reserved"],
        "tokens_limit": row["limit"],
        "tokens_remaining": row["remaining"],
        "cost_usd": row["cost_usd"],
        "calls_of_unknown_outcome": row["unknown_calls"],
    }


STATUS_TOOLS = (
    ToolDefinition(
        tool_id="verify_ledger",
        description="Checks the whole record (the ledger): every frame, hash and link. Says whether it is intact, "
        "and where not.",
        parameters=_NOTHING,
        idempotent=True,
        run=_verify_ledger,
        needs_ledger=True,
    ),
    ToolDefinition(
        tool_id="query_ledger",
        description="Lists recent ledger entries, newest first: ids and codes, no contents.",
        parameters={
            "type": "object",
            "properties": {
                "event_type": {"type": "string", "description": "such as WO_COMPLETED", "maxLength": 64},
                "session_id": {"type": "string", "description": "a session's full id, or `this`", "maxLength": 64},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50},
            },
            "additionalProperties": False,
        },
        idempotent=True,
        run=_query_ledger,
    ),
    ToolDefinition(
        tool_id="session_cost",
        description="What this session has cost so far: model calls, tokens, money, and what is left of its budget.",
        parameters=_NOTHING,
        idempotent=True,
        run=_session_cost,
    ),
    ToolDefinition(
        tool_id="budget_status",
        description="Token budgets of every scope: limit, used, reserved, remaining.",
        parameters=_NOTHING,
        idempotent=True,
        run=_budget_status,
    ),
    ToolDefinition(
        tool_id="cluster_status",
        description="The processes of this cluster: name, role, state, work in flight.",
        parameters=_NOTHING,
        idempotent=True,
        run=_cluster_status,
    ),
)
