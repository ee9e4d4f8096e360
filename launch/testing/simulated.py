"""The cluster of a test module without processes: the same actors in the test's own, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import structlog

from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, load
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.port import Bus, Provider
from hobus.config.gates.run import look
from hobus.config.snapshot import Snapshot, freeze
from hobus.launch.app.agent import Agent
from hobus.launch.app.started import take_agents_in
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console.errors import UsageFault
from hobus.launch.lab.simulated import SimulatedCluster
from hobus.launch.process.roles.gateway import make_providers
from hobus.launch.sessions.client_errors import as_hobus_errors
from hobus.launch.sessions.cluster_client import AsyncClusterClient
from hobus.launch.testing.cluster import ScriptedCluster
from hobus.launch.testing.provider import ScriptedProvider

T = TypeVar("T")
_INDEXED_S = 1.0
"""Virtual: what was written before is in the index by then, which lists of sessions are read from."""


class SimulatedScriptedCluster(ScriptedCluster):
    """A `ScriptedCluster` without processes; functions with `@tool` run in the test's process."""

    def _open(self, home: Home, agents: Sequence[Agent]) -> None:
        with as_hobus_errors(), take_agents_in(home, agents):
            # As processes read it: whatever is written in it stands in one order.
            snapshot = Snapshot.from_bytes(freeze(look(find_layers(home)).reading).to_bytes())
            try:
                own = {name: load(entry) for name, entry in snapshot.config.tools.python_tools.items()}
            except BadEntryPoint as bad:
                raise UsageFault(str(bad)) from bad.__context__
        if not structlog.is_configured():  # no process of its own, whose log would be a file
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        scripted = ScriptedProvider(provider_id="scripted", key="", options={"reply": self.reply})
        models: dict[str, Provider] = {**make_providers(snapshot, {}), "scripted": scripted}
        self._world = world = SimulatedCluster(snapshot, providers=models, tools={**BUILTIN, **own}).world
        buses: dict[str, Bus] = {role: world.client(role) for role in ("door", "operator")}

        @asynccontextmanager
        async def connected(role: str) -> AsyncGenerator[Bus]:
            if role == "operator":
                await buses[role].sleep(_INDEXED_S)
            yield buses[role]

        timeout_s = snapshot.config.host.turn_timeout_ms / 1000
        place = Place(home, home.run, snapshot, connect=connected)
        self.client = AsyncClusterClient(place, buses["door"], AsyncExitStack(), timeout_s=timeout_s)
        self.wait_for(world.settled())

    def close(self) -> None:
        """End the simulation."""
        self._world.close()

    def wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        """Return what this coroutine gives, in virtual time."""
        return self._world.run(what)
