"""The project's source as syntax trees, and the names that a module uses, aliases resolved."""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

ROOT = Path(__file__).parents[2]
Kind = TypeVar("Kind", bound=ast.AST)
FOLDERS = ("hobus", "bus", "actors", "ledger_service", "gateway_service", "launch", "config")


@cache
def files() -> dict[str, Path]:
    """Dotted name -> file of every module that ships; all that is needed while tests are collected."""
    return {dotted_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name -> syntax tree of every module that ships.

    Half a million objects, kept: the collector would look for garbage among them while they are made, and ever after.
    """
    gc.disable()
    try:
        made = {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in files().items()}
        for tree in made.values():
            _by_kind(tree)
        gc.freeze()
    finally:
        gc.enable()
    return made


def dotted_name(path: Path) -> str:
    """`hobus.bus.broker` for bus/broker/__init__.py, `hobus.bus.codec` for bus/codec.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "hobus" else ("hobus", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def children(node: ast.AST) -> list[ast.AST]:
    """What stands in a node itself, but for operators, and for whether a name is read or set."""
    found: list[ast.AST] = []
    for value in vars(node).values():
        kind = type(value)
        if kind is list:
            found += [one for one in value if isinstance(one, ast.AST)]
        elif kind not in _LEFT_OUT and isinstance(value, ast.AST):
            found.append(value)
    return found


_LEFT_OUT = {
    mark for kind in (ast.expr_context, ast.boolop, ast.operator, ast.unaryop) for mark in kind.__subclasses__()
} | {int, str}


@cache
def _by_kind(tree: ast.Module) -> dict[type[ast.AST], list[ast.AST]]:
    found: dict[type[ast.AST], list[ast.AST]] = {}
    waiting: list[ast.AST] = [tree]
    for node in waiting:  # which grows: the outer ones first, as in `ast.walk`
        found.setdefault(type(node), []).append(node)
        waiting += children(node)
    return found


def nodes(tree: ast.Module, kind: type[Kind]) -> list[Kind]:
    """All of a kind in a module, at any depth, in the order of `ast.walk`."""
    return cast("list[Kind]", _by_kind(tree).get(kind, []))


@cache
def imports(tree: ast.Module) -> dict[str, str]:
    """Local name -> the dotted name behind it, for every import at any depth."""
    found: dict[str, str] = {}
    for node in nodes(tree, ast.Import):
        for alias in node.names:
            found[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
            found[alias.asname or alias.name] = alias.name
    for node in _absolute(tree):
        for alias in node.names:
            found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _absolute(tree: ast.Module) -> list[ast.ImportFrom]:
    return [node for node in nodes(tree, ast.ImportFrom) if node.level == 0 and node.module]


@cache
def uses(tree: ast.Module) -> tuple[tuple[str, int], ...]:
    """Every imported thing that is named: (`time.monotonic`, line), wherever and under whatever alias."""
    return tuple(_uses(tree))


def _uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    known = imports(tree)
    attributes = nodes(tree, ast.Attribute)
    inner = {id(node.value) for node in attributes}
    for node in (*attributes, *nodes(tree, ast.Name)):
        if id(node) not in inner and (dotted := _dotted(node)) is not None:
            first, dot, rest = dotted.partition(".")
            if first in known:
                yield f"{known[first]}{dot}{rest}", node.lineno
    for node in _absolute(tree):
        for alias in node.names:
            yield f"{node.module}.{alias.name}", node.lineno


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


@cache
def tracked_files() -> tuple[Path, ...]:
    """Files under version control; in an unpacked source archive every file that is not hidden or generated."""
    git = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if git.returncode == 0 and git.stdout:
        names = git.stdout.decode().split("\0")
        return tuple(ROOT / name for name in names if name and (ROOT / name).is_file())
    skipped = {"__pycache__", "build", "dist", "venv"}
    return tuple(
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file() and not any(part in skipped or part.startswith(".") for part in path.relative_to(ROOT).parts)
    )
