"""Rules are plain functions: values in, values out. The shells that may wait or touch the machine are listed here, by name.

The table is the map of all code that is not pure. Everything else below the actors, the services, the broker and the
configuration is a rule module: it neither waits, nor reads the machine, nor knows a port of the bus.
"""

from __future__ import annotations

import ast

from tests.architecture.source import files, imports, modules, nodes

SHELLS: dict[str, str] = {
    "hobus.actors.ho1_executor.file_reads": "reads files of this machine",
    "hobus.actors.ho1_executor.actor": "where orders arrive",
    "hobus.actors.ho1_executor.ends": "asks the ledger whether an order has ended",
    "hobus.actors.ho1_executor.job": "one order from start to receipt",
    "hobus.actors.ho1_executor.known_tools": "asks the broker which tools others have",
    "hobus.actors.ho1_executor.model_step": "asks the gateway",
    "hobus.actors.ho1_executor.tool_step": "runs a tool",
    "hobus.actors.ho1_executor.tools.host_process": "one process that runs foreign code, and its socket",
    "hobus.actors.ho1_executor.tools.child_main": "runs inside the tool process",
    "hobus.actors.ho1_executor.tools.standard_streams": "the same: where its calls print",
    "hobus.actors.ho1_executor.held_state": "asks the record for a session's earlier calls",
    "hobus.actors.ho1_executor.tools.children": "runs calls in tool processes",
    "hobus.actors.ho1_executor.tools.child": "one of those processes",
    "hobus.actors.ho1_executor.tools.nursery": "forks them",
    "hobus.actors.ho1_executor.tools.print_pipe": "reads what a tool prints",
    "hobus.actors.ho1_executor.tools.keeper": "ends whatever a tool started",
    "hobus.actors.ho1_executor.tools.in_process": "the simulation's tool runner",
    "hobus.actors.ho1_executor.tools.registry": "tools are async: they may ask other services",
    "hobus.actors.ho1_executor.tools.outside": "what a tool may ask of the cluster",
    "hobus.actors.ho1_executor.tools.definition": "the signature of a tool",
    "hobus.actors.ho1_executor.tools.entry_points": "loads tools of installed packages, in tool processes",
    "hobus.actors.ho1_executor.tools.sources": "all tools of one worker, and the tasks that keep its servers connected",
    "hobus.actors.ho1_executor.mcp_servers.process": "runs as the process of an MCP server",
    "hobus.actors.ho1_executor.mcp_servers.secrets": "reads what references name",
    "hobus.actors.ho1_executor.mcp_servers.server": "keeps one MCP server connected",
    "hobus.actors.ho1_executor.mcp_servers.session": "speaks MCP",
    "hobus.actors.ho1_executor.mcp_servers.stdio": "the streams of a server that is a process",
    "hobus.actors.ho1_executor.tools.protocol": "MessagePack frames between worker and tool process, which loads nothing of the bus",
    "hobus.actors.ho2_supervisor.actor": "where turns arrive",
    "hobus.actors.ho2_supervisor.ownership.history_lookup": "asks the ledger what memory has let go",
    "hobus.actors.ho2_supervisor.configurations": "asks the record for the configuration of a run",
    "hobus.actors.ho2_supervisor.cancelling": "closes cancelled runs",
    "hobus.actors.ho2_supervisor.commanding": "asks the ledger whether a command came before",
    "hobus.actors.ho2_supervisor.turn.caller_tools": "reads what a model was shown when it asked for its caller's calls",
    "hobus.actors.ho2_supervisor.ownership.unowned": "looks for sessions without an owner",
    "hobus.actors.ho2_supervisor.learning.consolidations": "carries out consolidations",
    "hobus.actors.ho2_supervisor.ownership.loading": "reads a session's journal",
    "hobus.actors.ho2_supervisor.turn.pool": "asks the executors",
    "hobus.actors.ho2_supervisor.learning.learning": "logs what runs teach",
    "hobus.actors.ho2_supervisor.attention.engine": "assembles a context",
    "hobus.actors.ho2_supervisor.attention.pipeline": "asks sources that wait",
    "hobus.actors.ho2_supervisor.attention.sources": "asks the record for facts",
    "hobus.actors.ho2_supervisor.attention.word_rank": "SQLite's tokenizer, over texts in memory",
    "hobus.actors.ho2_supervisor.turn.context": "a turn's context and its record",
    "hobus.actors.ho2_supervisor.turn.classify_context": "the context of a turn's classification",
    "hobus.actors.ho2_supervisor.turn.lookups": "asks for files and texts of the record",
    "hobus.actors.ho2_supervisor.drive": "drives a run to its one answer",
    "hobus.actors.ho2_supervisor.turn.effects": "journals steps, and sends orders to the executors",
    "hobus.actors.ho2_supervisor.ownership.owner": "owns a session: reads and appends its journal",
    "hobus.actors.ho2_supervisor.ownership.registry": "which sessions and runs are here",
    "hobus.actors.ho2_supervisor.resources": "holds the ways out of the process",
    "hobus.actors.ho2_supervisor.turn.run": "one run as its turn sees it",
    "hobus.actors.ho2_supervisor.run_queue": "whose run begins next, and whose step",
    "hobus.actors.ho2_supervisor.run_task": "those who wait for a run, and where it stands still",
    "hobus.actors.ho2_supervisor.runs": "begins runs, and ends them",
    "hobus.actors.ho2_supervisor.ownership.take_over": "reads sessions, and fences their former owners",
    "hobus.actors.ho2_supervisor.turn.tool_batch": "sends the calls of one batch side by side",
    "hobus.actors.ho2_supervisor.turn.turn": "the linear turn",
    "hobus.actors.ho2_supervisor.turn.turn_record": "writes the turn's records",
    "hobus.actors.ho3_memory.actor": "where READ and LOG arrive",
    "hobus.actors.ho3_memory.checkpoint": "a file through the disk port",
    "hobus.actors.ho3_memory.database": "the SQLite working store",
    "hobus.actors.ho3_memory.store": "writes to the record and reads from it",
    "hobus.gateway_service.service": "where prompts arrive",
    "hobus.gateway_service.pipeline": "the pipeline that each runs through",
    "hobus.gateway_service.account": "budgets rebuilt from the record",
    "hobus.gateway_service.breakers": "notes in the record when a breaker changes",
    "hobus.gateway_service.images": "reads images from the record",
    "hobus.gateway_service.calls": "calls in flight, joined by key",
    "hobus.gateway_service.providers.http.clients": "loads the SDKs, and bounds the connection to a provider",
    "hobus.gateway_service.providers.http.provider": "asks a provider",
    "hobus.gateway_service.providers.keys": "reads what references name",
    "hobus.gateway_service.providers.plugin": "loads a provider of an installed package, and asks it",
    "hobus.gateway_service.providers.offline.provider": "a provider is asked, as any model is",
    "hobus.gateway_service.pieces": "sends what is held when an interval is over",
    "hobus.gateway_service.places": "waits for a place at a provider",
    "hobus.gateway_service.rates": "waits until there is room under a rate limit",
    "hobus.gateway_service.recovery": "closes what a crash left open",
    "hobus.gateway_service.sending": "one attempt at a provider",
    "hobus.ledger_service.service": "where writes and reads arrive",
    "hobus.ledger_service.tables": "takes its filter's pages of the machine",
    "hobus.ledger_service.writer": "group commit",
    "hobus.ledger_service.segment": "one file of the record, through the disk port",
    "hobus.ledger_service.opening": "opens the record and its index",
    "hobus.ledger_service.recovery": "reads the record at start",
    "hobus.ledger_service.reader": "reads entries and bodies",
    "hobus.ledger_service.index": "the SQLite index, and how it is read beside its writer or without one",
    "hobus.ledger_service.full_text": "keeps the index of words, and answers from it",
    "hobus.ledger_service.search_index": "the SQLite index of words",
    "hobus.ledger_service.search_reader": "searches without a running ledger",
    "hobus.ledger_service.source": "the record as files, for reading without a cluster",
    "hobus.ledger_service.verify": "reads the whole record",
    "hobus.actors.session_host.actor": "where clients arrive",
    "hobus.actors.session_host.degrade": "answers without HO2, over the gateway lane",
    "hobus.config.recorded": "asks the record for one",
    "hobus.config.files": "finds files, and reads one if it is plain",
    "hobus.config.gates.layer": "reads the files of a layer and their hashes",
    "hobus.config.manifests": "reads and writes manifests",
}
"""Module -> why it is no rule."""

RULE_HOMES = (
    "hobus.actors.",
    "hobus.ledger_service.",
    "hobus.gateway_service.",
    "hobus.config.",
    "hobus.bus.broker",
    "hobus.bus.catalog",
    "hobus.bus.envelope",
)
MACHINE = {
    "asyncio", "threading", "multiprocessing", "concurrent", "subprocess", "socket", "select", "selectors", "signal",
    "os", "pathlib", "shutil", "tempfile", "fcntl", "mmap", "sqlite3", "time", "random", "secrets", "zmq", "msgpack",
    "psutil", "logging", "structlog",
}  # fmt: skip
PORTS = {
    "hobus.bus.port.Bus",
    "hobus.bus.port.Disk",
    "hobus.bus.port.FileHandle",
    "hobus.bus.port.Provider",
    "hobus.bus.port.ToolRunner",
    "hobus.bus.port.Clock",
}

RULES = sorted(name for name in files() if name.startswith(RULE_HOMES) and name not in SHELLS)


def machine_imports(tree: ast.Module) -> set[str]:
    """What a module imports of the machine, the loop or the ports."""
    names = set(imports(tree).values())
    return {name for name in names if name.partition(".")[0] in MACHINE} | (names & PORTS)


def impure(module: str) -> list[str]:
    """What of this module waits or touches the machine."""
    tree = modules()[module]
    waiting = [node.name for node in nodes(tree, ast.AsyncFunctionDef)]
    return sorted(machine_imports(tree)) + waiting


def test_rule_module_neither_waits_nor_touches_the_machine() -> None:
    """If this fails: move the rule out of what waits, or list the module above with its reason."""
    assert {module: found for module in RULES if (found := impure(module))} == {}


def test_listed_shell_exists_and_is_one() -> None:
    """The map has no dead entries: a listed module is there and would fail the test above."""
    assert [module for module in SHELLS if not impure(module)] == []
