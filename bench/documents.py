"""Tables of measurements in documents, each between two marks that name it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCUMENT = Path("docs/reliability.md")


def markdown(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def put_between(name: str, how: str, table: str, document: Path = DOCUMENT) -> None:
    """The document's table of this name is this one, under a line that says on what it was measured, and how."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = document.read_text(encoding="utf-8")
    assert text.count(begin) == text.count(end) == 1, f"{document} has no place for {name}"
    before, _, rest = text.partition(begin)
    on = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    made = f"{begin}\nMeasured on {on} (load average at the end: {load}); {how}.\n\n{table}\n{end}"
    document.write_text(before + made + rest.partition(end)[2], encoding="utf-8")
