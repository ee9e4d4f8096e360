"""Pages that are made from code say what the code says."""

from __future__ import annotations

import pytest

from bench.pages.__main__ import PAGES, main, stale

pytestmark = pytest.mark.slow


def test_every_page_is_current():
    """Change a message, a setting, an entry or a template and its page in one commit: python -m bench.pages --write."""
    assert stale() == []


def test_a_stale_or_missing_page_is_named_and_written(tmp_path, capsys):
    """`--check` exits 1 with the command that mends it; `--write` does."""
    for name in PAGES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("old", encoding="utf-8")
    (tmp_path / "bus/PROTOCOL.md").unlink()
    assert main(["--check"], tmp_path) == 1
    said = capsys.readouterr().err
    assert said.count("python -m bench.pages --write") == len(PAGES)
    assert (main(["--write"], tmp_path), main(["--check"], tmp_path)) == (0, 0)
    assert main([]) == 2
