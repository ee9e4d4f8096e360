"""A cluster that a program starts, uses and stops: `with Cluster(agents=[…]) as cluster: cluster.ask(…)`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from hobus.launch.app.agent import Agent
from hobus.launch.app.started import OwnCluster
from hobus.launch.sessions.client_errors import as_hobus_errors
from hobus.launch.sessions.cluster_client import AsyncClusterClient, ClusterClient


class Cluster(ClusterClient):
    """A client of a cluster that it starts, and stops when it is closed: also after an exception, Ctrl-C or SIGKILL.

    Without `home` it lives in a directory of its own, which is removed in the end. In a `home` it keeps its record and
    sessions, and joins a cluster that runs there, which then goes on. `agents`: the first one answers who names none.
    """

    def __init__(
        self, home: str | Path | None = None, *, agents: Sequence[Agent] = (), timeout_s: float = 600.0
    ) -> None:
        """Return when every process is ready. Raises HobusError, which names what is wrong and its mend."""
        with as_hobus_errors():
            self._started = OwnCluster(home, agents)
        try:
            super().__init__(self._started.home.root, timeout_s=timeout_s)
            self.client.agent_id = agents[0].agent_id if agents else None
        except BaseException:
            self._started.end()
            raise

    @property
    def home(self) -> Path:
        """Return the directory that `--home` of every command takes."""
        return self._started.home.root

    def close(self) -> None:
        """Close the connections, and stop the cluster if it was started here."""
        try:
            super().close()
        finally:
            self._started.end()


class AsyncCluster(AsyncClusterClient):
    """`Cluster` for programs with an event loop: `async with await AsyncCluster.open(agents=[…]) as cluster`."""

    _started: OwnCluster

    @property
    def home(self) -> Path:
        """Return the home, as `Cluster.home`."""
        return self._started.home.root

    @classmethod
    async def open(
        cls, home: str | Path | None = None, *, agents: Sequence[Agent] = (), timeout_s: float = 600.0
    ) -> Self:
        """Open as `Cluster` does. Raises HobusError."""
        with as_hobus_errors():
            started = await asyncio.to_thread(OwnCluster, home, agents)
        try:
            made = await super().open(started.home.root, timeout_s=timeout_s)
        except BaseException:
            await asyncio.to_thread(started.end)
            raise
        made._started = started  # noqa: SLF001 - of this very class
        made.agent_id = agents[0].agent_id if agents else None
        return made

    async def close(self) -> None:
        """Close as `Cluster.close` does."""
        try:
            await super().close()
        finally:
            await asyncio.to_thread(self._started.end)
