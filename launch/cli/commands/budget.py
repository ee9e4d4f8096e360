"""`hobus budget`: limits, and what is used, reserved and left of them."""

from __future__ import annotations

import asyncio

import click

from hobus.bus.messages.gateway import Budget, ScopeBudget
from hobus.bus.messages.ids import shown_session
from hobus.launch.cli.chat.outcome import money
from hobus.launch.cli.chat.talk import read_budget
from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.client import place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import running
from hobus.launch.console import exit_codes
from hobus.launch.console.output import as_json, say, styled, table
from hobus.launch.sessions.watched_turn import named_session

_BAR_CELLS = 20
_MODES = {
    "enforce": "a call that goes over a limit is refused",
    "warn": "a call that goes over a limit is recorded as a warning, and made",
    "off": "limits are recorded, and nothing follows from them",
}


@click.command()
@click.option("--session", metavar="ID", help="This session, and what it draws on (its id or an unambiguous prefix).")
@click.option("--json", "as_json_", is_flag=True, help="One JSON object.")
@with_home
def budget(*, home: Home, session: str | None, as_json_: bool) -> int:
    """Show the token budgets: limit, used, reserved by calls in flight, remaining."""
    found = asyncio.run(_read(place_of(home, running(home)), session))
    if as_json_:
        say(as_json(found.model_dump(), indent=1))
        return exit_codes.OK
    if found.scopes:
        headings = ("SCOPE", "USED", "RESERVED", "LIMIT", "REMAINING", "", "CALLS", "COST", "NOTE")
        table(headings, [_cells(row) for row in found.scopes])
    else:
        say("no budget is in use yet")
    say(styled(f"mode {found.mode}: {_MODES[found.mode]}", "bright_black"))
    return exit_codes.OK


async def _read(place: Place, session: str | None) -> Budget:
    return await read_budget(place, "" if session is None else await named_session(place, session))


def _cells(row: ScopeBudget) -> tuple[str, ...]:
    kind, _, name = row.scope.partition(":")
    unknown = f"{row.unknown_calls} of unknown outcome" if row.unknown_calls else ""
    return (
        f"{kind} {shown_session(name) if kind == 'session' else name}",
        str(row.used),
        str(row.reserved),
        "none" if row.limit is None else str(row.limit),
        "-" if row.remaining is None else str(row.remaining),
        bar(row),
        str(row.calls),
        money(row.cost_usd),
        unknown,
    )


def bar(row: ScopeBudget) -> str:
    """`[####++..............]  21 %`: used, reserved, left; above the limit it is full and the number says how far."""
    if not row.limit:
        return ""
    used, taken = (_filled(amount, row.limit) for amount in (row.used, row.used + row.reserved))
    filled = "#" * used + "+" * (taken - used)
    return f"[{filled.ljust(_BAR_CELLS, '.')}] {100 * (row.used + row.reserved) // row.limit:3d} %"


def _filled(amount: int, limit: int) -> int:
    return min(_BAR_CELLS, -(-_BAR_CELLS * amount // limit))
