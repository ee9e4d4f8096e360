"""The files of a program's agents in a home, and the cluster that is started there for it."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hobus.actors.ho1_executor.tools.entry_points import BadEntryPoint, import_file, place_of
from hobus.bus.tool import IMPORTING, parse_entry_point
from hobus.config.files import ADMIN_CONFIG
from hobus.launch.app.agent import Agent
from hobus.launch.cluster import own_config
from hobus.launch.cluster.home import Home, find_holder, make_home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import (
    CommandError,
    UsageFault,
    as_command_error,
    format_next_command,
    make_os_fault,
)
from hobus.launch.console.output import note
from hobus.launch.launcher.options import StartOptions
from hobus.launch.launcher.plan import make_plan
from hobus.launch.launcher.starting import bring_up, let_go
from hobus.launch.launcher.stop import stop
from hobus.launch.launcher.tool_check import OR_REMOVED
from hobus.launch.launcher.up_already import find_begun
from hobus.launch.limits import IMPORT_LONG_S, IMPORT_MAX_S
from hobus.launch.sessions.client_errors import HobusError


def import_agents(file: Path) -> list[Agent]:
    """Import a Python file and return the agents at its top, in its order. Raises CommandError."""
    if not file.is_file():
        raise UsageFault(f"there is no file {file}", hint="name a Python file with an Agent at its top")

    def tell(*_: object) -> None:
        note(f"importing {file} takes long ({IMPORT_MAX_S} s at most)")
        signal.signal(signal.SIGALRM, _give_up)
        signal.alarm(IMPORT_MAX_S - IMPORT_LONG_S)

    before = signal.signal(signal.SIGALRM, tell)
    signal.alarm(IMPORT_LONG_S)
    try:
        module = import_file(file.absolute())
    except BadEntryPoint as bad:
        if isinstance(said := bad.__context__, HobusError):  # of what is written there, in words of its own
            raise UsageFault(f"{said.message}{place_of(said)}") from said
        raise UsageFault(str(bad)) from bad.__context__
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    found = {id(one): one for one in vars(module).values() if isinstance(one, Agent)}
    if not found:
        raise UsageFault(f"{file} has no Agent at its top", hint='write clerk = Agent("clerk", instructions="…")')
    return list(found.values())


class ImportTooLong(BaseException):
    """Beyond what a program that tries again expects of its own faults."""


def _give_up(*_: object) -> None:
    signal.alarm(IMPORT_LONG_S)  # once more, where it goes on all the same
    mend = "put what takes so long behind `if __name__ == '__main__':`"
    raise ImportTooLong(f"it takes more than {IMPORT_MAX_S} s; {mend}")


def take_in(home: Home, agents: Sequence[Agent], app: Path) -> None:
    """Take the agents of this file into the home's `config/`; where they cannot be, it stays. Raises CommandError."""
    with take_agents_in(home, agents, app) as changed:
        if changed:
            make_plan(home, StartOptions(), binds=False)


@contextmanager
def take_agents_in(home: Home, agents: Sequence[Agent], app: Path | None = None) -> Generator[list[Path]]:
    """Write these agents' files into the home's `config/`; yield those that change. A fault in the context undoes it.

    What the file `app` had there before, and has no more, goes. Raises CommandError: with a configuration's faults as
    those of the Agents that they come from.
    """
    before: dict[Path, bytes | None] = {}
    try:
        if list_changed_files(home, agents, app):
            with own_config.lock_alone(home):
                (home.config / "agents").mkdir(exist_ok=True)
                for name, document in list_changed_files(home, agents, app).items():
                    file = home.config / name
                    before[file] = file.read_bytes() if file.is_file() else None
                    file.unlink() if document is None else own_config.put(file, document)
    except OSError as error:
        raise make_os_fault(error, doing=f"the agents cannot be taken into {home.config}") from error
    try:
        yield list(before)
    except BaseException as error:
        for file, was in before.items():
            file.unlink(missing_ok=True) if was is None else file.write_bytes(was)
        known = as_command_error(error)
        if known is None or known.exit_code != exit_codes.USAGE or "\n- " not in known.message:
            raise
        told = "".join(f"\n- {_as_written(one, home, agents)}" for one in known.message.split("\n- ")[1:])
        raise UsageFault(f"{app or 'these agents'} cannot be loaded:{told}") from None


_PARAMETERS = {"agent_id": "name", "system_prompt": "instructions", "output_schema": "output"}
"""Field of an agent's file -> what it is compiled from, where that has another name."""


def _as_written(fault: str, home: Home, agents: Sequence[Agent]) -> str:
    """Return a fault of a compiled field as one of the Agent's parameter, with file and line; or unchanged."""
    place, _, said = fault.removeprefix(f"{home.config}/").partition(": ")
    field, _, why = said.partition(": ")
    for one in agents:
        if place == f"agents/{one.agent_id}.json":
            name, dot, below = field.partition(".")
            return f"{one.written_at}: {one.name}: {_PARAMETERS.get(name, name)}{dot}{below}: {why}"
        tool, _, why_not = why.partition(": ")
        if (place, field) == (ADMIN_CONFIG, _ENTRY_POINTS) and tool in [repr(each.__name__) for each in one.functions]:
            return f"{one.written_at}: {one.name}: tools: {tool}: {why_not.removesuffix(OR_REMOVED)}"
    return fault


_STARTING, _ENTRY_POINTS = ".starting", "tools.entry_points"
_PROGRAMS = ".programs.json"
"""In `config/`, hidden, so that it is no governed file: what was written for each program, to be taken back."""


def begin(home: str | Path | None, agents: Sequence[Agent], app: Path | None = None) -> tuple[Home, ExitStack]:
    """Start the cluster of a home, or join the one that runs there; return the home, and what to close in the end.

    Then a cluster that was started here stops, and a home that was made here goes; another cluster goes on. Every
    process is ready, under these agents' files; `app` is the file that has them, where they are no running program's.
    Raises CommandError, OSError.
    """
    if IMPORTING:  # each process of its tools does that
        guard = 'put that below `if __name__ == "__main__":`'
        raise UsageFault(f"{IMPORTING[0].name} starts a cluster when it is imported; {guard}")
    if strange := [one for one in agents if not hasattr(one, "to_files")]:
        raise UsageFault(f"agents: expected Agents, not a {type(strange[0]).__name__}")
    with ExitStack() as held:
        root = Path(tempfile.mkdtemp(prefix="hobus-") if home is None else home)
        if home is None:
            held.callback(shutil.rmtree, root, ignore_errors=True)
        there = make_home(root / "home" if home is None else root)
        with own_config.lock_alone(there, _STARTING):  # who comes second joins
            if find_holder(there) is None:
                with take_agents_in(there, agents, app):
                    is_ours = _start(there)
                if is_ours:
                    held.callback(let_go, there)
                    held.callback(stop, there, quiet=True)
                    begun = ExitStack()
                    begun.callback(_close_own, os.getpid(), held.pop_all())
                    atexit.register(begun.close)  # of a program that does not
                    return there, begun
        find_begun(there)
        if changed := list_changed_files(there, agents):
            raise CommandError(
                f"the cluster in {there.root} runs with another {', '.join(changed)} than these agents",
                hint=f"{format_next_command('down', there.root)} first, or leave these agents out",
            )
        return there, held.pop_all()


def _close_own(pid: int, begun: ExitStack) -> None:
    """Close what the process `pid` began; a fork of it has begun nothing."""
    if os.getpid() == pid:
        begun.close()


def _start(home: Home) -> bool:
    """Start; return whether the cluster is this program's: another command may be earlier. Raises CommandError."""
    try:
        bring_up(home, StartOptions())
    except CommandError as error:
        if error.exit_code != exit_codes.REFUSED or find_holder(home) is None:
            raise
        return False
    return True


def make_documents(agents: Sequence[Agent]) -> dict[str, dict[str, Any]]:
    """Return all of these agents' files, as if a home had no settings. Raises UsageFault: two exclude each other."""
    wanted, ids = dict[str, dict[str, Any]](), [agent.agent_id for agent in agents]
    entries, approval, providers = dict[str, str](), list[str](), dict[str, Any]()
    for number, agent in enumerate(agents):
        try:
            files = agent.to_files()
        except HobusError as fault:
            raise UsageFault(fault.message) from None
        if (first := ids.index(agent.agent_id)) != number:
            places = f"{agents[first].written_at}, {agent.written_at}"
            raise UsageFault(f"two agents are called {agent.agent_id} ({places}); rename one")
        if left_out := [one.name for one in agent.tools if isinstance(one, Agent) and one.agent_id not in ids]:
            said = f"{left_out[0]}: an agent that is none of this cluster's; add it to agents"
            raise UsageFault(f"{agent.written_at}: {agent.name}: tools: {said}")
        own = files.pop(ADMIN_CONFIG)
        for entry in own["tools"]["entry_points"]:
            if entries.setdefault(name := parse_entry_point(entry)[0], entry) != entry:
                raise UsageFault(f"two tools are called {name}: {entry}, {entries[name]}; rename one")
        approval += own["tools"]["approval"]
        providers |= own.get("gateway", {}).get("providers", {})
        wanted |= files
    tools = {"entry_points": list(entries.values()), "approval": list(dict.fromkeys(approval))}
    return wanted | {
        ADMIN_CONFIG: {"host": {"agent_id": ids[0]}, "tools": tools, "agents": ids, "providers": providers}
    }


def list_changed_files(
    home: Home, agents: Sequence[Agent], app: Path | None = None
) -> dict[str, dict[str, Any] | None]:
    """Map paths in the home's `config/` to documents that differ from what is there; None: the file is to go.

    In its settings the first agent answers who names none, and these tools are added to those that are there already.
    """
    if not agents:
        return {}
    wanted: dict[str, dict[str, Any] | None] = {**(made := make_documents(agents))}
    settings, own, program = own_config.read(home), made[ADMIN_CONFIG], str(app and app.resolve())
    programs = own_config.read_document(home.config / _PROGRAMS)
    past = programs.get(program, {"agents": [], "tools": {}, "host": {}})
    if app is not None:
        wanted[_PROGRAMS] = programs | {program: own}
    host, tools = settings.get("host", {}), settings.get("tools", {})
    if host.get("agent_id") in (None, past["host"].get("agent_id")):
        host = host | own["host"]
    for key, ours in own["tools"].items():
        kept = [one for one in tools.get(key, ()) if one in ours or one not in past["tools"].get(key, ())]
        named = {parse_entry_point(one)[0]: one for one in (*kept, *ours)}  # an approval is all name
        tools = tools | {key: list(named.values())}
    settings |= {"host": host, "tools": tools}
    if providers := own["providers"]:
        gateway = settings.get("gateway", {})
        settings["gateway"] = gateway | {"providers": providers | gateway.get("providers", {})}
    wanted = dict.fromkeys(f"agents/{name}.json" for name in past["agents"]) | wanted | {ADMIN_CONFIG: settings}
    return {name: one for name, one in wanted.items() if (one or {}) != own_config.read_document(home.config / name)}


def main() -> None:
    """Run as `python -m` this module, HOME FILE: take the file's agents into the home; tell the result as JSON.

    In a process of its own, so that the file is imported as it is now, and what its import does harms nobody.
    """
    home, app, out = make_home(Path(sys.argv[1])), Path(sys.argv[2]), os.dup(1)
    os.dup2(2, 1)  # what the file prints is no part of the answer
    read, fault = list[str](), list[str]()
    try:
        agents = import_agents(app)
        read = [str(one.instructions.absolute()) for one in agents if isinstance(one.instructions, Path)]
        take_in(home, agents, app)
    except CommandError as error:
        fault = [error.message, error.hint]
    os.write(out, json.dumps([read, fault]).encode())
    sys.stdout.flush()
    os._exit(0)  # threads that the file left behind are nobody's business


if __name__ == "__main__":
    main()
