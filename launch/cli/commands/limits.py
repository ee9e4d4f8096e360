"""`hobus budget|breaker`: token budgets and circuit breakers, as the gateway keeps them."""

from __future__ import annotations

import asyncio
import sys

import click

from hobus.bus.messages.gateway import Breakers, Budget, ReadBreakers, ReadBudget, ScopeBudget
from hobus.bus.messages.ids import shown_session
from hobus.launch.cli.commands.cluster_options import ask, with_cluster
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.output import is_terminal, money, say, styled, table, thousands, window

_BAR_CELLS, _SHORT_BAR_CELLS = 20, 6
_ROOMY = 100
"""Cells; in a narrower window the bar is short, and never broken."""
_MODES = {
    "enforce": "a call that goes over a limit is refused",
    "warn": "a call over a limit is made, and recorded as a warning",
    "off": "limits are recorded and not enforced",
}
_BREAKER_STATES = {
    "closed": "called",
    "open": "not called for now, then tried again",
    "half_open": "being tried again",
}


@click.command()
@click.option("--session", metavar="ID", help="This session, and what it draws on (its id or an unambiguous prefix).")
@with_json
@with_cluster
def budget(*, place: Place, session: str | None) -> Output:
    """Show the token budgets: limit, used, reserved by calls in flight, remaining."""
    session_id = ""
    if session is not None:
        from hobus.launch.sessions.named import named_session  # noqa: PLC0415 - loads the record's messages

        session_id = asyncio.run(named_session(place, session))
    found = ask(place, "gateway", ReadBudget(session_id=session_id), Budget)

    def show() -> None:
        headings = ("SCOPE", "USED", "RESERVED", "LIMIT", "REMAINING", "", "CALLS", "COST", "NOTE")
        table(
            headings,
            [_cells(row) for row in found.scopes],
            empty="no budget is in use yet",
            spare=("", "CALLS", "RESERVED"),
        )
        say(styled(f"mode {found.mode}: {_MODES[found.mode]}", "bright_black"))

    return Output(found, show)


def _cells(row: ScopeBudget) -> tuple[str, ...]:
    kind, _, name = row.scope.partition(":")
    unknown = f"{row.unknown_calls} of unknown outcome" if row.unknown_calls else ""
    return (
        f"{kind} {shown_session(name) if kind == 'session' else name}",
        thousands(row.used),
        thousands(row.reserved),
        "none" if row.limit is None else thousands(row.limit),
        "-" if row.remaining is None else thousands(row.remaining),
        bar(row, _BAR_CELLS if window()[0] >= _ROOMY or not is_terminal(sys.stdout) else _SHORT_BAR_CELLS),
        thousands(row.calls),
        money(row.cost_usd),
        unknown,
    )


def bar(row: ScopeBudget, cells: int = _BAR_CELLS) -> str:
    """`[####++..............]  21%`: used, reserved, left; above the limit it is full and the number says how far."""
    if not row.limit:
        return ""
    used, taken = (_filled(amount, row.limit, cells) for amount in (row.used, row.used + row.reserved))
    filled = "#" * used + "+" * (taken - used)
    return f"[{filled.ljust(cells, '.')}] {100 * (row.used + row.reserved) // row.limit:3d}%"


def _filled(amount: int, limit: int, cells: int) -> int:
    return min(cells, -(-cells * amount // limit))


@click.command()
@with_json
@with_cluster
def breaker(*, place: Place) -> Output:
    """Show the circuit breakers, one per provider and model that was called.

    A gateway that starts has them all closed, whatever the record says of those before: what fails again opens them.
    """
    found = ask(place, "gateway", ReadBreakers(), Breakers)
    rows = [
        (one.provider_id, one.model_id, one.state, str(one.failures), _BREAKER_STATES[one.state])
        for one in found.breakers
    ]
    headings = ("PROVIDER", "MODEL", "STATE", "FAILURES", "MEANING")
    return Output(
        found,
        lambda: table(headings, rows, empty="every breaker is closed: no model was called since the gateway began"),
    )
