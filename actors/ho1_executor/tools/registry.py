"""The built-in tools: what the system is made of, from the snapshot, and what it is doing, from its services.

None of them changes anything. Every worker on the home host announces them, by id, sorted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from hobus.actors.ho1_executor.tools.definition import ToolDefinition, ToolFault, ToolHost

_ENTRY_FIELDS = ("sequence", "event_type", "stream", "submission_id", "decision", "reason")
_HIT_FIELDS = ("sequence", "kind", "score", "excerpt")
_PEER_FIELDS = ("instance", "role", "state", "reason", "slots", "in_flight")
_Run = Callable[[Mapping[str, Any], ToolHost], Awaitable[Any]]
_tools: dict[str, ToolDefinition] = {}


def _register_tool(
    description: str, *, needs_home: bool = False, is_alone: bool = False, **properties: dict[str, Any]
) -> Callable[[_Run], _Run]:
    """Register the function as a tool under its own name, with these optional arguments, each by its JSON Schema."""

    def add(run: _Run) -> _Run:
        tool_id = run.__name__.removeprefix("_")
        _tools[tool_id] = ToolDefinition(
            tool_id=tool_id,
            description=description,
            parameters={"type": "object", "properties": properties, "additionalProperties": False},
            idempotent=True,
            run=run,
            needs_home=needs_home,
            is_alone=is_alone,
        )
        return run

    return add


def _register_listing(name: str, description: str) -> None:
    async def show_rows(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
        rows = host.snapshot[name]
        return {"count": len(rows), name: rows}

    show_rows.__name__ = f"list_{name}"
    _register_tool(description)(show_rows)


_register_listing("packages", "Lists the governed packages installed in this system: id, version, title, framework.")
_register_listing("frameworks", "Lists the frameworks that govern this system: id, version, title, status.")
_register_listing("specs", "Lists the specs that the frameworks' packages fulfil: id, framework, title, version.")


@_register_tool(
    "Lists the governed files with the package that owns each, and its hash; of one package, if it is named.",
    package_id={"type": "string", "description": "such as PKG-PROMPTS-001", "maxLength": 100},
)
async def _list_files(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    owner: str = arguments.get("package_id", "")
    rows = [row for row in host.snapshot["files"] if owner in ("", row["package_id"])]
    if not rows and owner:
        known = ", ".join(sorted({row["package_id"] for row in host.snapshot["files"]}))
        raise ToolFault(f"no file belongs to a package {owner[:100]!r}; packages that own some: {known}")
    return {"count": len(rows), "files": rows}


@_register_tool("Lists the tools that you have, with what each does.")
async def _list_tools(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Return the tools of the agent that asks; of an unknown agent none, since it may use none."""
    allowed = host.snapshot["agent_tools"].get(host.context["agent_id"], ())
    rows = [tool for tool in host.snapshot["tools"] if tool["tool_id"] in allowed]
    rows += host.context.get("more_tools", [])  # of MCP servers and packages, which come and go
    return {"count": len(rows), "tools": rows}


@_register_tool(
    "Shows the running configuration, secrets hidden: a section (`budget`) or one setting "
    "(`budget.session_token_limit`); without a path the names of the sections.",
    path={"type": "string", "description": "dotted path", "maxLength": 200},
)
async def _show_config(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    path: str = arguments.get("path", "")
    value: Any = host.snapshot["config"]
    if not path:
        return {"config_digest": host.snapshot["digest"], "sections": sorted(value)}
    walked: list[str] = []
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = ", ".join(sorted(value)) if isinstance(value, Mapping) else "nothing below it"
            raise ToolFault(f"no setting {'.'.join([*walked, part])[:200]!r}; known there: {known}")
        value = value[part]
        walked.append(part)
    return {"path": path, "value": value}


@_register_tool(
    "Checks the record (the ledger): every frame, hash and link since its last check. Says whether it is intact, and "
    "where not.",
    needs_home=True,
    whole={"type": "boolean", "description": "everything again, which takes longer"},
    is_alone=True,  # it takes its time, and waits for nobody
)
async def _verify_ledger(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return dict(await host.check("verify_whole_ledger" if arguments.get("whole") else "verify_ledger"))


@_register_tool(
    "Checks this system's governed files and record by all gates, as a start does: each breach with its mend.",
    needs_home=True,
    is_alone=True,
)
async def _run_gates(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    return dict(await host.check("run_gates"))


@_register_tool(
    "Reads a text file below the roots that you may read (permissions.paths); of a large one its beginning.",
    needs_home=True,
    path={"type": "string", "description": "relative to such a root, or absolute", "minLength": 1, "maxLength": 1000},
)
async def _read_file(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    max_bytes = host.snapshot["config"]["tools"]["output_max_bytes"]  # beyond that it would be cut anyway
    found = await host.request("ho1", "file.read", {"path": arguments.get("path", ""), "max_bytes": max_bytes})
    if found["refused"]:
        raise ToolFault(found["warning"])
    return {name: found[name] for name in ("path", "text", "size_bytes", "is_cut", "warning")}


@_register_tool(
    "Searches what was said in this session, by its words: the best passages first, each with who said it.",
    words={"type": "string", "description": "any of these", "minLength": 1, "maxLength": 1000},
    limit={"type": "integer", "minimum": 1, "maximum": 20},
)
async def _search(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    question = {"words": arguments.get("words", ""), "streams": ["session"], "limit": arguments.get("limit", 5)}
    found = await host.request("ledger", "ledger.search", question)
    return {"found": [{name: hit[name] for name in _HIT_FIELDS} for hit in found["hits"]], "more": found["more"]}


@_register_tool(
    "Lists recent ledger entries, newest first: ids and codes, no contents.",
    event_type={"type": "string", "description": "such as WO_COMPLETED", "maxLength": 64},
    session_id={"type": "string", "description": "a session's full id, or `this`", "maxLength": 64},
    limit={"type": "integer", "minimum": 1, "maximum": 50},
)
async def _query_ledger(arguments: Mapping[str, Any], host: ToolHost) -> Any:
    """Return entries, newest first; ids and codes only, never a body."""
    where = {name: arguments[name] for name in ("event_type", "session_id") if name in arguments}
    if where.get("session_id") == "this":
        where["session_id"] = host.context["session_id"]
    page = await host.request(
        "ledger", "ledger.query", {"where": where, "limit": arguments.get("limit", 10), "newest_first": True}
    )
    rows = [{name: entry[name] for name in _ENTRY_FIELDS} for entry in page["entries"]]
    return {"entries": rows, "shown": len(rows), "more": page["more"], "head": page["head"]}


@_register_tool("What this session has cost so far: model calls, tokens, money, and what is left of its budget.")
async def _session_cost(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    session_id: str = host.context["session_id"]
    budget = await host.request("gateway", "gateway.read_budget", {"session_id": session_id})
    for row in budget["scopes"]:
        if row["scope"].startswith("session") and row["scope"].endswith(session_id):
            return {"session_id": session_id, "budget_mode": budget["mode"], **_make_spent_row(row)}
    raise ToolFault(f"the gateway has no budget of session {session_id}: it made no model call yet")


@_register_tool("Token budgets of every scope: limit, used, reserved, remaining.")
async def _budget_status(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    budget = await host.request("gateway", "gateway.read_budget", {"session_id": ""})
    rows = [{"scope": row["scope"], **_make_spent_row(row)} for row in budget["scopes"]]
    return {"budget_mode": budget["mode"], "scopes": sorted(rows, key=lambda row: row["scope"])}


@_register_tool("The processes of this cluster: name, role, state, work in flight.")
async def _cluster_status(_arguments: Mapping[str, Any], host: ToolHost) -> Any:
    rows: list[dict[str, Any]] = []
    after, is_whole = "", False
    while not is_whole:  # each answer is one page
        answer = await host.request("broker", "broker.read_peers", {"after": after})
        rows += [{name: peer[name] for name in _PEER_FIELDS} for peer in answer["peers"]]
        after = answer["next"]
        is_whole = not after
    return {"count": len(rows), "processes": sorted(rows, key=lambda row: row["instance"])}


def _make_spent_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "calls": row["calls"],
        "tokens_used": row["used"],
        "tokens_reserved": row["reserved"],
        "tokens_limit": row["limit"],
        "tokens_remaining": row["remaining"],
        "cost_usd": row["cost_usd"],
        "calls_of_unknown_outcome": row["unknown_calls"],
    }


BUILTIN: Mapping[str, ToolDefinition] = MappingProxyType(dict(sorted(_tools.items())))
