"""A copy of a home beside the one that runs: nothing that is done to the copy reaches the original."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cluster import Cluster, eventually, hobus
from bench.far_worker import FarWorker, token_of, workers
from hobus.launch.cells import membership
from hobus.launch.cluster import identity

pytestmark = pytest.mark.process

COMMANDS = (
    ("ps",), ("doctor",), ("down",), ("restart", "ho1/1"), ("scale", "ho1=2"), ("reload",), ("ask", "hello"),
    ("token create", "--role", "ho1"), ("tap", "--count", "1"), ("keys list",), ("logs",),
)  # fmt: skip


def _copied(cluster: Cluster, made: Cluster) -> None:
    for folder, _, files in os.walk(cluster.home.root):
        at = made.home.root / os.path.relpath(folder, cluster.home.root)
        at.mkdir(exist_ok=True, mode=0o700)
        for name in files:
            if (source := Path(folder) / name).is_file():
                shutil.copy2(source, at / name)


def test_no_command_on_a_copy_reaches_the_cluster_that_runs(make_cluster: Callable[[str], Cluster]) -> None:
    """Whatever the copied run file says: not one process of the original ends, is started or is told anything."""
    original, copy = make_cluster("home"), make_cluster("copy")
    original.up()
    before = original.run()
    for command in COMMANDS:
        _copied(original, copy)
        answer = copy(*command)
        assert "Traceback" not in answer.err, answer
        if command[0] not in ("down", "logs", "doctor", "keys list"):
            assert answer.code and "copied or restored" in answer.err, (command, answer)
    after = original.run()
    assert [(row.instance, row.pid) for row in after.children] == [(row.instance, row.pid) for row in before.children]
    assert len(original.living()) == len(before.children)
    assert original.ask("hello")["outcome"] == "success"


def test_a_copy_starts_as_a_cluster_of_its_own(make_cluster: Callable[[str], Cluster]) -> None:
    """Both run, with the same past; the copy's broker has another key, it is no cell; ending it ends nobody else."""
    original, copy = make_cluster("home"), make_cluster("copy")
    original.up("--listen", "127.0.0.1:0")
    original.ask("hello")
    assert original("cell add", "a", "--url", "http://127.0.0.1:1").code == 0
    before = original.run()
    _copied(original, copy)
    started = copy.up("--listen", "127.0.0.1:0")
    assert f"is a copy of {original.home.root}" in started.err
    assert membership(original.home.root) and not membership(copy.home.root)
    assert not list(copy.home.root.glob("cells.sqlite*"))
    assert (copy.home.keys / "broker.key").read_bytes() != (original.home.keys / "broker.key").read_bytes()
    assert copy.ask("hello")["outcome"] == original.ask("hello")["outcome"] == "success"
    assert copy("down").code == 0
    assert "copy" not in copy.up("--listen", "127.0.0.1:0").err  # it is itself by now
    assert copy("down").code == 0
    assert original.run().children == before.children or original.living() == [row.actor for row in before.children]
    original.verify()
    copy.verify()


@pytest.mark.parametrize(("former", "command"), [("moved", "up"), ("moved", "down"), ("removed", "up")])
def test_a_backup_in_the_place_of_a_home_that_runs_is_another_home(
    make_cluster: Callable[[str], Cluster], former: str, command: str
) -> None:
    """The cluster that ran there ends, and writes nothing into it; no command takes its processes for the backup's."""
    cluster = make_cluster("home")
    cluster.up()
    cluster.ask("hello")
    root, ran = cluster.home.root, cluster.run().processes()
    backup, old = root.with_name("backup"), make_cluster("old")
    subprocess.run(["cp", "-a", root, backup], check=True)
    if former == "moved":
        root.rename(old.home.root)
    else:
        while root.exists():  # its launcher writes meanwhile
            shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", backup, (restored := root.with_name("restored"))], check=True)
    restored.rename(root)  # at once: a launcher whose directory is gone writes its log anew wherever it can
    if command == "down":
        assert "no process was ended" in cluster("down").out
    eventually(lambda: not any(identity.is_alive(one.pid, one.mark) for one in ran))
    cluster.up()
    assert cluster.ask("hello")["outcome"] == "success"
    assert cluster("down").code == 0
    cluster.verify()
    if former == "moved":
        old.verify()
        assert "home_replaced" in old.home.log("launcher").read_text()


def test_a_workers_directory_is_no_clusters(cluster: Cluster, tmp_path) -> None:
    """No command of a cluster takes it for one that has lost its run directory, or ends the worker."""
    cluster.up("--listen", "127.0.0.1:0")
    with workers(tmp_path / "far") as started:
        worker = FarWorker(tmp_path / "far", ["join", token_of(cluster)])
        started.append(worker)
        worker.works()
        for command in ("doctor", "down", "ps", "up"):
            answer = hobus(command, "--home", str(worker.home))
            assert answer.code == 2 and "directory of a worker" in answer.err, answer
        assert "joined" in hobus("logs", "--home", str(worker.home)).out
        assert worker.process.poll() is None
