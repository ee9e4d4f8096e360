"""The session host."""

from __future__ import annotations

from actors.session_host.actor import SessionHost

from launch.endpoints import Place
from launch.roles import Made


def make(place: Place) -> Made:
    """The client's edge."""
    return Made(SessionHost(place.snapshot))
