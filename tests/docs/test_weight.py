"""Growth is a decision that somebody writes down: rooms and pages keep to their rows in docs/architecture.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import weight

pytestmark = pytest.mark.slow

SLACK = 1.03
PAGE = weight.PAGE.read_text(encoding="utf-8")
MEND = "delete something, or say so by python -m bench.weight --write"


def over(now: dict[str, int], rows: dict[str, int]) -> dict[str, str]:
    """What has grown beyond its row, or has none."""
    return {name: f"{n} of {rows.get(name, 0)}: {MEND}" for name, n in now.items() if n > SLACK * rows.get(name, 0)}


def test_every_room_keeps_to_its_row():
    """No room grows by more than 3 % without a new row."""
    rows = weight.rooms_on_page(PAGE)
    assert over(weight.lines_by_room(), {room: lines for room, (lines, _) in rows.items()}) == {}


def test_every_room_says_what_it_is_for():
    """A row without a use is a number alone."""
    rows = weight.rooms_on_page(PAGE)
    assert rows and [room for room, (_, use) in rows.items() if not use] == []


def test_the_core_is_what_its_contract_names_and_all_that_this_imports():
    """Also what it imports of other rooms; no simulation, no way to join from elsewhere, no SDK's wire."""
    core = {path.relative_to(weight.ROOT).as_posix() for path in weight.core_files()}
    assert {"bus/broker/core.py", "launch/cli/commands/ask.py", "launch/console/output.py"} <= core
    others = (
        "bus/sim/",
        "bus/join_token",
        "gateway_service/providers/http/provider",
        "launch/http/",
        "launch/cli/chat/",
    )
    assert [name for name in core if name.startswith(others)] == []


def test_every_group_of_pages_keeps_to_its_row():
    """No group grows by more than 3 % without a new row."""
    assert over(weight.words_by_group(), weight.words_on_page(PAGE)) == {}


def test_every_page_is_weighed():
    """A new page belongs to a group."""
    named = {page for pages in weight.PAGES.values() for page in pages}
    assert {path.relative_to(weight.ROOT).as_posix() for path in (weight.ROOT / "docs").rglob("*.md")} - named == set()


def test_growth_is_seen():
    """The comparison can fail: of a row that is too small, and of one that is not there."""
    assert over({"a": 104, "b": 103, "c": 1}, {"a": 100, "b": 100}).keys() == {"a", "c"}


def test_the_tables_are_written_from_the_tree():
    """New numbers, the same uses."""
    rows = weight.rooms_on_page(PAGE)
    made = weight.page_with_tables(PAGE, dict.fromkeys(rows, 1234), dict.fromkeys(weight.PAGES, 5))
    assert weight.rooms_on_page(made) == {room: (1234, use) for room, (_, use) in rows.items()}
    assert weight.words_on_page(made) == dict.fromkeys(weight.PAGES, 5)


def test_the_command_prints_and_writes_the_figures(tmp_path: Path, monkeypatch, capsys):
    """As a table, and as JSON beside the goals; the console, Python and templates together, keeps to its bound."""
    target = tmp_path / "weight.json"
    monkeypatch.setattr(sys, "argv", ["weight", "--json", str(target)])
    weight.main()
    result = json.loads(target.read_text())
    assert result["figures"].keys() == result["goals"].keys() == weight.GOALS.keys()
    assert f"| product lines | {result['figures']['product lines']:,} |" in capsys.readouterr().out
    assert 2000 < result["figures"]["console lines"] <= weight.GOALS["console lines"]
