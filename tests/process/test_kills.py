"""The kill matrix as a test: SIGKILL of each process at each point of a turn with an effect outside, cell after cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from bench.kills import EVERYBODY, POINTS, PROCESSES, TOOLS, faults_of, run_cell

pytestmark = pytest.mark.process


def _cells() -> list[ParameterSet]:
    """Every cell; `.ci/run` takes a diagonal, in which each process, point and tool occurs, and leaves the rest."""
    cells = [
        (who, point, tool, (row + column) % len(POINTS) == 0 and (row + number) % len(TOOLS) == 0)
        for row, who in enumerate([*PROCESSES, EVERYBODY])
        for column, point in enumerate(POINTS)
        for number, tool in enumerate(TOOLS)
    ]
    return [
        pytest.param(who, point, tool, marks=pytest.mark.slow if is_taken else pytest.mark.matrix)
        for who, point, tool, is_taken in cells
    ]


@pytest.mark.parametrize(("process", "point", "tool"), _cells())
def test_a_kill_costs_no_answer_and_doubles_no_effect(tmp_path: Path, process: str, point: str, tool: str):
    """Answered once and in time, the same when asked again, one effect outside, no model call but for a lost answer."""
    cell = run_cell(tmp_path, process, point, tool)
    assert faults_of(cell) == [], cell


@pytest.mark.parametrize(("tool", "runs", "code"), [("charge_keyed", 2, ""), ("charge_unkeyed", 1, "unknown_outcome")])
def test_an_executor_that_dies_behind_an_effect_leaves_one_effect(tmp_path: Path, tool: str, runs: int, code: str):
    """With our key the tool runs again and the outside knows the key; without one it is in doubt, said, and not run."""
    cell = run_cell(tmp_path, "ho1", "tool_effect", tool)
    assert faults_of(cell) == [], cell
    assert (cell.effects, cell.tool_runs, cell.tool_code) == (1, runs, code)
