"""The cluster of a test module without processes: the same actors in the test's own, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import structlog

from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, load
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.limits import RETRY_INTERVAL_MS
from hobus.bus.messages.session import CommandVerdict, HostCommand, ReadSession, SessionCommand, SessionView
from hobus.bus.port import Bus, Provider, R
from hobus.bus.sim.world import World
from hobus.config.gates.run import look
from hobus.config.snapshot import frozen
from hobus.launch.app.agent import Agent
from hobus.launch.app.started import taken_in
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import layers_of
from hobus.launch.console.errors import UsageFault
from hobus.launch.lab.simulated import SimulatedCluster
from hobus.launch.process.roles.gateway import providers
from hobus.launch.sessions.client_errors import as_hobus_errors
from hobus.launch.sessions.cluster_client import AsyncClusterClient
from hobus.launch.sessions.journal import FromLedger
from hobus.launch.sessions.turns import asked_of_owner
from hobus.launch.testing.cluster import ScriptedCluster, answer_of
from hobus.launch.testing.model import Request
from hobus.launch.testing.provider import ScriptedProvider

T = TypeVar("T")
_INDEXED_S = 1.0
"""Virtual: what was written before is in the index by then, which lists of sessions are read from."""


class SimulatedScriptedCluster(ScriptedCluster):
    """A `ScriptedCluster` without processes; functions with `@tool` run in the test's process."""

    _cluster: SimulatedCluster | None = None

    def _open(self, home: Home, agents: Sequence[Agent]) -> None:
        with as_hobus_errors(), taken_in(home, agents):
            snapshot = frozen(look(layers_of(home)).reading)
            try:
                own = {name: load(entry) for name, entry in snapshot.config.tools.python_tools.items()}
            except BadEntryPoint as bad:
                raise UsageFault(str(bad)) from bad.__context__
        if not structlog.is_configured():  # no process of its own, whose log would be a file
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        models: dict[str, Provider] = {**providers(snapshot, {}), "scripted": _InProcess(self)}
        cluster = SimulatedCluster(snapshot, providers=models, tools={**BUILTIN, **own})
        self._home, self._cluster = home, cluster
        self.client = _Client(Place(home, home.run, snapshot), cluster.world)
        self.wait_for(cluster.world.settled())

    @property
    def home(self) -> Path:
        """Return where its configuration lies; nothing of it runs there."""
        return self._home.root

    def wait_for(self, what: Coroutine[Any, Any, T]) -> T:
        """Return what this coroutine gives, in virtual time."""
        assert self._cluster is not None  # noqa: S101 - made by `_open`
        return self._cluster.world.run(what)

    def close(self) -> None:
        """End the simulated cluster."""
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.world.close()
            self._end()


class _InProcess(ScriptedProvider):
    """The model of the moment, without a socket."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        super().__init__(provider_id="scripted", key="", options={"socket": ""})
        self._cluster = cluster

    async def prepare(self) -> None:
        """Do nothing: nothing is to be loaded."""

    async def answer_to(self, asked: Request) -> dict[str, Any]:
        return answer_of(self._cluster.model, asked)


class _Client(AsyncClusterClient):
    """A client over buses of the world."""

    def __init__(self, place: Place, world: World) -> None:
        timeout_s = place.snapshot.config.host.turn_timeout_ms / 1000
        super().__init__(place, world.client("door"), AsyncExitStack(), timeout_s=timeout_s)
        self._as_operator = world.client("operator")

    @asynccontextmanager
    async def _lent(self) -> AsyncGenerator[Bus]:
        await self._as_operator.sleep(_INDEXED_S)
        yield self._as_operator

    def _operator(self) -> AbstractAsyncContextManager[Bus]:
        return self._lent()

    async def _session_named(self, given: str) -> str:
        return await FromLedger(self._as_operator, timeout_s=self._timeout_s).named(given)

    async def _view(self, session_id: str) -> SessionView:
        return await self._of_owner(self._as_operator, ReadSession(session_id=session_id), SessionView)

    async def _verdict(self, session_id: str, command: HostCommand) -> CommandVerdict:
        return await self._of_owner(self._bus, SessionCommand(session_id=session_id, command=command), CommandVerdict)

    async def _of_owner(self, bus: Bus, question: Any, expect: type[R]) -> R:
        return await asked_of_owner(
            bus, question.session_id, question, expect, timeout_s=self._timeout_s, pause_s=RETRY_INTERVAL_MS / 1000
        )

    def _gone(self) -> None:
        return None
