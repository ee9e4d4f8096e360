"""Workers on other hosts: they join by token, do work, come and go; and everything that must not let one in, does not."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.builders import write_config
from bench.cluster import Cluster, eventually
from bench.cluster import cluster as standing
from bench.far_worker import FarWorker, token_of, workers
from hobus.bus import disk
from hobus.bus.record.catalog import read_body
from hobus.bus.record.ends import read_order_receipt
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.key_book import read_workers
from hobus.config.snapshot import compute_digest
from hobus.launch.cluster import identity
from tests.actors.ho1_executor.tools.packages import entries, install
from tests.process.mcp_servers import ROOT, configure, use

pytestmark = pytest.mark.process

TOOL_QUESTION = "How many packages are installed?"


class Site:
    def __init__(self, cluster: Cluster, directory: Path, started: list[FarWorker]) -> None:
        self.cluster = cluster
        self.directory = directory
        self.started = started

    def join(self, name: str, token: str, *words: str, **options: Any) -> FarWorker:
        worker = FarWorker(self.directory / name, ["join", token, *words], **options)
        self.started.append(worker)
        return worker

    def run(self, name: str, *words: str, **options: Any) -> FarWorker:
        """`hobus worker run` in the directory of an earlier one; what that one printed is gone."""
        for file in ("out", "err"):
            (self.directory / name / file).unlink()
        worker = FarWorker(self.directory / name, ["run", *words], **options)
        self.started.append(worker)
        return worker

    def remote_rows(self) -> list[dict[str, Any]]:
        """The workers elsewhere as `hobus ps` shows them."""
        return [row for row in self.cluster("ps", "--json").json["actors"] if row["host"]]

    def tokens(self) -> list[dict[str, Any]]:
        """As `hobus token list` shows them, oldest first."""
        return self.cluster("token list", "--json").json["tokens"]

    def ends_by(self, name: str) -> list[str]:
        found = [read_order_receipt(entry) for entry in self.cluster.entries("OrderEnded")]
        return [one.wo_id for one in found if one is not None and one.executed_by.startswith(f"{name}@")]


@pytest.fixture(scope="module")
def listening() -> Iterator[Cluster]:
    with standing({}, "--listen", "127.0.0.1:0") as up:
        yield up


@pytest.fixture
def site(listening: Cluster, tmp_path: Path) -> Iterator[Site]:
    with workers(tmp_path / "far") as started:
        yield Site(listening, tmp_path / "far", started)
    eventually(lambda: not Site(listening, tmp_path, []).remote_rows())


def give_up_its_executor(cluster: Cluster) -> None:
    def is_given_up() -> bool:
        row = cluster.row("ho1/1")
        if row.state == "ready":
            identity.end(row.pid, row.mark, signal.SIGKILL)
        return row.state == "failed"

    eventually(is_given_up, within_s=60)


@pytest.fixture
def remote_only(make_cluster: Callable[[str], Cluster], tmp_path: Path) -> Iterator[Site]:
    """The same, with its own executor ended for good: only a worker elsewhere can do anything."""
    cluster = make_cluster("alone")
    config = write_config(tmp_path / "config.json", ("bus.listen", "127.0.0.1:0"), ("launcher.crash_budget", 1))
    with workers(tmp_path / "far") as started:
        cluster.up("--config", str(config))
        give_up_its_executor(cluster)
        yield Site(cluster, tmp_path / "far", started)


def test_a_worker_joins_by_token_and_does_all_the_work(remote_only: Site) -> None:
    """Second process tree, own directory, one outgoing TCP connection; listed at once; every order and record is its."""
    site = remote_only
    worker = site.join("one", token_of(site.cluster), "--slots", "3").works()
    (row,) = site.remote_rows()
    assert (row["actor"], row["slots"], "verify_ledger" in row["tools"]) == ("ho1/remote-1", 3, False)
    assert "list_packages" in row["tools"]
    assert "127.0.0.1" in row["host"]
    result = site.cluster.ask(TOOL_QUESTION)
    assert result["outcome"] == "success"
    assert [call["status"] for call in result["tool_calls"]] == ["Succeeded"]
    assert len(site.ends_by("ho1/remote-1")) >= 3
    connections = [c for process in worker.tree() for c in process.net_connections(kind="inet")]
    assert [(c.status, c.raddr.port) for c in connections] == [("ESTABLISHED", int(_address(site).rpartition(":")[2]))]
    assert sorted(path.name for path in worker.home.iterdir()) == [
        ".gitignore",
        ".hobus-home",
        "lock",
        "logs",
        "run",
        "snapshot",
        "worker.json",
        "worker.key",
    ]
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    eventually(lambda: not site.remote_rows())
    types = [entry.event_type for entry in site.cluster.entries() if entry.stream == "governance"]
    assert "TOKEN_CREATED" in types
    assert "KEY_ENROLLED" in types
    site.cluster.verify()


def test_a_signalled_worker_ends_its_orders_first_and_those_of_a_killed_one_are_done_by_another(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Within its grace, longer than the cluster's own processes may take: no order is done twice, and none is lost.

    Its token is in the environment. Killed while it waits for a slow model, the turns are answered all the same.
    """
    slow = write_config(
        tmp_path / "c.json", ("bus.listen", "127.0.0.1:0"), ("gateway.providers.offline.latency_ms", 3000),
        ("launcher.drain_ms", 1000),
    )  # fmt: skip
    with workers(tmp_path / "far") as started:
        cluster.up("--config", str(slow))
        site = Site(cluster, tmp_path / "far", started)

        def ended_at_work(worker: FarWorker, number: signal.Signals) -> int:
            """How many orders were delivered again so far."""
            worker.works()
            asking = [cluster.start_ask(TOOL_QUESTION) for _ in range(2)]
            eventually(lambda: any(row["in_flight"] for row in site.remote_rows()))
            worker.signal(number)
            assert worker.ended(90) == (0 if number == signal.SIGTERM else -number)
            for one in asking:
                out, err = one.communicate(timeout=90)
                assert json.loads(out)["outcome"] == "success", err
            peers = cluster("request", "broker", "broker.read_peers", "{}").json["peers"]
            return next(row for row in peers if row["role"] == "broker")["counters"].get("redelivered", 0)

        environ = {**os.environ, "HOBUS_JOIN_TOKEN": token_of(cluster)}
        started.append(FarWorker(tmp_path / "far" / "one", ["join", "--grace", "90s"], env=environ))
        assert ended_at_work(started[0], signal.SIGTERM) == 0
        assert ended_at_work(site.join("two", token_of(cluster)), signal.SIGKILL) >= 1
        cluster.verify()


def test_a_worker_s_key_is_rotated_while_it_works(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing is done twice or lost, the key before lets nobody in; killed at any moment of it, it comes with a key that is good."""
    slow = write_config(
        tmp_path / "c.json", ("bus.listen", "127.0.0.1:0"), ("gateway.providers.offline.latency_ms", 3000)
    )
    with workers(tmp_path / "far") as started:
        cluster.up("--config", str(slow))
        site = Site(cluster, tmp_path / "far", started)
        worker = site.join("one", token_of(cluster)).works()
        before = curve.keep_pair(worker.home / "worker.key")
        asking = [cluster.start_ask(TOOL_QUESTION) for _ in range(2)]
        eventually(lambda: any(row["in_flight"] for row in site.remote_rows()))
        (told,) = cluster("keys rotate", "ho1/remote-*", "--json").json["workers"]
        assert (told["name"], told["key"]) == ("ho1/remote-1", before.fingerprint)
        eventually(lambda: [key["key"] for key in cluster("keys list", "--json").json["keys"]] != [before.fingerprint])
        for one in asking:
            out, err = one.communicate(timeout=90)
            assert json.loads(out)["outcome"] == "success", err
        peers = cluster("request", "broker", "broker.read_peers", "{}").json["peers"]
        assert not next(row for row in peers if row["role"] == "broker")["counters"].get("redelivered", 0)
        assert site.ends_by("ho1/remote-1")
        after = curve.keep_pair(worker.home / "worker.key")
        assert [one.public_key for one in read_workers(cluster.home.keys)] == [after.public.decode()]
        (revoked,) = eventually(lambda: cluster.entries("KEY_REVOKED"))
        assert read_body(revoked).key == before.fingerprint
        cluster.verify()

        # Killed after its next key was enrolled and before it kept that as its own; and the one before has ended.
        worker.signal(signal.SIGKILL)
        worker.ended()
        (worker.home / "worker.key").rename(worker.home / "next.key")
        disk.write_private(worker.home / "worker.key", before.secret)
        again = site.run("one").works()
        assert after.fingerprint in again.said
        assert curve.keep_pair(again.home / "worker.key") == after

        # Asked while it was away, and the broker is killed: it is asked as soon as it is back.
        again.signal(signal.SIGTERM)
        again.ended()
        assert cluster("keys rotate", "ho1/remote-1").code == 0
        broker = cluster.row("broker/1").instance
        cluster.kill("broker/1")
        eventually(lambda: cluster.is_up("broker/1", other_than=broker))
        site.run("one").works()
        eventually(lambda: len(cluster.entries("KEY_REVOKED")) == 2)
        assert cluster.ask(TOOL_QUESTION)["outcome"] == "success"

        # One that does not come in its time has to join anew.
        third = site.started[-1]
        third.signal(signal.SIGTERM)
        third.ended()
        assert cluster("keys rotate", "ho1/remote-1", "--grace", "1s").code == 0
        eventually(lambda: not read_workers(cluster.home.keys))
        assert site.run("one").ended(60) == 5
        assert cluster("keys rotate", "ho1/remote-1").code == 2


def test_workers_are_drained_from_the_cluster_s_side(site: Site) -> None:
    """By pattern, the idlest: it ends by itself, as after a signal, and may join again, whatever became of its token."""
    token = token_of(site.cluster)
    worker = site.join("one", token).works()
    (name,) = [row["actor"] for row in site.remote_rows()]
    assert site.cluster("drain", "ho1/remote-99").code == 2
    assert site.cluster("drain", "ho1/1", "--idlest", "1").code == 2
    answer = site.cluster("drain", "ho1/remote-*", "--idlest", "1")
    assert (answer.code, "ho1/remote-" in answer.out) == (0, True)
    assert worker.ended() == 0
    assert "stopped" in worker.said
    assert not site.remote_rows()
    eventually(lambda: any(f"{name}@" in str(read_body(one)) for one in site.cluster.entries("OPERATOR_COMMAND")))
    assert site.cluster("token revoke", "join-*").code == 0
    site.join("one", token).works()
    eventually(lambda: [row["actor"] for row in site.remote_rows()] == [name])
    assert site.join("two", token).ended() == 5


def _count_at_work(cluster: Cluster, name: str) -> int:
    (row,) = [row for row in cluster("ps", "--json").json["actors"] if row["actor"] == name]
    return row["in_flight"]


def test_a_drain_whose_time_is_over_says_so(cluster: Cluster, tmp_path: Path) -> None:
    """Elsewhere and here: what was at work is given back, which is not the same as done."""
    slow = ("gateway.providers.offline.latency_ms", 20_000)
    config = write_config(tmp_path / "c.json", ("bus.listen", "127.0.0.1:0"), slow, ("launcher.finish_ms", 1500))
    with workers(tmp_path / "far") as started:
        cluster.up("--config", str(config))
        site = Site(cluster, tmp_path / "far", started)
        worker = site.join("one", token_of(cluster)).works()
        asking = [cluster.start_ask("How are you?") for _ in range(4)]
        for name in ("ho1/remote-1", "ho1/1"):
            eventually(lambda name=name: _count_at_work(cluster, name))
            answer = cluster("drain", name)
            assert (answer.code, name in answer.err, "given back" in answer.err) == (1, True, True)
        assert worker.ended() == 0
        for one in asking:
            one.kill()
            one.communicate()


def test_a_worker_comes_back_by_itself_and_under_a_new_configuration(cluster: Cluster, tmp_path: Path) -> None:
    """Killed, run again with its key alone; the cluster comes back under another configuration: fetched, then works."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with workers(tmp_path / "far") as started:
        cluster.up("--listen", address)
        site = Site(cluster, tmp_path / "far", started)
        first = site.join("one", token_of(cluster)).works()
        first.signal(signal.SIGKILL)
        first.ended()
        again = site.run("one").works()
        assert [row["actor"] for row in site.remote_rows()] == ["ho1/remote-1"]
        assert cluster("down").code == 0
        cluster.up("--listen", address, "--config", str(write_config(tmp_path / "c.json", ("ho1.repair_calls_max", 2))))
        digest = cluster.run().config_digest
        eventually(site.remote_rows, within_s=60)
        assert "another configuration" in again.said
        assert compute_digest((again.home / "snapshot").read_bytes()) == digest
        assert cluster.ask(TOOL_QUESTION)["outcome"] == "success"

        # The cluster goes over to another one as it runs.
        before = again.said
        write_config(tmp_path / "c.json", ("ho1.repair_calls_max", 1), ("bus.listen", address))
        answer = cluster("reload")
        assert answer.code == 0, answer.err
        eventually(lambda: compute_digest((again.home / "snapshot").read_bytes()) != digest)
        eventually(lambda: again.said.count("another configuration") == before.count("another configuration") + 1)
        eventually(site.remote_rows)
        assert cluster.ask(TOOL_QUESTION)["outcome"] == "success"


def _address(site: Site) -> str:
    listens: str = site.cluster("ps", "--json").json["listens"]
    return listens


def test_a_key_that_is_taken_back_ends_its_worker_at_once(site: Site) -> None:
    """It says which key and ends with 5, at its next start as well; the cluster goes on, and the record has it."""
    worker = site.join("one", token_of(site.cluster)).works()
    (name,) = [row["actor"] for row in site.remote_rows()]
    (key,) = [one.fingerprint for one in read_workers(site.cluster.home.keys) if one.name == name]
    assert site.cluster("keys revoke", name).code == 0
    assert worker.ended() == 5
    assert key in worker.said
    assert "revoked" in worker.said
    assert site.run("one").ended(60) == 5
    shown = site.cluster("ps")
    assert key in shown.err
    assert name not in shown.out
    eventually(lambda: site.cluster.entries("KEY_REVOKED"))
    assert site.cluster("keys revoke", name).code != 0


def test_a_token_that_is_taken_back_lets_nobody_join(site: Site) -> None:
    """At once, and its worker stays; what cannot be made leaves none behind."""
    token = token_of(site.cluster, "--uses", "5")
    here = site.join("one", token).works()
    made = site.tokens()[-1]["token_id"]
    answer = site.cluster("token revoke", f"{made}*")
    assert (answer.code, made in answer.out) == (0, True)
    late = site.join("late", token)
    assert late.ended(60) == 5 and "revoked" in late.said
    eventually(lambda: any(read_body(one).token == made for one in site.cluster.entries("KEY_REVOKED")))
    assert made not in [one["token_id"] for one in site.tokens()]
    assert site.cluster("token revoke", made).code == 2
    before = [one["token_id"] for one in site.tokens()]
    assert site.cluster("token create", "--address", "no host").code == 2
    assert site.cluster("workers on", "kubernetes", "--count", "1", "--image", "i", "--address", "no host").code == 2
    assert [one["token_id"] for one in site.tokens()] == before
    assert here.process.poll() is None
    answer = site.cluster("keys revoke", "ho1/remote-*")
    assert (answer.code, here.ended()) == (0, 5)


PAYS = """
import os, time
from hobus import Invocation, tool

@tool(idempotent=False, writes=True)
def pay(directory: str, *, call: Invocation) -> str:
    "Pays, once, in two steps."
    with open(os.path.join(directory, "effects"), "a") as file:
        file.write(f"{os.getppid()} {call.idempotency_key}\\n")
        file.flush()
        time.sleep(60)
        file.write("done\\n")
    return "done"
"""


def up_with_payments(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """Start the cluster with a tool that pays; return the environment in which its workers find that tool."""
    env = {"PYTHONPATH": f"{install(tmp_path / 'packages', 'paying', PAYS)}:{ROOT}"}
    cluster.env |= env
    once = {"tools__entry_points": entries("paying", ["pay"]), "launcher__crash_budget": 1}
    cluster.up("--listen", "127.0.0.1:0", *configure(cluster, {}, tools=["pay"], permitted=["pay"], **once))
    return env


@pytest.mark.parametrize("signal_no", [signal.SIGTERM, signal.SIGKILL])
def test_a_payment_whose_only_worker_ends_is_in_doubt_and_the_answer_says_so(
    cluster: Cluster, tmp_path: Path, signal_no: signal.Signals
) -> None:
    """Drained for too short or killed: the record has the tool's start. The last resort answers, and says it, too."""
    env = up_with_payments(cluster, tmp_path)
    with workers(tmp_path / "far") as started:
        site = Site(cluster, tmp_path / "far", started)
        pod = site.join("one", token_of(cluster), "--grace", "2s", env=env).works()
        give_up_its_executor(cluster)
        eventually(lambda: "pay" in {row["tool_id"] for row in cluster("tools", "--json").json["tools"]})
        asking = cluster.start_ask(use("pay", directory=str(tmp_path)))
        effects = tmp_path / "effects"
        eventually(lambda: effects.exists() and effects.read_text())
        pod.signal(signal_no)
        out, err = asking.communicate(timeout=90)
        told = json.loads(out)
        assert told["outcome"] == "degraded", err
        assert [(call["tool_id"], call["code"]) for call in told["tool_calls"]] == [("pay", "unknown_outcome")]
        assert told["cost"]["tool_ids_used"] == ["pay"]
        assert "pay was begun, and nobody knows how it ended" in told["response"]
        (end,) = [one.reason for one in cluster.entries("WO_FAILED") if one.parents and one.reason == "unknown_outcome"]
        assert end and "done" not in effects.read_text()
        pod.ended()
        assert ("1 order did not end in time" in pod.said) == (signal_no == signal.SIGTERM)


def test_a_pod_killed_without_grace_while_its_tool_writes(cluster: Cluster, tmp_path: Path) -> None:
    """The call ends in doubt and the answer says so; another worker with that tool, which is idle, never runs it again."""
    env = up_with_payments(cluster, tmp_path)
    with workers(tmp_path / "far") as started:
        site = Site(cluster, tmp_path / "far", started)
        pods = [site.join(name, token_of(cluster), env=env).works() for name in ("one", "two")]
        give_up_its_executor(cluster)
        eventually(lambda: "pay" in {row["tool_id"] for row in cluster("tools", "--json").json["tools"]})
        asking = cluster.start_ask(use("pay", directory=str(tmp_path)))
        effects = tmp_path / "effects"
        eventually(lambda: effects.exists() and effects.read_text())
        at_work = [pod for pod in pods if any(child.pid == int(effects.read_text().split()[0]) for child in pod.tree())]
        for process in at_work[0].tree():  # as `kubectl delete --force` or a host without power: nothing is said
            with suppress(psutil.NoSuchProcess):  # a tool's process ends with its worker
                process.kill()
        out, err = asking.communicate(timeout=90)
        told = json.loads(out)
        assert told["outcome"] == "success", err
        (call,) = told["tool_calls"]
        assert (call["tool_id"], call["code"]) == ("pay", "unknown_outcome")
        assert "unknown_outcome" in told["response"] or "not known" in told["response"]
        why = cluster("why", told["session_id"]).out
        assert "unknown_outcome" in why
        assert len(effects.read_text().splitlines()) == 1 and len(cluster.entries("TOOL_STARTED")) == 1
        assert cluster.record_verdict() == "ok"
