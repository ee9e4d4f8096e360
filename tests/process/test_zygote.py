"""The zygote: what its children share and what not, and that nobody needs it once they run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path

import psutil
import pytest

from bench.builders import write_config
from bench.cluster import Cluster, eventually
from bench.cluster import cluster as standing
from hobus.launch.cli import checkup
from hobus.launch.cli.commands.ps import make_own_lines
from hobus.launch.cluster import identity

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("launchers_are_executed")]

PACKAGES = "what packages are installed?"


@pytest.fixture(scope="module")
def lasting() -> Iterator[Cluster]:
    with standing({}, "--scale", "ho1=2", "--scale", "ho2=2") as up:
        yield up
        assert up.defects() == [] and up.verify().tail == "clean"


@pytest.fixture
def shared(lasting: Cluster) -> Cluster:
    """The same, whole again after what the test before did to it."""
    eventually(lambda: (run := lasting.run()).zygote_state == "ready" and all(r.state == "ready" for r in run.children))
    return lasting


def restarts(cluster: Cluster) -> dict[str, int]:
    return {row.actor: row.restarts for row in cluster.run().children}


def zygotes(cluster: Cluster) -> list[psutil.Process]:
    found: list[tuple[float, psutil.Process]] = []
    for one in psutil.Process(cluster.run().launcher_pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended while it was looked at
            if "zygote" in one.name():
                found.append((one.create_time(), one))
    return [one for _, one in sorted(found, key=itemgetter(0))]


def zygote(cluster: Cluster) -> psutil.Process:
    return psutil.Process(eventually(lambda: cluster.run().zygote_pid))


def started_fresh(cluster: Cluster) -> int:
    return cluster.home.log("launcher").read_text(encoding="utf-8").count('"started_fresh"')


def everybody(cluster: Cluster) -> list[psutil.Process]:
    launcher = psutil.Process(cluster.run().launcher_pid)
    return [launcher, *launcher.children(recursive=True)]


def pipes(pid: int) -> dict[str, str]:
    """Pipe -> `r`, `w`: what this process holds open."""
    held: dict[str, str] = {}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
            flags = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text().split("flags:")[1].split()[0]
        except OSError:
            continue
        if target.startswith("pipe:"):
            held[target] = held.get(target, "") + ("w" if int(flags, 8) & os.O_WRONLY else "r")
    return held


def test_children_are_the_launchers_own_and_hold_nothing_of_each_other(shared: Cluster):
    """Own session each; the launcher alone holds writing ends of liveness pipes, each child its own reading end.

    What they draw is drawn once: epochs, ids of entries and instances are all different.
    """
    cluster, run = shared, shared.run()
    launcher_pipes = pipes(run.launcher_pid)
    liveness: set[str] = set()
    for row in run.children:
        child = psutil.Process(row.pid)
        assert child.ppid() == run.launcher_pid
        assert os.getsid(row.pid) == row.pid == os.getpgid(row.pid)
        assert child.name() == f"hobus {row.actor}"[:15]
        own = {pipe for pipe in pipes(row.pid) if pipe in launcher_pipes}
        assert len(own) == 1, (row.actor, own)
        assert pipes(row.pid)[own.pop()] == "r"
        liveness |= {pipe for pipe, ends in launcher_pipes.items() if pipe in pipes(row.pid) and "w" in ends}
    assert len(liveness) == len(run.children)
    for one in everybody(cluster):
        if one.pid != run.launcher_pid:
            assert "w" not in "".join(ends for pipe, ends in pipes(one.pid).items() if pipe in liveness), one
    for one in zygotes(cluster):
        assert not liveness & set(pipes(one.pid)) and one.num_threads() == 1
        assert not [found for found in one.net_connections(kind="all") if found.laddr]
    lock = f"{cluster.home.lock_file}"
    holders = [one.pid for one in everybody(cluster) if lock in [file.path for file in one.open_files()]]
    assert holders == [run.launcher_pid]
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    instances = [row.instance.partition("@")[2] for row in cluster.run().children]
    ids = [entry.submission_id for entry in cluster.entries()]
    assert len(set(instances)) == len(instances) and len(set(ids)) == len(ids)


def test_the_zygote_is_replaced_and_nobody_else_is_touched(shared: Cluster):
    """SIGKILL of the zygote: the same processes go on, another zygote forks the next restart."""
    cluster, counts = shared, restarts(shared)
    before = {row.actor: row.pid for row in cluster.run().children}
    first = zygote(cluster)
    first.kill()
    eventually(lambda: cluster.run().zygote_pid not in (0, first.pid))
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    assert {row.actor: row.pid for row in cluster.run().children} == before
    killed = cluster.kill("ho1/1")
    eventually(lambda: cluster.is_up("ho1/1", other_than=killed.instance))
    assert cluster.ask(PACKAGES)["outcome"] == "success"
    assert restarts(cluster) == counts | {"ho1/1": counts["ho1/1"] + 1}


def test_a_zygote_that_ends_while_it_loads_is_shown_and_tried_again_later(cluster: Cluster, tmp_path: Path):
    """Meanwhile processes are fresh interpreters; `ps` and `doctor` say so."""
    cluster.up("--config", str(write_config(tmp_path / "config.json", ("launcher.crash_window_ms", 5000))))
    first = zygote(cluster)
    first.kill()
    eventually(lambda: set(zygotes(cluster)) - {first}).pop().kill()
    eventually(lambda: cluster.run().zygote_state == "failed")
    said = [" ".join(line) for line in make_own_lines(cluster.run(), 0.0)] + [
        one.detail for one in checkup.check_cluster(cluster.home)[0]
    ]
    assert len([line for line in said if "fresh interpreters" in line]) == 2, said
    killed = cluster.kill("gateway/1")
    eventually(lambda: cluster.is_up("gateway/1", other_than=killed.instance))
    assert started_fresh(cluster) == 1
    eventually(lambda: cluster.run().zygote_state == "ready")
    killed = cluster.kill("ho3/1")
    eventually(lambda: cluster.is_up("ho3/1", other_than=killed.instance))
    assert started_fresh(cluster) == 1


def test_a_frozen_zygote_costs_no_process(shared: Cluster):
    """A stopped zygote does not answer: what it was asked for is a fresh interpreter, and another one is loaded."""
    cluster, fresh_before = shared, started_fresh(shared)
    zygote(cluster).suspend()
    killed = cluster.kill("gateway/1")
    eventually(lambda: cluster.is_up("gateway/1", other_than=killed.instance))
    assert cluster.row("gateway/1").restarts == killed.restarts + 1 and started_fresh(cluster) == fresh_before + 1
    assert cluster.ask(PACKAGES)["outcome"] == "success"


def test_orphans_end_in_order_when_launcher_and_zygote_die_together(cluster: Cluster, tmp_path: Path):
    """By SIGKILL: a turn is still answered, then everybody is gone and the record is whole."""
    patient = write_config(tmp_path / "config.json", ("launcher.orphan_drain_s", 60.0))  # a busy machine answers late
    cluster.up("--config", str(patient))
    run, first = cluster.run(), zygote(cluster)
    all_of_them = [(one.pid, identity.start_mark(one.pid) or "") for one in everybody(cluster)]
    asked = cluster.start_ask(PACKAGES)
    eventually(lambda: cluster.entries("WO_DISPATCHED"))
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGKILL)
    first.kill()
    out, err = asked.communicate(timeout=120)
    assert out and json.loads(out)["outcome"] == "success", err
    limit_s = 60 + 30  # at 65 s processes end by themselves, in order or not
    eventually(lambda: not [pid for pid, mark in all_of_them if identity.is_alive(pid, mark)], within_s=limit_s)
    assert cluster.verify().tail == "clean"


def test_an_outdated_zygote_is_replaced_before_the_next_fork(shared: Cluster):
    """Somebody changed the software on disk: the next process runs it, those that run stay as they are."""
    cluster = shared
    first, before = zygote(cluster), cluster.row("host/1")
    module = Path(identity.__file__)
    state = module.stat()
    os.utime(module, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    try:
        killed = cluster.kill("ho1/1")
        eventually(lambda: cluster.is_up("ho1/1", other_than=killed.instance))
        assert zygote(cluster).pid != first.pid
        assert cluster.row("host/1") == before
    finally:
        os.utime(module, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_without_a_zygote_every_process_is_a_fresh_interpreter(make_cluster: Callable[[str], Cluster], tmp_path: Path):
    """As on a system without fork: the same cluster, the same restarts."""
    config = write_config(tmp_path / "config.json", ("launcher.start_method", "spawn"))
    cluster = make_cluster("spawned")
    cluster.up("--config", str(config))
    assert zygotes(cluster) == [] and cluster("ps", "--json").json["zygote_pid"] == 0
    killed = cluster.kill("ho2/1")
    eventually(lambda: cluster.is_up("ho2/1", other_than=killed.instance))
    assert cluster.ask(PACKAGES)["outcome"] == "success"
