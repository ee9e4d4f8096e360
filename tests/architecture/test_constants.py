"""No time-out, size or bound is a bare number inside of code: it is a setting, or a constant with a name.

Settings stand in `config/admin_config.json`, limits that no configuration has a reason to change in a room's `limits.py`.
Looked at, in every package that ships: defaults of parameters, and what is given to a call under the name of a limit.
-1, 0 and 1 are where counting begins and how "none" is written; they limit nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from msgspec import NODEFAULT

from hobus.bus.messages.base import list_defaults
from hobus.config.schema import AdminConfig
from tests.architecture.source import FOLDERS, ROOT, children, modules
from tests.architecture.test_catalog import RECORDS
from tests.architecture.test_defaults import SECTIONS

DEPTH_OF_A_ROOM = 3
EMPTY: tuple[object, ...] = (None, 0, 0.0, "", [], {}, False)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NAMED_FOR_A_LIMIT = re.compile(r"(^|_)(max|min|limit|timeout|interval|s|ms|bytes|chars|tokens|attempts|budget|maxlen)$")
ARGUMENTS_OF_OTHERS = {
    "hobus.launch.app.cluster": {"__init__(timeout_s)", "open(timeout_s)"},
    "hobus.launch.sessions.cluster_client": {"__init__(timeout_s)", "open(timeout_s)"},
    "hobus.launch.sessions.http_client": {"__init__(timeout_s)"},
    "hobus.actors.ho1_executor.mcp_servers.listing": {"make_printable(chars)"},
    "hobus.launch.lab.simulation.run": {"operator.request(timeout_s=10)"},
}
"""Of classes for programs, whose caller decides; of texts of servers; of a simulation, whose seeds mean these numbers."""


def numbers(tree: ast.AST, *, is_inside: bool = False) -> Iterator[str]:
    """What is a number of its own: `function(parameter)`, and `call(keyword=5)` inside of functions."""
    for node in children(tree):
        if isinstance(node, _FUNCTIONS):
            given = node.args
            last = [*given.posonlyargs, *given.args][::-1]
            pairs = [
                *zip(last, given.defaults[::-1], strict=False),
                *zip(given.kwonlyargs, given.kw_defaults, strict=True),
            ]
            yield from (f"{node.name}({one.arg})" for one, value in pairs if value is not None and _is_number(value))
            for statement in node.body:
                yield from numbers(ast.Module([statement], []), is_inside=True)
            continue
        if isinstance(node, ast.Call) and is_inside:
            yield from (
                f"{ast.unparse(node.func)}({keyword.arg}={ast.unparse(keyword.value)})"
                for keyword in node.keywords
                if NAMED_FOR_A_LIMIT.search(keyword.arg or "") and _is_number(keyword.value)
            )
        yield from numbers(node, is_inside=is_inside)


def _is_number(node: ast.expr) -> bool:
    """A constant expression with a value beyond -1, 0 and 1."""
    parts = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    if not all(isinstance(part, parts) for part in ast.walk(node)):
        return False
    value = eval(compile(ast.Expression(node), "", "eval"))  # noqa: S307 - of constants alone
    return type(value) in (int, float) and value not in (-1, 0, 1)


def is_limits(module: str) -> bool:
    """Whether the module is a room's `limits.py`: engineering limits, each with its reason."""
    return module.endswith(".limits") and module.count(".") <= DEPTH_OF_A_ROOM


@pytest.mark.slow
def test_no_limit_is_a_number_in_code() -> None:
    """If this fails: make it a setting, or name it in the room's `limits.py` with what it protects."""
    found = {module: set(numbers(tree)) for module, tree in modules().items()}
    assert {module: names for module, names in found.items() if names} == ARGUMENTS_OF_OTHERS


def test_a_limit_of_a_room_says_what_it_protects() -> None:
    """In `limits.py` stand constants alone, each with a sentence below it."""
    silent = [
        f"{module}: {ast.unparse(node)}"
        for module, tree in modules().items()
        if is_limits(module)
        for node, following in zip(tree.body, [*tree.body[1:], None], strict=True)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant))
    ]
    assert silent == []


def test_every_package_that_ships_is_looked_at() -> None:
    """A new one is seen as soon as programs can import it."""
    packages = {path.name for path in (ROOT / "hobus").iterdir() if (path / "__init__.py").is_file()}
    assert len(packages) > 5 and packages <= set(FOLDERS)
    assert {name.split(".")[1] for name in modules() if name.count(".")} >= packages


def test_nothing_on_the_wire_has_a_setting_s_value_unless_somebody_says_so() -> None:
    """A field named as a setting carries its value: a default would be a second source, and nobody would notice."""
    settings = {name for section in SECTIONS if section is not AdminConfig for name in section.model_fields}
    silent = {
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in RECORDS
        for name, default in list_defaults(cls)
        if name in settings and default is not NODEFAULT
        if default not in EMPTY and type(default) is not bool
    }
    assert silent == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(chars=300): ...", ["f(chars)"]),
        ("class A:\n    async def f(self, *, timeout_s=2.5): ...", ["f(timeout_s)"]),
        ("def f():\n    g(timeout_s=2 * 5)", ["g(timeout_s=2 * 5)"]),
        ("def f():\n    def g():\n        return deque(maxlen=9)", ["deque(maxlen=9)"]),
        ("LIMIT = 5\ndef f(attempt=1):\n    x = g(5, indent=2)", []),
    ],
)
def test_each_form_of_a_bare_limit_is_seen(source: str, names: list[str]) -> None:
    """The check can fail; a named constant, where counting begins and what is no limit are none."""
    assert list(numbers(ast.parse(source))) == names
