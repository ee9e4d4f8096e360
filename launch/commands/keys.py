"""`hobus keys`: whose keys are enrolled, and taking one back."""

from __future__ import annotations

import click

from bus.messages.ids import iso
from bus.zeromq.key_book import revoke, workers_in
from launch import exit_codes
from launch.commands.options import with_home
from launch.errors import CommandError, next_command
from launch.home import Home
from launch.output import as_json, note, say, table


@click.group()
def keys() -> None:
    """Show which workers on other hosts may connect; take a key back."""


@keys.command(name="list")
@click.option("--json", "as_json_", is_flag=True, help="One JSON array.")
@with_home
def list_keys(*, home: Home, as_json_: bool) -> int:
    """List enrolled workers, whether they are connected or not."""
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
    if as_json_:
        say(as_json(rows))
        return exit_codes.OK
    table(("WORKER", "KEY", "HOST", "TOKEN", "SINCE"), [
        (row["name"], row["key"], row["host"], row["token_id"], row["enrolled_at"]) for row in rows
    ])  # fmt: skip
    return exit_codes.OK


@keys.command(name="revoke")
@click.argument("name")
@with_home
def revoke_key(*, home: Home, name: str) -> int:
    """Take a worker's key back, for good: its token's use stays used, its name is not given again."""
    worker = revoke(home.keys, name)
    if worker is None:
        raise CommandError(f"no worker {name[:80]!r} is enrolled", hint=next_command("keys list", home.root))
    say(f"the key {worker.fingerprint} of {worker.name} is taken back")
    note(f"a broker that runs knows it from its next start: {next_command('restart', home.root)} broker/1")
    return exit_codes.OK
