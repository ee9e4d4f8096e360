"""Why a turn has no answer, or waited for one: failures with their words, memory that is away, calls that were held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.simulated import SimulatedCluster
from hobus.actors.ho3_memory.records import STREAMS
from hobus.bus.messages.ledger import Entry
from hobus.config.snapshot import Snapshot
from hobus.launch.cli.turn_account import turn_account
from hobus.launch.cli.turn_why import ExplainedTurn
from hobus.launch.cli.why_view import lines_of, parts_of
from hobus.launch.sessions.evidence import Evidence
from hobus.launch.sessions.why import explain
from tests.actors.ho2_supervisor.rig import snapshot
from tests.simulation.test_memory import lesson


def why(entries: Sequence[Entry], session_id: str, wanted: str, config: Snapshot) -> tuple[ExplainedTurn, str]:
    """A turn as the command explains it, and its words."""
    of_session = [one for one in entries if one.provenance.session_id == session_id]
    account = turn_account(of_session, session_id, wanted, called="TURN")
    memory = [one for one in entries if one.stream in STREAMS]
    found = explain(Evidence(turn=account.entries, session=of_session, memory=memory, snapshot=config))
    told = ExplainedTurn(account, found)
    return told, "\n".join(lines_of(parts_of(told)))


# --- memory -----------------------------------------------------------------------------------------------------------


def _asked_once(*changes: tuple[str, Any], is_silent: bool = False) -> tuple[ExplainedTurn, str]:
    config = snapshot(*changes)
    with SimulatedCluster(config) as cluster:
        if is_silent:
            cluster.kill_now(cluster.oldest("ho3"))
        session_id = cluster.ask("what packages are installed?", input_id="in-1").session_id
        return why(cluster.entries(), session_id, "1", config)


def test_memory_that_is_off_is_told_apart_from_one_that_did_not_answer():
    """By the configuration that the turn ran under; to programs, too."""
    off, words = _asked_once(("ho3.enabled", False))
    assert off.document()["memory"]["state"] == "off"
    assert "memory is off (#" in words and "did not answer" not in words
    silent, words = _asked_once(("ho3.enabled", True), is_silent=True)
    assert silent.document()["memory"]["state"] == "silent"
    assert "it did not answer" in words and "memory is off" not in words


def test_memory_that_had_read_nothing_names_no_entry():
    """There is none before the first."""
    with lesson() as one:
        session_id = one.ask().session_id
        told, words = why(one.cluster.entries(), session_id, "1", one.cluster.snapshot)
    assert told.document()["memory"]["state"] == "read" and "#-1" not in words
    assert told.document()["memory"]["as_of_seq"] == -1 and "before its first entry" in words
