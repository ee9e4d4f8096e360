"""`hobus session` on a real cluster: every command, every refusal that a person can cause, and what dies meanwhile."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from bench.builders import write_config
from bench.cluster import Cluster, cluster_in, eventually
from hobus.bus.messages.ids import held_id
from hobus.launch.console import exit_codes
from hobus.launch.console.interrupt import INTERRUPTED

pytestmark = pytest.mark.process

QUESTION = "is the ledger intact?"


def up(directory: Any, *changes: tuple[str, Any], latency_ms: int = 3000) -> Cluster:
    """A cluster whose model is slow enough to be steered."""
    cluster = cluster_in(directory / "home")
    slow = ("gateway.providers.offline.latency_ms", latency_ms)
    cluster.up("--detach", "--config", str(write_config(directory / "config.json", slow, *changes)))
    return cluster


@pytest.fixture(scope="module")
def slow(tmp_path_factory) -> Iterator[Cluster]:
    """Shipped settings but for the model's pace; each test has its own session."""
    cluster = up(tmp_path_factory.mktemp("slow"), ("ho3.enabled", False))
    yield cluster
    cluster.end()


@pytest.fixture
def alone(tmp_path) -> Iterator[Cluster]:
    """One that may be taken down."""
    cluster = up(tmp_path)
    yield cluster
    cluster.end()


def count(cluster: Cluster, event_type: str) -> int:
    """Entries of this type."""
    return len(cluster.entries(event_type))


def asked(cluster: Cluster, text: str = QUESTION) -> tuple[subprocess.Popen[bytes], str]:
    """A turn that runs, and its session, which a command finds by now: the index is some tenths of a second behind."""
    before = len(cluster.entries("RunStarted"))
    asking = cluster.start_ask(text)
    eventually(lambda: len(cluster.entries("RunStarted")) > before)
    session = cluster.entries("RunStarted")[-1].provenance.session_id
    stands(cluster, session)
    return asking, session


def result_of(asking: subprocess.Popen[bytes]) -> dict[str, Any]:
    """How the turn ended."""
    out, err = asking.communicate(timeout=90)
    assert out, err
    return json.loads(out)


def stands(cluster: Cluster, session: str) -> dict[str, Any]:
    """Its row of the listing, as soon as it has one."""

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


def test_ctrl_c_ends_the_waiting_for_a_follow_up_and_not_its_turn(slow):
    """What is said then is a command: pasted, it waits for the same turn again, which runs once."""
    completed, applied = count(slow, "RunCompleted"), count(slow, "HostCommandApplied")
    asking, session = asked(slow)
    assert slow("session pause", session).code == exit_codes.OK  # however slow this machine is
    waiting = slow.begin("session followup", session, "--wait", "what did I ask before?")
    eventually(lambda: count(slow, "HostCommandApplied") == applied + 2)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, out) == (INTERRUPTED, b""), err
    (line,) = [line for line in err.decode().splitlines() if line.startswith("no longer waiting; the turn goes on")]
    again = shlex.split(line.partition("is kept: ")[2].partition(" (it is applied once)")[0])
    assert again[:3] == ["hobus", "session", "followup"] and "--command-id" in again and "--wait" in again
    assert slow("session resume", session).code == exit_codes.OK
    answer = slow.begin("session followup", *again[3:])
    out, err = answer.communicate(timeout=90)
    assert answer.returncode == exit_codes.OK and QUESTION in out.decode(), err
    assert result_of(asking)["outcome"] == "success"
    assert count(slow, "RunCompleted") == completed + 2


def test_cancel_ends_the_run_and_raises_the_epoch(slow):
    """Whoever asked is told; a fence that named the old epoch holds."""
    asking, session = asked(slow)
    assert slow("session pause", session).code == exit_codes.OK  # however slow this machine is
    stale = slow("session cancel", session, "--epoch", "7")
    assert stale.code == exit_codes.REFUSED and "stale_epoch" in stale.err
    assert slow("session cancel", session, "--run", "2").code == exit_codes.REFUSED
    assert slow("session cancel", session, "--epoch", "0", "--reason", "wrong question").code == exit_codes.OK
    assert result_of(asking)["code"] == "cancelled"
    eventually(lambda: stands(slow, session)["lifecycle"] == "Idle")
    late = slow("session steer", session, "too late")
    assert late.code == exit_codes.REFUSED and "no_active_run" in late.err
    assert slow("session replay", session).code == exit_codes.OK


WITHOUT_A_RUN = {"steer": ["x"], "deny": ["001", "--reason", "no"]}
"""Of the others the reducer's own tests know it."""


def test_without_a_run_it_is_refused_and_recorded(slow):
    """Each with its code, and the record has it; a closed session says so instead."""
    session, before = slow.ask("hello")["session_id"], count(slow, "HostCommandRejected")
    for number, (name, words) in enumerate(WITHOUT_A_RUN.items(), start=1):
        refused = slow(f"session {name}", session, *words)
        assert refused.code == exit_codes.REFUSED and "no_active_run" in refused.err and "next: hobus" in refused.err
        assert count(slow, "HostCommandRejected") == before + number
    as_json = slow("session pause", session, "--json")
    assert as_json.code == exit_codes.REFUSED and as_json.json["outcome"] == "rejected"
    ended = slow("session end", session, "--json")
    assert ended.code == exit_codes.OK and ended.json["turn_count"] == 1
    closed = slow("session pause", session)
    assert closed.code == exit_codes.REFUSED and "session_closed" in closed.err
    short = f"SES-{session[:8]}"
    eventually(lambda: short not in slow("session list").out)  # the index is some tenths of a second behind
    assert any(short in row and "closed" in row for row in slow("session list", "--all").out.splitlines())
    assert slow("ask", "hello").code == exit_codes.OK
    total = len(slow("session list", "--all", "--json").json["sessions"])
    cut, whole = (slow("session list", "--all", "--json", "--limit", str(most)).json for most in (total - 1, total))
    assert (len(cut["sessions"]), cut["more"]) == (total - 1, True) and not whole["more"]
    assert f"there are more: --limit {2 * total - 2}" in slow("session list", "--all", "--limit", str(total - 1)).err


def test_held_calls_are_approved_and_denied(tmp_path):
    """What they want is shown; without a number the only one is meant, and --all means all."""
    cluster = up(tmp_path, ("tools.approval", ["*"]), latency_ms=200)
    try:
        asking, session = asked(cluster)
        (held,) = eventually(lambda: stands(cluster, session)["held_calls"])
        assert held["tool_id"] == "verify_ledger"
        assert "waits for an approval" in cluster("session show", session).out
        for stale in ("007", "001", held_id("001", "verify_ledger", {"other": 1}, "1.2")):
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


def test_names_that_name_nothing_and_texts_that_are_none(slow):
    """Unknown, ambiguous, garbage; blank, one megabyte too long, no UTF-8; a command id that is none."""
    session, before = slow.ask("hello")["session_id"], count(slow, "HostCommandReceived")
    for name in ("pause", "end"):
        unknown = slow(f"session {name}", "SES-00000000")
        assert unknown.code == exit_codes.USAGE and "no such session" in unknown.err and "session list" in unknown.err
        whole = slow(f"session {name}", "00000000-0000-4000-8000-000000000000")
        assert whole.code == exit_codes.USAGE and "no such session" in whole.err
        assert slow(f"session {name}", "../../etc/passwd").code == exit_codes.USAGE
    big = slow("session steer", session, "-", stdin=b"x" * 1_100_000)
    assert big.code == exit_codes.USAGE and "host.prompt_max_bytes" in big.err
    for text in (b"", b"  \n", b"\xff\xfe"):
        assert slow("session steer", session, "-", stdin=text).code == exit_codes.USAGE
    assert slow("session pause", session, "--command-id", "a b").code == exit_codes.USAGE
    assert slow("session pause", session, "--run", "x").code == exit_codes.USAGE
    assert slow("session pause", session, "--timeout", "0").code == exit_codes.USAGE
    assert count(slow, "HostCommandReceived") == before
