"""The files that a tool's code rests on: its own, and what these import from beside them; nothing is imported here."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path


def list_files(where: str) -> Iterator[Path]:
    """Yield the files of a module, or `.py` file, of `tools.entry_points`, as far as they are there.

    With all modules that they import from the directory beside, however far. In one of installed packages these are no
    part of the code: they change with an installation alone.
    """
    left = [Path(where)]
    if not where.endswith(".py"):
        spec = importlib.util.find_spec(where.partition(".")[0])
        found = (spec.submodule_search_locations or [spec.origin or ""]) if spec is not None else []
        left = [Path(one) for one in found if one]
    elif (left[0].parent / "__init__.py").is_file():
        left = [left[0].parent]
    beside = left[0].parent if left else Path()
    known, modules = set[Path](), set[str]()
    while left:
        file = left.pop()
        if file.is_dir():
            left += file.rglob("*.py")
        elif file not in known:
            known.add(file)
            yield file
            if beside.name not in ("site-packages", "dist-packages"):
                further = _list_imports(file) - modules  # each is walked once, however many files import it
                modules |= further
                left += [one if one.is_dir() else one.with_suffix(".py") for one in (beside / name for name in further)]


def _list_imports(file: Path) -> set[str]:
    """Return the top names of the modules that the file imports; of what is no Python none."""
    try:
        found = list(ast.walk(ast.parse(file.read_bytes())))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return set()
    names = [alias.name for node in found if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in found if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names if name}
