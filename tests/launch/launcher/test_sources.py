"""The launcher notices that the software on disk is another one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hobus.launch.launcher.zygotes import compute_state


def written(path: Path, text: str, at_ns: int = 1_000_000_000) -> None:
    """A file with a time of its own, whatever the clock of the file system is worth."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(at_ns, at_ns))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    written(tmp_path / "root" / "one.py", "1")
    written(tmp_path / "root" / "inner" / "two.py", "2")
    written(tmp_path / "elsewhere" / "three.py", "3")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    for directory in (tmp_path / "root", tmp_path / "root" / "inner", tmp_path / "elsewhere"):
        os.utime(directory, ns=(0, 0))
    return tmp_path / "root"


CHANGES: dict[str, Callable[[Path], object]] = {
    "another length": lambda root: written(root / "one.py", "11"),
    "another time": lambda root: os.utime(root / "inner" / "two.py", ns=(2, 2)),
    "behind a link": lambda root: written(root / "link" / "three.py", "33"),
    "one more": lambda root: written(root / "inner" / "four.py", "4"),
    "one more behind a link": lambda root: written(root / "link" / "four.py", "4"),
    "one less": lambda root: (root / "inner" / "two.py").unlink(),
    "another name": lambda root: (root / "one.py").rename(root / "uno.py"),
}


def test_what_is_no_module_changes_nothing(root: Path):
    before = compute_state(str(root))
    (root / "__pycache__").mkdir()
    written(root / "__pycache__" / "one.pyc", "")
    written(root / "inner" / "words.txt", "")
    assert compute_state(str(root)) == before


def test_software_that_is_gone_is_in_no_state(root: Path):
    assert compute_state(str(root / "away")) == ()
