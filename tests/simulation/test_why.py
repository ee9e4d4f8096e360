"""Why a turn was answered so, from the record of a whole simulated cluster: every stretch, line and gate has its place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.disk import RealDisk
from hobus.bus.messages.base import unpack
from hobus.bus.messages.ids import format_iso
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.memory import DeactivateOverlay, LogOverlay, OverlayChanged, OverlayLogged
from hobus.bus.record.entry import Provenance
from hobus.config.attention_template import Template
from hobus.config.load import Governed
from hobus.config.snapshot import Snapshot
from hobus.launch.cli import turn_reading
from hobus.launch.cli.turn_reading import evidence_of, turn_named
from hobus.launch.cli.turn_view import MOMENT_BY_MOMENT, WHY, WHY_IN_FULL, opening, taken
from hobus.launch.cluster.home import Home
from hobus.launch.console.output import as_json
from hobus.launch.console.view import lines_of
from hobus.launch.lab import simulated
from hobus.launch.launcher.recording import make_snapshot_entry
from hobus.launch.sessions.account import TurnAccount, differences, make_account, settings_of
from hobus.launch.sessions.evidence import ERASED, Rules, decode_body, entries_of_turn, seen_in
from hobus.launch.sessions.provenance import Configuration, UsedVersion, find_digest, read_configuration
from hobus.launch.sessions.why_memory import STREAMS
from hobus.launch.sessions.why_prompts import quoted_elsewhere, text_behind
from hobus.ledger_service.opening import open_ledger
from tests.actors.ho2_supervisor.rig import snapshot
from tests.simulated import SimulatedCluster
from tests.simulation.test_memory import QUESTION, SOON, Lesson, lesson

OTHER = "is the ledger intact?"
GATE = (*SOON, ("ho3.gate_mode", "bistable"), ("ho3.gate_high", 1.5))
"""The shipped one, which two turns in two sessions cross."""
RULES = snapshot(("ho3.enabled", True), *GATE)


def account(entries: Sequence[Entry], session_id: str, run: int, *snapshots: Snapshot) -> TurnAccount:
    """The account of one turn, read as the command reads it."""
    of_session = [one for one in entries if one.provenance.session_id == session_id]
    turn = turn_named(of_session, session_id, str(run), called="TURN")
    evidence = replace(
        evidence_of(of_session, turn),
        memory=[one for one in entries if one.stream in STREAMS],
        rules=next((Rules.of(one.to_bytes()) for one in snapshots), None),
        configurations={one.digest: RECORDED for one in snapshots},
    )
    return make_account(session_id, turn, evidence)


def _configuration() -> Configuration:
    """What a launcher records, under the digest that the simulated cluster runs under with a few other settings."""
    written = make_snapshot_entry(shipped_snapshot(), 1.0)
    return read_configuration(
        Entry(
            written.submission_id, written.stream, written.event_type, written.at_us, "", "", Provenance(), [], "",
            None, None, None, "launcher", 2, [], [], 0, b"", list(written.bodies),
        )
    )  # fmt: skip


RECORDED = _configuration()


def said(found: TurnAccount) -> list[list[tuple[str, str]]]:
    """(role, words) of each message of each prompt, stretches of one role that stand together joined."""
    prompts: list[list[tuple[str, str]]] = []
    for prompt in found.prompts:
        messages: list[tuple[str, str]] = []
        for one in prompt.shown:
            if messages and messages[-1][0] == one.role:
                messages[-1] = (one.role, messages[-1][1] + one.text)
            else:
                messages.append((one.role, one.text))
        prompts.append(messages)
    return prompts


@pytest.fixture(scope="module")
def taught() -> tuple[Lesson, list[Entry], list[TurnAccount], str]:
    """Three turns in one session after a habit was learned; then its line is switched off, and a fourth."""
    with lesson(*GATE) as one:
        one.ask_until_crossed()
        session_id = one.ask().session_id
        one.ask(OTHER, session_id=session_id)
        one.ask(session_id=session_id)
        for overlay in one.overlays():
            at = format_iso(one.operator.now())
            off = DeactivateOverlay(agent_id="ADMIN", artifact_id=overlay.artifact.artifact_id, reason="no more", at=at)
            one.tell(off, OverlayChanged)
        one.ask(session_id=session_id)
        entries = one.cluster.entries()
    return (
        one,
        entries,
        [account(entries, session_id, run, RULES) for run in (1, 2, 3, 4)],
        session_id,
    )


def flat(messages: list[tuple[str, str]]) -> str:
    """Each message behind who said it; of earlier turns `why` tells so itself. What stands beside a message is one with it."""
    told = "\n".join(text if role == "history" else f"{role}: {text}" for role, text in messages if text)
    return re.sub(r"(</(?:context|preferences)>)\nuser: ", r"\1", told)


def test_each_prompt_is_told_word_for_word_with_the_places_of_its_texts(taught):
    """Against what the model was asked; a stretch that is no pack's and not made here names entries of the record."""
    lesson_, entries, turns, session_id = taught
    asked = [
        [(message.role, message.text) for message in prompt.messages]
        for prompt in lesson_.model.prompts
        if prompt.session_id == session_id and "CONSOLIDATE" not in prompt.contract_id
    ]
    told = [messages for turn in turns for messages in said(turn)]
    assert [flat(joined(one)) for one in asked] == [flat(joined(one)) for one in told]
    known = {one.sequence for one in entries}
    for turn in turns:
        for prompt in turn.prompts:
            assert prompt.step.sequences[-1] in known and prompt.answer and prompt.answer.input_tokens
            for one in prompt.shown:
                assert ERASED not in one.text and set(one.sequences) <= known
                assert one.sequences or one.name == "pack" or one.source == "made for this prompt"


def test_a_line_of_memory_in_a_prompt_is_told_with_the_entry_in_which_it_was_learned(taught):
    """Each of them, in each prompt; whatever other entry holds it too stands behind that."""
    _, entries, turns, _ = taught
    by_sequence = {one.sequence: one for one in entries}
    lines = [
        one for prompt in turns[0].prompts for one in prompt.shown if one.name == "ho3_biases" and one.text.strip()
    ]
    assert lines
    for one in lines:
        overlay = by_sequence[one.sequences[0]]
        assert one.source.startswith("HO3_OVERLAY") and overlay.event_type == "HO3_OVERLAY"
        assert overlay.bodies[1] == one.text.encode()


def joined(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Messages of one role that follow each other as one."""
    found: list[tuple[str, str]] = []
    for role, text in messages:
        if found and found[-1][0] == role:
            found[-1] = (role, found[-1][1] + text)
        elif text:
            found.append((role, text))
    return found


def test_a_turn_is_told_of_its_own_entries_alone(taught):
    """A session's later turns have the same trace: none."""
    _, entries, turns, session_id = taught
    runs = {one.sequence: one.provenance.run_seq for one in entries if one.provenance.session_id == session_id}
    for number, turn in enumerate(turns, 1):
        assert {runs[sequence] for step in turn.steps for sequence in step.sequences} == {number}
        assert all(step.end_us is not None for step in turn.steps)
        assert turn.classification is not None and turn.classified is not None


def test_a_line_of_memory_is_told_with_the_events_behind_it_and_one_that_is_off_with_why(taught):
    """Shown: its signal's events, each an entry; left out: the reason."""
    _, entries, turns, _ = taught
    first, last = turns[0].memory, turns[3].memory
    assert first is not None and last is not None and first.shown and not last.shown
    signals = {one.sequence for one in entries if one.event_type == "HO3_SIGNAL"}
    for line in first.shown:
        assert line.text and line.signals and line.events and line.score
        assert set(line.events.values()) <= signals
        assert next(one for one in entries if one.sequence == line.sequence).event_type == "HO3_OVERLAY"
    assert {one.reason for one in last.lines} == {"local (operator/1) switched it off"}
    assert {one.artifact_id for one in last.lines} >= {one.artifact_id for one in first.shown}


def test_a_line_with_the_words_of_one_that_is_shown_is_told_as_left_out_for_that():
    """Of two artifacts of two signals one stands in the prompt, and names the other one's reason."""
    with lesson(*GATE) as one:
        one.ask_until_crossed()
        first, second = (overlay.artifact for overlay in one.overlays()[:2])
        same = {"context_line": first.context_line.upper(), "scope": "global", "weight": 0.01}
        twin = second.model_copy(update={"artifact_id": "ART-twin", **same})
        one.tell(LogOverlay(agent_id="ADMIN", overlay=twin), OverlayLogged)
        session_id = one.ask().session_id
        found = account(one.cluster.entries(), session_id, 1, RULES).memory
    assert found is not None
    assert first.artifact_id in {line.artifact_id for line in found.shown}
    [left] = [line for line in found.lines if line.artifact_id == "ART-twin"]
    assert left.reason == "a shown line has the same words" and left.text == first.context_line.upper()


def test_signals_are_told_with_how_far_their_gate_is_as_of_the_turn(taught):
    """One per signal of the turn: how often it was given by then; and whether memory said that its gate was crossed."""
    _, entries, turns, _ = taught
    signals = {one.signal_id: one for one in turns[1].signals}
    assert {"intent:question", "tool:verify_ledger"} <= set(signals)
    one = signals["tool:verify_ledger"]
    assert (one.events, one.sessions, one.crossed) == (1, 1, False) and signals["intent:question"].events > 1
    [due] = [each for each in entries if each.event_type == "CONSOLIDATION_DUE"][:1]
    found = account(entries, due.provenance.session_id, due.provenance.run_seq, RULES).signals
    assert {each.signal_id for each in found if each.crossed} == set(decode_body(due).signal_ids)


def test_the_template_of_a_context_is_told_with_each_stage_and_what_it_gave(taught):
    """One of the turn's entries; its size is what its stages and warnings are told of."""
    _, entries, turns, _ = taught
    for turn in turns:
        before, context, *learned = turn.contexts
        assert (before.what, before.said.template_id) == ("classification", "ATT-CLASSIFY-001")
        assert [stage.type for stage in before.said.stages] == ["liveness", "history"]
        assert {(one.what, one.said.template_id) for one in learned} <= {("consolidation", "ATT-CONSOLIDATE-001")}
        assert next(one for one in entries if one.sequence == context.sequence).event_type == "CONTEXT_ASSEMBLED"
        said = context.said
        assert (said.template_id, said.stopped_by, said.warnings) == ("ATT-ADMIN-001", "completion", ())
        assert [stage.type for stage in said.stages] == ["liveness", "memory", "history", "horizontal_search"]
        assert said.tokens_assembled <= said.max_context_tokens


def test_two_turns_differ_in_what_they_were_asked_and_shown(taught):
    """Message, history and the memory lines that are gone, with the words of the pack that stand around these."""
    _, _, turns, _ = taught
    names = {one.name.partition(" ")[2] for one in differences(turns[0], turns[3])}
    assert {"history", "ho3_biases"} <= names
    message = next(one for one in differences(turns[0], turns[1]) if one.name.endswith("user_input"))
    assert (message.before, message.after) == (QUESTION, OTHER)
    assert differences(turns[0], turns[0]) == []
    assert settings_of(turns[0])["memory"] != settings_of(turns[3])["memory"] == []


@pytest.mark.parametrize("which", ["everything", "payload", "texts"])
def test_whatever_is_erased_the_rest_is_told(taught, which):
    """Each entry of a turn in its turn, and all of them at once: no explanation ends, and every line of it is text."""
    _, entries, _, session_id = taught
    last = [one for one in entries if one.provenance.session_id == session_id and one.provenance.run_seq == 3]
    for gone in [[one] for one in last] + [last]:
        ids = {one.submission_id for one in gone if one.event_type != "RunRequested"}
        left = [erased(one, which) if one.submission_id in ids else one for one in entries]
        found = account(left, session_id, 3, RULES)
        for view in (WHY, WHY_IN_FULL, MOMENT_BY_MOMENT):
            assert all(isinstance(line, str) for line in lines_of(view, found))
        assert as_json(found.document())


def erased(entry: Entry, which: str) -> Entry:
    """The entry without its payload, its texts, or both."""
    keeps = {"everything": lambda _: False, "payload": lambda number: number > 0, "texts": lambda number: number == 0}
    bodies = tuple(body if keeps[which](number) else None for number, body in enumerate(entry.bodies))
    return entry._replace(bodies=bodies)


def test_without_its_configuration_the_rest_is_told_and_that_is_said(taught):
    """The pack's own words are missing, and nothing else."""
    _, entries, _, session_id = taught
    found = account(entries, session_id, 1)
    assert len(found.missing) == 1 and "lacks the configuration" in found.missing[0]
    texts = {one.name: one.text for one in found.prompts[-1].shown}
    assert texts["pack"] == ERASED and texts["user_input"] == QUESTION
    assert text_behind("nowhere/1", {}) == ERASED


# --- what was sent ----------------------------------------------------------------------------------------------------

NEEDLE = "By the way: the spare key of the boathouse lies under the third flowerpot."


def searching_every_session() -> Snapshot:
    """The shipped configuration, whose searches look in all sessions of the agent."""
    governed = Governed.model_validate(unpack(snapshot(("ho2.history_turns_max", 2)).to_bytes()))
    shipped = governed.templates["ATT-ADMIN-001"].model_dump(mode="json")
    shipped["pipeline"][-1]["config"]["scope"] = "agent"
    templates = {**governed.templates, "ATT-ADMIN-001": Template.model_validate(shipped)}
    return Snapshot.from_bytes(governed.model_copy(update={"templates": templates}).to_bytes())


def test_a_text_that_a_list_of_parts_quotes_of_another_session_is_told_as_it_was_sent():
    """It stands in the record, and no prompt's texts differ from what was sent."""
    rules = searching_every_session()
    with SimulatedCluster(rules) as cluster:
        cluster.ask(NEEDLE, input_id="in-0")
        session_id = ""
        for number, text in enumerate(("hello", "hello again", "where is the spare key of the boathouse?"), 1):
            cluster.world.run(asyncio.sleep(1))
            session_id = cluster.ask(text, input_id=f"in-{number}", session_id=session_id or None).session_id
        entries = cluster.entries()
    of_session = [one for one in entries if one.provenance.session_id == session_id]
    beginning = next(one for one in of_session if one.event_type == "RunRequested" and one.provenance.run_seq == 3)
    turn = entries_of_turn(of_session, beginning)
    quoted = quoted_elsewhere(turn, of_session)
    assert quoted, "the turn quotes no other session: this test shows nothing"
    asked = turn_named(of_session, session_id, "3", called="TURN")
    evidence = replace(evidence_of(of_session, asked), rules=Rules.of(rules.to_bytes()))
    found = make_account(session_id, asked, evidence)
    assert {one.as_sent for one in found.prompts} == {True, None}  # one quotes what was not read
    elsewhere = [one for one in entries if one.submission_id in quoted]
    prompts = make_account(session_id, asked, replace(evidence, elsewhere=elsewhere)).prompts
    assert [one.as_sent for one in prompts] == [True] * len(prompts)
    assert NEEDLE in "".join(one.text for one in prompts[-1].shown)
    assert not any(ERASED in one.text for prompt in prompts for one in prompt.shown)


def test_a_prompt_whose_texts_are_not_those_that_were_sent_is_said_to_differ(taught):
    """Another pack than the one it was made of, under the same name; what is missing only cannot be checked."""
    _, entries, turns, session_id = taught
    assert {one.as_sent for turn in turns for one in turn.prompts} == {True}
    packs = {name: text.replace("You", "We") for name, text in RULES.prompt_packs.items()}
    found = account(entries, session_id, 1, replace(RULES, prompt_packs=packs))
    assert False in {one.as_sent for one in found.prompts}
    assert any("not what was sent" in line for line in lines_of(WHY, found))
    assert {one.as_sent for one in account(entries, session_id, 1).prompts} == {None}


@pytest.mark.parametrize("run", [1, 3])
def test_an_explanation_opens_with_what_happened_in_at_most_five_sentences(taught, run):
    """How the message was taken and the turn ended, what was asked, shown, learned, and that it is what was sent."""
    found = taught[2][run - 1]
    lines = list(lines_of(WHY, found))
    said = lines[3 : lines.index(next(one for one in lines if one.startswith("where ")))]
    assert 3 <= len(said) <= 5 and all(one.endswith(".") for one in said)
    assert "taken as a question (domain system, task inspect); the turn's end: success" in said[0]
    assert f"{taken(found.totals)}." in said[1] and "model call" in said[1]
    assert "history" in said[2] or run == 1
    count = len(found.prompts)
    assert f"as sent, by the recorded SHA-256: {count} of {count} prompt" in said[-1]


def test_a_model_that_stood_in_is_not_told_as_the_one_that_was_chosen(taught):
    """Another model than the named one answered, since that one was at fault."""
    found = taught[2][0]

    def asked(one: TurnAccount) -> str:
        return [line.text for line in opening(one)][1]

    assert " (in place of first/m-1, the default): " in asked(replace(found, model="first/m-1, the default"))
    assert "in place of" not in asked(found)
    assert "in place of" not in asked(replace(found, model=""))  # degraded: none chosen


def test_a_turn_whose_classification_is_on_its_way_is_told_as_such(taught):
    """Of one that failed, or was never asked for, nothing more is to come."""
    found = taught[2][0]
    step = replace(found.prompts[0].step, order="1.1.1.000", end_us=None, verdict="")
    late = replace(found, classification=None, prompts=(replace(found.prompts[0], step=step, answer=None),))
    assert "was still being classified" in next(opening(late)).text
    ended = replace(step, end_us=1, verdict="failed")
    failed = replace(late, prompts=(replace(late.prompts[0], step=ended),))
    assert "was not classified" in next(opening(failed)).text


def test_memory_that_no_stage_asks_for_is_not_told_as_silent():
    """By the template that the turn's context was made by."""
    governed = Governed.model_validate(unpack(snapshot(("ho3.enabled", True)).to_bytes()))
    bare = governed.templates["ATT-ADMIN-001"].model_dump(mode="json")
    bare["pipeline"] = [one for one in bare["pipeline"] if one["type"] != "memory"]
    templates = {**governed.templates, "ATT-ADMIN-001": Template.model_validate(bare)}
    rules = Snapshot.from_bytes(governed.model_copy(update={"templates": templates}).to_bytes())
    with SimulatedCluster(rules) as cluster:
        session_id = cluster.ask(QUESTION, input_id="in-1").session_id
        entries = cluster.entries()
    found = account(entries, session_id, 1, rules)
    assert found.memory is not None and found.memory.state == "unasked"
    assert any("memory was not asked" in one for one in lines_of(WHY, found))


# --- under which versions ---------------------------------------------------------------------------------------------


def test_every_record_of_a_turn_names_its_agent_framework_package_and_configuration(taught):
    """Each entry itself the first three; the digest of all files stands in its run's first one, and in each prompt."""
    _, entries, _, session_id = taught
    of_session = [one for one in entries if one.provenance.session_id == session_id]
    agent, owner = RULES.agents["ADMIN"], RULES.map_agent_packages()["ADMIN"]
    about = ("ADMIN", agent.agent_class, agent.framework_id, owner)
    requested = [one for one in of_session if one.event_type == "RunRequested"]
    for run, beginning in enumerate(requested, 1):
        turn = entries_of_turn(of_session, beginning)
        assert len({one.stream for one in turn}) >= 4
        assert {one.provenance[:4] for one in turn} == {about}, [one for one in turn if one.provenance[:4] != about]
        assert find_digest(seen_in(turn)) == find_digest(seen_in([beginning])) == RULES.digest
        assert {prompt.sent.config_digest for prompt in account(entries, session_id, run).prompts} == {RULES.digest}


def test_a_turn_is_told_under_which_versions_it_was_made(taught):
    """Agent, framework, both contracts and packs, the template that filled its context, the settings; each with owner."""
    _, _, turns, _ = taught
    digests = {path: one.sha256 for path, one in RULES.files.items()}
    for turn in turns:
        assert [(one.kind, one.asset_id) for one in turn.made_of] == [
            ("agent", "ADMIN"), ("framework", "FMWK-107"),
            ("contract", "PRC-CLASSIFY-001"), ("contract", "PRC-SYNTHESIZE-001"),
            ("prompt_pack", "PRM-CLASSIFY-001"), ("prompt_pack", "PRM-SYNTHESIZE-001"),
            ("template", "ATT-ADMIN-001"), ("config", "admin_config"),
        ]  # fmt: skip
        for one in turn.made_of:
            assert one.digest == digests[one.path] and one.config_digest == RULES.digest == turn.config_digest
            assert one.version and one.package_id == RULES.files[one.path].package_id
            assert one.package_version == RULES.packages[one.package_id].version


def test_without_its_configuration_only_what_the_record_itself_says_is_told_of_a_version(taught):
    """Which contracts, packs and template; the template's digest, and no other."""
    _, entries, _, session_id = taught
    found = account(entries, session_id, 1).made_of
    digest = RULES.map_template_hashes()["ATT-ADMIN-001"].hex()
    assert UsedVersion("", "contract", "PRC-SYNTHESIZE-001", "", "", "", "", RULES.digest) in found
    assert UsedVersion("", "template", "ATT-ADMIN-001", "", f"sha256:{digest}", "", "", RULES.digest) in found
    assert {one.digest for one in found if one.kind != "template"} == {""}


def test_an_account_that_reads_by_the_index_says_what_one_of_the_whole_session_does(taught, tmp_path, monkeypatch):
    """Of each turn, and of the last one unnamed; it reads no turns that lie farther off, nor all changes of memory."""
    one, entries, _, session_id = taught
    home = Home(tmp_path)
    simulated.write_out(one.cluster.world.media["ledger"], home.ledger)
    opening = open_ledger(RealDisk(home.ledger), RULES.config.ledger)
    assert list(opening.catch_up())
    opening.tables.flush()
    opening.close()
    whole = [entry for entry in entries if entry.provenance.session_id == session_id]
    assert len(turn_reading.entries_about(home, session_id, "1")) < len(whole)
    for wanted in ("1", "2", "3", "4", None):
        with monkeypatch.context() as patch:
            patch.setattr(turn_reading, "OVERLAYS_MAX", 1 if wanted in ("1", "2", "3") else turn_reading.OVERLAYS_MAX)
            found = turn_reading.read_account(home, session_id, wanted)
        with monkeypatch.context() as patch:
            patch.setattr(turn_reading, "entries_about", lambda *_: whole)
            expected = turn_reading.read_account(home, session_id, wanted)
        assert found.document() == expected.document()
        assert found.prompts
