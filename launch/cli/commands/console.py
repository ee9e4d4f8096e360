"""`hobus console`: the console in a browser, of a running cluster or of a home at rest."""

from __future__ import annotations

import getpass
import importlib
import re
from pathlib import Path

import click

from hobus.bus.clock import SystemClock
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster import console_file
from hobus.launch.cluster.console_file import ConsoleLink
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault
from hobus.launch.console.output import say
from hobus.launch.process.roles.http import require_installed

_PORT_MAX = 65_535
_URL = re.compile(r"https?://([\w.-]+|\[[0-9a-fA-F:]+\])(:\d+)?(/[\w.~/-]*)?", re.ASCII)
_ROLES = ("operator", "viewer")


@click.command()
@click.option("--port", type=click.IntRange(0, _PORT_MAX), default=0, help="Port at 127.0.0.1; 0: any free one.")
@click.option(
    "--person", "people", multiple=True, metavar="NAME[:ROLE]",
    help="Print a link for this person, an operator or a viewer; may be repeated. Default: you, an operator.",
)  # fmt: skip
@click.option("--read-only", "at_rest", is_flag=True, help="Only read the home's files; ignore a running cluster.")
@click.option(
    "--capture", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Show the frames of this capture (hobus tap -w); implies --read-only.",
)  # fmt: skip
@click.option("--url", default="", help="Public address, of a proxy on this machine, e.g. https://ops.example/hobus.")
@with_home
def console(  # noqa: PLR0913 - one per option
    *, home: Home, port: int, people: tuple[str, ...], at_rest: bool, capture: Path | None, url: str
) -> int:
    """Serve the console to browsers of this machine until Ctrl-C, and print a one-time link for each person.

    Its pages show what ps, session, why, ledger, cost, memory, tools, config and tap show, and run the same commands.
    Without a running cluster they show the record. A cluster started with --http has a console already: this command
    then prints links to it, and ends.
    """
    require_installed("jinja2")
    named = [_make_link(one) for one in people or (getpass.getuser(),)]
    if url and not _URL.fullmatch(url):
        raise UsageFault(f"--url {url[:80]!r}: expected http(s)://HOST[:PORT][/PATH]")
    if not (port or at_rest or capture or url) and console_file.find_offered(home):
        for one in named:
            say(f"console for {one.name} ({one.role}): {console_file.make_link(home, SystemClock(), one)}")
        say("each link signs in once")
        return exit_codes.OK
    # By name: no other command loads a web server.
    served = importlib.import_module("hobus.launch.cli.web.serving").serve
    code: int = served(home, port=port, people=named, at_rest=at_rest, capture=capture, url=url.rstrip("/"))
    return code


def _make_link(given: str) -> ConsoleLink:
    name, _, role = given.partition(":")
    if not (name.isprintable() and 0 < len(name) <= 40) or (role or "operator") not in _ROLES:  # noqa: PLR2004 - of a name
        raise UsageFault(f"--person {given[:80]!r}: expected NAME, NAME:operator or NAME:viewer")
    return ConsoleLink(name, role or "operator")
