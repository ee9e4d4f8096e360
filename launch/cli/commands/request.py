"""`hobus request`: one typed message, sent as the operator under the same policy as everybody's."""

from __future__ import annotations

import asyncio
import json

import click
from msgspec import ValidationError

from hobus.bus.catalog import CLASSES, ROWS, find_row
from hobus.bus.messages.base import Message, describe_fault, name_fields
from hobus.bus.messages.control import Done
from hobus.launch.cli.commands.cluster_options import choose_timeout
from hobus.launch.cli.commands.options import DURATION, with_home
from hobus.launch.cluster.client import connect_bus, find_cluster
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault
from hobus.launch.console.output import as_json, say


@click.command()
@click.argument("service")
@click.argument("type_name", metavar="TYPE")
@click.argument("body", metavar="[JSON]", default="{}")
@click.option("--timeout", "timeout_s", type=DURATION, help="How long to wait, e.g. 90 or 2m.")
@with_home
def request(*, home: Home, service: str, type_name: str, body: str, timeout_s: float | None) -> int:
    """Send one typed message and print the reply as JSON, e.g. `hobus request broker broker.read_peers`."""
    message = make_message(service, type_name, body)
    place = find_cluster(home)
    config = place.snapshot.config
    wait_s = choose_timeout(timeout_s, config, default_ms=config.launcher.client_timeout_ms)
    say(asyncio.run(_send(place, service, message, wait_s)))
    return exit_codes.OK


def make_message(service: str, type_name: str, body: str) -> Message:
    """Return the typed message behind the arguments. Raises CommandError (usage) that names what fits."""
    cls = CLASSES.get(type_name)
    asked = sorted({row.cls.TYPE for row in ROWS if row.service == service.partition("/")[0]})
    if not asked:
        services = ", ".join(sorted({row.service for row in ROWS}))
        raise UsageFault(f"there is no service {service}; services: {services}")
    if cls is None:
        raise UsageFault(f"there is no message type {type_name}; {service} takes: {', '.join(asked)}")
    try:
        return cls.model_validate_json(body)
    except ValidationError as error:
        raise UsageFault(f"not a {type_name}: {describe_fault(error)}") from None
    except ValueError as error:
        raise UsageFault(f"not a {type_name}: body: {error}") from None


async def _send(place: Place, service: str, message: Message, timeout_s: float) -> str:
    row = find_row(service.partition("/")[0], message.TYPE)
    async with connect_bus(place, "operator") as bus:
        if row is not None and row.reply is None:
            await bus.post(service, message)
            return json.dumps({"posted": message.TYPE})
        # A service that does not take this type is asked all the same: the broker's refusal is the answer.
        expect = row.reply if row is not None and row.reply is not None else Done
        reply = await bus.request(service, message, expect=expect, timeout_s=timeout_s)
    return as_json(name_fields(reply), indent=1)
