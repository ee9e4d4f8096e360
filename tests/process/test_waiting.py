"""The bench of waiting in its small size, on real processes: it runs, and what it says of that is right."""

from __future__ import annotations

import pytest

from bench.waiting.__main__ import ROWS, measure
from bench.waiting.rows import SMALL

pytestmark = pytest.mark.process
TAKEN = ("streams",)
"""Floods and waiting tools have process tests of their own; the rest is the bench's."""


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in TAKEN else pytest.mark.matrix) for one in ROWS])
def test_every_row_is_measured_and_all_are_right(name: str) -> None:
    """Whatever it takes on a busy machine: nobody is cut, degraded or left without an answer; floods may be refused."""
    rows = measure([name], SMALL, has_peer=False)
    for row in rows:
        said = row.ours
        assert said["degraded"] == 0, row
        assert said["right"] + (said["refused"] if name == "overload" else 0) == said["asked"], row
        assert name != "streams" or said["whole"] == said["asked"], row
