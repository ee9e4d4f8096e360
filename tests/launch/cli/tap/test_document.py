"""The stable JSON of a frame: exactly the keys that docs/tap.md describes."""

from __future__ import annotations

import re
from pathlib import Path

from hobus.bus.messages.ids import TurnRef
from hobus.launch.cli.tap.document import frame_document
from tests.launch.filters.frames import SESSION, frame


def described() -> list[str]:
    """The keys in the table of docs/tap.md, in order."""
    text = Path("docs/tap.md").read_text(encoding="utf-8")
    table = text[text.index("| key |") : text.index("## Notes between frames")]
    rows = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    return [key for row in rows for key in re.findall(r"`(\w+)`", row)]


def test_a_frame_has_the_documented_keys_in_their_order():
    """Whoever changes one changes the page; `body` and `latency_ms` are there only where they apply."""
    turn = TurnRef(SESSION, 2, "in-7")
    document = frame_document(frame(), turn, body={"a": 1}, has_body=True, latency_ms=1.5)
    assert list(document) == described()
    plain = frame_document(frame(), turn)
    assert set(document) - set(plain) == {"body", "latency_ms"}
    assert (plain["session"], plain["turn"], plain["input"]) == (SESSION, f"{SESSION}-2", "in-7")
    assert (plain["at"], plain["time"]) == (100.0, "1970-01-01T00:01:40.000000Z")


def test_an_erased_or_empty_body_is_told_from_a_withheld_one():
    """`body: null` is what was decoded; no key means that nothing reached the reader."""
    assert frame_document(frame(), TurnRef(), body=None, has_body=True)["body"] is None
    assert "body" not in frame_document(frame(), TurnRef())
