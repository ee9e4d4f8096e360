"""`hobus keys`: whose keys are enrolled."""

from __future__ import annotations

import click

from bus.messages.ids import iso
from bus.zeromq.key_book import workers_in
from launch import exit_codes
from launch.commands.options import with_home
from launch.home import Home
from launch.output import as_json, say, table


@click.group()
def keys() -> None:
    """Show which workers on other hosts may connect."""


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
