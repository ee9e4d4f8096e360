"""How the gateway's drills judge, and that the committed tables are the committed figures."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cancels import GOAL_MS
from bench.gateway import audit, budgets, secrets, speed, stops
from bench.gateway.compared import Compared, compared
from bench.gateway.parts import Call
from bench.report import DOCUMENT
from hobus.bus.messages.ledger import Entry, Provenance
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.prompts import PromptFailed

ROOT = Path(__file__).parents[2]
KEY = "WO-a#1"
SAID = "answer 1 to WO-a#1"


def entry(event_type: str, *, attempt: int = 1, reason: str = "", was_sent: bool = True, content: str = SAID) -> Entry:
    """One record of the attempt."""
    failed = PromptFailed("p", "m", "broken", False, 0, None, False, was_sent)  # noqa: FBT003 - its fields
    bodies: list[bytes | None] = [pack_payload(failed)]
    if event_type == "PROMPT_RECEIVED":
        bodies.append(content.encode())
    return Entry(
        sequence=0, submission_id=f"{event_type}:{KEY}/{attempt}", origin="gateway/1@1", stream="prompts",
        event_type=event_type, decision="", reason=reason, provenance=Provenance(), parents=[], trace="", at_us=0,
        ledger_at_us=0, body_hashes=[], body_lengths=[], prev=None, tenure=None, once=None, chain=b"", bodies=bodies,
    )  # fmt: skip


SENT, RECEIVED = entry("PROMPT_SENT"), entry("PROMPT_RECEIVED")
UNKNOWN = entry("PROMPT_FAILED", reason="UNKNOWN_OUTCOME")
WHOLE = Call(KEY, 1, "whole", SAID, is_whole=True)


@pytest.mark.parametrize(
    ("entries", "calls", "told"),
    [
        ([SENT, RECEIVED], [WHOLE], {KEY: SAID}),
        ([SENT, UNKNOWN], [], {}),
        ([SENT, UNKNOWN], [WHOLE], {}),
        ([SENT, UNKNOWN], [WHOLE], {KEY: SAID}),
        ([SENT, entry("PROMPT_FAILED", was_sent=False)], [], {}),
        ([SENT, entry("PROMPT_FAILED", reason="CANCELLED")], [], {}),
    ],
)
def test_both_sides_agree(entries, calls, told):
    """On a call with its answer, on one of unknown outcome that arrived or did not, and on one that never left."""
    found = compared(entries, calls, told)
    assert found.difference == 0, found


@pytest.mark.parametrize(
    ("entries", "calls", "told"),
    [
        ([], [WHOLE], {}),
        ([SENT], [WHOLE], {}),
        ([SENT, RECEIVED, UNKNOWN], [WHOLE], {}),
        ([RECEIVED], [WHOLE], {}),
        ([SENT, RECEIVED], [WHOLE, Call(KEY, 2, "whole")], {}),
        ([SENT, entry("PROMPT_FAILED", was_sent=False)], [WHOLE], {}),
        ([SENT, entry("PROMPT_FAILED", reason="PROVIDER_ERROR")], [], {}),
        ([SENT, entry("PROMPT_RECEIVED", content="other words")], [WHOLE], {}),
        ([SENT, RECEIVED], [WHOLE], {KEY: "other words"}),
        ([SENT, entry("PROMPT_FAILED", reason="PROVIDER_ERROR")], [Call(KEY, 1, "half")], {KEY: SAID}),
    ],
)
def test_each_difference_is_one(entries, calls, told):
    """A call nobody recorded, an end too few or too many, a send that was none, words that were never said or told."""
    assert compared(entries, calls, told).difference >= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("worked", 5), ("at_most", 5), ("succeeded", 5), ("used", 8001), ("used", 4000), ("reserved", 1)],
)
def test_a_round_has_a_fault_for_each_thing_that_must_not_be(field, value):
    """More than fits, tokens for nothing, something left reserved; a good one has none."""
    good = budgets.Round(1, k=4, was_killed=False, worked=4, at_most=4, succeeded=4, used=8000)
    assert good.faults == []
    assert replace(good, **{field: value}).faults != []


@pytest.mark.parametrize(("field", "value"), [("reached_ms", [1.0, GOAL_MS + 1.0]), ("open", 1)])
def test_a_cancel_that_comes_late_or_never_is_a_fault(field, value):
    """One at a time; a good row has none."""
    good = stops.Cancels("prompt", "silent", reached_ms=[1.0, float(GOAL_MS)])
    assert good.faults == []
    assert len(replace(good, **{field: value}).faults) == 1


@pytest.mark.parametrize(
    ("last", "outcome", "late_ms", "faults"),
    [
        ("drip", "timeout DEADLINE_EXCEEDED", -30.0, 0),
        ("drip", "timeout DEADLINE_EXCEEDED", GOAL_MS + 1.0, 1),
        ("drip", "fault expired", 0.0, 1),
        ("whole", "success", -30.0, 0),
        ("whole", "timeout DEADLINE_EXCEEDED", -30.0, 1),
    ],
)
def test_a_deadline_is_kept_by_an_answer_and_by_the_model_that_has_one(last, outcome, late_ms, faults):
    """Late, untold, or an error although the last model answers: each is a fault."""
    row = stops.Deadlines("prompt", last, 1000, [late_ms], {outcome: 1}, {})
    assert len(row.faults) == faults


@pytest.mark.parametrize("secret", ["sk-2f1c9a7be04d4e3c", bytes(range(100, 132))])
def test_a_secret_is_found_in_whatever_form_it_was_written(secret):
    """Whole, in halves, in capitals, as base64 and hex; and a part of it that is no half is none."""
    data = secret.encode() if isinstance(secret, str) else secret
    half = len(data) // 2
    for form in (data, data[:half], data[half:], data.upper(), base64.b64encode(data), data.hex().encode()):
        search = secrets._Search({"it": secret})
        search.look("logs", "a line", b"before " + form + b" behind")
        assert search.found.hits == {"it": {"logs": ["a line"]}}, form
        assert len(search.found.faults) == 1
    search.look("logs", "a line", data[: half - 1])
    assert len(search.found.faults) == 1


def test_the_document_shows_the_committed_budgets():
    """A thousand rounds, some with a killed gateway, no fault."""
    figures = json.loads((ROOT / budgets.RESULTS).read_text())
    rounds = [budgets.Round(**one) for one in figures.pop("rounds")]
    assert len(rounds) >= 1000 and sum(one.was_killed for one in rounds) >= 40
    assert budgets.faults_of(rounds, figures) == []
    assert budgets.table(rounds, figures) in (ROOT / DOCUMENT).read_text()


def test_the_document_shows_the_committed_audit():
    """Every point, each with at least ten kills, no difference."""
    figures = json.loads((ROOT / audit.RESULTS).read_text())
    rows = [audit.Row(**{**one, "compared": Compared(**one["compared"])}) for one in figures["rows"]]
    assert [row.point for row in rows] == list(audit.POINTS)
    assert all(row.kills >= 10 for row in rows if row.point != "nobody")
    assert [fault for row in rows for fault in row.faults] == []
    assert audit.table(rows) in (ROOT / DOCUMENT).read_text()


def test_the_document_shows_the_committed_secrets():
    """Planted in every place, found in none."""
    figures = json.loads((ROOT / secrets.RESULTS).read_text())
    found = secrets.Found(**{name: figures[name] for name in secrets.Found.__dataclass_fields__})
    assert secrets.table(found) in (ROOT / DOCUMENT).read_text()
    assert found.faults == figures["faults"] == [] and all(found.looked.values()) and len(found.hits) >= 8


def test_the_document_shows_the_committed_speed():
    """What was measured, on how busy a machine, and which goals it misses."""
    figures = json.loads((ROOT / speed.RESULTS).read_text())
    found = {name: speed.Figures(**one) for name, one in figures["sides"].items()}
    assert set(found) == set(speed.SIDES) and speed.goals(found) == figures["goals"]
    assert speed.table(found) in (ROOT / speed.DOCUMENT).read_text()


def test_a_missed_goal_is_said_to_be_missed():
    """The gateway adds 2 ms where 1.5 are allowed, and answers as many calls as the SDK instead of twice as many."""
    ours, direct = speed.Figures([3.0], [100.0], [2.0], [50.0]), speed.Figures([1.0], [100.0], [1.0], [50.0])
    table = speed.table({"gateway": ours, "same call": direct, "openai SDK": direct})
    assert "**missed: 2.0 ms**" in table and "**missed: 1.0x**" in table and "| at most 1.5 ms | 1.0 ms |" in table
