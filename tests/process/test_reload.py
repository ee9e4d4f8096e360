"""A running cluster takes in another configuration: nothing is lost, and every turn goes by one of the two."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import Cluster, eventually
from bench.far_worker import FarWorker, token_of, workers
from hobus.bus.messages.control import PeerRow
from hobus.bus.messages.session import TurnResult
from hobus.bus.paging import read_peers
from hobus.bus.record.journal import read_event
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptSent
from hobus.bus.record.session_facts import RunRequested
from hobus.launch.cluster import identity
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.home import make_home
from hobus.launch.worker.home import WorkerHome

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"
TURNS = 32


def say(cluster: Cluster, **settings: Any) -> None:
    """The home's own admin_config.json says this besides what it said."""
    file = cluster.home.config / "admin_config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(file.read_text()) if file.exists() else {}
    for path, value in settings.items():
        section, _, name = path.replace("__", ".").partition(".")
        known.setdefault(section, {})[name] = value
    file.write_text(json.dumps(known))


def agent(cluster: Cluster, agent_id: str, words: str) -> None:
    folder = cluster.home.config / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    shipped = json.loads(Path("config/agents/ADMIN.json").read_text())
    (folder / f"{agent_id}.json").write_text(json.dumps({**shipped, "agent_id": agent_id, "system_prompt": words}))


def slow(cluster: Cluster) -> Cluster:
    file = cluster.home.config / "admin_config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    offline = {"latency_ms": 250}
    file.write_text(json.dumps({"gateway": {"providers": {"offline": offline}}}))
    cluster.up("--scale", "ho1=2")
    return cluster


def digests(cluster: Cluster) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for entry in cluster.entries("RunRequested", "PROMPT_SENT"):
        if entry.provenance.work_order_id.startswith("WO-CONS"):
            continue  # begins once the turn is over
        about = f"{entry.provenance.session_id}-{entry.provenance.run_seq}"
        if entry.event_type == "RunRequested":
            event = read_event(entry).event
            assert isinstance(event, RunRequested)
            found.setdefault(about, set()).add(event.config_digest)
        elif (said := read_payload(PromptSent, entry)) is not None:
            found.setdefault(about, set()).add(said.config_digest)
    return found


async def asked(cluster: Cluster, meanwhile: Callable[[], Any]) -> tuple[list[TurnResult], Any]:
    async with asyncio.TaskGroup() as group:
        turns = [group.create_task(cluster.turn(QUESTION, timeout_s=60)) for _ in range(TURNS)]
        await asyncio.sleep(0.5)
        done = group.create_task(asyncio.to_thread(meanwhile))
    return [turn.result() for turn in turns], done.result()


def check(cluster: Cluster, results: list[TurnResult], former: str, new: str) -> None:
    """All answered, none degraded, each of one configuration, and no order ended twice."""
    assert [(one.outcome, one.code) for one in results if one.outcome != "success"] == []
    named = digests(cluster)
    assert {frozenset(named[str(one.run_id)]) for one in results} <= {frozenset({former}), frozenset({new})}
    ends = [entry.provenance.work_order_id for entry in cluster.entries("OrderEnded")]
    assert len(ends) == len(set(ends))
    eventually(lambda: cluster.record_verdict() == "ok")  # once what the turns taught is consolidated


def peers(cluster: Cluster) -> list[PeerRow]:
    async def read() -> list[PeerRow]:
        async with connect_bus(cluster.place, "operator") as bus:
            return (await read_peers(bus, timeout_s=5)).peers

    return asyncio.run(read())


def reloaded(cluster: Cluster) -> dict[str, Any]:
    answer = cluster("reload", "--json")
    assert answer.code == 0, answer.err
    return answer.json


def test_processes_that_must_be_are_started_anew_without_a_turn_lost(cluster: Cluster) -> None:
    """Executors and supervisors, one after the other, with one more meanwhile; afterwards as many as before."""
    slow(cluster)
    former = cluster.run().config_digest
    before = {row.actor: row.instance for row in cluster.run().children}

    def change() -> dict[str, Any]:
        say(cluster, tools__children_max=3, ho2__history_turns_max=500)
        return reloaded(cluster)

    results, done = asyncio.run(asked(cluster, change))
    assert done["started_anew"] == ["ho1", "ho2"]
    after = {row.actor: row.instance for row in cluster.run().children}
    assert set(after) == set(before)
    assert {actor.partition("/")[0] for actor in after if after[actor] != before[actor]} == {"ho1", "ho2"}
    check(cluster, results, former, done["digest"])


def test_a_command_that_is_killed_leaves_the_launcher_to_finish_and_two_at_once_are_one(cluster: Cluster) -> None:
    """The first is killed behind its word; the second is told that one is under way, or finds it done."""
    slow(cluster)
    say(cluster, tools__children_max=3, ho2__history_turns_max=500)
    first = cluster.begin("reload")
    eventually(lambda: cluster.run().reload is not None)
    first.kill()
    first.communicate()
    second = cluster("reload")
    is_told = second.code == 5 and "another reload is under way" in second.err and "hobus ps" in second.err
    assert is_told or second.out.startswith("nothing changed"), (second.out, second.err)
    eventually(lambda: (row := cluster.run().reload) is not None and row.state == "done")
    assert cluster("reload").out.startswith("nothing changed")
    assert cluster.ask(QUESTION)["outcome"] == "success"


def test_a_launcher_that_is_killed_in_the_middle_leaves_a_home_that_starts_under_what_lies_on_disk(
    cluster: Cluster,
) -> None:
    """The command says that it has ended; a start goes by the new one, and finds every turn of before."""
    slow(cluster)
    result = cluster.ask(QUESTION)
    say(cluster, tools__children_max=3, ho2__history_turns_max=500)
    command = cluster.begin("reload")
    eventually(lambda: cluster.run().reload is not None)
    run = cluster.run()
    identity.end(run.launcher_pid, run.launcher_mark, signal.SIGKILL)
    _out, err = command.communicate(timeout=60)
    assert command.returncode == 4 and b"hobus up" in err, err
    cluster.up()
    assert cluster("config show", "tools.children_max", "--json").json["settings"][0]["value"] == 3
    again = cluster.ask(QUESTION, "--session", result["session_id"])
    assert again["outcome"] == "success"
    assert cluster.record_verdict() == "ok"


def test_one_that_a_process_does_not_start_under_is_taken_back_and_that_is_said(cluster: Cluster) -> None:
    """Memory that cannot start under the new one: all runs as before, with as many processes.

    So does it where addresses or the bus would change, which are named with the mend, and under a configuration with faults.
    """
    cluster.up()
    former = cluster.run().config_digest
    say(cluster, bus__attempts_max=99, http__listen="127.0.0.1:0", budget__turn_limit=7)
    refused = cluster("reload")
    assert refused.code == 5
    assert "bus.attempts_max" in refused.err and "http.listen" in refused.err and "hobus down" in refused.err
    say(cluster, bus__attempts_max="many")
    assert cluster("reload").code == 2
    assert cluster.run().config_digest == former
    assert cluster.run().reload is None
    (cluster.home.config / "admin_config.json").unlink()
    before = {row.actor for row in cluster.run().children}
    say(cluster, http__connections_max=7, ho3__stated_weight=0.5)
    memory = cluster.home.root / "memory"
    eventually(memory.is_dir)
    aside = memory.rename(memory.with_name("aside"))
    memory.write_text("a file where a directory belongs")
    answer = cluster("reload")
    assert answer.code == 1, (answer.out, answer.err)
    assert "ho3/1 does not start under it" in answer.err and "as before" in answer.err
    assert cluster.run().config_digest == former
    memory.unlink()
    aside.rename(memory)
    eventually(lambda: all(row.state == "ready" for row in cluster.run().children))
    assert {row.actor for row in cluster.run().children} == before
    assert cluster.ask(QUESTION)["outcome"] == "success"
    assert reloaded(cluster)["started_anew"] == ["ho3", "ho2"]


def test_a_worker_on_another_host_hears_fetches_and_begins_anew(cluster: Cluster, tmp_path: Path) -> None:
    """By itself, with the new configuration kept; orders that come meanwhile are done."""
    with workers(tmp_path / "far") as started:
        cluster.up("--listen", "127.0.0.1:0")
        worker = FarWorker(tmp_path / "far" / "one", ["join", token_of(cluster)])
        started.append(worker)
        worker.works()

        def row() -> tuple[str, str]:
            rows = [(one.instance, one.config_digest) for one in peers(cluster) if one.host]
            return rows[0] if rows else ("", "")

        instance, _ = row()
        agent(cluster, "CLERK", "You are the clerk.")
        say(cluster, tools__children_max=3)
        done = reloaded(cluster)
        for _ in range(4):
            assert cluster.ask(QUESTION, "--agent", "CLERK")["outcome"] == "success"
        eventually(lambda: (now := row())[0] not in ("", instance) and now[1] == done["digest"])
        kept = WorkerHome(make_home(worker.home)).snapshot()
        assert kept is not None and kept.digest == done["digest"]
        assert cluster.ask(QUESTION, "--agent", "CLERK")["outcome"] == "success"
