"""What the house weighs, beside what it may: `python -m bench.weight [--json FILE | --write]`.

`--json` writes the figures, too; `--write` puts the tables of rooms and of pages into docs/architecture.md, which
`tests/docs/test_weight.py` holds the tree to.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import grimp  # import-linter's own graph

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PRODUCT = ("actors", "bus", "config", "gateway_service", "hobus", "launch", "ledger_service")
CORE = "The core runs without the extras"
"""The contract in pyproject.toml whose sources, with all that they import, are the core."""
NOT_CORE = (
    "hobus.bus.sim", "hobus.bus.join_token", "hobus.bus.zeromq.curve_link", "hobus.gateway_service.providers.http",
)  # fmt: skip
"""Of the sources' rooms: the simulation, how a worker joins, the wires of real models. They count if imported there."""
GOALS = {
    "product lines": 63_000, "core lines": 42_000, "test lines": 60_000, "bench lines": 10_000, "docs words": 45_000,
    "console lines": 2_800, "settings": 180, "files under 40 lines": 20, "class names with two meanings": 0,
}  # fmt: skip
CONSOLE = ("launch/cli/web/**/*.py", "launch/cli/web/**/*.html", "launch/**/console*.py")
"""Its Python and templates."""
PAGES = {
    "README": ("README.md", "CONTRIBUTING.md", "SECURITY.md"),
    "CHANGELOG": ("CHANGELOG.md",),
    "protocol": ("bus/PROTOCOL.md",),
    "configuration": ("docs/configuration.md",),
    "begin": tuple(f"docs/{name}.md" for name in (
        "tutorial", "commands", "api", "your-own-agent", "python", "testing", "glossary",
    )),
    "use": tuple(f"docs/{name}.md" for name in (
        "chat", "sessions", "tools", "providers", "memory", "attention", "http",
    )),
    "operate": tuple(f"docs/{name}.md" for name in ("operations", "console", "governance", "workers", "scaling", "deploy", "tap", "ledger")),
    "inside": tuple(f"docs/{name}.md" for name in (
        "architecture", "dependencies", "simulation", "reliability", "roadmap", "internals/performance",
        "internals/found-bugs",
    )),
}  # fmt: skip
ROOM_OF = {"bus": 2, "actors": 2, "launch": 3, "config": 2, "gateway_service": 2, "ledger_service": 1, "hobus": 1}
"""Folder at the top -> of how many parts the names of its rooms are at most."""
SHORT_LINES = 40
_ROW = re.compile(r"^\| `([\w/]+)/` \| ([\d,]+) \| (.*) \|$", re.MULTILINE)
_WORDS = re.compile(r"^\| ([\w]+) \| ([\d,]+) \|$", re.MULTILINE)


def python_files(*folders: str) -> list[Path]:
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.is_symlink() and not any(part.is_symlink() for part in path.parents)
    ]


def line_count(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def room_of(path: Path) -> str:
    folder = PurePosixPath(path.relative_to(ROOT).as_posix()).parent
    parts = 2 if folder.parts[:2] != ("launch", "cli") else 3
    return "/".join(folder.parts[: min(parts, ROOM_OF[folder.parts[0]])])


def lines_by_room() -> dict[str, int]:
    rooms: Counter[str] = Counter()
    for path in python_files(*PRODUCT):
        rooms[room_of(path)] += line_count([path])
    return dict(sorted(rooms.items()))


def core_files() -> list[Path]:
    """Files of the contract's sources, and of everything that these import, however far away."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    (sources,) = (one["source_modules"] for one in tools["importlinter"]["contracts"] if one["name"] == CORE)
    graph = grimp.build_graph("hobus")
    found = {name for source in sources for name in (source, *graph.find_descendants(source))}
    waiting = {name for name in found if not name.startswith(NOT_CORE)}
    found = {"hobus"}  # whose names are loaded when asked for
    while waiting:
        found |= waiting
        waiting = {to for name in waiting for to in graph.find_modules_directly_imported_by(name)} - found
    files = {ROOT.joinpath(*name.split(".")[1:]) for name in found - {"hobus"}}
    return [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in sorted(files)]


def words_by_group() -> dict[str, int]:
    """Words of each group of pages, as `wc -w` counts them."""
    return {
        group: sum(len((ROOT / page).read_text(encoding="utf-8").split()) for page in pages)
        for group, pages in PAGES.items()
    }


def settings_count() -> int:
    """Settings that docs/configuration.md tells of, containers and lines of an agent's file apart."""
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    return len(re.findall(r"^- `[a-z]\w*\.[^`]+`: `", text, re.MULTILINE))


def names_with_two_meanings() -> list[str]:
    defined: Counter[str] = Counter()
    for path in python_files(*PRODUCT):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        defined.update(
            {one.name for one in tree.body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")}
        )
    return sorted(name for name, count in defined.items() if count > 1)


def figures() -> dict[str, int]:
    rooms = lines_by_room()
    product = python_files(*PRODUCT)
    return {
        "product lines": sum(rooms.values()), "core lines": line_count(core_files()),
        "test lines": line_count(python_files("tests")), "bench lines": line_count(python_files("bench")),
        "docs words": sum(words_by_group().values()),
        "console lines": line_count(path for one in CONSOLE for path in ROOT.glob(one)), "settings": settings_count(),
        "files under 40 lines": sum(line_count([path]) < SHORT_LINES for path in product if path.name != "__init__.py"),
        "class names with two meanings": len(names_with_two_meanings()),
    }  # fmt: skip


def rooms_on_page(text: str) -> dict[str, tuple[int, str]]:
    """Room -> (lines, what it is for), as the page's table says."""
    return {room: (int(lines.replace(",", "")), use) for room, lines, use in _ROW.findall(between(text, "rooms"))}


def words_on_page(text: str) -> dict[str, int]:
    return {group: int(words.replace(",", "")) for group, words in _WORDS.findall(between(text, "words"))}


def between(text: str, name: str) -> str:
    return text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]


def page_with_tables(text: str, rooms: Mapping[str, int], words: Mapping[str, int]) -> str:
    """The page with both tables as the tree is now; what a room is for is kept."""
    uses = {room: use for room, (_, use) in rooms_on_page(text).items()}
    tables = {
        "rooms": table(
            ("room", "lines", "what for"), ((f"`{room}/`", f"{n:,}", uses.get(room, "")) for room, n in rooms.items())
        ),
        "words": table(("pages", "words"), ((group, f"{n:,}") for group, n in words.items())),
    }
    for name, made in tables.items():
        text = text.replace(between(text, name), f"\n{made}\n")
    return text


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.weight", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/architecture.md")
    given = parser.parse_args()
    if given.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page_with_tables(text, lines_by_room(), words_by_group()), encoding="utf-8")
    found, rooms, words = figures(), lines_by_room(), words_by_group()
    print(table(("what", "now", "goal"), ((name, f"{n:,}", f"{GOALS[name]:,}") for name, n in found.items())))
    print(table(("room", "lines"), ((room, f"{n:,}") for room, n in rooms.items())))
    print(table(("pages", "words"), ((group, f"{n:,}") for group, n in words.items())))
    if given.json:
        result = {
            "figures": found, "goals": GOALS, "rooms": rooms, "words": words,
            "two_meanings": names_with_two_meanings(),
        }  # fmt: skip
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
