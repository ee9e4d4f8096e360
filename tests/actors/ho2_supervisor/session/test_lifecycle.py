"""The life cycle table."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from hobus.actors.ho2_supervisor.session.state import TRANSITIONS, walk
from hobus.bus.messages.session import Lifecycle

PAGE = Path(__file__).parents[4] / "docs" / "sessions.md"


def test_table_has_a_row_for_every_state() -> None:
    """No state is forgotten, and every one can be left again."""
    assert set(TRANSITIONS) == set(get_args(Lifecycle))
    assert all(TRANSITIONS.values())


def test_every_pair_outside_the_table_is_refused() -> None:
    """A transition exists exactly where the table has it; none leads a state to itself."""
    for source, targets in TRANSITIONS.items():
        for target in get_args(Lifecycle):
            assert (walk(source, target) is not None) == (target in targets)
        assert walk(source, source) is None


def test_paused_and_cancelling_cannot_complete() -> None:
    """A paused run goes on or is cancelled; a cancelled one ends cancelled."""
    assert TRANSITIONS["Paused"] == ("Running", "Cancelling")
    assert TRANSITIONS["Cancelling"] == ("Cancelled",)


def test_walk_follows_the_table_or_stops() -> None:
    """A path is taken whole or not at all."""
    assert walk("Running", "Completed", "Idle") == "Idle"
    assert walk("Running", "Completed", "Running") is None
    assert walk("Idle") == "Idle"


def test_documented_diagram_is_current() -> None:
    """docs/sessions.md shows the table as it is in code."""
    lines = ["stateDiagram-v2", "    [*] --> Idle"]
    lines += [f"    {source} --> {target}" for source, targets in TRANSITIONS.items() for target in targets]
    assert "\n".join(lines) in PAGE.read_text(encoding="utf-8")
