"""Which tools a model is told of: those of its worker, those that others alone can run, and none less in silence.

A server that is not for workers elsewhere, or that this worker is still connecting to, has its tools at others; whoever
happens to make the model call, the model is told of the same ones. What the agent has and nobody announces may be on
its way, as after a start of workers or broker: an order waits for it as the broker does for a service, and whatever is
missing after that is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import structlog
from msgspec import Struct

from hobus.actors.ho1_executor import limits
from hobus.actors.ho1_executor.tools.definition import ANNOUNCED, ToolDefinition
from hobus.actors.ho1_executor.tools.entry_points import SOURCE as PYTHON
from hobus.bus.errors import RuntimeFault
from hobus.bus.json_text import read_object
from hobus.bus.messages.control import PARAMETERS_DEPTH_MAX, SEPARATOR, SourceRow, ToolWord
from hobus.bus.paging import read_tools
from hobus.bus.port import Bus
from hobus.config.assets import AgentFile, names
from hobus.config.json_schema import find_input_schema_fault
from hobus.config.schema import AdminConfig
from hobus.config.sections.tools import ToolsConfig
from hobus.config.tool_faults import TOOL_ID

_log = structlog.get_logger("ho1_executor")
_SAID_OF = ("source", "description", "parameters", "idempotent", "writes")


class KnownToOrder(Struct, frozen=True):
    """The definitions of everything that an order allows, except what is `missing`, by name."""

    tools: Mapping[str, ToolDefinition]
    missing: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()

    def list_lacking(self, offered: Collection[str], told: Collection[str]) -> list[str]:
        """Return the wanted names of which a model was told nothing: missing, or to be offered only now."""
        untold = list_missing(self.wanted, told)  # of nearly every order none
        return [name for name in untold if name in self.missing or not list_missing([name], offered)]


class KnownTools:
    """Know the cluster's tools; ask the broker only for what this worker lacks, at most once per beat."""

    def __init__(self, bus: Bus, own: Mapping[str, ToolDefinition], config: AdminConfig) -> None:
        self._bus = bus
        self._own = own
        self._config = config.tools
        self._timeout_s = config.bus.peer_timeout_ms / 1000
        self._fresh_s = config.bus.beat_interval_ms / 1000
        self._grace_s = config.bus.service_grace_ms / 1000
        self._others: Mapping[str, ToolWord] = {}
        self._read: dict[str, tuple[ToolWord, ToolDefinition | None]] = {}  # words that were wanted, and what they are
        self._sources: Sequence[SourceRow] = ()
        self._wanted: dict[str, tuple[AgentFile, Sequence[str], dict[str, str]]] = {}  # agent id -> its last order's
        self._asked_at: float | None = None
        self._absent_since: dict[str, float] = {}  # sources that have been waited for

    async def find_allowed(self, allowed: Sequence[str], agent: AgentFile, *, within_s: float) -> KnownToOrder:
        """Return what this agent's order may offer; wait for what may come, at most `bus.service_grace_ms`."""
        wanted = self._find_wanted(allowed, agent)
        ends_at = self._bus.clock.monotonic() + within_s
        known: Mapping[str, ToolDefinition] = self._own
        while missing := list_missing(wanted, known):
            await self._ask_again()
            known = {**await self._find_others(wanted, ends_at), **self._own}
            missing = [name for name in list_missing(wanted, known) if not self._is_empty(name, wanted[name])]
            left_s = self._compute_left_s({wanted[name] for name in missing}, ends_at)
            if left_s <= 0:
                break
            await self._bus.sleep(min(left_s, self._fresh_s))
        for source in set(wanted.values()) - {wanted[name] for name in missing}:
            self._absent_since.pop(source, None)
        return KnownToOrder(known, tuple(missing), tuple(wanted))

    def _find_wanted(self, allowed: Sequence[str], agent: AgentFile) -> dict[str, str]:
        """Return `find_wanted`, computed anew only when something changed."""
        if not allowed:
            return {}
        last = self._wanted.get(agent.agent_id)
        if last is None or last[0] is not agent or last[1] != allowed:
            last = self._wanted[agent.agent_id] = (agent, allowed, find_wanted(allowed, agent, self._config))
        return last[2]

    async def _ask_again(self) -> None:
        now = self._bus.clock.monotonic()
        if self._asked_at is not None and now - self._asked_at < self._fresh_s:
            return
        self._asked_at = now
        try:
            told = await read_tools(self._bus, timeout_s=self._timeout_s)
        except RuntimeFault:
            return  # what was known a moment ago still holds
        self._others = {row.tool_id: row for row in told.tools}
        self._read = {tool_id: read for tool_id, read in self._read.items() if tool_id in self._others}
        self._sources = told.sources

    async def _find_others(self, wanted: Collection[str], ends_at: float) -> dict[str, ToolDefinition]:
        """Return the wanted tools that other workers announce. Each description is read once, one at a time.

        So the worker is held up by one description at most, however many there are.
        """
        found: dict[str, ToolDefinition] = {}
        for tool_id, word in self._others.items():
            if tool_id in self._own or not names(wanted, tool_id):
                continue
            read = self._read.get(tool_id)
            if read is None or any(getattr(read[0], field) != getattr(word, field) for field in _SAID_OF):
                await self._bus.sleep(0)
                if self._bus.clock.monotonic() > ends_at:
                    break
                read = self._read[tool_id] = (word, self._read_tool(word))
            if read[1] is not None:
                found[tool_id] = read[1]
        return found

    def _read_tool(self, word: ToolWord) -> ToolDefinition | None:
        """Return the tool; log and return None where the description is no tool's."""
        tool = read_definition(word)
        if isinstance(tool, ToolDefinition):
            return tool
        _log.warning("tool_word_dropped", tool=word.tool_id, source=word.source, reason=tool)
        return None

    def _compute_left_s(self, absent: Iterable[str], ends_at: float) -> float:
        """Return how long one of these sources may still be waited for; 0 if nothing more can come of any."""
        now = self._bus.clock.monotonic()
        awaited = [source for source in absent if is_awaited(source, self._sources, self._config)]
        until = [self._absent_since.setdefault(source, now) + self._grace_s for source in awaited]
        return min(ends_at, max(until, default=now)) - now

    def _is_empty(self, name: str, source: str) -> bool:
        """Return whether the name means all tools of a healthy source that happens to have none."""
        return name.endswith("*") and any(row.name == source and row.state == "ready" for row in self._sources)


def find_wanted(allowed: Iterable[str], agent: AgentFile, tools: ToolsConfig) -> dict[str, str]:
    """Return what an order allows and its agent may use: tool ids and `<server>__*`, each with its source.

    The source is empty where the configuration names none; `*` means everything that is configured.
    """
    configured = dict.fromkeys(tools.python_tools, PYTHON)
    configured |= {f"{server}{SEPARATOR}*": server for server in tools.mcp_servers}
    found: dict[str, str] = {}
    for name in allowed:
        found |= configured if name == "*" else {name: configured.get(name) or _get_server(name)}
    return {
        name: source
        for name, source in found.items()
        if _reach(agent.tools, name) and _reach(agent.permissions.tools, name)
    }


def _get_server(name: str) -> str:
    server, separator, _ = name.partition(SEPARATOR)
    return server if separator else ""


def _reach(patterns: Collection[str], name: str) -> bool:
    """Return whether the patterns name this tool or, of a server's `<server>__*`, any."""
    if not name.endswith("*"):
        return names(patterns, name)
    return any(pattern == "*" or pattern.startswith(name[:-1]) for pattern in patterns)


def list_missing(wanted: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the wanted names that match none of these tool ids."""
    return [
        name
        for name in wanted
        if name not in known and not (name.endswith("*") and any(tool.startswith(name[:-1]) for tool in known))
    ]


def is_awaited(source: str, sources: Iterable[SourceRow], tools: ToolsConfig) -> bool:
    """Return whether a source may still bring tools: it is configured, and no living worker is done with it.

    A source that is ready somewhere brings nothing more; one that failed wherever it was tried is told as it is.
    """
    states = {row.state for row in sources if row.name == source}
    if source not in tools.mcp_servers and not (source == PYTHON and tools.entry_points):
        return False
    return not states or ("starting" in states and "ready" not in states)


def read_definition(word: ToolWord) -> ToolDefinition | str:
    """Return the tool that a worker announced, or why it is none, as for a server's listing."""
    if TOOL_ID.fullmatch(word.tool_id) is None:
        return "providers do not accept its id"
    if len(word.description.encode()) + len(word.parameters.encode()) > limits.DEFINITION_MAX_BYTES:
        return f"its description and schema exceed {limits.DEFINITION_MAX_BYTES} bytes"
    parameters = read_object(word.parameters, depth_max=PARAMETERS_DEPTH_MAX)
    if parameters is None:
        return "its input schema is no JSON"
    if fault := find_input_schema_fault(parameters, is_run_here=False):
        return fault
    return ToolDefinition(parameters=parameters, **{name: getattr(word, name) for name in ANNOUNCED})
