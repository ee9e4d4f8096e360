"""The state directory: layout, lock, sockets, sweeping."""

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from hobus.launch.cluster.home import (
    IPC_PATH_MAX_BYTES,
    HomeLock,
    choose_sockets_directory,
    claim,
    find_holder,
    make_home,
    make_root,
    prepare,
    remove_run,
    sweep,
)
from hobus.launch.console.errors import CommandError


def test_the_run_directory_is_private(tmp_path):
    """Sockets and tokens lie where nobody else can look."""
    home = make_home(tmp_path / "a" / "home")
    prepare(home)
    assert stat.S_IMODE(home.run.stat().st_mode) == 0o700
    for made in (home.root, home.ledger, home.logs, home.spool):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_run_directory_that_others_could_read_is_closed(tmp_path):
    """A directory that was there before gets its mode all the same."""
    home = make_home(tmp_path)
    home.run.mkdir(mode=0o755)
    prepare(home)
    assert stat.S_IMODE(home.run.stat().st_mode) == 0o700


def test_one_holder_at_a_time(tmp_path):
    """A second lock is refused, its holder is named, and it is free again after the release."""
    home = make_home(tmp_path)
    prepare(home)
    assert find_holder(home) is None
    lock = HomeLock.take(home)
    assert lock is not None
    assert HomeLock.take(home) is None
    assert find_holder(home) == os.getpid()
    lock.release()
    assert find_holder(home) is None
    again = HomeLock.take(home)
    assert again is not None
    again.release()


def test_a_hard_link_to_a_lock_holds_nothing(tmp_path):
    """A copy made of links shares its files with the home that is in use: it is told so, and nobody is signalled."""
    home, linked = make_home(tmp_path / "home"), make_home(tmp_path / "linked")
    lock = HomeLock.take(home)
    assert lock is not None
    linked.root.mkdir()
    os.link(home.lock_file, linked.lock_file)
    with pytest.raises(CommandError, match="hard links"):
        find_holder(linked)
    lock.release()


def test_a_home_that_a_full_disk_refused_is_made_whole_later(tmp_path, monkeypatch):
    """Nothing is left of it that a later command would take for whole."""

    def refuse(path, *_given, **_named):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    root = tmp_path / "home"
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", refuse)
        with pytest.raises(OSError, match="No space"):
            make_root(root)
    assert not root.exists()
    make_root(root)
    assert "/*" in (root / ".gitignore").read_text()


def test_a_copy_beside_its_original_is_another_home(tmp_path):
    """Once: from then on it is itself. One that was moved, or restored where the first is gone, stays the same."""
    home, copy, moved = (make_home(tmp_path / name) for name in ("home", "copy", "moved"))
    home.root.mkdir()
    assert claim(home) == (None, False) == claim(home)
    shutil.copytree(home.root, copy.root)
    assert claim(copy) == (home.root, True)
    assert claim(copy) == (None, False) == claim(home)
    shutil.copytree(home.root, moved.root)
    shutil.rmtree(home.root)
    assert claim(moved) == (home.root, False)
    assert claim(moved) == (None, False)
    (tmp_path / "alias").symlink_to(moved.root)
    assert claim(make_home(tmp_path / "alias")) == (None, False)


def test_sockets_lie_in_the_home_when_their_path_fits(tmp_path):
    name = "/run/gateway.sock"
    room = IPC_PATH_MAX_BYTES - len(os.fsencode(tmp_path)) - len(name) - 1
    fits, too_long = make_home(tmp_path / ("x" * room)), make_home(tmp_path / ("x" * (room + 1)))
    prepare(fits)
    prepare(too_long)
    assert choose_sockets_directory(fits) == fits.run
    elsewhere = choose_sockets_directory(too_long)
    assert elsewhere != too_long.run
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
    assert len(os.fsencode(elsewhere / "gateway.sock")) <= IPC_PATH_MAX_BYTES
    sweep(too_long, elsewhere)
    assert not elsewhere.exists()


def test_a_swept_home_keeps_record_logs_and_the_held_lock(tmp_path):
    """Run files, tokens and sockets go; what is worth keeping stays."""
    home = make_home(tmp_path)
    prepare(home)
    lock = HomeLock.take(home)
    assert lock is not None
    (home.run / "tokens").mkdir()
    (home.run / "tokens" / "t").write_text("x")
    home.run_file.write_text("{}")
    (home.ledger / "0.seg").write_text("x")
    (home.log("ho1/1")).write_text("x")
    sweep(home, None)
    assert list(home.run.iterdir()) == [] and home.lock_file.exists()
    assert (home.ledger / "0.seg").exists() and (home.logs / "ho1-1.log").exists()
    remove_run(home)
    lock.release()
    assert not home.run.exists()
