"""Rules are plain functions: values in, values out. The shells that may wait or touch the machine are listed here, by name.

The table is the map of all code that is not pure. Everything else below the actors, the services, the broker and the
configuration is a rule module: it neither waits, nor reads the machine, nor knows a port of the bus.
"""

from __future__ import annotations

import ast

from tests.architecture.source import files, imports, modules, nodes

SHELLS = {
    f"{room}.{name}"
    for room, names in {
        "hobus.actors.ho1_executor": "actor ends file_reads held_state job known_tools model_step tool_step",
        "hobus.actors.ho1_executor.mcp_servers": "process secrets server session stdio",
        "hobus.actors.ho1_executor.tools": (
            "child child_main children definition entry_points host_process in_process keeper nursery "
            "outside print_pipe protocol registry sources standard_streams"
        ),
        "hobus.actors.ho2_supervisor": (
            "actor cancelling commanding configurations drive resources run_queue run_task runs"
        ),
        "hobus.actors.ho2_supervisor.attention": "engine pipeline sources word_rank",
        "hobus.actors.ho2_supervisor.learning": "consolidations learning",
        "hobus.actors.ho2_supervisor.ownership": "history_lookup loading owner registry take_over unowned",
        "hobus.actors.ho2_supervisor.turn": (
            "agent_calls caller_tools classify_context context effects lookups pool run tool_batch turn turn_record"
        ),
        "hobus.actors.ho3_memory": "actor checkpoint database store",
        "hobus.actors.session_host": "actor degrade",
        "hobus.config": "files manifests recorded",
        "hobus.config.gates": "layer",
        "hobus.gateway_service": (
            "account breakers calls images pieces pipeline places rates recovery sending service"
        ),
        "hobus.gateway_service.providers": "keys plugin",
        "hobus.gateway_service.providers.http": "clients provider",
        "hobus.gateway_service.providers.offline": "provider",
        "hobus.ledger_service": (
            "full_text index opening reader recovery search_index search_reader segment service source tables verify"
        ),
    }.items()
    for name in names.split()
}
"""Modules that wait, or touch the machine; what each does says its first sentence."""

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
