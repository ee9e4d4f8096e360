"""Every screen and everything that can be done from one, by path."""

from __future__ import annotations

from starlette.routing import Route

from hobus.launch.cli.web.app import Action, Page
from hobus.launch.cli.web.cluster import cluster, leave, scale
from hobus.launch.cli.web.sessions import sessions
from hobus.launch.cli.web.source import Source

PAGES = (
    Page("/", cluster, "Cluster"),
    Page("/sessions", sessions, "Sessions"),
)
ACTIONS = (
    Action("/cluster/leave", leave),
    Action("/cluster/scale", scale),
)


def streams_of(source: Source) -> tuple[Route, ...]:
    """Streams beside `/live`."""
    del source
    return ()
