"""Names and sizes that a reader relies on."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import ROOT, modules, tracked_files, uses
from tests.architecture.test_constants import is_limits
from tests.architecture.test_rules import SHELLS

VAGUE = ("utils", "util", "helpers", "helper", "common", "manager", "misc")


def test_no_file_is_named_for_everything() -> None:
    """A file is named for its one concept."""
    assert [str(path.relative_to(ROOT)) for path in tracked_files() if path.stem.lower() in VAGUE] == []


@pytest.mark.parametrize(
    "folder",
    ["actors/session_host", "actors/ho2_supervisor", "actors/ho1_executor", "ledger_service", "gateway_service"],
)
def test_each_role_has_one_door(folder: str) -> None:
    """Where do messages arrive? In actor.py, or service.py of a service, and nowhere else."""
    expected = "actor.py" if folder.startswith("actors/") else "service.py"
    doors = [
        path.relative_to(ROOT / folder).as_posix()
        for path in (ROOT / folder).rglob("*.py")
        if path.stem in ("actor", "service")
    ]
    assert doors == [expected]


DECLARATIONS = (ast.Import, ast.ImportFrom, ast.Pass, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def logic(tree: ast.AST) -> int:
    """Statements that decide, wait or act, nested ones included.

    Declarations are none: imports, headers of functions and classes, docstrings, fields; nor is what a constructor stores.
    """
    count = 0
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            continue
        if isinstance(node, ast.stmt) and not isinstance(node, DECLARATIONS):
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_field = isinstance(node, ast.AnnAssign) and node.value is None
            count += not (is_docstring or is_field)
        count += logic(node)
    return count


def test_session_host_stays_thin() -> None:
    """Under 100 lines of logic in what waits and decides; its pure rows of fields stand beside it, as few."""
    host = {name: tree for name, tree in modules().items() if name.startswith("hobus.actors.session_host")}
    assert "hobus.actors.session_host.actor" in host
    shells = {name for name in host if name in SHELLS}
    assert sum(logic(host[name]) for name in shells) < 100
    assert sum(logic(tree) for name, tree in host.items() if name not in shells and not is_limits(name)) < 50


def test_session_host_knows_nothing_of_what_belongs_to_the_supervisor() -> None:
    """Attention, routing, work orders, tools and history are HO2's: the host has no message and no module of them."""
    foreign = ("attention", "history", "projection", "work_order.WorkOrder", "work_order.ExecuteWorkOrder", "ToolSpec")
    used = {
        name
        for module, tree in modules().items()
        if module.startswith("hobus.actors.session_host")
        for name, _ in uses(tree)
    }
    assert [name for name in sorted(used) if any(word in name for word in foreign)] == []


def test_count_of_logic_ignores_declarations() -> None:
    """Headers, docstrings, imports, fields and constructors are free; each other statement, nested or not, counts."""
    source = (
        '"""Doc."""\nimport os\nclass A:\n    """Doc."""\n    x: int\n'
        "    def __init__(self):\n        self.y = 1\n"
        '    def f(self):\n        """Doc."""\n        z = 1\n        if z:\n            return 2\n        return 3\n'
    )
    assert logic(ast.parse(source)) == 4
