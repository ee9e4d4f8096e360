"""The console's own process: its socket, its server, the links that it prints, and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hobus.config.on_demand import snapshot_on_demand
from hobus.config.snapshot import load_snapshot
from hobus.launch.cli.web.app import Console
from hobus.launch.cli.web.people import People
from hobus.launch.cli.web.screens import ACTIONS, PAGES, STREAMS
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.cli.web.talks import TALKS
from hobus.launch.cluster import console_file
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import layers_of
from hobus.launch.cluster.record import demand_record
from hobus.launch.console.errors import CommandError, UsageFault, is_about
from hobus.launch.console.interrupt import raise_at_interrupt
from hobus.launch.console.output import is_terminal, say
from hobus.launch.http.limits import HEAD_TIMEOUT_MS
from hobus.launch.http.server import make_server

if TYPE_CHECKING:
    from hobus.config.schema import AdminConfig

HOST = "127.0.0.1"
"""It has no TLS, and is for this machine alone; from elsewhere: an ssh tunnel."""


def serve(home: Home, *, port: int, people: Sequence[tuple[str, str]], at_rest: bool, capture: Path | None) -> int:
    """Until Ctrl-C or SIGTERM. Raises CommandError: nothing to show, or the port is taken."""
    source = HomeSource(home, at_rest=at_rest or capture is not None, capture=capture)
    config = _settings(source)
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        raise UsageFault(f"--port {port}: {error.strerror}", hint="without --port any free one is taken") from None
    raise_at_interrupt()
    return asyncio.run(_serve(source, config, bound, people))


def _settings(source: HomeSource) -> AdminConfig:
    """Limits of connections are those of the HTTP door: of the cluster that runs, else of the home's files."""
    try:
        source.run()
        return snapshot_on_demand(source.home.snapshot.read_bytes()).config
    except (CommandError, FileNotFoundError):
        if source.capture is None:
            demand_record(source.home)
    return load_snapshot(layers_of(source.home)).config


async def _serve(
    source: HomeSource, config: AdminConfig, bound: socket.socket, people: Sequence[tuple[str, str]]
) -> int:
    is_about(source.home.root)
    port: int = bound.getsockname()[1]
    known = People(source.clock)
    app = Console(source, known, f"hobus-console-{port}", PAGES, ACTIONS, STREAMS)
    server = make_server(app, config.http, head_timeout_ms=HEAD_TIMEOUT_MS)

    def invite() -> None:
        for name, role in people:
            word = known.invite(name, "viewer" if role == "viewer" else "operator")
            say(f"console for {name} ({role}): http://{HOST}:{port}/sign-in?word={word}")

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: loop.create_task(_end()))

    async def _end() -> None:
        server.should_exit = server.force_exit = True
        await app.changes.close()

    if not source.at_rest:
        console_file.tell(source.home, f"{HOST}:{port}")
    invite()
    if not source.at_rest and (door := source.home.bound(http=True)):
        say(f"who is signed in finds it at http://{door}/ as well")
    is_asked = is_terminal(sys.stdin)
    if is_asked:
        say("each link signs in once; Enter prints others, Ctrl-C ends")
        loop.add_reader(sys.stdin.fileno(), lambda: invite() if sys.stdin.readline() else loop.remove_reader(0))
    try:
        await server.serve(sockets=[bound])
    finally:
        if is_asked:
            loop.remove_reader(sys.stdin.fileno())
        console_file.withdraw(source.home, f"{HOST}:{port}")
        await app.changes.close()
        await TALKS.close()
        await source.close()
    return 0
