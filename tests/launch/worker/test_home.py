"""What a worker elsewhere keeps: one process, one cluster, the last configuration, nothing that is not whole."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import ConfigError
from hobus.launch.cli import main as cli
from hobus.launch.cluster.home import HomeLock, make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import inherited
from hobus.launch.worker.home import JoinedCluster, WorkerHome

ME = JoinedCluster(address="10.0.0.7:5570", broker_key="k" * 40, name="ho1/remote-1")


def test_its_key_is_made_once_and_its_cluster_is_remembered(tmp_path) -> None:
    """Both survive; a damaged file is named with the fix."""
    home = WorkerHome(make_home(tmp_path))
    assert home.cluster() is None
    home.joined(ME)
    assert WorkerHome(make_home(tmp_path)).cluster() == ME
    with pytest.raises(CommandError, match=r"worker\.key is gone"):
        home.ends(ME)
    assert list(tmp_path.glob("*.key")) == [] and not home.has_key  # and none is made in its place
    assert home.pair() == home.ends(ME).pair and home.has_key
    (tmp_path / "worker.key").write_bytes(b"short")
    with pytest.raises(ConfigError, match="hobus worker join TOKEN"):
        home.pair()
    (tmp_path / "worker.json").write_text("{")
    with pytest.raises(CommandError, match=r"worker\.json"):
        home.cluster()


def test_one_process_works_in_it_and_never_in_a_cluster_s_home(tmp_path) -> None:
    """The second one is told who holds it; a directory with a record is refused."""
    home = WorkerHome(make_home(tmp_path / "w"))
    lock = home.hold()
    with pytest.raises(CommandError, match=str(os.getpid())):
        home.hold()
    lock.release()
    home.hold().release()
    (tmp_path / "c" / "ledger").mkdir(parents=True)
    with pytest.raises(CommandError, match="home of a cluster"):
        WorkerHome(make_home(tmp_path / "c")).hold()


def test_a_copy_beside_its_original_works_for_nobody(tmp_path) -> None:
    """Its key lets in one worker: two would push each other out. Asked again, it is still a copy."""
    home = WorkerHome(make_home(tmp_path / "w"))
    home.hold().release()
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    copy = WorkerHome(make_home(tmp_path / "copy"))
    for _ in range(2):
        with pytest.raises(CommandError, match="is a copy of"):
            copy.hold()
        home.hold().release()
    shutil.rmtree(tmp_path / "w")
    copy.hold().release()  # now it is the only one


def test_a_full_disk_is_said_with_the_directory(tmp_path, monkeypatch, capsys) -> None:
    """The operating system names no file where one is written that is open."""
    WorkerHome(make_home(tmp_path)).joined(ME)

    def refuse(*_given) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(HomeLock, "take", refuse)
    monkeypatch.setattr(inherited, "is_handed_over", lambda: True)  # else it would replace this process
    assert cli.run(["worker", "run", "--home", str(tmp_path)]) == exit_codes.FAILED
    assert f"No space left on device ({tmp_path})" in " ".join(capsys.readouterr().err.split())


def test_the_last_configuration_is_kept_and_a_torn_one_counts_for_nothing(tmp_path) -> None:
    """It is what a start begins with."""
    home = WorkerHome(make_home(tmp_path))
    assert home.snapshot() is None
    for snapshot in (shipped_snapshot().listening("bus", f"127.0.0.1:{port}") for port in (1, 2)):
        home.keep_snapshot(snapshot.to_bytes())
        assert home.snapshot() == snapshot
    (home.home.root / "snapshot").write_bytes((home.home.root / "snapshot").read_bytes()[:-1])
    assert home.snapshot() is None
