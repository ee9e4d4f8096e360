"""The table of R5 says what was run, a broken seed is in it, and a run goes on behind the last one."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from bench import simulation
from bench.simulation import main, run, table
from hobus.gateway_service.sending import Sender
from hobus.launch.lab.simulation.many import SeedTally


@pytest.fixture(autouse=True)
def seeds_of_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest: what a seed finds is not the question here."""
    monkeypatch.setattr(simulation, "TURNS", 1)


async def _at_once(*_: object) -> None:
    """A gateway that waits for no record."""


def test_a_seed_is_counted_and_a_broken_one_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that holds, then the same one with a planted fault."""
    tally = SeedTally()
    run(range(4, 5), tally, jobs=1)
    assert "| seeds | 1 from 4 on (goal: 20000) |" in table(tally, 4, len(tally.failed))
    assert tally.failed == []
    monkeypatch.setattr(Sender, "record_sent", _at_once)
    run(range(4, 5), tally, jobs=1)
    assert "| seeds | 2 from 4 on (goal: 20000) |" in table(tally, 4, len(tally.failed))
    assert [one.seed for one in tally.failed] == [4]


def test_a_run_goes_on_with_what_the_results_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One seed, then up to two: what broke before is still told, and nothing is run again."""
    document, results = tmp_path / "reliability.md", tmp_path / "simulation.json"
    shutil.copy(simulation.DOCUMENT, document)
    monkeypatch.setattr(simulation, "DOCUMENT", document)
    monkeypatch.setattr(simulation, "RESULTS", results)
    assert _ended(monkeypatch, "--seed", "4", "--count", "1") == 0
    first = json.loads(results.read_text())
    results.write_text(json.dumps(first | {"broken": [{"seed": 4, "broken": "planted"}]}))
    assert _ended(monkeypatch, "--resume", "--count", "2") == 1
    whole = json.loads(results.read_text())
    assert (whole["first"], whole["seeds"], whole["broken"]) == (4, 2, [{"seed": 4, "broken": "planted"}])
    assert whole["events"] > first["events"]
    text = document.read_text()
    assert "| seeds | 2 from 4 on (goal: 20000) |" in text and "| with a broken invariant | 1 |" in text


def _ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr(sys, "argv", ["simulation", "--jobs", "1", "--write", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code
