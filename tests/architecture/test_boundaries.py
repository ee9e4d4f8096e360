"""What a part must not know, because another part owns it."""

from __future__ import annotations

import re
from ast import Attribute, Call, ImportFrom, JoinedStr, Name, unparse, walk
from graphlib import TopologicalSorter

import pytest

from hobus.actors.ho1_executor.tools.outside import READS
from hobus.bus.catalog import find_row
from tests.architecture.source import ROOT, modules, nodes, uses

pytestmark = pytest.mark.slow


def names_used(package: str) -> set[str]:
    """Everything imported that the modules of a package name."""
    return {name for module, tree in modules().items() if module.startswith(package) for name, _ in uses(tree)}


def test_no_modules_of_the_bus_import_each_other_in_a_circle() -> None:
    """Not for their types either: what only holds others knows none of them."""
    of_bus = {name: tree for name, tree in modules().items() if name.startswith("hobus.bus.")}
    imported = {
        name: {node.module for node in nodes(tree, ImportFrom) if node.module in of_bus}
        for name, tree in of_bus.items()
    }
    assert len(imported["hobus.bus.broker.core"]) > 10
    assert len(list(TopologicalSorter(imported).static_order())) == len(of_bus)


def test_gateway_assembles_no_context() -> None:
    """Prompts arrive complete: the gateway renders no pack, reads no history and no contract."""
    of_config = {name for name in names_used("hobus.gateway_service") if name.startswith("hobus.config.")}
    assert of_config
    assert [
        name
        for name in sorted(of_config)
        if not name.startswith(
            (
                "hobus.config.schema.",
                "hobus.config.limits",
                "hobus.config.sections.",
                "hobus.config.snapshot.",
                "hobus.config.recorded.",
                "hobus.config.assets.",
                "hobus.config.json_schema.",
            )
        )
        and name != "hobus.config.secret_refs.HIDDEN"
    ] == []
    attributes = {
        node.attr
        for module, tree in modules().items()
        if module.startswith("hobus.gateway_service")
        for node in nodes(tree, Attribute)
    }
    assert attributes & {"prompt_packs", "contracts", "system_prompt", "history_budget"} == set()


def test_attention_asks_the_record_and_sends_nothing() -> None:
    """It returns context to its caller: of the bus it knows questions to the record, and no way to write or to send."""
    tree = {name: tree for name, tree in modules().items() if name.startswith("hobus.actors.ho2_supervisor.attention.")}
    assert len(tree) > 5
    called = {node.attr for one in tree.values() for node in nodes(one, Attribute)}
    assert called & {"submit", "write", "along", "also", "note", "append", "request", "ask", "post", "publish"} <= {
        "append"  # to lists
    }
    of_messages = {name for name in names_used("hobus.actors.ho2_supervisor.attention.") if ".bus.messages." in name}
    assert not any(
        name.startswith(("hobus.bus.messages.gateway", "hobus.bus.messages.session")) for name in of_messages
    )


def test_tools_ask_and_change_nothing() -> None:
    """Whatever a tool may send through its worker is a question: named for reading, answered, and routed."""
    for service, type_name in READS:
        row = find_row(service, type_name)
        assert row is not None
        assert row.reply is not None
        assert row.cls.__name__.startswith(("Read", "Query", "Search"))


def test_provider_code_is_reached_through_the_gateway_alone() -> None:
    """No other part of the system can open a connection to a model: only wiring knows the providers."""
    others = [name for name in modules() if not name.startswith(("hobus.gateway_service", "hobus.launch"))]
    users = [
        module
        for module in others
        if any(name.startswith("hobus.gateway_service") for name, _ in uses(modules()[module]))
    ]
    assert users == []


def test_the_offline_model_sees_what_a_server_of_the_kind_openai_gets() -> None:
    """Its rules know no message of the bus; their shell hands a prompt to that kind's own writer, and to nothing else."""
    inside = "hobus.gateway_service.providers.offline"
    of_bus = {name for name in names_used(inside) if name.startswith("hobus.bus.")}
    assert of_bus == {
        "hobus.bus.errors.GatewayError",
        "hobus.bus.messages.gateway.Prompt",
        "hobus.bus.messages.gateway.PromptResponse",
    }
    knowing = {
        module
        for module, tree in modules().items()
        if module.startswith(inside) and any(name.startswith("hobus.bus.messages") for name, _ in uses(tree))
    }
    assert knowing == {f"{inside}.provider"}
    tree = modules()[f"{inside}.provider"]
    told = [
        unparse(call.func)
        for call in nodes(tree, Call)
        if any(
            isinstance(value, Name) and value.id == "prompt"
            for value in (*call.args, *(k.value for k in call.keywords))
        )
    ]
    assert set(told) == {"self._make_response", "ToolNames.of", "openai_wire.make_request", "pricing.with_usage"}
    assert len(told) == sum(node.id == "prompt" for node in nodes(tree, Name))


WRITES = ("click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
WRITERS = {
    "hobus.launch.console.output": "the one place",
    "hobus.launch.cli.main": "its own version, before anything else is loaded",
    "hobus.launch.cli.answer_view": "an answer over a pipe is byte for byte what the model wrote",
    "hobus.launch.cli.chat.prompt": "the prompt of a terminal that takes no commands",
    "hobus.launch.sessions.refusals": "a table of the documentation",
}
"""Module -> why it writes to a standard stream itself."""


def test_whatever_is_said_is_escaped_in_one_place() -> None:
    """Commands print by `say` and `note`, and hand them what is coloured as a part of its own.

    In an f-string its codes would be text, which is escaped.
    """
    of_launch = {name: tree for name, tree in modules().items() if name.startswith("hobus.launch.")}
    writers = {name for name, tree in of_launch.items() if any(used in WRITES for used, _ in uses(tree))}
    assert writers == set(WRITERS)
    spliced = [
        f"{name}:{part.lineno}"
        for name, tree in of_launch.items()
        for text in nodes(tree, JoinedStr)
        for part in walk(text)
        if isinstance(part, Call) and isinstance(part.func, Name) and part.func.id in ("styled", "joined")
    ]
    assert spliced == []


def test_no_bench_imports_tests():
    """What both need stands in bench: an installation that measures need not hold the tests."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "bench").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"\s*(from|import) tests\b", line)
    ]
    assert found == []
