"""`hobus session` on a real cluster: every command, every refusal that a person can cause, and what dies meanwhile."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from bench.builders import write_config
from bench.cluster import Cluster, cluster_in, eventually
from hobus.bus.messages.ids import derive_held_id
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process

QUESTION = "is the ledger intact?"


def up(directory: Any, *changes: tuple[str, Any], latency_ms: int = 3000) -> Cluster:
    """A cluster whose model is slow enough to be steered."""
    cluster = cluster_in(directory / "home")
    slow = ("gateway.providers.offline.latency_ms", latency_ms)
    cluster.up("--detach", "--config", str(write_config(directory / "config.json", slow, *changes)))
    return cluster


@pytest.fixture
def alone(tmp_path) -> Iterator[Cluster]:
    cluster = up(tmp_path)
    yield cluster
    cluster.end()


def asked(cluster: Cluster, text: str = QUESTION) -> tuple[subprocess.Popen[bytes], str]:
    """A turn that runs, and its session, which a command finds by now: the index is some tenths of a second behind."""
    before = len(cluster.entries("WO_DISPATCHED"))
    asking = cluster.start_ask(text)
    eventually(lambda: len(cluster.entries("WO_DISPATCHED")) > before)
    session = cluster.entries("WO_DISPATCHED")[-1].provenance.session_id
    stands(cluster, session)
    return asking, session


def result_of(asking: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, err = asking.communicate(timeout=90)
    assert out, err
    return json.loads(out)


def stands(cluster: Cluster, session: str) -> dict[str, Any]:
    def row() -> dict[str, Any] | None:
        rows = cluster("session list", "--all", "--json").json["sessions"]
        return next((row for row in rows if row["session_id"] == session), None)

    return eventually(row)


def test_steer_pause_resume_and_what_the_record_tells(alone):
    """One run, seen by list, show and replay; and again when the cluster is down."""
    asking, session = asked(alone)
    short = f"SES-{session[:8]}"
    assert alone("session pause", short, "--run", "1").code == exit_codes.OK  # however slow this machine is
    steered = alone("session steer", session[:8], "and", "which", "frameworks?", "--command-id", "c-1", "--json")
    assert steered.code == exit_codes.OK and steered.json["outcome"] == "applied", steered.err
    again = alone("session steer", session[:8], "and which frameworks?", "--command-id", "c-1", "--json")
    assert again.code == exit_codes.OK and again.json["is_repeat"] is True
    other = alone("session cancel", session, "--command-id", "c-1")
    assert other.code == exit_codes.REFUSED and "command_conflict" in other.err
    eventually(lambda: stands(alone, session)["lifecycle"] == "Paused")
    assert stands(alone, session)["waits_for"] == "a resume"
    assert "a resume" in alone("session list").out and "Paused" in alone("session show", short).out
    twice = alone("session pause", short)
    assert twice.code == exit_codes.REFUSED and "already_paused" in twice.err and "hobus session resume" in twice.err
    assert alone("session resume", short).code == exit_codes.OK
    result = result_of(asking)
    assert result["outcome"] == "success" and "frameworks govern" in result["response"]
    shown = alone("session show", short, "--json").json
    assert [one["outcome"] for one in shown["commands"]] == ["applied", "applied", "rejected", "applied"]
    assert shown["turns"][-1]["text"] == QUESTION and shown["turns"][-1]["outcome"] == "success"
    assert shown["view"]["turn_count"] == 1 and shown["view"]["run"] is None
    running = alone("session replay", short, "--json")
    assert running.code == exit_codes.OK and running.json["state_hash"] == shown["view"]["state_hash"]
    assert alone("down").code == exit_codes.OK
    stopped = alone("session replay", short, "--json")
    # Whoever stops drains, and may have appended; the journal still fits.
    assert stopped.code == exit_codes.OK and stopped.json["fits"] and "no cluster runs" in stopped.err
    assert stands(alone, session)["runs"] == 1
    assert alone("session show", short, "--json").json["view"] is None
    assert alone("session steer", short, "x").code == exit_codes.UNREACHABLE


def test_held_calls_are_approved_and_denied(tmp_path):
    """What they want is shown; without a number the only one is meant, and --all means all."""
    cluster = up(tmp_path, ("tools.approval", ["*"]), latency_ms=200)
    try:
        asking, session = asked(cluster)
        (held,) = eventually(lambda: stands(cluster, session)["held_calls"])
        assert held["tool_id"] == "verify_ledger"
        assert "waits for an approval" in cluster("session show", session).out
        for stale in ("007", "001", derive_held_id("001", "verify_ledger", {"other": 1}, "1.2")):
            wrong = cluster("session approve", session, stale)
            assert wrong.code == exit_codes.REFUSED and "call_not_open" in wrong.err
        assert cluster("session approve", session).code == exit_codes.OK
        assert result_of(asking)["tool_calls"][0]["status"] == "Succeeded"
        none = cluster("session approve", session)
        assert none.code == exit_codes.REFUSED and "no tool call" in none.err
        denied, other = asked(cluster)
        eventually(lambda: stands(cluster, other)["held_calls"])
        assert cluster("session deny", other, "--all", "--reason", "not here").code == exit_codes.OK
        assert result_of(denied)["tool_calls"][0]["code"] == "denied"
    finally:
        cluster.end()
