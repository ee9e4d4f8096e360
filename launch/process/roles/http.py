"""The HTTP door, where the configuration has one. What it needs is loaded here, after the fork."""

from __future__ import annotations

import importlib
import importlib.util

from hobus.bus.errors import ConfigError
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.kernel import raise_open_files
from hobus.launch.process.roles import Made

NEEDS = ("starlette", "uvicorn", "prometheus_client")


def make(place: Place) -> Made:
    """Make the door. Raises ConfigError where there is to be none, or where the extra `http` is not installed."""
    if not place.snapshot.config.http.listen:
        raise ConfigError("http.listen is empty: this cluster has no HTTP door (hobus up --http)")
    require_installed()
    raise_open_files()
    # By name: who has none loads no web server, and the zygote loads this file.
    actor = importlib.import_module("hobus.launch.http.actor").HttpDoor(place)
    return Made(actor, close=actor.close)


def require_installed(*more: str) -> None:
    """Raise ConfigError without the extra; `more`: what the console needs of it beside the door."""
    missing = [name for name in (*NEEDS, *more) if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"this needs {', '.join(missing)}: pip install 'hobus[http]'")
