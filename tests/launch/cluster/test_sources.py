"""The launcher notices that the software on disk is another one."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hobus.launch.cluster import sources
from hobus.launch.cluster.sources import Sources
from hobus.launch.cluster.watch import Watch


def written(path: Path, text: str, at_ns: int = 1_000_000_000) -> None:
    """A file with a time of its own, whatever the clock of the file system is worth."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(at_ns, at_ns))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A module, one in a directory, and one behind a link to a directory."""
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


@pytest.fixture(params=[False, True], ids=["looked at", "watched"])
def known(root: Path, request: pytest.FixtureRequest) -> Iterator[Sources]:
    """The modules of that directory."""
    made = Sources(str(root), is_watched=request.param)
    yield made
    made.close()


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_a_module_is_noticed_and_then_no_further_one(root: Path, known: Sources, change: str):
    """Against what was seen before, by one who has looked and by one who has not."""
    before = known.state()
    assert known.state() == before == Sources(str(root)).state()
    CHANGES[change](root)
    after = known.state()
    assert after != before
    assert known.state() == after == Sources(str(root)).state()


def test_what_is_no_module_changes_nothing(root: Path, known: Sources):
    """The interpreter's own files come beside them."""
    before = known.state()
    (root / "__pycache__").mkdir()
    written(root / "__pycache__" / "one.pyc", "x")
    written(root / "notes.txt", "y")
    assert known.state() == before


def test_software_that_goes_while_it_is_looked_at_is_another_one(root: Path, known: Sources):
    """Nothing is raised, and what is there again is found."""
    before = known.state()
    root.rename(root.with_name("aside"))
    assert known.state() != before
    root.with_name("aside").rename(root)
    assert known.state() == before


@pytest.mark.parametrize("is_watched", [False, True], ids=["looked at", "watched"])
def test_another_checkout_that_is_put_in_the_place_of_this_one_is_noticed(root: Path, is_watched: bool):
    """The directory above is renamed, which is no event of any that is watched."""
    known = Sources(str(root / "inner"), is_watched=is_watched)
    before = known.state()
    root.rename(root.with_name("aside"))
    assert known.state() != before
    root.with_name("aside").rename(root)
    assert known.state() == before
    root.rename(root.with_name("aside"))
    (root / "inner").mkdir(parents=True)
    written(root / "inner" / "two.py", "22")
    assert known.state() != before
    known.close()


def test_a_module_that_is_a_link_to_a_file_elsewhere_is_looked_at_each_time(root: Path):
    """Nobody tells of a change of the file."""
    (root.parent / "another").mkdir()
    written(root.parent / "another" / "five.py", "5")
    (root / "five.py").symlink_to(root.parent / "another" / "five.py")
    known = Sources(str(root), is_watched=True)
    before = known.state()
    written(root.parent / "another" / "five.py", "55")
    assert known.state() != before
    (root / "five.py").unlink()
    after = known.state()
    written(root / "one.py", "11")
    assert known.state() != after
    known.close()


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells of changes")
def test_what_is_watched_is_not_looked_at_again_before_something_changes(root: Path, monkeypatch: pytest.MonkeyPatch):
    """But for which directory it is. Where it cannot be watched it is looked at each time; so it is after `close`, and what was opened is closed."""
    looks: list[str] = []

    def look(path: str) -> os.stat_result:
        looks.append(path)
        return Path(path).stat()

    monkeypatch.setattr(sources, "_stat", look)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    watched = Sources(str(root), is_watched=True)
    before = watched.state()
    looks.clear()
    assert watched.state() == before and looks == [str(root)]
    written(root / "one.py", "11")
    after = watched.state()
    assert after != before and looks
    watched.close()
    looks.clear()
    assert watched.state() == after and looks
    watched.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    monkeypatch.setattr(sources, "Watch", refused)
    for _ in range(2):
        looks.clear()
        assert watched.state() == after and looks


def refused(_directories: object) -> Watch:
    """As where this user watches as many directories as it may."""
    raise OSError(errno.ENOSPC, "no more")
