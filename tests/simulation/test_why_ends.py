"""Why a turn has no answer, or waited for one: failures with their words, memory that is away, calls that were held."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hobus.bus.errors import GatewayError
from hobus.bus.messages.gateway import Prompt, PromptResponse
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import Approve, Cancel, Deny
from hobus.config.snapshot import Snapshot
from hobus.launch.cli.turn_reading import evidence_of, turn_named
from hobus.launch.cli.turn_view import WHY
from hobus.launch.console.view import lines_of
from hobus.launch.sessions.account import TurnAccount, make_account
from hobus.launch.sessions.evidence import Rules
from hobus.launch.sessions.summary import SessionStanding, fold_standing
from hobus.launch.sessions.why_memory import STREAMS
from tests.actors.ho2_supervisor.rig import snapshot
from tests.sessions import facts, held_calls, stands_still
from tests.simulated import SimulatedCluster
from tests.simulation.test_memory import Watched, lesson
from tests.simulation.test_sessions import configured, played


def why(entries: Sequence[Entry], session_id: str, wanted: str, config: Snapshot) -> tuple[TurnAccount, str]:
    """A turn as the command explains it, and its words."""
    of_session = [one for one in entries if one.provenance.session_id == session_id]
    turn = turn_named(of_session, session_id, wanted, called="TURN")
    memory = [one for one in entries if one.stream in STREAMS]
    evidence = replace(evidence_of(of_session, turn), memory=memory, rules=Rules.of(config.to_bytes()))
    told = make_account(session_id, turn, evidence)
    return told, "\n".join(lines_of(WHY, told))


# --- failures ---------------------------------------------------------------------------------------------------------

WORDS = "provider offline cannot be reached at http://127.0.0.1:9/v1: is it running there?"


def _unreachable(_prompt: Prompt) -> PromptResponse | None:
    raise GatewayError("PROVIDER_ERROR", WORDS, retryable=True)


@pytest.fixture(scope="module")
def failed() -> tuple[list[Entry], list[tuple[TurnAccount, str]]]:
    """Turns of one session until none of a turn's prompts is sent any more, as the model's breaker is open."""
    config = snapshot(("gateway.breaker.failures", 2), ("gateway.outage_wait_ms", 0))
    with SimulatedCluster(config, providers={"offline": Watched(config, _unreachable)}) as cluster:
        session_id = cluster.ask("list the packages", input_id="in-1").session_id
        for number in (2, 3):
            cluster.ask("again", input_id=f"in-{number}", session_id=session_id)
        entries = cluster.entries()
    return entries, [why(entries, session_id, str(number), config) for number in (1, 2, 3)]


def test_each_call_that_failed_says_why_with_its_code_words_and_entry(failed):
    """Of each attempt; also where it stands among the prompts."""
    entries, turns = failed
    told, words = turns[0]
    ends = {one.sequence: one for one in entries if one.event_type == "PROMPT_FAILED"}
    steps = [one.step for one in told.prompts]
    assert len(steps) >= 3
    assert [one.attempt for one in steps][:3] == [1, 2, 3]
    for one in steps:
        assert one.sequences[-1] in ends and (one.code, one.words) == ("PROVIDER_ERROR", WORDS)
        assert f"not answered: PROVIDER_ERROR: {WORDS} (#{one.sequences[-1]})" in words
        assert one in told.failures
    [row] = [line for line in words.splitlines() if line.startswith("model call ") and " classification " in line]
    assert "1 to " in row and "PROVIDER_ERROR" in row and WORDS in row and f"#{steps[0].sequences[-1]}" in row


def test_the_turns_own_failure_and_the_attempt_of_the_host_are_told_with_their_entries(failed):
    """Each of the turn's own input, and none of another's."""
    entries, turns = failed
    by_sequence = {one.sequence: one for one in entries}
    for number, (told, words) in enumerate(turns, 1):
        failures = {one.kind: one for one in told.failures}
        run, host, refused = failures["run"], failures["supervisor"], failures["refused"]
        assert run.code == told.turn.code and WORDS in run.words
        assert (refused.order, refused.code) == ("of the degraded answer", "CIRCUIT_OPEN") and WORDS in refused.words
        assert host.code == f"BusError:{run.code}" and f"#{host.sequences[0]}" in words
        assert f"#{run.sequences[0]}" in words
        assert by_sequence[host.sequences[0]].submission_id.endswith(f"/in-{number}")
        assert f"WO-DEGRADED-in-{number}" == by_sequence[refused.sequences[0]].provenance.work_order_id
        assert re.search(r"prompt, never sent +of the degraded answer +CIRCUIT_OPEN", words)
        assert [one for one in told.document()["steps"] if one["verdict"] == "failed" and one["words"]]


def test_a_classification_whose_prompt_was_never_sent_is_said_to_have_failed(failed):
    """Its order says what it was for."""
    _, turns = failed
    told, words = turns[2]
    assert not told.prompts and told.classified is not None
    assert f"the message was taken as (#{told.classified})\n  nothing: the classification failed" in words


# --- approvals --------------------------------------------------------------------------------------------------------


def test_a_wait_for_approval_is_told_while_it_lasts_and_with_its_verdict_behind_it():
    """For which call and since when; then the command that ended it, a denied call's as an approved one's."""
    config = configured(tools={"approval": ["list_*", "verify_ledger"]})
    with played(config) as (cluster, person):

        async def story() -> list[Entry]:
            await person.begin()
            async with asyncio.TaskGroup() as group:
                group.create_task(person.say("what packages are installed, and is the ledger intact?"))
                view = await person.until(lambda view: stands_still(view) and len(held_calls(view)) == 2)
                await asyncio.sleep(1)
                meanwhile, held = cluster.entries(), held_calls(view)
                await person.command(Deny(call_id=held["verify_ledger"], reason="not now"))
                await asyncio.sleep(1)
                await person.command(Approve(call_id=held["list_packages"]))
            return meanwhile

        meanwhile = cluster.world.run(story())
        entries = cluster.entries()
    told, words = why(meanwhile, person.session_id, "1", config)
    batch = next(one for one in entries if any(fact.kind == "ToolBatchIssued" for fact in facts([one])))
    assert {(one.about, one.verdict, one.end_us) for one in told.waits} == {
        ("list_packages", "", None),
        ("verify_ledger", "", None),
    }
    assert {one.begin_us for one in told.waits} == {batch.ledger_at_us}
    assert "waits for a person" in words and "not ended" in words and f"#{batch.sequence}" in words

    told, words = why(entries, person.session_id, "1", config)
    waits = {one.about: one for one in told.waits}
    assert {name: (one.verdict, one.words) for name, one in waits.items()} == {
        "list_packages": ("approved", ""),
        "verify_ledger": ("denied", "not now"),
    }
    kinds = {one.sequence: one.event_type for one in entries}
    for one in waits.values():
        assert [kinds[n] for n in one.sequences] == ["LifecycleChanged", "HostCommandReceived", "HostCommandApplied"]
        assert one.order in words and one.arguments is not None
        assert one.end_us is not None and one.end_us - one.begin_us >= 1_000_000
    assert waits["list_packages"].end_us - waits["verify_ledger"].end_us >= 1_000_000
    assert (told.figures.failures, told.figures.denied, told.failures) == (0, 1, [])
    standing = standing_of(entries, person.session_id)
    assert (standing.tools_failed, standing.tools_denied, standing.last_outcome) == ([], ["verify_ledger"], "success")
    by = waits["list_packages"].by
    assert by.startswith("local (") and f"approved by {by}" in words
    assert f"denied by {by}: not now" in words and "waits for" not in words
    assert [one["call_id"] for one in told.document()["steps"] if one["kind"] == "wait"]


def standing_of(entries: Sequence[Entry], session_id: str) -> SessionStanding:
    return fold_standing([one for one in entries if one.stream == f"session/{session_id}"])


def test_a_wait_that_its_run_did_not_outlive_is_undecided():
    """It ends with the run."""
    config = configured(tools={"approval": ["list_*"]})
    with played(config) as (cluster, person):

        async def story() -> None:
            await person.begin()
            async with asyncio.TaskGroup() as group:
                group.create_task(person.say("what packages are installed?"))
                await person.until(lambda view: stands_still(view) and len(held_calls(view)) == 1)
                await person.command(Cancel(reason="too long"))

        cluster.world.run(story())
        entries = cluster.entries()
    told, words = why(entries, person.session_id, "1", config)
    (wait,) = told.waits
    assert (wait.verdict, wait.end_us is None) == ("undecided", False)
    assert "cancelled (too long)" in words and "the run was over first" in words


# --- memory -----------------------------------------------------------------------------------------------------------


def _asked_once(*changes: tuple[str, Any], is_silent: bool = False) -> tuple[TurnAccount, str]:
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
    assert told.document()["memory"]["said"]["as_of_seq"] == -1 and "before its first entry" in words
