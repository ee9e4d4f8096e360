"""bus/PROTOCOL.md is made from the code, and says so when it is stale."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from hobus.bus import protocol_doc
from hobus.bus.catalog import CLASSES, ROWS
from hobus.bus.envelope import Header, Kind
from hobus.bus.messages.ledger import Provenance


def test_the_shipped_page_is_current():
    """Change a message and this page in one commit: python -m hobus.bus.protocol_doc."""
    assert protocol_doc.main(["--check"]) == 0


def test_a_stale_or_missing_page_is_noticed_and_written_anew(tmp_path, monkeypatch, capsys):
    """--check exits 1 and names the command; without it the page is written, and then current."""
    monkeypatch.setattr(protocol_doc, "PAGE", tmp_path / "PROTOCOL.md")
    assert protocol_doc.main(["--check"]) == 1
    assert "python -m hobus.bus.protocol_doc" in capsys.readouterr().err
    assert protocol_doc.main([]) == 0
    assert protocol_doc.main(["--check"]) == 0
    protocol_doc.PAGE.write_text(protocol_doc.PAGE.read_text() + "x")
    assert protocol_doc.main(["--check"]) == 1


def test_every_row_field_kind_and_header_field_is_on_the_page():
    """Nothing of the wire is left out, and no placeholder of the preface is left in."""
    page = protocol_doc.render()
    for row in ROWS:
        assert f"\n    {row.cls.TYPE} -> " in page
    for cls in CLASSES.values():
        part = page.partition(f"### `{cls.TYPE}`")[2].partition("###")[0]
        assert all(re.search(rf"(^    |, ){name}:", part, re.MULTILINE) for name in cls.model_fields), cls
    for name in Header._fields:
        assert f"| `{name}` |" in page
    for kind in Kind:
        assert f"| {kind.name} | {int(kind)} |" in page
    for word in ("{protocol}", "{header_table}", "{kind_table}", "{tap_fields}", "{verdicts}", "{hello}"):
        assert word not in page


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "str"),
        (int | None, "int|null"),
        (list[str], "list[str]"),
        (dict[str, int], "map[str,int]"),
        (Literal["a", "b"], '"a"|"b"'),
        (Provenance, "Provenance"),
    ],
)
def test_types_are_said_in_few_signs(annotation, text):
    """A reader of another language understands the page."""
    assert protocol_doc.type_text(annotation) == text


def test_header_fields_show_their_types_as_people_write_them() -> None:
    """No inner name of Python's typing stands on the page."""
    page = (Path(__file__).parents[2] / "bus" / "PROTOCOL.md").read_text(encoding="utf-8")
    assert "| `message_id` | str |" in page
    assert "ForwardRef" not in page
