"""`mcpServers`, the block that MCP servers are known by elsewhere: pasted as it is, read as `tools.mcp_servers`. Pure.

Such a block says how a server is reached. What else a server needs here comes from a profile of the configuration
(`tools.mcp_profiles`), and any of it may be said beside. What of a block means nothing here is a fault that says so: it
is never passed over in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from hobus.config.parse import check_model
from hobus.config.secret_refs import is_secret_ref

KEY = "mcpServers"
OWN_KEY = "tools.mcp_servers"

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_ANY_VARIABLE = re.compile(r"\$\{[^}]*\}")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_APPROVALS = ("autoApprove", "alwaysAllow", "trust")


class PastedServer(BaseModel):
    """One server as other programs write it, and what may be said of it beside."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    command: str | None = Field(default=None, description="the program; args follow it")
    args: list[str] = Field(default=[], description="its arguments; no shell")
    env: dict[str, str] = Field(
        default={}, description="a secret as `env:NAME` or `file:PATH`; `${NAME}` is `env:NAME`"
    )
    url: str | None = Field(default=None, description="its endpoint, in place of a command")
    headers: dict[str, str] = Field(default={}, description="a secret as `env:NAME` or `file:PATH`, the whole value")
    type: str | None = Field(default=None, description="stdio, or http; it follows from command or url")
    transport: str | None = Field(default=None, description="the same under another name")
    disabled: bool = Field(default=False, description="true: it is left out")
    profile: str | None = Field(default=None, description="a key of tools.mcp_profiles; null: tools.mcp_profile")
    tools: list[str] | None = Field(default=None, description="instead of the profile's")
    reads: list[str] | None = Field(default=None, description="instead of the profile's")
    idempotent: list[str] | None = Field(default=None, description="instead of the profile's")
    connect_timeout_ms: int | None = Field(default=None, gt=0, description="instead of the profile's")
    timeout_ms: int | None = Field(default=None, gt=0, description="instead of the profile's")
    per: Literal["worker", "principal", "session"] | None = Field(default=None, description="instead of the profile's")
    elsewhere: bool | None = Field(default=None, description="instead of the profile's")


_OVER_PROFILE = ("tools", "reads", "idempotent", "connect_timeout_ms", "timeout_ms", "per", "elsewhere")


class Expanded(NamedTuple):
    """Settings with the servers of a block in their place."""

    settings: dict[str, Any]
    names: tuple[str, ...] = ()
    """Of the servers that came in the block."""
    faults: Sequence[str] = ()
    """Every one that the block shows by itself, with its path; servers with faults are not among the settings."""


def expand(value: Mapping[str, Any]) -> Expanded:
    """Return the settings with the pasted servers among the others."""
    rest = {name: one for name, one in value.items() if name != KEY}
    block = value.get(KEY)
    if block is None:
        return Expanded(rest)
    if not isinstance(block, dict):
        fault = f'{KEY}: is not an object; paste name and server: {{"time": {{"command": …}}}}'
        return Expanded(rest, faults=[fault])
    tools = rest.get("tools")
    if not isinstance(tools, dict) or not isinstance(tools.get("mcp_servers") or {}, dict):
        return Expanded(rest)  # that is a fault of its own
    servers, faults = dict(tools.get("mcp_servers") or {}), list[str]()
    for name, pasted in block.items():
        if name in servers:
            faults.append(f"{KEY}.{name}: {OWN_KEY} has a server of this name, too; remove one of them")
            continue
        server, found = _read_server(f"{KEY}.{name}", pasted, tools)
        faults += found
        if server is not None:
            servers[name] = server
    return Expanded(rest | {"tools": tools | {"mcp_servers": servers}}, tuple(block), faults)


def place_as_written(fault: str, pasted: tuple[str, ...]) -> str:
    """Return a fault of a server, at the path where somebody wrote it."""
    for name in pasted:
        for end in (".", ":"):
            if fault.startswith(f"{OWN_KEY}.{name}{end}"):
                told = f"{KEY}{fault.removeprefix(OWN_KEY)}"
                return told.replace(f"{name}.command:", f"{name}.args:", 1).replace(".command.0", ".command", 1)
    return fault


def _read_server(path: str, pasted: Any, tools: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the server as `tools.mcp_servers` has it, and its faults; None if left out, or unknown how."""
    if not isinstance(pasted, dict):
        return None, [f'{path}: is not an object; write {{"command": …, "args": […]}} or {{"url": …}}']
    fix = "remove it: permissions.tools of an agent says what it may use, tools.approval what waits for a person"
    faults = [f"{path}.{key}: {fix}" for key in _APPROVALS if key in pasted]
    meant = {key: value for key, value in pasted.items() if key not in _APPROVALS}
    server, found = check_model(PastedServer, meant)
    faults += [f"{path}.{fault}" for fault in found]
    if server is None or server.disabled:
        return None, faults
    kind: Literal["env", "headers"] = "env" if server.command is not None else "headers"
    values: dict[str, str] = getattr(server, kind)
    faults += [f"{path}{fault}" for fault in _find_kind_faults(server)]
    faults += [f"{path}{fault}" for fault in _find_profile_faults(server, tools)]
    faults += [
        f"{path}.{kind}.{key[:64]}{fault}" for key, value in values.items() for fault in _find_value_faults(value)
    ]
    profile = _find_profile(server, tools)
    if profile is None or server.command is server.url is None:
        return None, faults
    reached: dict[str, Any] = {"transport": "stdio", "command": [server.command, *server.args]}
    if server.command is None:
        reached = {"transport": "http", "url": server.url}
    given = {name: value for name in _OVER_PROFILE if (value := getattr(server, name)) is not None}
    resolved = {key: _VARIABLE.sub(r"env:\1", value) for key, value in values.items()}
    return {**profile, **given, **reached, kind: resolved}, faults


def _find_profile(server: PastedServer, tools: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the profile that the server names; None: there is none of that name."""
    profiles = tools.get("mcp_profiles")
    named = profiles.get(server.profile or tools.get("mcp_profile")) if isinstance(profiles, dict) else None
    return named if isinstance(named, dict) else None


def _find_kind_faults(server: PastedServer) -> Iterator[str]:
    said = server.type or server.transport
    if server.type is not None and server.transport not in (None, server.type):
        yield ": type and transport say different things; remove one of them"
    elif (server.command is None) == (server.url is None):
        yield ": needs either command (a program that is started) or url (a server that runs already)"
    elif said == "sse":
        yield ": the transport sse, older than streamable HTTP, is not supported; use the server's /mcp URL"
    elif said is not None and said not in ("stdio", *_HTTP):
        yield f": type {said[:40]!r}: one of stdio, http"
    elif said is not None and (said == "stdio") != (server.command is not None):
        yield f": type {said} does not fit: stdio has a command, http a url"
    elif server.command is None and (server.args or server.env):
        yield ": args and env need a command; a server at a url takes headers"
    elif server.command is not None and server.headers:
        yield ": headers need a url; a program takes env"


def _find_profile_faults(server: PastedServer, tools: Mapping[str, Any]) -> Iterator[str]:
    profiles = tools.get("mcp_profiles")
    name = server.profile or tools.get("mcp_profile")
    if not isinstance(profiles, dict) or not isinstance(profiles.get(name), dict):
        known = ", ".join(profiles) if isinstance(profiles, dict) else "none"
        yield f".profile: there is no profile {str(name)[:40]!r} in tools.mcp_profiles; there are {known or 'none'}"


def _find_value_faults(value: str) -> Iterator[str]:
    """Yield faults of a value; `${NAME}` is understood where it is the whole value, as a reference is."""
    if _ANY_VARIABLE.search(value) is None or _VARIABLE.fullmatch(value) or is_secret_ref(value):
        return
    yield (
        ": a variable must be the whole value: put all of it into a variable, and write `env:NAME` "
        "(inputs are not prompted for)"
    )
