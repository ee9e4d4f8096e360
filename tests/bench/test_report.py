"""Tables in documents stand between their marks, and nothing else is touched."""

from __future__ import annotations

import pytest

from bench.report import put_between


def test_a_table_replaces_the_one_of_its_name(tmp_path):
    """What stands before, behind and between other marks stays."""
    path = tmp_path / "doc.md"
    path.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n<!-- y: begin -->\n<!-- y: end -->\n")
    put_between("x", "so and so", "| new |", path)
    text = path.read_text()
    assert text.startswith("a\n<!-- x: begin -->\nMeasured on ") and "| new |\n<!-- x: end -->\nb\n" in text
    assert "old" not in text and "so and so" in text and text.endswith("<!-- y: begin -->\n<!-- y: end -->\n")


def test_a_document_without_a_place_is_refused(tmp_path):
    """A table that nobody would see is not written."""
    path = tmp_path / "doc.md"
    path.write_text("nothing\n")
    with pytest.raises(AssertionError, match="no place for x"):
        put_between("x", "", "", path)
