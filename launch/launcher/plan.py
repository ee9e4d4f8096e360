"""What is to be started: the configuration and how many processes of each role."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from msgspec import Struct

from hobus.config.gates.run import View, look
from hobus.config.schema import AdminConfig
from hobus.config.snapshot import Snapshot, freeze
from hobus.launch.cluster.endpoints import split_address
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.console.errors import UnreachableFault, UsageFault, format_next_here
from hobus.launch.launcher.listening import bind_socket
from hobus.launch.launcher.options import StartOptions, parse_scale, require_file, require_room
from hobus.launch.launcher.supervision import count_processes


class Plan(Struct, frozen=True):
    """One start of a cluster."""

    snapshot: Snapshot
    origin: str
    """Which admin_config.json it rests on."""
    counts: dict[str, int]
    """Processes per role; a role that is not named has one, `http` none."""
    warnings: tuple[str, ...] = ()
    """What the gates say of a start that they let pass."""


def look_at(home: Home, options: StartOptions, given: Mapping[str, str] | None = None) -> View:
    """Read and judge once all that a start of this home needs: what the gates look at, too.

    `given`: of the user's environment, what is not in this process's own and tools may need. Raises CommandError,
    ConfigError where nobody can know what is installed.
    """
    require_file(options.config_file)
    layers = find_layers(home, options.config_file)
    return look(layers, further=lambda config: _find_entry_point_faults(config, given or {}))


def make_plan(home: Home, options: StartOptions, view: View | None = None, *, binds: bool = True) -> Plan:
    """Return the plan for this home, as `view` has its files; without one they are read.

    `binds`: its addresses are to be free; not so where the cluster that it is for listens there. Raises ConfigError for
    the configuration, CommandError for `--scale`, `--listen` and `--http`.
    """
    counts = parse_scale(options.scale)
    snapshot = freeze((view or look_at(home, options)).reading)
    if options.listen is not None:
        snapshot = snapshot.listening("bus", options.listen)
    if options.http is not None:
        snapshot = snapshot.listening("http", options.http)
    config = snapshot.config
    if config.bus.listen:
        importlib.import_module("hobus.bus.zeromq.curve").check_available()
        if binds:
            check_free(config.bus.listen, "--listen, bus.listen")
    if config.http.listen:
        importlib.import_module("hobus.launch.process.roles.http").require_installed()
        if binds:
            check_free(config.http.listen, "--http, http.listen")
    elif "http" in counts:
        raise UsageFault("--scale http: this cluster has no HTTP door", hint=format_next_here("up --http"))
    shipped = {
        "ho1": config.ho1.count,
        "ho2": config.ho2.count,
        "ho3": 0 if config.memory is None else 1,
        "http": config.http.count if config.http.listen else 0,
    }
    require_room(count_processes(shipped | counts), config.launcher)
    # Absolute: whoever reads it of the run may stand elsewhere.
    origin = (
        snapshot.origins["admin_config.json"] if options.config_file is None else str(options.config_file.absolute())
    )
    return Plan(snapshot=snapshot, origin=origin, counts=shipped | counts)


def _find_entry_point_faults(config: AdminConfig, given: Mapping[str, str]) -> list[str]:
    if not config.tools.entry_points:
        return []
    # By name: few clusters have any.
    told: list[str] = importlib.import_module("hobus.launch.launcher.tool_check").list_unloadable(config, given)
    return told


def check_free(address: str, named: str) -> None:
    """Check that the address, given in `named`, can be listened at. Raises CommandError (usage, not reachable)."""
    host, port = split_address(address, option=named)
    try:
        bind_socket(host, port).close()
    except OSError as error:
        raise UnreachableFault(
            f"cannot listen at {address} ({named}): {error.strerror or error}",
            hint="choose another port, or port 0 for any free one",
        ) from None
