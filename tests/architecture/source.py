"""The project's source as syntax trees, and the names that a module uses, aliases resolved."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("hobus", "bus", "actors", "ledger_service", "gateway_service", "launch", "config")


@cache
def files() -> dict[str, Path]:
    """Dotted name -> file of every module that ships; all that is needed while tests are collected."""
    return {dotted_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))}


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name -> syntax tree of every module that ships."""
    return {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in files().items()}


def dotted_name(path: Path) -> str:
    """`hobus.bus.broker` for bus/broker/__init__.py, `hobus.bus.codec` for bus/codec.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "hobus" else ("hobus", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All of a module, in the order of `ast.walk`."""
    return tuple(ast.walk(tree))


@cache
def imports(tree: ast.Module) -> dict[str, str]:
    """Local name -> the dotted name behind it, for every import at any depth."""
    found: dict[str, str] = {}
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                found[alias.asname or alias.name] = alias.name
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


@cache
def uses(tree: ast.Module) -> tuple[tuple[str, int], ...]:
    """Every imported thing that is named: (`time.monotonic`, line), wherever and under whatever alias."""
    return tuple(_uses(tree))


def _uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    known = imports(tree)
    inner = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Attribute)}
    for node in nodes(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            dotted = _dotted(node)
            if dotted is not None:
                first, dot, rest = dotted.partition(".")
                if first in known:
                    yield f"{known[first]}{dot}{rest}", node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
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
