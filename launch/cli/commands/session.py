"""`hobus session`: what sessions there are, where they stand, and whether their journals fold to what they say."""

from __future__ import annotations

import asyncio

import click

from hobus.actors.ho2_supervisor.session.state import TRANSITIONS
from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import parse_iso, shorten_session
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import list_unread_spools
from hobus.launch.console.output import format_duration, note
from hobus.launch.console.view import Columns, print_rows
from hobus.launch.sessions.journal import list_rows, open_journals
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
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number.")
@with_json
def list_sessions(*, home: Home, is_all: bool, limit: int) -> Output:
    """List sessions from the record, the newest first.

    `degraded`: no supervisor answered a turn of it yet, so it has no run.
    """
    for said in list_unread_spools(home):
        note(said)
    found = asyncio.run(_list_sessions(home, limit + 1, is_all=is_all))
    rows, has_more = found[:limit], len(found) > limit

    def show() -> None:
        if not rows:
            note("no session is open" if not is_all else "the record has no session")
            return
        now = SystemClock().now()
        columns: Columns = {
            "SESSION": lambda row: shorten_session(row.session_id), "STATE": _state, "AGENT": "agent_id",
            "RUNS": "runs",
            "SINCE": lambda row: f"{format_duration(now - parse_iso(row.created_at))} ago",
            "LAST": lambda row: f"{format_duration(now - parse_iso(row.updated_at))} ago", "OWNER": "owner",
            "WAITS FOR": "waits_for",
        }  # fmt: skip
        print_rows(rows, columns, spare=("OWNER", "SINCE", "AGENT", "RUNS"))
        if has_more:
            note(f"there are more: --limit {limit * 2}")

    return Output({"sessions": [row.model_dump(mode="json") for row in rows], "more": has_more}, show)


async def _list_sessions(home: Home, limit: int, *, is_all: bool) -> list[SessionRow]:
    async with open_journals(home) as journals:
        return await list_rows(journals, limit, is_all=is_all)


def describe_lifecycle(standing: SessionStanding) -> str:
    return standing.lifecycle if standing.state.is_started else "degraded: no supervisor has answered yet"


def _state(row: SessionRow) -> str:
    return "degraded" if row.is_degraded else "closed" if row.status == "closed" else row.lifecycle
