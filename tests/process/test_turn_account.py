"""`hobus session show --turn`: what happened in a turn in which a process died, and in one that nobody supervised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.builders import write_config
from bench.cluster import Cluster, eventually, hobus
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process


def test_a_turn_is_told_by_the_record_alone(cluster: Cluster, tmp_path: Path):
    """The kill in it, both lives of the executor; the same with and without a cluster, for people and for programs."""
    config = write_config(tmp_path / "config.json", ("gateway.providers.offline.latency_ms", 400))
    cluster.up("--config", str(config))
    asking = cluster.start_ask("is the ledger intact?")
    eventually(lambda: len(cluster.entries("PROMPT_SENT")) > 1)  # its executor has ended one order by then
    cluster.kill("ho1/1")
    assert asking.wait(60) == 0
    session_id = cluster.entries("RunRequested")[0].provenance.session_id
    name = f"SES-{session_id[:8]}"
    told = cluster("session show", name, "--turn", "1")
    assert told.code == 0, told
    for said in (
        "the question is recorded: “is the ledger intact?”", "gateway/1 records a prompt for 1.1.1",
        "ho1/1 has ended, and goes on as ho1/1@", "tool verify_ledger {}", "only then sent", "memory logs",
        "    > The ledger is intact", "success; 3 model calls, 1 tool call",
    ):  # fmt: skip
        assert said in told.out, told.out
    document = cluster("session show", f"{name}-1", "--json").json
    assert [one["what"] for one in document["moments"]] == [line.split(" ms  ", 1)[1] for line in told.out.splitlines() if " ms  " in line]  # fmt: skip
    assert document["totals"]["model_calls"] == 3 and document["turn"]["outcome"] == "success"
    unknown = cluster("session show", name, "--turn", "9")
    assert unknown.code == exit_codes.USAGE and f"{name} has no such turn; it has turn 1\n" in unknown.err
    assert cluster("down").code == 0
    assert cluster("session show", f"{session_id}-1").out == told.out


def test_a_session_whose_only_turn_was_degraded_is_known(cluster: Cluster):
    """By its short name, with its one turn; and that turn is told by the id of its input."""
    cluster.up()
    assert cluster("drain", "ho2/1").code == 0
    result = cluster.ask("what packages are installed?", "--input-id", "in-1")
    assert result["outcome"] == "degraded"
    name = f"SES-{result['session_id'][:8]}"
    shown = cluster("session show", name)
    assert shown.code == 0 and "what packages are installed?" in shown.out and "degraded" in shown.out, shown
    (row,) = cluster("session list", "--json").json["sessions"]
    assert (row["session_id"], row["is_degraded"], row["agent_id"], row["runs"]) == (
        result["session_id"],
        True,
        "ADMIN",
        0,
    )
    assert f"{name}  degraded  ADMIN  0 " in cluster("session list").out
    assert cluster("session show", name, "--turn", "2").err.startswith(
        f"error: --turn 2: {name} has no such turn; it has input in-1\n"
    )
    told = hobus("session", "show", name, "--turn", "in-1", "--home", str(cluster.home.root))
    assert told.code == 0 and "the answer is recorded as a degraded one" in told.out, told
    assert "answers without the supervisor" in told.out and "what packages are installed?" in told.out, told


def test_a_turn_is_explained_with_and_without_a_cluster(cluster: Cluster):
    """Every prompt with the entries of its texts, what memory had, gates, time; the second turn told of itself alone."""
    cluster.up()
    session_id = cluster.ask("is the ledger intact?")["session_id"]
    name = f"SES-{session_id[:8]}"
    cluster.ask("what packages are installed?", "--session", session_id)
    told = cluster("why", name)
    assert told.code == 0, told
    for said in (
        f"{name}-2: success", "< what packages are installed?", "the message was taken as", "labels: ",
        "under PRC-CLASSIFY-001", "under PRC-SYNTHESIZE-001", "RunRequested #", "PRM-SYNTHESIZE-001",
        "memory: 0 lines shown", "tool:list_packages", "WO_QUALITY_GATE: accepted", "ran under sha256:",
    ):  # fmt: skip
        assert said in told.out, (said, told.out)
    assert re.search(r"history +[0-9]+ +\S", told.out) and "1.1.1" not in told.out
    document = cluster("why", f"{name}-1", "--json").json
    assert document["turn"] == f"{name}-1" and len(document["prompts"]) == 3
    words = cluster("why", f"{name}-2", "--prompts").out
    assert "  | You are the administration agent" in words and "  | user: is the ledger intact?" in words
    differs = cluster("diff", f"{name}-1", f"{name}-2")
    assert differs.code == 0 and "  -is the ledger intact?" in differs.out and "  +what packages are" in differs.out
    account = cluster("session show", f"{name}-2").out
    assert "“what packages are installed?”" in account and "“is the ledger intact?”" not in account
    unknown = cluster("why", f"{name}-7")
    assert unknown.code == exit_codes.USAGE and "it has turns 1 to 2" in unknown.err
    assert cluster("down").code == 0
    assert cluster("why", name).out == told.out
