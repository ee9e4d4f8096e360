"""A cluster that a program starts, uses and stops: `with Cluster(agents=[…]) as cluster: cluster.ask(…)`."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from hobus.bus.tool import entry_of
from hobus.config.files import ADMIN_CONFIG
from hobus.launch.app.agent import Agent
from hobus.launch.cluster.home import Home, holder, home_of, make_root
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.starting import start_detached
from hobus.launch.launcher.stop import stop
from hobus.launch.sessions.client_errors import RequestError, as_hobus_errors
from hobus.launch.sessions.cluster_client import AsyncClusterClient, ClusterClient


class _Started:
    """The cluster of a home: started here, and stopped by `end`; or one that runs already, and goes on."""

    def __init__(self, home: str | Path | None, agents: Sequence[Agent]) -> None:
        """Ready. The files of the agents are in the home's `config/` before. Raises HobusError."""
        self._temporary = tempfile.mkdtemp(prefix="hobus-") if home is None else None
        self.home = home_of(Path(self._temporary or str(home)) / ("home" if home is None else ""))
        self._is_ours = False
        try:
            with as_hobus_errors():
                self._begin(agents)
        except BaseException:
            self.end()
            raise

    def _begin(self, agents: Sequence[Agent]) -> None:
        changed = _changed_files(self.home, agents)
        if holder(self.home) is not None:
            if changed:
                raise CommandError(
                    f"the cluster in {self.home.root} runs with another {', '.join(changed)} than these agents",
                    hint=f"{next_command('down', self.home.root)} first, or leave out agents=",
                )
            return
        make_root(self.home.root)
        for name, document in changed.items():
            path = self.home.config / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{json.dumps(document, indent=2)}\n", encoding="utf-8")
        code = start_detached(self.home, StartOptions(), wait=True, quiet=True, ends_with_us=True)
        self._is_ours = True
        if code != exit_codes.OK:
            raise CommandError("the cluster did not become ready", hint=f"its logs are in {self.home.logs}")

    def end(self) -> None:
        """Stopped if it was started here, its home removed if it was made here; once more: nothing."""
        try:
            if self._is_ours:
                self._is_ours = False
                stop(self.home, quiet=True)
        finally:
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)


def _changed_files(home: Home, agents: Sequence[Agent]) -> dict[str, dict[str, Any]]:
    """Documents by their paths in the home's `config/` that differ from what is there.

    In its settings the first agent answers who names none, and these tools are added to those that are there already.
    """
    if not agents:
        return {}
    wanted = dict[str, dict[str, Any]]()
    entries, approval = dict[str, str](), list[str]()
    for agent in agents:
        files = agent.to_files()
        own = files.pop(ADMIN_CONFIG)["tools"]
        if f"agents/{agent.agent_id}.json" in wanted:
            raise RequestError("invalid_input", f"two agents are called {agent.agent_id}; rename one")
        for entry in own["entry_points"]:
            if entries.setdefault(name := entry_of(entry)[0], entry) != entry:
                raise RequestError(
                    "invalid_input", f"two tools are called {name} ({entry}; {entries[name]}); rename one"
                )
        approval += own["approval"]
        wanted |= files
    settings = _document(home, ADMIN_CONFIG)
    tools = settings.get("tools", {})
    theirs = {entry_of(entry)[0]: entry for entry in tools.get("entry_points", ())}
    wanted[ADMIN_CONFIG] = settings | {
        "host": {"agent_id": agents[0].agent_id} | settings.get("host", {}),
        "tools": tools
        | {
            "entry_points": list((theirs | entries).values()),
            "approval": list(dict.fromkeys([*tools.get("approval", ()), *approval])),
        },
    }
    return {name: document for name, document in wanted.items() if document != _document(home, name)}


def _document(home: Home, name: str) -> dict[str, Any]:
    """Of the home's `config/`; empty where there is none."""
    path = home.config / name
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError):
        raise CommandError(f"{path} is no JSON object", hint=next_command("config check", home.root)) from None


class Cluster(ClusterClient):
    """A client of a cluster that it starts, and stops when it is closed: also after an exception, Ctrl-C or SIGKILL.

    Without `home` it lives in a directory of its own, which is removed in the end. In a `home` it keeps its record and
    sessions, and joins a cluster that runs there, which then goes on. `agents`: the first one answers who names none.
    """

    def __init__(
        self, home: str | Path | None = None, *, agents: Sequence[Agent] = (), timeout_s: float = 600.0
    ) -> None:
        """Return when every process is ready. Raises HobusError, which names what is wrong and its mend."""
        self._started = _Started(home, agents)
        try:
            super().__init__(self._started.home.root, timeout_s=timeout_s)
        except BaseException:
            self._started.end()
            raise

    @property
    def home(self) -> Path:
        """The directory that `--home` of every command takes."""
        return self._started.home.root

    def close(self) -> None:
        """Its connections are closed, and the cluster is stopped if it was started here."""
        try:
            super().close()
        finally:
            self._started.end()


class AsyncCluster(AsyncClusterClient):
    """`Cluster` for programs with an event loop: `async with await AsyncCluster.open(agents=[…]) as cluster`."""

    _started: _Started

    @property
    def home(self) -> Path:
        """As `Cluster.home`."""
        return self._started.home.root

    @classmethod
    async def open(
        cls, home: str | Path | None = None, *, agents: Sequence[Agent] = (), timeout_s: float = 600.0
    ) -> Self:
        """As `Cluster`. Raises HobusError."""
        started = await asyncio.to_thread(_Started, home, agents)
        try:
            made = await super().open(started.home.root, timeout_s=timeout_s)
        except BaseException:
            await asyncio.to_thread(started.end)
            raise
        made._started = started  # noqa: SLF001 - of this very class
        return made

    async def close(self) -> None:
        """As `Cluster.close`."""
        try:
            await super().close()
        finally:
            await asyncio.to_thread(self._started.end)
