"""A supervisor."""

from __future__ import annotations

from hobus.actors.ho2_supervisor.actor import SLOTS, Supervisor
from hobus.launch.cluster.endpoints import Place
from hobus.launch.process.roles import Made


def make(place: Place) -> Made:
    """Make a supervisor, which takes turns without credit: admission is one synchronous step."""
    return Made(Supervisor(snapshot=place.snapshot), slots=SLOTS)
