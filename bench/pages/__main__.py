"""The pages that are made from code: `python -m bench.pages --write | --check`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.pages import protocol
from bench.pages.settings import attention_page, entries_page, settings_page

ROOT = Path(__file__).parents[2]
PAGES: Mapping[str, Callable[[], str]] = {
    "bus/PROTOCOL.md": protocol.render,
    "docs/ledger.md": entries_page,
    "docs/configuration.md": settings_page,
    "docs/attention.md": attention_page,
}


def stale(root: Path = ROOT) -> list[str]:
    """Return the pages that say something else than the code."""
    said = {name: (root / name).read_text(encoding="utf-8") if (root / name).is_file() else "" for name in PAGES}
    return [name for name, page in PAGES.items() if said[name] != page()]


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write every stale page, or with `--check` exit 1 and name them."""
    if list(arguments) not in (["--check"], ["--write"]):
        sys.stderr.write("usage: python -m bench.pages --check | --write\n")
        return 2
    for name in (found := stale(root)):
        if arguments == ["--write"]:
            (root / name).write_text(PAGES[name](), encoding="utf-8")
        else:
            sys.stderr.write(f"{name} is stale: run python -m bench.pages --write\n")
    return 1 if found and arguments == ["--check"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
