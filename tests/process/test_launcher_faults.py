"""Faults of the launcher itself: no room to write, killed while it starts, its run file gone."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from bench.cluster import Cluster, eventually
from bench.far_worker import FarWorker, token_of, workers
from hobus.launch.cluster import identity
from hobus.launch.cluster.home import find_holder
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process


def start_up(cluster: Cluster, *words: str, file_bytes_max: int | None = None) -> subprocess.Popen[bytes]:
    """`hobus up`, which may write no more than this into a file."""

    def limit() -> None:
        if file_bytes_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    return cluster.begin("up", *words, preexec_fn=limit)


def test_a_launcher_that_cannot_write_says_so(cluster: Cluster):
    """Neither the lock, nor a log line, nor anything else can be written: the waiting command gets the reason."""
    _, err = (up := start_up(cluster, "--wait", file_bytes_max=0)).communicate(timeout=120)
    assert up.returncode == exit_codes.FAILED
    (said,) = err.decode().splitlines()
    assert said == f"error: the cluster in {cluster.home.root} cannot be started: File too large"
    assert find_holder(cluster.home) is None


def test_a_launcher_killed_while_starting(cluster: Cluster):
    """It is said what happened, without a line of an earlier launcher; down cleans up."""
    cluster.home.logs.mkdir(parents=True)
    cluster.home.log("launcher").write_text('{"level": "error", "reason": "earlier"}\n')
    up = start_up(cluster, "--wait")
    eventually(lambda: cluster.home.run_file.exists() and cluster.row("ledger/1").pid)
    ledger = psutil.Process(cluster.row("ledger/1").pid)
    ledger.suspend()  # nobody else gets ready before it
    eventually(lambda: cluster.home.run_file.exists() and len(cluster.living()) == len(cluster.run().children))
    run = cluster.run()
    psutil.Process(run.launcher_pid).send_signal(signal.SIGKILL)
    _, err = up.communicate(timeout=120)
    assert up.returncode == exit_codes.UNREACHABLE
    ledger.resume()
    said, following = err.decode().splitlines()
    assert said == "error: the launcher died while starting (signal 9)"
    assert f"hobus down --home {cluster.home.root} ends what it had started" in following
    assert cluster("down").code == 0
    eventually(lambda: not [row for row in run.children if psutil.pid_exists(row.pid)], within_s=60)


def test_a_process_that_never_reached_the_broker_ends_with_its_launcher(cluster: Cluster):
    """Nobody has sent it anything that it should finish: it does not wait for the next cluster in this home."""
    cluster.up()
    broker = psutil.Process(cluster.row("broker/1").pid)
    broker.suspend()
    before = cluster.kill("ho1/1")
    eventually(lambda: cluster.row("ho1/1").pid not in (0, before.pid))
    new = psutil.Process(cluster.row("ho1/1").pid)
    eventually(lambda: new.num_fds() > 10)  # it has sockets by then
    psutil.Process(cluster.run().launcher_pid).kill()
    broker.kill()
    eventually(lambda: not new.is_running() or new.status() == psutil.STATUS_ZOMBIE, within_s=3)
    assert cluster("down").code == 0


def test_keys_and_tokens_are_revoked_after_the_launchers_death(cluster: Cluster, tmp_path: Path):
    """Nobody is there to be asked: what is written counts for the next cluster."""
    with workers(tmp_path / "far") as started:
        cluster.up("--listen", "127.0.0.1:0")
        started.append(FarWorker(tmp_path / "far" / "one", ["join", token_of(cluster, "--uses", "2")]).works())
        address = cluster("ps", "--json").json["listens"]
        psutil.Process(cluster.run().launcher_pid).kill()
        assert cluster("keys revoke", "ho1/remote-*").code == cluster("token revoke", "join-*").code == 0
        eventually(lambda: not cluster.living())
        cluster.up("--listen", address)
        assert started[0].ended(60) == exit_codes.REFUSED
        assert cluster("token list", "--json").json["tokens"] == []


def test_a_launcher_that_stands_still_is_named_and_not_waited_for(cluster: Cluster):
    """By ps, the doctor and each command that it would have to carry out, with what makes it go on; then all is well."""
    cluster.up()
    run = cluster.run()
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGSTOP)
    fix = f"kill -CONT {run.launcher_pid}"
    try:
        eventually(lambda: identity.is_stopped(run.launcher_pid))
        for words in ("scale ho1=2", "restart ho1/1", "restart ho1/1 --kill --no-wait", "drain ho1/1"):
            refused = cluster(*words.split())
            assert refused.code == exit_codes.UNREACHABLE and "is stalled" in refused.err and fix in refused.err
        report = cluster("doctor", "--json")
        (found,) = [one for one in report.json["checks"] if one["check"] == "launcher"]
        assert report.code == exit_codes.FAILED and found["verdict"] == "fail"
        assert "is stalled" in found["detail"] and fix in found["fix"]
        row = next(line for line in cluster("ps").out.splitlines() if line.startswith("launcher"))
        assert row.split()[1] == "stalled" and fix in row
        assert cluster("ps", "--json").json["launcher_stalled"] is True
        again, waited = cluster("up"), cluster("up", "--wait")
        assert again.code == exit_codes.OK and fix in again.err
        assert waited.code == exit_codes.UNREACHABLE and fix in waited.err
    finally:
        identity.end(run.launcher_pid, run.launcher_mark, signal.SIGCONT)
    assert cluster("scale", "ho1=2").code == exit_codes.OK
    assert cluster("doctor").code == exit_codes.OK
    # An operator drains one worker by a request: ps says so, though its process is as ready as before.
    asked = cluster("request", "broker", "broker.drain", json.dumps({"instance": cluster.row("ho1/1").instance}))
    assert asked.code == 0, asked.err
    found = next(row for row in cluster("ps", "--json").json["actors"] if row["actor"] == "ho1/1")
    assert found["state"] == "draining" and "broker.drain" in found["note"]
