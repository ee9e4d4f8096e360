"""One contract for both disks."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from hobus.bus.disk import RealDisk
from hobus.bus.port import Disk
from hobus.bus.sim.disk import SimDisk, SimMedium


@pytest.fixture(params=["simulated", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """One disk."""
    return SimDisk(SimMedium(1 << 20)) if request.param == "simulated" else RealDisk(tmp_path / "root")


def test_what_is_written_is_read_and_gaps_are_zero(disk: Disk) -> None:
    """Positional writes beyond the end fill with zeros; reads stop at the end."""
    file = disk.open("a", create=True)
    file.write_at(4, b"data")
    assert file.append(b"+") == 8
    assert (file.read_at(0, 99), file.read_at(6, 1), file.read_at(50, 1)) == (b"\0\0\0\0data+", b"t", b"")
    file.sync()
    assert file.size() == 9


def test_truncate_cuts_and_extends(disk: Disk) -> None:
    """New bytes are zero, also where old ones stood before."""
    file = disk.open("a", create=True)
    file.append(b"abcdef")
    file.truncate(2)
    file.truncate(4)
    assert file.read_at(0, 99) == b"ab\0\0"


def test_a_missing_file_is_an_error_unless_it_may_be_made(disk: Disk) -> None:
    """Reading never makes a file by accident."""
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    with pytest.raises(FileNotFoundError):
        disk.open("folder/a", create=True)
    assert not disk.exists("a")


def test_a_file_opened_for_reading_cannot_be_written(disk: Disk) -> None:
    """Readers beside a writer do no harm."""
    disk.open("a", create=True).append(b"x")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is checked below
        disk.open("a", write=False).append(b"y")
    assert caught.value.errno == errno.EBADF


def test_names_are_listed_sorted_and_per_directory(disk: Disk) -> None:
    """A directory that is not there has no names."""
    disk.make_dir("deep/er")
    for name in ("deep/b", "deep/a", "z"):
        disk.open(name, create=True)
    assert disk.list() == ["deep", "z"]
    assert disk.list("deep") == ["a", "b", "er"]
    assert disk.list("nowhere") == []


def test_rename_replaces_and_remove_removes(disk: Disk) -> None:
    """As POSIX has it."""
    disk.open("a", create=True).append(b"new")
    disk.open("b", create=True).append(b"old")
    disk.rename("a", "b")
    disk.sync_dir()
    assert (disk.list(), disk.open("b").read_at(0, 9)) == (["b"], b"new")
    disk.remove("b")
    assert disk.list() == []
    with pytest.raises(FileNotFoundError):
        disk.remove("b")


def test_a_lock_has_one_holder(disk: Disk) -> None:
    """The second asker gets None; after the release it gets the lock."""
    release = disk.lock("lock")
    assert release is not None
    assert disk.lock("lock") is None
    release()
    again = disk.lock("lock")
    assert again is not None
    again()


def test_there_is_room_and_it_is_said(disk: Disk) -> None:
    """Free bytes are positive on a fresh disk."""
    assert disk.free_bytes() > 0


def test_a_full_simulated_disk_says_so() -> None:
    """ENOSPC, and nothing of the write is there."""
    disk = SimDisk(SimMedium(10))
    file = disk.open("a", create=True)
    file.append(b"12345678")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is checked below
        file.append(b"abc")
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(0, 99) == b"12345678"


def test_real_files_are_private_and_stay_below_the_root(tmp_path: Path) -> None:
    """0700 and 0600, whatever the umask; no way out by `..` or an absolute path."""
    disk = RealDisk(tmp_path / "root")
    disk.make_dir("d")
    disk.open("d/a", create=True)
    modes = [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("root", "root/d", "root/d/a")]
    assert modes == [0o700, 0o700, 0o600]
    for path in ("../a", "/etc/passwd", "d/../../a"):
        with pytest.raises(ValueError, match="below"):
            disk.open(path, create=True)
