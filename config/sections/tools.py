"""Section `tools`, with the servers of MCP."""

from typing import Annotated, Literal

from pydantic import Field

from hobus.bus.settings import Positive, Section
from hobus.bus.tool import parse_entry_point
from hobus.config.secret_refs import Id


class McpServerSettings(Section):
    """What every MCP server has, however it is reached."""

    tools: list[str] | None = Field(description="tools to take, by the server's names; null: all")
    reads: list[str] = Field(description="tools that change nothing (shell patterns); all others count as writing")
    idempotent: list[str] = Field(
        description="tools that may run again after a crash (shell patterns); reading ones always may"
    )
    connect_timeout_ms: Positive = Field(description="longest wait for its list of tools")
    timeout_ms: Positive | None = Field(description="longest call; null: `tools.timeout_ms`")
    per: Literal["worker", "principal", "session"] = Field(
        description="who shares a process (or HTTP session) and its state"
    )
    elsewhere: bool = Field(description="workers on other hosts run it too")


class StdioServer(McpServerSettings):
    """An MCP server that each worker starts as a process of its own."""

    transport: Literal["stdio"] = Field(description="over standard input and output")
    command: list[str] = Field(min_length=1, description="program and arguments; no shell")
    env: dict[str, str] = Field(
        description="beside PATH, HOME, LANG and the like; a secret as `env:NAME` or `file:PATH`"
    )


class HttpServer(McpServerSettings):
    """An MCP server that runs by itself somewhere."""

    transport: Literal["http"] = Field(description="streamable HTTP")
    url: str = Field(description="its endpoint")
    headers: dict[str, str] = Field(description="sent with every request; a secret as `env:NAME` or `file:PATH`")


class McpProfile(McpServerSettings):
    """What a server of a pasted `mcpServers` block is given, beside how it is reached."""


McpServerConfig = Annotated[StdioServer | HttpServer, Field(discriminator="transport")]


class ToolLimits(Section):
    """What a process that runs foreign code, and each that it starts, may use of the machine; null: as the user may."""

    open_files: Positive | None = Field(description="open files")
    file_bytes: Positive | None = Field(description="size of a written file")
    memory_bytes: Positive | None = Field(description="writable memory (RLIMIT_DATA)")
    processes: Positive | None = Field(description="processes of this user on this machine")


class ToolsConfig(Section):
    """Tools and their limits."""

    children_max: Positive = Field(
        description="tool processes of one worker (for all tools but `async def`); more calls wait"
    )
    timeout_ms: Positive = Field(description="longest call, unless the tool declares another limit")
    output_max_bytes: Positive = Field(description="longest output; more is cut and marked")
    approval: list[str] = Field(
        description="tools whose calls wait for an approval (shell patterns). `TOOLS if RULE`: unless "
        "RULE, a Python tool that only reads, returns false for the call's arguments"
    )
    entry_points: list[str] = Field(
        description="Python tools: `name = /path/to/file.py:function`, or `name = package.module:function`"
    )
    environment: list[str] = Field(
        description="variables for Python tools besides launcher.environment (shell patterns)"
    )
    limits: ToolLimits = Field(description="limits of each tool process and what it starts")
    mcp_servers: dict[Id, McpServerConfig] = Field(description="MCP servers by name; their tools are `<name>__<tool>`")
    mcp_profiles: dict[Id, McpProfile] = Field(description="named defaults for servers of an `mcpServers` block")
    mcp_profile: str = Field(description="the default profile of such a server")

    @property
    def approval_rules(self) -> list[tuple[str, str]]:
        """Return each pattern of tools with the rule that judges their calls."""
        parts = [one.partition(" if ") for one in self.approval]
        return [(pattern.strip(), rule.strip()) for pattern, _, rule in parts if rule]

    @property
    def python_tools(self) -> dict[str, str]:
        return {parse_entry_point(entry)[0]: entry for entry in self.entry_points}
