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
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.home import holder
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError

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
    assert holder(cluster.home) is None


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


def test_a_launcher_that_is_stopped_while_it_is_followed_ends_the_waiting(cluster: Cluster):
    """What it has accepted is carried out when it goes on."""
    cluster.up(settings={"gateway.providers.offline.latency_ms": 4000})
    run = cluster.run()
    asking = cluster.start_ask("what packages are installed?")
    eventually(lambda: cluster.entries("PROMPT_SENT"))
    draining = cluster.begin("drain", "ho2/1")
    eventually(lambda: cluster.row("ho2/1").state == "draining")
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGSTOP)
    try:
        _out, err = draining.communicate(timeout=60)
    finally:
        identity.end(run.launcher_pid, run.launcher_mark, signal.SIGCONT)
    assert draining.returncode == exit_codes.UNREACHABLE and f"kill -CONT {run.launcher_pid}" in err.decode(), err
    assert asking.communicate(timeout=90)[0]
    eventually(lambda: cluster.row("ho2/1").state == "stopped")


def test_a_run_file_that_is_gone_or_damaged_comes_back(cluster: Cluster):
    """The living launcher writes it anew; down works at once, by the pid of the lock's holder."""
    cluster.up()
    run = cluster.run()
    for text in ("{", None):
        spoil(cluster, text)
        eventually(lambda: readable(cluster) == run, within_s=60)
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGSTOP)
    spoil(cluster, None)
    down = cluster.begin("down")
    eventually(lambda: is_told_to_end(run.launcher_pid))
    assert down.stderr is not None
    said = down.stderr.readline().decode()
    assert "is stalled" in said and f"kill -CONT {run.launcher_pid}" in said
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGCONT)
    out, err = down.communicate(timeout=120)
    assert down.returncode == 0, err
    # How many: as the run file says, where the launcher that woke up writes it once more before it is gone.
    assert out.decode() in [f"stopped {count} processes of {cluster.home.root}\n" for count in ("7", "the")]
    assert not [row.actor for row in run.children if identity.is_alive(row.pid, row.mark)]
    assert not cluster.home.run.exists()


def spoil(cluster: Cluster, text: str | None) -> None:
    """The run file is gone, or holds this."""
    cluster.home.run_file.unlink()
    if text is not None:
        cluster.home.run_file.write_text(text)


def readable(cluster: Cluster) -> run_file.RunFile | None:
    """The run file, unless it is damaged."""
    try:
        return run_file.read(cluster.home.run_file)
    except CommandError:
        return None


def is_told_to_end(pid: int) -> bool:
    """Whether a SIGTERM waits for this stopped process."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) & 1 << (signal.SIGTERM - 1))
