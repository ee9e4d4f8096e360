"""`hobus session`: what sessions there are, where they stand, and whether their journals fold to what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click

from hobus.actors.ho2_supervisor.session.state import TRANSITIONS
from hobus.bus.clock import SystemClock
from hobus.bus.limits import HITS_MAX
from hobus.bus.messages.ids import parse_iso, shorten_session
from hobus.bus.messages.ledger import Search
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import list_unread_spools
from hobus.launch.console.output import format_duration, note
from hobus.launch.console.view import print_rows
from hobus.launch.sessions import listing
from hobus.launch.sessions.journal import open_files, open_journals
from hobus.launch.sessions.listing import OUTCOMES, STATES, Wanted
from hobus.launch.sessions.summary import SessionRow, SessionStanding

_LIFE = ", ".join(f"{source} to {' or '.join(targets)}" for source, targets in TRANSITIONS.items())


@click.group(
    cls=Family,
    elsewhere={
        **dict.fromkeys(("show", "replay"), "session_show"),
        **dict.fromkeys(("steer", "followup", "pause", "resume", "cancel", "approve", "deny", "end"), "steering"),
    },
    epilog=f"A run goes from {_LIFE}. docs/sessions.md has the diagram, and a table of what each refusal means.",
)
def session() -> None:
    """List, show, steer and replay sessions.

    SESSION is a session's id, SES-<8 hex digits>, or any unambiguous prefix of it.
    """


@session.command(name="list")
@click.option("--all", "is_all", is_flag=True, help="Also ended ones.")
@click.option("--state", type=click.Choice(list(STATES)), help="Only those that are so now; `approval`: a call waits.")
@click.option("--outcome", type=click.Choice(list(OUTCOMES)), help="Only those with a turn that ended so.")
@click.option("--agent", metavar="ID", default="", help="Only those of this agent.")
@click.option("--principal", metavar="NAME", default="", help="Only of principals that begin so: local, key/<name>.")
@click.option("--words", default="", help="Only those in which any of these words was said, by the best 50 texts.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number.")
@click.option("--before", type=click.IntRange(min=0), metavar="N", help="Only those that changed last before entry N.")
@with_json
def list_sessions(  # noqa: PLR0913 - one per option
    *, home: Home, is_all: bool, state: str | None, outcome: str | None, agent: str, principal: str, words: str,
    limit: int, before: int | None,
) -> Output:  # fmt: skip
    """List sessions from the record, the one that changed last first; without --all or --state the open ones.

    `degraded`: no supervisor answered a turn of it yet, so it has no run.
    """
    for said in list_unread_spools(home):
        note(said)
    files = open_files(home)
    among = asyncio.run(_find_said(home, words)) if words else None
    shown = state or ("" if is_all else "open")
    wanted = Wanted(limit, before, shown, outcome or "", agent, principal, among)
    page = asyncio.run(listing.list_sessions(files, wanted))

    def show() -> None:
        if not page.rows:
            is_narrowed = state is not None or wanted._replace(state="") != Wanted(limit)
            none = "the record has no session" if is_all else "no session is open"
            note("no session fits" if is_narrowed else none)
            return
        now = SystemClock().now()
        columns: dict[str, Callable[[Any], object] | str] = {
            "SESSION": lambda row: shorten_session(row.session_id), "STATE": "shown_state", "AGENT": "agent_id",
            "RUNS": "runs",
            "SINCE": lambda row: f"{format_duration(now - parse_iso(row.created_at))} ago",
            "LAST": lambda row: f"{format_duration(now - parse_iso(row.updated_at))} ago", "OWNER": "owner",
            "LAST TURN": _last_turn, "WAITS FOR": "waits_for",
        }  # fmt: skip
        if outcome:
            columns[outcome.upper()] = lambda row: f"run {page.runs.get(row.session_id) or '-'}"
        print_rows(page.rows, columns, spare=("OWNER", "SINCE", "AGENT", "RUNS"))
        if page.next is not None:
            note(f"there are more: --before {page.next}, or --limit {limit * 2}")

    return Output(page.document(), show)


async def _find_said(home: Home, words: str) -> set[str]:
    from hobus.launch.cli.commands.ledger_search import find_in  # noqa: PLC0415 - few lists are of words

    question = Search(words=words.encode("utf-8", "replace").decode(), limit=HITS_MAX)
    async with open_journals(home) as journals:
        return {one.session_id for one in (await find_in(home, journals, question)).hits}


def _last_turn(row: SessionRow) -> str:
    calls = [*(f"{one} failed" for one in row.tools_failed), *(f"{one} denied" for one in row.tools_denied)]
    return ", ".join(filter(None, (row.last_outcome, *calls)))


def describe_lifecycle(standing: SessionStanding) -> str:
    if standing.state.cell:
        return f"moved to cell {standing.state.cell}"
    return standing.lifecycle if standing.state.is_started else "degraded: no supervisor has answered yet"
