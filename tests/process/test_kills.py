"""The kill matrix as a test: SIGKILL of each process at each moment of a turn, one cell after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kills import MOMENTS, PROCESSES, faults_of, run_cell

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("process", PROCESSES)
def test_a_kill_costs_no_answer(tmp_path: Path, process: str, moment: str):
    """Answered once and in time, the same when asked again, prompts paired, tool orders ended once, the record whole."""
    cell = run_cell(tmp_path, process, moment)
    assert faults_of(cell) == [], cell


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_undisturbed_turn_is_what_the_kills_are_compared_with(tmp_path: Path, moment: str):
    """The same turn without a kill: a success, three prompts, one tool run; the holding at its moment changes nothing."""
    cell = run_cell(tmp_path, "nobody", moment)
    assert faults_of(cell) == [], cell
    assert (cell.outcome, cell.prompts, cell.prompts_unknown, cell.tool_starts) == ("success", 3, 0, 1)
