"""Homes in trouble, and what is seen of a cluster from outside: logs, doctor."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cluster import Cluster, cluster_in, eventually, hobus
from hobus.launch.cluster import identity
from hobus.launch.cluster.home import find_holder
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process

PACKAGES = "what packages are installed?"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "read_only"
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", directory], capture_output=True, check=False)
    if mounted.returncode != 0:
        if os.geteuid() == 0:
            pytest.skip("neither may this user mount, nor does any right bind it")
        directory.chmod(0o500)
    yield directory
    if mounted.returncode == 0:
        subprocess.run(["umount", directory], check=True)
    else:
        directory.chmod(0o700)


PROVIDER = ("provider", "add", "mine", "--kind", "openai", "--any-model", "--key", "none")


@pytest.mark.parametrize("words", [("up", "--wait"), ("init",), ("demo",), PROVIDER])
def test_a_disk_that_takes_no_writes_is_named(read_only: Path, words: tuple[str, ...]):
    answer = hobus(*words, "--home", str(read_only / "home"))
    assert answer.code == exit_codes.FAILED and "Traceback" not in answer.err
    assert str(read_only) in answer.err and "--home DIR" in answer.err
    doctor = hobus("doctor", "--json", "--home", str(read_only / "home"))
    assert doctor.code == exit_codes.FAILED
    (failed,) = [one for one in doctor.json["checks"] if one["verdict"] == "fail"]
    assert failed["check"] == "home" and "--home DIR" in failed["fix"]


def test_two_ups_at_once_make_one_cluster(cluster: Cluster):
    """One starts it, the other waits for that one's to be ready, and says so; nothing of the second is left."""
    both = [cluster.begin("up", "--wait") for _ in range(2)]
    said = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [exit_codes.OK, exit_codes.OK], said
    assert (
        sum(b"is up already" in out for out, _err in said) == 1 and sum(b"ready in" in out for out, _err in said) == 1
    )
    assert b"Traceback" not in said[0][1] + said[1][1]
    assert cluster.ask(PACKAGES)["outcome"] == "success"


def test_a_removed_run_directory_hides_no_launcher(cluster: Cluster):
    """The lock lies beside it: up is refused, ps and doctor say what happened, down ends everything."""
    cluster.up()
    run = cluster.run()
    gone = cluster.home.run.rename(cluster.home.run.with_name("gone"))  # at once: the launcher goes on writing there
    shutil.rmtree(gone)
    assert find_holder(cluster.home) == run.launcher_pid
    assert cluster("up", "--wait").code == exit_codes.REFUSED
    shown = cluster("ps")
    assert shown.code == exit_codes.UNREACHABLE and "hobus down" in shown.err
    doctor = cluster("doctor")
    assert doctor.code == exit_codes.FAILED and "run directory is gone" in doctor.out
    assert cluster("down").code == 0
    assert not [row.actor for row in run.children if identity.is_alive(row.pid, row.mark)]


def test_a_home_that_was_moved_while_it_ran_is_stopped_where_it_is(cluster: Cluster):
    """Nothing of the run stays behind, in neither place."""
    cluster.up()
    run, began = cluster.run(), cluster.home.root
    moved = began.rename(began.with_name("moved"))
    done = cluster("down", "--home", str(moved))
    assert done.code == 0, done
    assert not [row.actor for row in run.children if identity.is_alive(row.pid, row.mark)]
    assert not (moved / cluster.home.run.name).exists() and not cluster.home.run.exists()


def test_doctor_of_a_running_cluster(cluster: Cluster):
    """All ok; then a process that is given up fails, with the command that starts it again."""
    cluster.up(settings={"launcher.crash_budget": 1})
    well = cluster("doctor", "--json")
    assert well.code == 0 and well.json["ok"], well.out
    assert {one["verdict"] for one in well.json["checks"]} == {"ok"}
    cluster.kill("ho1/1")
    eventually(lambda: cluster.row("ho1/1").state == "failed")
    ill = cluster("doctor", "--json")
    assert ill.code == exit_codes.FAILED and not ill.json["ok"]
    (failed,) = [one for one in ill.json["checks"] if one["verdict"] == "fail"]
    assert failed["check"] == "ho1/1" and "hobus restart" in failed["fix"] and "signal 9" in failed["detail"]
    shown = cluster("ps")
    assert "launcher.crash_budget" in shown.out and "last lines of" in shown.err
    run = cluster.run()
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGKILL)
    eventually(lambda: find_holder(cluster.home) is None)
    dead = cluster("doctor")
    assert "launcher of an earlier run is dead" in dead.out


def test_logs_follow_through_a_restart_and_are_there_afterwards(cluster: Cluster):
    """-f shows what a new incarnation says; a stopped cluster's logs are read as well, by actor, time and as JSON."""
    cluster.up()
    followed = cluster.begin("logs", "-f", "--json", "-n", "1", stderr=subprocess.DEVNULL)
    lines: list[dict[str, str]] = []
    assert followed.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(json.loads(line) for line in followed.stdout or ()))
    reader.start()
    try:
        eventually(lambda: lines)  # it has read all that there was, and goes on with what comes
        before = cluster.kill("ho1/1").instance
        eventually(lambda: cluster.is_up("ho1/1", other_than=before))
        after = cluster.row("ho1/1").instance
        eventually(lambda: any(one["instance"] == after and one["event"] == "process_started" for one in lines))
        assert any(one.get("member") == "ho1/1" and one.get("now") == "backoff" for one in lines)
    finally:
        followed.send_signal(signal.SIGINT)
        followed.wait(timeout=60)
        reader.join(timeout=10)
        followed.stdout.close()
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    cluster("down")
    shown = cluster("logs", "ho1", "--since", "10m")
    assert shown.code == 0 and "process_ending  why=told" in shown.out and "ho2/1" not in shown.out
    assert "\x1b[" not in shown.out
    as_json = [json.loads(line) for line in cluster("logs", "--json", "-n", "3").out.splitlines()]
    assert len(as_json) == 3 and all(one["at"] for one in as_json)
    assert cluster("logs", "ho9").code == exit_codes.USAGE
    assert cluster_in(cluster.home.root / "nowhere")("logs").code == exit_codes.USAGE
