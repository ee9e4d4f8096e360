"""A cluster of real processes: up, ps, ask, tap, request, down; crashes, restarts, orphans, bad input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.builders import write_config
from bench.cluster import Cluster, eventually
from hobus.config.snapshot import Snapshot
from hobus.launch.cluster import identity, run_file
from hobus.launch.cluster.home import find_holder
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process

ACTORS = ["broker/1", "ledger/1", "gateway/1", "ho3/1", "ho1/1", "ho2/1", "host/1"]
PACKAGES = "what packages are installed?"


def test_up_ask_ps_tap_request_verify_down(cluster: Cluster):
    """The whole way of a user, by the command line alone; at the end nothing of the run is left."""
    up = cluster.up("--scale", "ho1=2")
    assert "ready in" in up.out

    listed = cluster("ps", "--json").json
    assert [row["actor"] for row in listed["actors"]] == [*ACTORS[:5], "ho1/2", *ACTORS[5:]]
    assert {row["state"] for row in listed["actors"]} == {"ready"}
    assert all(row["rss_bytes"] > 0 and row["restarts"] == 0 and row["up_s"] > 0 for row in listed["actors"])
    assert all(row["last_beat_ms"] is not None for row in listed["actors"] if row["actor"] != "broker/1")

    result = cluster.ask(PACKAGES)
    assert result["outcome"] == "success"
    packages = [row for row in cluster("config check", "--json").json["files"] if row.startswith("packages/")]
    assert packages and result["tool_calls"]
    again = cluster.ask("what did this session cost?", "--session", f"SES-{result['session_id'][:8]}")
    assert again["session_id"] == result["session_id"] and again["outcome"] == "success"

    tapped = cluster("tap", "-f", "jsonl", "--since", "60")
    frames = [json.loads(line) for line in tapped.out.splitlines()]
    assert "wo.execute" in {frame.get("type") for frame in frames}
    assert " 0 lost" in tapped.err

    peers = cluster("request", "broker", "broker.read_peers").json
    assert {peer["role"] for peer in peers["peers"]} >= {"ledger", "gateway", "ho1", "ho2", "ho3", "host", "launcher"}
    denied = cluster("request", "ho2", "session.start", "{}")
    assert denied.code == exit_codes.REFUSED and "denied" in denied.err

    verified = cluster("ledger verify", "--json").json
    assert verified["ok"] and verified["entries"] > 20 and verified["tail"] == "clean"
    assert "RunCompleted" in cluster("ledger show", "--session", result["session_id"][:8], "--limit", "1000").out
    shown = cluster("ledger show", "--json", "--type", "RunCompleted", "--bodies").json
    assert [entry["event_type"] for entry in shown["entries"]] == ["RunCompleted"] * 2
    followed = cluster("ledger tail", "--json", "--limit", "3", "--count", "3").out.splitlines()
    assert [json.loads(line)["sequence"] for line in followed] == [
        verified["head"] - 2,
        verified["head"] - 1,
        verified["head"],
    ]
    run = cluster.run()
    down = cluster("down")
    assert down.code == 0 and "8 processes" in down.out and down.err == ""
    assert not cluster.home.run.exists()
    assert not [row.actor for row in run.children if identity.is_alive(row.pid, row.mark)]
    assert cluster.verify().entries >= verified["entries"]
    assert cluster("ps").code == exit_codes.UNREACHABLE


def test_up_where_it_is_up_and_down_where_it_is_down_change_nothing(cluster: Cluster):
    """A sentence that names the launcher, of options that they count at a start, and exit 0."""
    assert cluster("up", "--wait-timeout", "60s").code == 0
    pids = {row.pid for row in cluster.run().children}
    for words, counts in (
        (("--wait",), False), (("--detach",), False), ((), False), (("--scale", "ho1=3"), True), (("--http", "127.0.0.1:0"), True),
    ):  # fmt: skip
        second = cluster("up", *words)
        assert (
            second.code == 0 and ("applies at a start and changes nothing now: hobus down" in second.err) is counts
        ), second.err
        assert f"is up already (launcher pid {cluster.run().launcher_pid})" in second.out
    for words, said in (
        (("--scale", "ho1=1000"), "launcher.processes_max"),
        (("--config", "gone.json"), "no such file"),
    ):
        refused = cluster("up", *words)
        assert refused.code == exit_codes.USAGE and said in refused.err, refused.err
    assert {row.pid for row in cluster.run().children} == pids and cluster.living() == ACTORS
    assert cluster("down").code == 0
    again = cluster("down")
    assert (again.code, again.err) == (0, "") and "no cluster runs" in again.out


def test_up_in_the_foreground_says_what_happens(cluster: Cluster, tmp_path: Path):
    """Deaths, restarts, numbers that change and the end by Ctrl-C: a line with the time of each, also into a pipe."""
    config = write_config(tmp_path / "config.json", ("launcher.stuck_after_ms", 120_000))
    foreground = cluster.begin("up", "--config", str(config), stderr=subprocess.STDOUT)
    assert foreground.stdout is not None
    eventually(lambda: (run := run_file.read(cluster.home.run_file)) and run.phase == "running")
    cluster.kill("ho1/1")
    eventually(lambda: cluster.row("ho1/1").restarts and cluster.is_up("ho1/1"))
    assert cluster("scale", "ho1=2").code == 0
    assert cluster("drain", "ho1/2").code == 0
    frozen = cluster.row("ho2/1")
    identity.end(frozen.pid, frozen.mark, signal.SIGSTOP)
    eventually(lambda: cluster.row("ho2/1").silent_since)
    identity.end(frozen.pid, frozen.mark, signal.SIGCONT)
    eventually(lambda: not cluster.row("ho2/1").silent_since)
    run = cluster.run()
    foreground.send_signal(signal.SIGINT)
    said, _ = foreground.communicate(timeout=120)
    assert foreground.returncode == 0 and b"ready in" in said, said
    assert not [row.actor for row in run.children if identity.is_alive(row.pid, row.mark)]
    assert not cluster.home.run.exists()
    lines = [line[14:] for line in said.decode().splitlines() if re.match(r"\d\d:\d\d:\d\d\.\d{3}  ", line)]
    told = " | ".join(" ".join(line.split()) for line in lines)
    wanted = (
        "ho1/1 backoff: signal 9 | ho1/1 starting: signal 9 | ho1/1 ready [0-9]+ ms after its start",
        "ho1/2 starting | ho1/2 ready", "ho1/2 draining | ho1/2 stopped: drained",
        "ho2/1 has stalled: no beat for", "stopping: processes finish their work",
    )  # fmt: skip
    assert [text for text in wanted if not re.search(re.escape(text).replace(r"\[0\-9\]\+", "[0-9]+"), told)] == [], (
        told
    )
    assert told.endswith("kills them") and said.endswith(b"stopped\n")


def test_sigkill_of_the_launcher_leaves_no_process(cluster: Cluster):
    """Every child sees the end of its liveness pipe and ends in order; the next up cleans the run files and starts.

    Both starts were made under one configuration, which the record has once, by its digest.
    """
    cluster.up()
    run = cluster.run()
    eventually(lambda: cluster.entries("CONFIG_SNAPSHOT"))
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGKILL)
    eventually(lambda: cluster.living() == [])
    assert find_holder(cluster.home) is None
    gone = cluster("ps")
    assert gone.code == exit_codes.UNREACHABLE and "its launcher died" in gone.err
    assert cluster.verify().tail == "clean"
    cluster.up()
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    (recorded,) = cluster.entries("CONFIG_SNAPSHOT")
    assert (recorded.submission_id, recorded.stream) == (f"CONFIG_SNAPSHOT:{run.config_digest}", "governance")
    assert recorded.bodies[0] is not None and Snapshot.from_bytes(recorded.bodies[0]).digest == run.config_digest
    assert cluster.run().config_digest == run.config_digest


def test_down_in_the_middle_of_a_start(cluster: Cluster):
    """A cluster that is not ready yet is taken down as cleanly."""
    assert cluster("up", "--detach").code == 0
    run = cluster.run()
    assert cluster("down").code == 0
    assert not [row.actor for row in run.children if identity.is_alive(row.pid, row.mark)]
    assert not cluster.home.run.exists()


def test_a_process_that_keeps_crashing_is_given_up_and_said_to_be(cluster: Cluster):
    """Back-off, then the crash budget, then `failed` with its note; the rest goes on."""
    cluster.up(settings={"launcher.crash_budget": 3, "launcher.restart_backoff_min_ms": 20})
    for _ in range(3):
        instance = cluster.kill("ho1/1").instance
        eventually(lambda i=instance: cluster.row("ho1/1").state == "failed" or cluster.is_up("ho1/1", other_than=i))
    row = cluster.row("ho1/1")
    assert row.state == "failed" and "launcher.crash_budget" in row.note
    shown = cluster("ps")
    assert "failed" in shown.out and shown.code == 0
    # Nobody will offer ho1: the turn is answered at once, degraded, instead of waiting for its deadline.
    result = cluster.ask(PACKAGES)
    assert result["outcome"] in ("degraded", "error")
    assert cluster.living() == [actor for actor in ACTORS if actor != "ho1/1"]
    # The crash budget is forgotten on command, and the broker routes to it again.
    assert cluster("restart", "ho1/1").code == 0
    assert cluster.ask(PACKAGES)["outcome"] == "success"


def test_a_stuck_process_is_killed_and_restarted(cluster: Cluster):
    """A frozen process gives no beat: after launcher.stuck_after_ms it is replaced."""
    cluster.up(settings={"launcher.stuck_after_ms": 1500})
    before = cluster.row("gateway/1")
    identity.end(before.pid, before.mark, signal.SIGSTOP)
    eventually(lambda: cluster.is_up("gateway/1", other_than=before.instance))
    assert not identity.is_alive(before.pid, before.mark)
    assert cluster.ask(PACKAGES)["outcome"] == "success"


def test_sockets_of_a_deep_home_lie_elsewhere(make_cluster: Callable[[str], Cluster]):
    """A path that is too long for a socket is no obstacle, and the private directory goes with the cluster."""
    deep = make_cluster("/".join(["a-long-directory-name"] * 6))
    deep.up()
    sockets = Path(deep.run().sockets)
    assert sockets != deep.home.run and (sockets / "broker.sock").exists()
    assert deep.ask(PACKAGES)["outcome"] == "success"
    deep("down")
    assert not sockets.exists()


def test_a_record_that_is_damaged_under_a_cluster_fails_its_ledger(cluster: Cluster):
    """What no gate of the start could see: the ledger that is started again refuses, and says where."""
    cluster.up()
    cluster.ask(PACKAGES)
    segment = min((cluster.home.ledger / "segments").iterdir())
    with segment.open("r+b") as file:
        file.seek(200)
        (byte,) = file.read(1)
        file.seek(200)
        file.write(bytes([byte ^ 1]))
    cluster.kill("ledger/1")
    eventually(lambda: cluster.row("ledger/1").state == "failed")
    row = cluster.row("ledger/1")
    assert row.restarts == 1 and f"{segment.name}, byte " in row.note  # the one that found it
    assert f"{segment.name}, byte " in cluster("ps").out
    refused = cluster("up", "--wait")
    assert refused.code != exit_codes.OK
