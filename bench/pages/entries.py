"""The table of entries in docs/ledger.md, from the catalogue."""

from __future__ import annotations

from pathlib import Path

from hobus.bus.messages.ledger import STREAMS
from hobus.bus.record.catalog import KINDS, SESSION, EntryKind

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ledger.md"
BEGIN, END = "<!-- entries: begin -->", "<!-- entries: end -->"
_COLUMNS = ("entry", "of", "id, behind `<entry>:`", "once key", "texts", "means")
_HEAD = f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}"


def table() -> str:
    """A heading and a table per stream."""
    parts: list[str] = []
    for stream in (SESSION, *STREAMS):
        rows = [_row(kind) for kind in KINDS if kind.stream == stream]
        name = "A session's journal, `session/<session>`" if stream == SESSION else f"`{stream}`"
        parts.append("\n".join((f"{name}:\n", _HEAD, *rows)))
    return "\n\n".join(parts)


def _row(kind: EntryKind) -> str:
    mark = " **!**" if kind.is_barrier else ""
    name = f"`{kind.named.text}`" + ("" if kind.has_type_in_id else ", that alone")
    once = f"`{kind.once.text}`" if kind.once else ""
    searched = {body.number for body in kind.searched}
    texts = ", ".join(f"*{text}*" if number in searched else text for number, text in enumerate(kind.texts, start=1))
    cells = (f"{kind.event_type}{mark}", ", ".join(kind.writers), name, once, texts, kind.means)
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The page with its table as the catalogue has it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"
