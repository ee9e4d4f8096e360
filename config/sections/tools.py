"""Section `tools`, with the servers of MCP."""

from typing import Annotated, Literal

from pydantic import Field

from hobus.bus.settings import Positive, Section
from hobus.bus.tool import entry_of


class McpServerSettings(Section):
    """What every MCP server has, however it is reached."""

    tools: list[str] | None = Field(description="tools that are taken, by its names; null: all")
    reads: list[str] = Field(
        description="those that change nothing, shell patterns allowed; all others are held to write"
    )
    idempotent: list[str] = Field(
        description="those that may run twice after a crash, shell patterns allowed; what only reads may anyway"
    )
    connect_timeout_ms: Positive = Field(description="until it has listed its tools")
    timeout_ms: Positive | None = Field(description="one call of its tools; null: `tools.timeout_ms`")
    per: Literal["worker", "principal", "session"] = Field(
        description="who shares its process, or HTTP session, and state"
    )
    elsewhere: bool = Field(description="also for workers on other hosts")


class StdioServer(McpServerSettings):
    """An MCP server that each worker starts as a process of its own."""

    transport: Literal["stdio"] = Field(description="frames over its standard input and output")
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

    open_files: Positive | None = Field(description="open at once")
    file_bytes: Positive | None = Field(description="of one file that it writes")
    memory_bytes: Positive | None = Field(description="that it may write to (RLIMIT_DATA)")
    processes: Positive | None = Field(description="of this user on this machine")


class ToolsConfig(Section):
    """Tools and their limits."""

    children_max: Positive = Field(
        description="calls of one worker's tools with a process each (all but `async def`); more wait"
    )
    timeout_ms: Positive = Field(description="one call of a tool that declares no other")
    output_max_bytes: Positive = Field(description="more output is cut, and the cut is said")
    approval: list[str] = Field(
        description="tools whose calls wait for an approval; shell patterns allowed. `TOOLS if RULE`: those of "
        "their calls of which RULE, a Python tool that only reads, does not say false; it is given the arguments that "
        "it has parameters for"
    )
    entry_points: list[str] = Field(
        description="Python tools: a name in the group `hobus.tools` of an installed package, or `name = "
        "/path/to/file.py:function`"
    )
    environment: list[str] = Field(
        description="variables that Python tools get besides launcher.environment, shell patterns allowed"
    )
    limits: ToolLimits = Field(description="of each process that runs foreign code, and of what it starts")
    mcp_servers: dict[str, McpServerConfig] = Field(
        description="MCP servers by name; their tools are called `<name>__<tool>`"
    )
    mcp_profiles: dict[str, McpProfile] = Field(
        description="what a server of a pasted `mcpServers` block gets besides, by name"
    )
    mcp_profile: str = Field(description="of these, the one of a pasted server that names none")

    @property
    def approval_rules(self) -> list[tuple[str, str]]:
        """Return each pattern of tools with the rule that judges their calls."""
        parts = [one.partition(" if ") for one in self.approval]
        return [(pattern.strip(), rule.strip()) for pattern, _, rule in parts if rule]

    @property
    def python_tools(self) -> dict[str, str]:
        return {entry_of(entry)[0]: entry for entry in self.entry_points}
