"""Memory, when the configuration has it on."""

from __future__ import annotations

from hobus.actors.ho3_memory.actor import Memory
from hobus.bus.disk import RealDisk
from hobus.launch.cluster.endpoints import Place
from hobus.launch.process.roles import Made


def make(place: Place) -> Made:
    """Make HO3 with its checkpoints below `<home>/<ho3.memory_dir>`. Raises ValueError where memory is off, OSError."""
    config = place.snapshot.config.memory
    if config is None:
        raise ValueError("memory is off in this configuration (ho3.enabled)")
    return Made(Memory(snapshot=place.snapshot, disk=RealDisk(place.home.root / config.memory_dir)))
