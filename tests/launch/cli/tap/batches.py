"""Batches of tapped frames for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hobus.bus.broker.tap_wire import TapBatch
from hobus.launch.cli.tap.choice import EpochAccount
from tests.launch.filters.frames import frame


def batch(numbers: Sequence[int], *, epoch: str = "e", first: int | None = None, **fields: Any) -> TapBatch:
    """Consecutive frames with these numbers, after what was lost from `first` on."""
    own = {name: fields.pop(name) for name in ("lost", "beats", "restarted", "reaches_at") if name in fields}
    records = [frame(epoch=epoch, sequence=number, **fields) for number in numbers]
    began = numbers[0] if first is None else first
    values = {"lost": 0, "beats": 0, "restarted": False, "reaches_at": None} | own
    return TapBatch(epoch, records, began, numbers[-1] + 1, **values)


def is_exact(one: EpochAccount) -> bool:
    """Whether of one life of the broker nothing is missing and nothing counted twice."""
    return one.shown + one.filtered + one.lost + one.beats + one.left_out == one.last - one.first + 1
