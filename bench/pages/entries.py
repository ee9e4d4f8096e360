"""The entries of each stream in docs/ledger.md, from the catalogue."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hobus.bus.messages.ledger import STREAMS
from hobus.bus.record.catalog import KINDS, SESSION, EntryKind

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ledger.md"
BEGIN, END = "<!-- entries: begin -->", "<!-- entries: end -->"


def lists() -> str:
    """A list per stream; what most of its entries share is said above them."""
    parts: list[str] = []
    for stream in (SESSION, *STREAMS):
        kinds = [kind for kind in KINDS if kind.stream == stream]
        name = "session/<session>" if stream == SESSION else stream
        writers = Counter(_writers(kind) for kind in kinds).most_common(1)[0][0]
        parts.append("\n".join((f"`{name}`, by {writers}:\n", *(_line(kind, writers) for kind in kinds))))
    return "\n\n".join(parts)


def _writers(kind: EntryKind) -> str:
    return ", ".join(kind.writers)


def _line(kind: EntryKind, writers: str) -> str:
    searched = {body.number for body in kind.searched}
    texts = ", ".join(f"*{text}*" if number in searched else text for number, text in enumerate(kind.texts, start=1))
    said = (
        kind.means.removeprefix(f"Entry {kind.event_type}: ").replace(f" (entry {kind.event_type})", "").rstrip("."),
        f"by {_writers(kind)}" if _writers(kind) != writers else "",
        f"texts: {texts}" if texts else "",
    )
    return f"- {kind.event_type}{' **!**' if kind.is_barrier else ''}: {'; '.join(filter(None, said))}"


def page() -> str:
    """The page with its lists as the catalogue has them."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{lists()}\n{END}{rest.partition(END)[2]}"
