"""bus/PROTOCOL.md is made from the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from bench.pages import protocol
from hobus.bus.catalog import CLASSES, ROWS
from hobus.bus.envelope import Header, Kind
from hobus.bus.messages.ledger import Provenance


def test_every_row_field_kind_and_header_field_is_on_the_page():
    page = protocol.render()
    for row in ROWS:
        assert f"\n    {row.cls.TYPE} -> " in page
    for cls in CLASSES.values():
        part = page.partition(f"### `{cls.TYPE}`")[2].partition("###")[0]
        assert all(re.search(rf"(^    |, ){name}:", part, re.MULTILINE) for name in cls.__struct_fields__), cls
    for name in Header._fields:
        assert f"\n    {name}:" in page
    for kind in Kind:
        assert f"\n    {kind.name} {int(kind)}  " in page
    for word in ("{protocol}", "{header_fields}", "{kinds}", "{tap_fields}", "{verdicts}", "{hello}"):
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
    assert protocol.type_text(annotation) == text


def test_header_fields_show_their_types_as_people_write_them() -> None:
    page = (Path(__file__).parents[2] / "bus" / "PROTOCOL.md").read_text(encoding="utf-8")
    assert "\n    message_id:str  " in page
    assert "ForwardRef" not in page


def test_a_bound_stands_with_its_type_and_known_patterns_have_names() -> None:
    page = protocol.render()
    assert "\n    session_id:uuid  full UUID of the session\n" in page
    assert "sha256:bytes(32..32)  " in page and "ttl_s:int(>0)  " in page and "slots:int(0..)" in page
    assert "\\d{4}-" not in page.partition("### PlainOverlay")[0]


def test_a_field_is_told_above_only_where_it_means_one_thing() -> None:
    """Else a reader could not know which of two meanings counts."""
    lines = [
        "a:int  one",
        "a:int  one",
        "b:str  x",
        "b:str  x",
        "b:str  y",
        "c:str  z",
        "c:str=''  z",
        "c:int  w",
        "d:int",
    ]
    assert protocol.common_fields(lines) == {
        "a:int  one": "a  one",
        "c:str  z": "c:str  z",
        "c:str=''  z": "c:str=''  z",
    }
