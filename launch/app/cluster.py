"""A cluster that a program starts, uses and stops: `with Cluster(agents=[…]) as cluster: cluster.ask(…)`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Self, TypeVar

from hobus.launch.app.agent import Agent
from hobus.launch.app.started import begin
from hobus.launch.cluster.home import Home
from hobus.launch.sessions.client_errors import as_hobus_errors
from hobus.launch.sessions.cluster_client import AsyncClusterClient, ClusterClient, connect
from hobus.launch.sessions.session_client import Sessions


class AsyncCluster(AsyncClusterClient):
    """`Cluster` for programs with an event loop: `async with await AsyncCluster.open(agents=[…]) as cluster`."""

    @classmethod
    async def open(
        cls, home: str | Path | None = None, *, agents: Sequence[Agent] = (), timeout_s: float = 600.0
    ) -> Self:
        """Open as `Cluster` does. Raises HobusError."""
        with as_hobus_errors():
            begun = await asyncio.to_thread(begin, home, agents)
            return await _connect(cls, *begun, agents, timeout_s)


A = TypeVar("A", bound=AsyncCluster)


async def _connect(cls: type[A], home: Home, begun: ExitStack, agents: Sequence[Agent], timeout_s: float) -> A:
    held = AsyncExitStack()
    held.push_async_callback(asyncio.to_thread, begun.close)
    made = await connect(cls, home, held, timeout_s=timeout_s)
    made.agent_id = agents[0].agent_id if agents else None
    return made


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
            begun = begin(home, agents)  # in this thread: Ctrl-C takes a start back
            Sessions.__init__(self, lambda: _connect(AsyncCluster, *begun, agents, timeout_s))
