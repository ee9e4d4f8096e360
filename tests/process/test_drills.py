"""Real processes killed or frozen at exact frames of a turn (`HOBUS_DRILL`): one answer, nothing twice, a clean record."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from bench.cluster import Cluster, eventually
from hobus.bus.messages.ledger import Entry
from hobus.launch.process.failpoint import VARIABLE
from hobus.ledger_service.reader import read_entries
from tests.journals import answers_of, check_record, count_of

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"
KILLS = (
    # actor, moment, type, the least number of strikes that a turn offers there
    ("ho1/1", "before-send", "ledger.write", 4),
    ("ho1/1", "after-send", "gateway.prompt", 3),
    ("ho1/1", "on-receive", "wo.execute", 4),
    ("ho2/1", "before-send", "ledger.write", 4),
    ("ho2/1", "after-send", "wo.execute", 4),
    ("ho2/1", "on-receive", "ledger.written", 4),
    ("ho2/1", "before-send", "ho2.turn_reply", 1),
    ("gateway/1", "before-send", "ledger.write", 5),
    ("gateway/1", "on-receive", "gateway.prompt", 3),
    ("gateway/1", "before-send", "gateway.response", 3),
)


def entries_of(cluster: Cluster) -> list[Entry]:
    """The whole record with bodies."""
    return list(read_entries(cluster.home.ledger, with_bodies=True))


def mark_of(cluster: Cluster, actor: str) -> Path:
    """Is there once the drill has struck."""
    return cluster.home.run / f"drill.{actor.replace('/', '-')}"


TAKEN = (0, 8)
"""Rows of which `.ci/run` takes a frame, beside the diagonal of the kill matrix (`test_kills.py`). The simulated cluster is killed at all of them."""


def _strikes() -> list[ParameterSet]:
    """Each frame of each kind; `.ci/run` takes one of a few, here the first, there a later one, and leaves the rest."""
    return [
        pytest.param(*kill, number, marks=() if row in TAKEN and number == 1 + row % least else pytest.mark.matrix)
        for row, (*kill, least) in enumerate(KILLS)
        for number in range(1, least + 1)
    ]


@pytest.mark.parametrize(("actor", "moment", "type_name", "number"), _strikes())
def test_a_kill_at_any_such_frame_of_a_turn_costs_nothing(make_cluster, actor, moment, type_name, number):
    """SIGKILL at the first, second, … frame of this kind: the turn is answered once, before its deadline; verify passes."""
    cluster = make_cluster("home")
    cluster.env[VARIABLE] = f"{actor}:KILL:{moment}:{type_name}:{number}"
    cluster.up("--detach")
    result = cluster.ask(QUESTION, "--timeout", "30", "--input-id", "in-1")
    assert mark_of(cluster, actor).exists()
    assert result["outcome"] in ("success", "degraded"), result
    verified = cluster("ledger verify")
    assert verified.code == 0, verified.out + verified.err
    entries = entries_of(cluster)
    assert len(answers_of(entries, "in-1")) == 1
    check_record(entries)


@pytest.mark.parametrize("write", [pytest.param(n, marks=() if n == 2 else pytest.mark.matrix) for n in range(1, 5)])
def test_a_frozen_owner_is_taken_over_and_cannot_write_when_it_thaws(cluster: Cluster, write: int):
    """The two-owner drill: stopped at this one of its writes, taken over, thawed: one answer, nothing of it afterwards."""
    cluster.env[VARIABLE] = f"ho2/1:STOP:before-send:ledger.write:{write}"
    cluster.up("--detach", "--scale", "ho2=2")
    # ho2/1 is the first owner of some session
    input_id = next(name for number in range(12) if asked_and_struck(cluster, name := f"in-{number}"))
    assert "frozen or cut off" in row_of(cluster, "ho2/1")["note"]
    os.kill(cluster.row("ho2/1").pid, signal.SIGCONT)
    eventually(lambda: row_of(cluster, "ho2/1")["last_beat_ms"] is not None, within_s=60)
    again = cluster.ask(QUESTION, "--timeout", "30", "--input-id", input_id)
    verified = cluster("ledger verify")
    assert again["outcome"] == "success", again
    assert verified.code == 0, verified.out + verified.err
    entries = entries_of(cluster)
    check_record(entries)
    journal = [entry for entry in entries if entry.stream == f"session/{again['session_id']}"]
    assert len(answers_of(journal, input_id)) == 1
    assert count_of(journal, "TookOver") >= 2 or write == 1  # stopped at its first write it never owned anything


def asked_and_struck(cluster: Cluster, input_id: str) -> bool:
    """One first turn under this id, answered whoever owns its session; whether ho2/1 is frozen by now."""
    result = cluster.ask(QUESTION, "--timeout", "30", "--input-id", input_id)
    assert result["outcome"] == "success", result
    return mark_of(cluster, "ho2/1").exists()


def row_of(cluster: Cluster, actor: str) -> dict[str, Any]:
    """What `hobus ps` says of one process."""
    return next(row for row in cluster("ps", "--json").json["actors"] if row["actor"] == actor)
