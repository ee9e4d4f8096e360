"""`hobus simulate` as it is typed: what it prints, what it exits with, and that a failure names its own replay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from hobus.gateway_service.sending import Sender
from hobus.launch.cli.main import run
from hobus.launch.console import exit_codes
from hobus.launch.console.interrupt import INTERRUPTED
from hobus.launch.lab.simulation import many
from hobus.launch.lab.simulation.faults import parse
from hobus.launch.lab.simulation.plan import SeedPlan, make_plan
from hobus.launch.lab.simulation.run import SeedVerdict, simulate


async def _at_once(*_: object) -> None:
    """A gateway that waits for no record."""


def test_the_budget_that_a_seed_draws_is_told_with_its_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that ends on a budget says which; one with faults of its own has none."""
    seed = next(
        n for n in range(99) if make_plan(n, turns=1, sessions=None, faults=parse("all")).token_limit is not None
    )
    limit = make_plan(seed, turns=1, sessions=None, faults=parse("all")).token_limit
    for more, is_told in ([], True), (["--faults", "none"], False):
        assert run(["simulate", "--seed", str(seed), "--turns", "1", *more]) == exit_codes.OK
        assert (f"an enforced budget of {limit:,} tokens" in capsys.readouterr().out) is is_told


def test_a_broken_seed_names_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, the invariant, and a command that stops at the very event; that command finds the same."""
    monkeypatch.setattr(Sender, "record_sent", _at_once)
    arguments = ["simulate", "--seeds", "0..1", "--turns", "1", "--faults", "delay=1ms", "--jobs", "1"]
    assert run(arguments) == exit_codes.FAILED
    line = next(line for line in capsys.readouterr().out.splitlines() if "replay it: " in line)
    replay = line.partition("replay it: hobus ")[2].split()
    assert replay[:7] == ["simulate", "--seed", "0", "--turns", "1", "--faults", "delay=1ms"]
    assert run(replay) == exit_codes.FAILED
    assert "before its PROMPT_SENT is durable" in capsys.readouterr().out


@pytest.mark.parametrize("at_seed", [0, 1])
def test_an_interrupted_run_tells_what_it_found_until_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, at_seed: int
) -> None:
    """Ctrl-C within a seed: those before it are counted, that one is not, and none is said to hold where none ran."""

    def interrupted(plan: SeedPlan, **given: Any) -> SeedVerdict:
        if plan.seed == at_seed:
            raise KeyboardInterrupt
        return simulate(plan, **given)

    monkeypatch.setattr(many, "simulate", interrupted)
    arguments = ["simulate", "--seeds", "0..9", "--turns", "1", "--faults", "none", "--jobs", "1"]
    assert run(arguments) == INTERRUPTED
    told = capsys.readouterr()
    assert f"{at_seed} of 9 seeds from 0" in told.out
    assert ("holds" in told.out) is (at_seed > 0)
    assert f"interrupted after {at_seed} of 9 seeds" in told.err
    assert run([*arguments, "--json"]) == INTERRUPTED
    assert json.loads(capsys.readouterr().out)["seeds"] == at_seed


@pytest.mark.parametrize(
    "words",
    ["--seeds 5..5", "--seeds x", "--seeds 0..2 --seed 1", "--seeds 0..2 --until 5", "--faults rain", "--seed -1"],
)
def test_what_makes_no_sense_is_a_usage_error(words: str) -> None:
    assert run(["simulate", *words.split()]) == exit_codes.USAGE


@pytest.mark.process
def test_its_processes_end_with_it() -> None:
    """Also when it is killed and can say nothing."""
    command = [sys.executable, "-m", "hobus", "simulate", "--seeds", "0..10000", "--jobs", "2"]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    family = psutil.Process(killed.pid)
    deadline = time.monotonic() + 60
    while len(family.children(recursive=True)) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    children = family.children(recursive=True)
    assert len(children) >= 3
    time.sleep(1)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
