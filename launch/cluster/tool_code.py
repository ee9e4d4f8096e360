"""The files that a tool's code rests on: its own, and what these import from beside them; nothing is imported here."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path


def list_files(where: str) -> Iterator[Path]:
    """Yield the files of a module, or `.py` file, of `tools.entry_points`, as far as they are there."""
    if where.endswith(".py"):
        folder = Path(where).parent
        own = folder.rglob("*.py") if (folder / "__init__.py").is_file() else [Path(where)]
        yield from with_imported(own, beside=folder)
        return
    spec = importlib.util.find_spec(where.partition(".")[0])
    if spec is not None and spec.submodule_search_locations:
        for folder in map(Path, spec.submodule_search_locations):
            yield from with_imported(folder.rglob("*.py"), beside=folder.parent)
    elif spec is not None and spec.origin:
        yield from with_imported([Path(spec.origin)], beside=Path(spec.origin).parent)


def with_imported(files: Iterable[Path], *, beside: Path) -> Iterator[Path]:
    """Yield these, and all modules that they import from the directory `beside`, however far.

    In a directory of installed packages these are no part of the code: they change with an installation alone.
    """
    left, known, modules = list(files), set[Path](), set[str]()
    while left:
        file = left.pop()
        if file in known:
            continue
        known.add(file)
        yield file
        if beside.name not in ("site-packages", "dist-packages"):
            further = _list_imports(file) - modules  # each is walked once, however many files import it
            modules |= further
            for folder in (beside / module for module in further):
                left += [folder.with_suffix(".py")] if not folder.is_dir() else folder.rglob("*.py")


def _list_imports(file: Path) -> set[str]:
    """Return the top names of the modules that the file imports; of what is no Python none."""
    try:
        found = ast.walk(ast.parse(file.read_bytes()))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return set()
    names = set[str]()
    for node in found:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}
