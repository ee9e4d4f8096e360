"""Commands on a running cluster: scale, restart, drain."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import Cluster, eventually
from hobus.bus.errors import BusError
from hobus.bus.record.catalog import read_body
from hobus.bus.record.ends import read_order_receipt
from hobus.launch.cluster import identity
from hobus.launch.console import exit_codes
from hobus.launch.launcher.control import ScaleCommand, send

pytestmark = pytest.mark.process

PACKAGES = "what packages are installed?"


def states(cluster: Cluster) -> dict[str, str]:
    return {row.actor: row.state for row in cluster.run().children}


def answers(asked: list[subprocess.Popen[bytes]]) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(len(asked)) as pool:
        said = list(pool.map(lambda one: one.communicate(timeout=90), asked))
    return [json.loads(out) for out, _err in said]


def test_scaling_up_and_down_under_turns_loses_none(cluster: Cluster):
    """Executors and supervisors come and go while turns run: each is answered once, by a process that finished it."""
    cluster.up(settings={"gateway.providers.offline.latency_ms": 150})
    asked = [cluster.start_ask(PACKAGES) for _ in range(4)]
    up = cluster("scale", "ho1=3", "ho2=2")
    assert up.code == 0, up.err
    assert {"ho1/3", "ho2/2"} <= set(states(cluster))
    asked += [cluster.start_ask(PACKAGES) for _ in range(4)]
    eventually(lambda: len(cluster.entries("WO_DISPATCHED")) > 6)
    down = cluster("scale", "ho1=1", "ho2=1")
    assert down.code == 0, down.err
    assert not {"ho1/2", "ho1/3", "ho2/2"} & set(states(cluster))
    assert [result["outcome"] for result in answers(asked)] == ["success"] * 8
    assert len(cluster.entries("RunCompleted")) == 8
    assert not cluster.entries("TurnDegraded", "RunFailed")
    ends = [entry.provenance.work_order_id for entry in cluster.entries("OrderEnded")]
    assert len(ends) == len(set(ends)) > 8
    said = [read_body(entry) for entry in cluster.entries("OPERATOR_COMMAND")]
    assert [(one[0], one[1], one[2]) for one in said if one is not None] == [
        (ScaleCommand(role=role, count=many).model_dump_json(), "local", pwd.getpwuid(os.getuid()).pw_name)
        for many in (3, 1)
        for role, many in (("ho1", many), ("ho2", min(2, many)))
    ]
    assert cluster.verify().tail == "clean"


def test_restart_lets_a_process_finish_and_kill_does_not(cluster: Cluster):
    """The order at work when `restart` is asked is ended once, by the incarnation that had it."""
    cluster.up(settings={"gateway.providers.offline.latency_ms": 500})
    asked = cluster.start_ask(PACKAGES)
    eventually(lambda: cluster.entries("PROMPT_SENT"))
    before = cluster.row("ho1/1").instance
    order = cluster.entries("PROMPT_SENT")[0].provenance.work_order_id
    done = cluster("restart", "ho1/1")
    assert done.code == 0, done.err
    after = cluster.row("ho1/1")
    assert after.instance != before and after.instance in done.out
    assert answers([asked])[0]["outcome"] == "success"
    (end,) = [e for e in cluster.entries("OrderEnded") if e.provenance.work_order_id == order]
    receipt = read_order_receipt(end)
    assert receipt is not None and receipt.executed_by == before
    killed = cluster("restart", "ho1/1", "--kill")
    assert killed.code == 0 and cluster.row("ho1/1").pid != after.pid
    assert cluster.ask(PACKAGES)["outcome"] == "success"


def test_a_drained_process_rests_until_it_is_restarted(cluster: Cluster):
    """It does not come back by itself, ps says what starts it, and a failed process is started by the same command."""
    cluster.up("--scale", "ho1=2")
    done = cluster("drain", "ho1/2")
    assert done.code == 0 and "stopped" in done.out, done.err
    row = next(one for one in cluster("ps", "--json").json["actors"] if one["actor"] == "ho1/2")
    assert row["state"] == "stopped" and "until it is restarted" in row["note"]
    assert row["pid"] is None
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    assert cluster("drain", "ho1/1").code == 0
    assert cluster.ask(PACKAGES)["outcome"] in ("degraded", "error")
    for actor in ("ho1/1", "ho1/2"):
        assert cluster("restart", actor).code == 0
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    down = cluster("down")
    assert down.code == 0 and down.err == ""


def test_a_process_that_does_not_end_when_told_is_killed_and_started(cluster: Cluster):
    """A frozen process cannot finish: after launcher.finish_ms and launcher.drain_ms it is killed; `down` names it."""
    cluster.up(settings={"launcher.finish_ms": 300, "launcher.drain_ms": 300})
    frozen = cluster.row("gateway/1")
    identity.end(frozen.pid, frozen.mark, signal.SIGSTOP)
    done = cluster("restart", "gateway/1")
    assert done.code == 0, done.err
    assert not identity.is_alive(frozen.pid, frozen.mark)
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    blocks = cluster.row("ho2/1")
    identity.end(blocks.pid, blocks.mark, signal.SIGSTOP)
    down = cluster("down")
    assert down.code == 0 and "ho2/1" in down.err and "launcher.drain_ms" in down.err
    assert not identity.is_alive(blocks.pid, blocks.mark)


def test_what_cannot_be_is_refused_in_a_sentence(cluster: Cluster):
    """Unknown names, roles without a number, zero; by the launcher itself, too.

    A configuration that was changed is told by the doctor, with what differs and what puts it in force.
    """
    cluster.up()
    for words, said in (
        (("restart", "ho1/9"), "there are broker/1"),
        (("restart", "nobody"), "there are broker/1"),
        (("drain", "launcher"), "goes with the cluster"),
        (("scale", "ho1=0"), "N at least 1"),
        (("scale", "ho1=2", "ho2=1000"), "that would be 1007 processes; 64 are allowed (launcher.processes_max)"),
        (("scale", "ledger=2"), "one of ho1, ho2"),
        (("scale", "ho9=2"), "one of ho1, ho2"),
        (("scale",), "ROLE=N"),
    ):
        answer = cluster(*words)
        assert answer.code == exit_codes.USAGE and said in answer.err and "Traceback" not in answer.err, words
    assert len(cluster.run().children) == 7
    with pytest.raises(BusError, match=r"launcher\.processes_max"):
        send(Path(cluster.run().sockets), ScaleCommand(role="ho1", count=10**9), timeout_s=5)
    with pytest.raises(BusError, match="cannot be scaled"):
        send(Path(cluster.run().sockets), ScaleCommand(role="ledger", count=2), timeout_s=5)
    cluster("config set", "ho1.orders_max", "2")
    anew = f"hobus reload --home {cluster.home.root}"
    told = cluster("doctor")
    assert told.code == 0 and "ho1.orders_max is 4096, on disk 2" in told.out and anew in told.out
    assert cluster("reload").code == 0
    assert "on disk" not in cluster("doctor").out
    cluster("down")
    assert cluster("restart", "ho1/1").code == exit_codes.UNREACHABLE


def test_a_broker_that_rests_or_failed_is_started_again(cluster: Cluster):
    """Commands reach the launcher without a broker too; what would not come true without one is refused at once, and helps."""
    cluster.up(settings={"launcher.crash_budget": 1})
    assert cluster("drain", "broker/1").code == 0 and states(cluster)["broker/1"] == "stopped"
    before = [(row.actor, row.pid) for row in cluster.run().children]
    for words in ("scale ho1=2", "restart ho1/1", "drain ho1/1"):
        refused = cluster(*words.split())
        assert refused.code == exit_codes.REFUSED and "broker/1 is stopped" in refused.err, refused.err
        assert "restart broker/1" in refused.err
    assert [(row.actor, row.pid) for row in cluster.run().children] == before
    taken = cluster("restart", "broker/1", "--kill", "--no-wait")
    assert taken.code == 0, taken.err
    eventually(lambda: states(cluster)["broker/1"] == "ready")
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    cluster.kill("broker/1")
    eventually(lambda: states(cluster)["broker/1"] == "failed")
    scaled = cluster("scale", "ho1=2", "--no-wait")
    assert scaled.code == 0 and "ho1/2" in states(cluster) and "restart broker/1" in scaled.err, scaled.err
    done = cluster("restart", "broker/1")
    assert done.code == 0, done.err
    assert cluster.ask(PACKAGES)["outcome"] == "success"
