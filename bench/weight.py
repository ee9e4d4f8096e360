"""What the house weighs, beside what it may: `python -m bench.weight [--json FILE | --write]`.

The tables of rooms and of pages in docs/architecture.md, which `--write` makes, bind the tree (`tests/docs/test_weight.py`).
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import grimp  # import-linter's own graph

from bench.report import arguments, markdown, write_json

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PRODUCT = ("actors", "bus", "config", "gateway_service", "hobus", "launch", "ledger_service")
CORE = "The core runs without the extras"
"""The contract in pyproject.toml whose sources, with all that they import, are the core."""
NOT_CORE = tuple(
    f"hobus.{name}" for name in ("bus.sim", "bus.join_token", "bus.zeromq.curve_link", "gateway_service.providers.http")
)
"""Of the sources' rooms: the simulation, how a worker joins, the wires of real models. They count if imported there."""
GOALS = {
    "product lines": 63_000, "core lines": 42_000, "test lines": 60_000, "bench lines": 10_000, "docs words": 45_000,
    "console lines": 2_800, "settings": 180, "files under 40 lines": 20, "class names with two meanings": 0,
}  # fmt: skip
CONSOLE = ("launch/cli/web/**/*.py", "launch/cli/web/**/*.html", "launch/**/console*.py")  # its Python and templates
_DOCS = {
    "configuration": "configuration",
    "begin": "tutorial commands api your-own-agent python testing glossary",
    "use": "chat sessions tools providers memory attention http",
    "operate": "operations console governance workers scaling deploy tap ledger",
    "inside": "architecture dependencies simulation reliability roadmap internals/performance internals/found-bugs",
}
PAGES = {
    "README": ["README.md", "CONTRIBUTING.md", "SECURITY.md"], "CHANGELOG": ["CHANGELOG.md"],
    "protocol": ["bus/PROTOCOL.md"],
    **{group: [f"docs/{name}.md" for name in names.split()] for group, names in _DOCS.items()},
}  # fmt: skip
ROOM_OF = {"bus": 2, "actors": 2, "launch": 3, "config": 2, "gateway_service": 2, "ledger_service": 1, "hobus": 1}
"""Folder at the top -> of how many parts the names of its rooms are at most."""
_ROW = re.compile(r"^\| `([\w/]+)/` \| ([\d,]+) \| (.*) \|$", re.MULTILINE)
_WORDS = re.compile(r"^\| ([\w]+) \| ([\d,]+) \|$", re.MULTILINE)


def python_files(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if not any(part.is_symlink() for part in (path, *path.parents))]


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


@cache
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


def figures() -> dict[str, int]:
    rooms, product = lines_by_room(), python_files(*PRODUCT)
    bodies = [ast.parse(path.read_text(encoding="utf-8")).body for path in product]
    classes = Counter(name for body in bodies for name in {one.name for one in body if isinstance(one, ast.ClassDef)})
    return {
        "product lines": sum(rooms.values()), "core lines": line_count(core_files()),
        "test lines": line_count(python_files("tests")), "bench lines": line_count(python_files("bench")),
        "docs words": sum(words_by_group().values()),
        "console lines": line_count(path for one in CONSOLE for path in ROOT.glob(one)), "settings": settings_count(),
        "files under 40 lines": sum(0 < line_count([path]) < 40 for path in product if path.name != "__init__.py"),
        "class names with two meanings": sum(count > 1 and name[0] != "_" for name, count in classes.items()),
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
    of_rooms = [(f"`{room}/`", f"{n:,}", uses.get(room, "")) for room, n in rooms.items()]
    tables = {"rooms": markdown(("room", "lines", "what for"), of_rooms), "words": counts(("pages", "words"), words)}
    for name, made in tables.items():
        text = text.replace(between(text, name), f"\n{made}\n")
    return text


def counts(head: tuple[str, str], found: Mapping[str, int]) -> str:
    return markdown(head, ((name, f"{n:,}") for name, n in found.items()))


def main() -> None:
    given = arguments(__doc__, json=True, write=True).parse_args()
    if given.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page_with_tables(text, lines_by_room(), words_by_group()), encoding="utf-8")
    found, rooms, words = figures(), lines_by_room(), words_by_group()
    print(markdown(("what", "now", "goal"), ((name, f"{n:,}", f"{GOALS[name]:,}") for name, n in found.items())))
    print(counts(("room", "lines"), rooms), counts(("pages", "words"), words), sep="\n")
    write_json(given.json, {"figures": found, "goals": GOALS, "rooms": rooms, "words": words})


if __name__ == "__main__":
    main()
