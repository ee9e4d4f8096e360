"""Names and sizes that a reader relies on."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import ROOT, modules, tracked_files

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


def statements(tree: ast.Module) -> int:
    """Statements that do something: no docstrings, no imports, no bare names of fields."""
    count = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
            continue
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_field = isinstance(node, ast.AnnAssign) and node.value is None
        count += not (is_docstring or is_field)
    return count


def test_session_host_stays_thin() -> None:
    """Under 100 lines of logic: attention, routing, work orders, tools and history belong to HO2."""
    host = {name: tree for name, tree in modules().items() if name.startswith("actors.session_host")}
    assert "actors.session_host.actor" in host
    assert sum(statements(tree) for tree in host.values()) < 100


def test_statement_count_ignores_what_is_no_logic() -> None:
    """Docstrings, imports and field declarations are free; each statement, nested or not, counts."""
    source = '"""Doc."""\nimport os\nclass A:\n    """Doc."""\n    x: int\n    def f(self):\n        """Doc."""\n        if 1:\n            return 2\n'
    assert statements(ast.parse(source)) == 4
