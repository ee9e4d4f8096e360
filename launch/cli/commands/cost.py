"""`hobus cost`: what models have used and cost, by the record; with or without a running cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import shown_session
from hobus.launch.cli.commands.options import Output, with_home, with_json
from hobus.launch.cli.spending import KEYS, STREAM, Group, Spent, report, since_us_of, total
from hobus.launch.cluster.home import Home
from hobus.launch.console.errors import CommandError, UsageFault, next_command, next_here
from hobus.launch.console.output import counted, say, styled, table, thousands
from hobus.launch.filters.quantities import DURATION_FORM
from hobus.launch.sessions.which import no_such
from hobus.ledger_service.reader import EntryFilter, read_entries
from hobus.ledger_service.verify import is_ledger

_DAY = "DAY (UTC)"


@click.command()
@click.option("--by", default="agent,model", show_default=True, metavar="KEYS", help=f"Of {', '.join(KEYS)}.")
@click.option("--session", metavar="ID", help="Only this session (its id or first characters).")
@click.option(
    "--since", metavar="WHEN", help="Only since then: a duration ago (1h30m, 7d), or an ISO date or time (UTC)."
)
@with_json
@with_home
def cost(*, home: Home, by: str, session: str | None, since: str | None) -> Output:
    """Tokens and money, by agent, model, day or session. Unknown prices and outcomes are shown as unknown."""
    keys = _keys(by)
    since_us = _since(since)
    if not is_ledger(home.ledger):
        hint = next_command("up", home.root)
        raise UsageFault(f"there is no record in {home.root}", hint=hint)
    if session is not None and not any(read_entries(home.ledger, EntryFilter(session=session), limit=1)):
        raise no_such(session, called="--session")
    entries = read_entries(home.ledger, EntryFilter(stream=STREAM, session=session), with_bodies=True)
    try:
        groups = report(entries, keys, since_us=since_us)
    except ValueError as fault:
        raise CommandError(
            f"an entry of the record cannot be read, so nothing was added up: {fault}",
            hint=f"{next_here('ledger verify')}; --session leaves out an entry that no gateway of this version wrote",
        ) from None
    rows = [{**dict(zip(keys, group, strict=True)), **_document(spent)} for group, spent in groups.items()]
    document = {"by": keys, "rows": rows, "total": _document(total(groups.values()))}
    return Output(document, lambda: _show(keys, groups))


def _document(spent: Spent) -> dict[str, Any]:
    return {**asdict(spent), "cost_is_known": spent.cost_is_known}


def _show(keys: list[str], groups: dict[Group, Spent]) -> None:
    if not groups:
        say("no model was called")
        return
    rows = [[*_names(keys, group), *_cells(spent)] for group, spent in groups.items()]
    if len(groups) > 1:
        rows.append(["total", *["" for _ in keys[1:]], *_cells(total(groups.values()))])
    table(
        [
            *(_DAY if key == "day" else key.upper() for key in keys),
            "CALLS",
            "INPUT",
            "OUTPUT",
            "TOKENS",
            "COST",
            "NOTE",
        ],
        rows,
        spare=("INPUT", "OUTPUT", "CALLS"),
    )
    if any(spent.unknown_outcomes for spent in groups.values()):
        say(styled("unknown outcome: nobody can say whether it was answered; what was reserved counts", "bright_black"))


def _names(keys: list[str], group: Group) -> list[str]:
    return [
        shown_session(name) if key == "session" and name != "-" else name for key, name in zip(keys, group, strict=True)
    ]


def _cells(spent: Spent) -> list[str]:
    notes = (
        (spent.failed, f"{spent.failed} failed"),
        (spent.rejected, f"{spent.rejected} rejected"),
        (spent.open_calls, f"{spent.open_calls} without an end yet"),
        (
            spent.unknown_outcomes,
            f"{spent.unknown_outcomes} of unknown outcome ({counted(spent.unknown_tokens, 'token')})",
        ),
        (spent.unknown_prices, f"{spent.unknown_prices} of unknown price"),
    )
    return [
        *map(thousands, (spent.calls, spent.input_tokens, spent.output_tokens, spent.tokens)), _cost(spent),
        ", ".join(text for count, text in notes if count),
    ]  # fmt: skip


def _cost(spent: Spent) -> str:
    if spent.cost_is_known:
        return f"${spent.cost_usd:.4f}"
    return f"${spent.cost_usd:.4f} + unknown" if spent.unknown_prices < spent.calls else "unknown"


def _keys(by: str) -> list[str]:
    keys = [key.strip() for key in by.split(",") if key.strip()]
    wrong = [key for key in keys if key not in KEYS]
    if wrong or not keys or len(set(keys)) < len(keys):
        raise UsageFault(f"--by {by}: expected some of {', '.join(KEYS)}, each once")
    return keys


def _since(since: str | None) -> int:
    if since is None:
        return 0
    try:
        return since_us_of(since, SystemClock().now())
    except (ValueError, OverflowError):
        raise UsageFault(
            f"--since {since[:40]}: expected {DURATION_FORM}, or an ISO date or time such as 2026-01-31"
        ) from None
