"""`hobus budget|breaker`: token budgets and circuit breakers, as the gateway keeps them."""

from __future__ import annotations

import asyncio

import click

from hobus.bus.messages.gateway import Breakers, Budget, ReadBreakers, ReadBudget, ScopeBudget
from hobus.bus.messages.ids import shorten_session
from hobus.launch.cli.commands.cluster_options import ask, with_cluster
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.output import format_money, say, style
from hobus.launch.console.view import Columns, print_rows

_MODES = {
    "enforce": "a call that goes over a limit is refused",
    "warn": "a call over a limit is made, and recorded as a warning",
    "off": "limits are recorded and not enforced",
}
_BREAKER_STATES = {"closed": "called", "open": "not called for now, then tried again", "half_open": "being tried again"}


@click.command()
@click.option(
    "--session", metavar="ID", help="This session and the budgets that it uses (its id or an unambiguous prefix)."
)
@with_json
@with_cluster
def budget(*, place: Place, session: str | None) -> Output:
    """Show the token budgets: limit, used, reserved by calls in flight, remaining."""
    session_id = ""
    if session is not None:
        from hobus.launch.sessions.named import find_named_session  # noqa: PLC0415 - loads the record's messages

        session_id = asyncio.run(find_named_session(place, session))
    found = ask(place, "gateway", ReadBudget(session_id=session_id), Budget)

    def show() -> None:
        print_rows(found.scopes, _BUDGET, empty="no budget is in use yet", spare=("CALLS", "RESERVED"))
        say(style(f"mode {found.mode}: {_MODES[found.mode]}", "bright_black"))

    return Output(found, show)


def _scope(row: ScopeBudget) -> str:
    kind, _, name = row.scope.partition(":")
    return f"{kind} {shorten_session(name) if kind == 'session' else name}"


_BUDGET: Columns = {
    "SCOPE": _scope, "USED": "used", "RESERVED": "reserved",
    "LIMIT": lambda row: "none" if row.limit is None else row.limit,
    "REMAINING": "remaining", "CALLS": "calls", "COST": lambda row: format_money(row.cost_usd),
    "NOTE": lambda row: f"{row.unknown_calls} of unknown outcome" if row.unknown_calls else "",
}  # fmt: skip
_BREAKERS: Columns = {
    "PROVIDER": "provider_id", "MODEL": "model_id", "STATE": "state", "FAILURES": "failures",
    "MEANING": lambda one: _BREAKER_STATES[one.state],
}  # fmt: skip


@click.command()
@with_json
@with_cluster
def breaker(*, place: Place) -> Output:
    """Show the circuit breakers, one per provider and model that was called.

    A starting gateway closes all of them.
    """
    found = ask(place, "gateway", ReadBreakers(), Breakers)
    empty = "every breaker is closed: no model was called since the gateway began"
    return Output(found, lambda: print_rows(found.breakers, _BREAKERS, empty=empty))
