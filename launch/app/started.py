"""The files of a program's agents in a home, and the cluster that is started there for it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, module_of
from hobus.bus.tool import entry_of
from hobus.config.files import ADMIN_CONFIG
from hobus.launch.app.agent import Agent
from hobus.launch.cluster import own_config
from hobus.launch.cluster.home import Home, holder, home_of
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault, next_command
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.starting import start_detached
from hobus.launch.launcher.stop import stop


def agents_in(file: Path) -> list[Agent]:
    """The agents at the top of a Python file, in its order; it is imported for that. Raises CommandError."""
    if not file.is_file():
        raise UsageFault(f"there is no file {file}", hint="name a Python file with an Agent at its top")
    try:
        module = module_of(file.absolute())
    except BadEntryPoint as bad:
        raise UsageFault(str(bad)) from None
    found = {id(one): one for one in vars(module).values() if isinstance(one, Agent)}
    if not found:
        raise UsageFault(f"{file} has no Agent at its top", hint='write clerk = Agent("clerk", instructions="…")')
    return list(found.values())


def write_files(home: Home, agents: Sequence[Agent]) -> list[str]:
    """Names of the files in the home's `config/` that had to change for these agents. Raises CommandError, OSError."""
    if not _changed_files(home, agents):
        return []
    with own_config.alone(home):
        changed = _changed_files(home, agents)
        (home.config / "agents").mkdir(exist_ok=True)
        for name, document in changed.items():
            own_config.put(home.config / name, document)
    return list(changed)


class OwnCluster:
    """The cluster of a home: started here, and stopped by `end`; or one that runs already, and goes on."""

    def __init__(self, home: str | Path | None, agents: Sequence[Agent]) -> None:
        """Return when every process is ready, under these agents' files. Raises CommandError, OSError."""
        if strange := [one for one in agents if not hasattr(one, "to_files")]:
            raise UsageFault(f"agents: expected Agents, not a {type(strange[0]).__name__}")
        self._temporary = tempfile.mkdtemp(prefix="hobus-") if home is None else None
        self.home = home_of(Path(self._temporary or str(home)) / ("home" if home is None else ""))
        self._is_ours = False
        try:
            self._begin(agents)
        except BaseException:
            self.end()
            raise

    def _begin(self, agents: Sequence[Agent]) -> None:
        if holder(self.home) is not None:
            if changed := _changed_files(self.home, agents):
                raise CommandError(
                    f"the cluster in {self.home.root} runs with another {', '.join(changed)} than these agents",
                    hint=f"{next_command('down', self.home.root)} first, or leave these agents out",
                )
            return
        write_files(self.home, agents)
        code = start_detached(self.home, StartOptions(), wait=True, quiet=True, ends_with_us=True)
        self._is_ours = True
        if code != exit_codes.OK:
            raise CommandError("the cluster did not become ready", hint=f"its logs are in {self.home.logs}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

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
    entries, approval, providers = dict[str, str](), list[str](), dict[str, Any]()
    for agent in agents:
        files = agent.to_files()
        of_all = files.pop(ADMIN_CONFIG)
        own, providers = of_all["tools"], of_all.get("gateway", {}).get("providers", {}) | providers
        if f"agents/{agent.agent_id}.json" in wanted:
            raise UsageFault(f"two agents are called {agent.agent_id}; rename one")
        for entry in own["entry_points"]:
            if entries.setdefault(name := entry_of(entry)[0], entry) != entry:
                raise UsageFault(f"two tools are called {name}: {entry}, {entries[name]}; rename one")
        approval += own["approval"]
        wanted |= files
    settings = own_config.read(home)
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
    if providers:
        gateway = settings.get("gateway", {})
        wanted[ADMIN_CONFIG]["gateway"] = gateway | {"providers": providers | gateway.get("providers", {})}
    return {name: document for name, document in wanted.items() if document != own_config.document(home.config / name)}
