"""The console's own process: its socket, its server, the links that it prints, and its end.

`python -m` this module HOME SOCKET PIPE: that of a cluster, at a socket that its launcher holds, until it ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hobus.config.on_demand import read_on_demand
from hobus.config.snapshot import load_snapshot
from hobus.launch.cli.tap.capture import CaptureReader
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import Console
from hobus.launch.cli.web.frames import read_batches
from hobus.launch.cli.web.people import People
from hobus.launch.cli.web.screens import ACTIONS, PAGES, STREAMS
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.cli.web.talks import TALKS
from hobus.launch.cluster import console_file
from hobus.launch.cluster.home import Home, make_home
from hobus.launch.cluster.installed import find_layers
from hobus.launch.cluster.kernel import set_title
from hobus.launch.cluster.record import demand_record
from hobus.launch.console.errors import CommandError, UsageFault, is_about
from hobus.launch.console.interrupt import raise_at_interrupt
from hobus.launch.console.output import is_terminal, say
from hobus.launch.http.limits import HEAD_TIMEOUT_MS
from hobus.launch.http.server import make_server
from hobus.launch.logs import writing

if TYPE_CHECKING:
    from hobus.config.schema import AdminConfig

HOST = "127.0.0.1"
"""It has no TLS, and is for this machine alone; from elsewhere: an ssh tunnel."""


def serve(  # noqa: PLR0913 - one per option
    home: Home, *, port: int, people: Sequence[tuple[str, str]], at_rest: bool, capture: Path | None, url: str
) -> int:
    """Serve until Ctrl-C or SIGTERM. Raises CommandError: nothing to show, no capture, or the port is taken."""
    if capture is not None:
        next(read_batches(CaptureReader(capture)), None)
    source = HomeSource(home, at_rest=at_rest or capture is not None, capture=capture)
    config = _read_settings(source)
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        bound.listen()  # the link that is printed below can be followed at once
    except OSError as error:
        bound.close()
        raise UsageFault(f"--port {port}: {error.strerror}", hint="without --port any free one is taken") from None
    raise_at_interrupt()
    return asyncio.run(_serve(source, config, bound, people, url=url))


def main() -> int:
    """Serve the console of this home's cluster."""
    home, listening, alive = sys.argv[1:]
    writing.configure("console", f"console@{os.getpid()}")
    set_title("hobus console")
    source = HomeSource(make_home(Path(home)), at_rest=False)
    bound = socket.socket(fileno=int(listening))
    return asyncio.run(_serve(source, _read_settings(source), bound, (), alive=int(alive)))


def _read_settings(source: HomeSource) -> AdminConfig:
    """Return the HTTP door's limits of connections: of the cluster that runs, else of the home's files."""
    try:
        source.run()
        return read_on_demand(source.home.snapshot.read_bytes()).config
    except (CommandError, FileNotFoundError):
        if source.capture is None:
            demand_record(source.home)
    return load_snapshot(find_layers(source.home)).config


async def _serve(  # noqa: PLR0913 - what differs between who began it
    source: HomeSource, config: AdminConfig, bound: socket.socket, people: Sequence[tuple[str, str]],
    *, alive: int | None = None, url: str = "",
) -> int:  # fmt: skip
    """Serve. `alive`: a pipe that ends with the launcher; None: somebody began it. `url`: a proxy's."""
    is_about(source.home.root)
    os.nice(limits.NICE)
    port: int = bound.getsockname()[1]
    known = People(source.clock, lambda word: console_file.redeem(source.home, word, source.clock))
    app = Console(source, known, f"hobus-console-{port}", PAGES, ACTIONS, STREAMS, url)
    server = make_server(app, config.http, head_timeout_ms=HEAD_TIMEOUT_MS)

    def invite() -> None:
        for name, role in people:
            link = f"{url or f'http://{HOST}:{port}'}/sign-in?word={known.invite(name, role)}"
            say(f"console for {name} ({role}): {link}")

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: loop.create_task(_end()))

    async def _end() -> None:
        server.should_exit = server.force_exit = True
        await app.changes.close()

    if alive is not None:
        loop.add_reader(alive, lambda: (loop.remove_reader(alive), loop.create_task(_end())))
    invite()
    is_asked = alive is None and is_terminal(sys.stdin)
    if is_asked:
        say("each link signs in once; Enter prints others, Ctrl-C ends")
        loop.add_reader(sys.stdin.fileno(), lambda: invite() if sys.stdin.readline() else loop.remove_reader(0))
    try:
        await server.serve(sockets=[bound])
    finally:
        if is_asked:
            loop.remove_reader(sys.stdin.fileno())
        await app.changes.close()
        await TALKS.close()
        await source.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
