"""`hobus breaker`: which providers' models are called, left alone, or tried again."""

from __future__ import annotations

import asyncio

import click

from hobus.bus.messages.gateway import Breakers, ReadBreakers
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.client import connected, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import running
from hobus.launch.console import exit_codes
from hobus.launch.console.output import as_json, say, table

_MEANS = {
    "closed": "called",
    "open": "left alone, then tried again",
    "half_open": "being tried again",
}


@click.command()
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def breaker(*, home: Home, as_json_: bool) -> int:
    """Show the circuit breakers, one per provider and model that was called."""
    found = asyncio.run(breakers_of(place_of(home, running(home))))
    if as_json_:
        say(as_json(found.model_dump(), indent=1))
    elif found.breakers:
        rows = [
            (one.provider_id, one.model_id, one.state, str(one.failures), _MEANS[one.state]) for one in found.breakers
        ]
        table(("PROVIDER", "MODEL", "STATE", "FAILURES", "THAT IS"), rows)
    else:
        say("no model was called yet")
    return exit_codes.OK


async def breakers_of(place: Place) -> Breakers:
    """What the gateway says. Raises RuntimeFault, CommandError."""
    timeout_s = place.snapshot.config.launcher.client_timeout_ms / 1000
    async with connected(place, "operator") as bus:
        return await bus.request("gateway", ReadBreakers(), expect=Breakers, timeout_s=timeout_s)
