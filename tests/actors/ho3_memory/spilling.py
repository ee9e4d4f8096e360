"""A residence of few bytes, whose spill file lies on a simulated disk."""

from __future__ import annotations

from typing import Any

from hobus.actors.ho3_memory.residence import Residence
from hobus.actors.ho3_memory.spill_file import FILE, SpillFile
from hobus.bus.sim.disk import SimDisk, SimMedium


class Spilling(Residence):
    """Everything but what was used last is out."""

    def __init__(self, bytes_max: float = 0, capacity_bytes: int = 1 << 30) -> None:
        self.medium = SimMedium(capacity_bytes)
        self.disk = SimDisk(self.medium)
        self.faults: list[Any] = []
        super().__init__(bytes_max, SpillFile(self.disk, "ho3/1@test", self.faults.append))

    @property
    def content(self) -> bytearray:
        """Of the spill file; changes are changes on the medium."""
        return self.medium.files[FILE].content

    @property
    def here_count(self) -> int:
        """Values in RAM."""
        return len(self.here)
