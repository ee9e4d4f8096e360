"""`hobus keys`: whose keys are enrolled or made for HTTP, and taking one back."""

from __future__ import annotations

import asyncio

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.control import Done, RevokeKey
from hobus.bus.messages.ids import iso
from hobus.bus.zeromq.key_book import revoke, workers_in
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster import run_file
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import running
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command
from hobus.launch.console.output import as_json, say, table
from hobus.launch.http import keys as http_keys


@click.group()
def keys() -> None:
    """Show which workers on other hosts, and clients over HTTP, may connect; take a key back."""


@keys.command(name="list")
@click.option("--json", "as_json_", is_flag=True, help="One JSON array.")
@with_home
def list_keys(*, home: Home, as_json_: bool) -> int:
    """List enrolled workers, whether they are connected or not, and keys for HTTP."""
    rows = [
        {
            "name": worker.name,
            "key": worker.fingerprint,
            "host": worker.host,
            "token_id": worker.token_id,
            "version": worker.version,
            "enrolled_at": iso(worker.enrolled_at_us / 1_000_000),
        }
        for worker in workers_in(home.keys)
    ]
    rows += [
        {
            "name": key.principal,
            "key": f"key:{key.fingerprint}",
            "host": "",
            "token_id": "http",
            "version": "",
            "enrolled_at": iso(key.created_at_us / 1_000_000),
        }
        for key in http_keys.keys_in(home)
    ]
    if as_json_:
        say(as_json(rows))
        return exit_codes.OK
    table(("NAME", "KEY", "HOST", "TOKEN", "SINCE"), [
        (row["name"], row["key"], row["host"], row["token_id"], row["enrolled_at"]) for row in rows
    ])  # fmt: skip
    return exit_codes.OK


@keys.command(name="revoke")
@click.argument("name")
@with_home
def revoke_key(*, home: Home, name: str) -> int:
    """Take a key back, for good and at once.

    A worker is cut off, others get its orders, its name is not reused; over HTTP its bearer is refused from then on.
    """
    if http_keys.revoke(home, name, now_us=round(SystemClock().now() * 1_000_000)):
        say(f"the HTTP key of {name} is taken back")
        return exit_codes.OK
    worker = next((worker for worker in workers_in(home.keys) if worker.name == name), None)
    if worker is None:
        raise CommandError(
            f"no worker {name[:80]!r} is enrolled, and there is no HTTP key of that name",
            hint=next_command("keys list", home.root),
        )
    if home.bound() and run_file.read(home.run_file) is not None:
        asyncio.run(_revoked(place_of(home, running(home)), name))
    else:
        revoke(home.keys, name)
    say(f"the key {worker.fingerprint} of {worker.name} is taken back")
    return exit_codes.OK


async def _revoked(place: Place, name: str) -> None:
    """By the broker, which alone may change the keys that it runs with."""
    timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
    async with connected(place, "operator") as bus:
        await bus.request("broker", RevokeKey(name=name), expect=Done, timeout_s=timeout_s)
