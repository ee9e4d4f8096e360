"""`hobus session`: what sessions there are, where they stand, and whether their journals fold to what they say."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import click

from hobus.actors.ho2_supervisor.session.state import TRANSITIONS
from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import iso_of_us, shown_session
from hobus.bus.messages.ledger import Entry, session_stream
from hobus.bus.record.journal import recorded
from hobus.bus.record.session_facts import SessionStarted
from hobus.launch.cli.commands.options import Family, Output, with_json
from hobus.launch.cluster import spools
from hobus.launch.cluster.home import Home
from hobus.launch.console.output import (
    duration,
    note,
    table,
    thousands,
)
from hobus.launch.sessions.journal import FromLedger, end_of, journals_of
from hobus.launch.sessions.summary import Standing, standing_of

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
@click.option("--all", "is_all", is_flag=True, help="Also those that have ended.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@with_json
def list_sessions(*, home: Home, is_all: bool, limit: int) -> Output:
    """List sessions, the newest first, by the record.

    One whose turns were all answered without a supervisor is `degraded`: it has no run yet.
    """
    for said in spools.unread(home):
        note(said)
    found = asyncio.run(_listed(home, limit + 1, is_all=is_all))
    rows, has_more = found[:limit], len(found) > limit

    def show() -> None:
        if not rows:
            note("no session is open" if not is_all else "the record has no session")
            return
        now = SystemClock().now()
        headings = ("SESSION", "STATE", "AGENT", "RUNS", "SINCE", "LAST", "OWNER", "WAITS FOR")
        cells = [_cells(start, standing, now) for start, standing in rows]
        table(headings, cells, spare=("OWNER", "SINCE", "AGENT", "RUNS"))
        if has_more:
            note(f"there are more: --limit {limit * 2}")

    return Output({"sessions": [_row(start, standing) for start, standing in rows], "more": has_more}, show)


async def _listed(home: Home, limit: int, *, is_all: bool) -> list[tuple[Entry, Standing]]:
    async with journals_of(home) as journals:
        rows: list[tuple[Entry, Standing]] = []
        folded = {} if isinstance(journals, FromLedger) else journals.standings()
        for start in await journals.starts():
            session_id = start.provenance.session_id
            standing = folded.get(session_stream(session_id)) or standing_of(await end_of(journals, session_id))
            if is_all or standing.state.status == "open":
                rows.append((start, standing))
            if len(rows) >= limit:
                break
        return rows


def _state(standing: Standing) -> str:
    if not standing.state.is_started:
        return "degraded"
    return "closed" if standing.state.status == "closed" else standing.lifecycle


def shown_lifecycle(standing: Standing) -> str:
    """Where its run stands, in words for people."""
    return standing.lifecycle if standing.state.is_started else "degraded: no supervisor has had it yet"


def _agent(start: Entry) -> str:
    taken = recorded(start)
    event = None if taken is None else taken.event.event
    return event.agent_id if isinstance(event, SessionStarted) else start.provenance.agent_id


def facts(session_id: str, standing: Standing) -> dict[str, Any]:
    """What is told of every session, listed or shown."""
    return {
        "session_id": session_id,
        "status": standing.state.status,
        "is_degraded": not standing.state.is_started,
        "lifecycle": standing.lifecycle,
        "runs": standing.runs,
        "owner": standing.state.owner,
        "tenure": standing.state.tenure,
        "session_epoch": standing.state.session_epoch,
        "held_calls": [asdict(one) for one in standing.held_calls()],
        "waits_for": standing.waits_for or None,
    }


def _row(start: Entry, standing: Standing) -> dict[str, Any]:
    return facts(start.provenance.session_id, standing) | {
        "agent_id": _agent(start),
        "created_at": iso_of_us(start.ledger_at_us),
        "updated_at": iso_of_us(standing.updated_at_us),
        "active_input_id": standing.input_id or None,
        "pause_requested": standing.state.pause_requested,
    }


def _cells(start: Entry, standing: Standing, now: float) -> tuple[str, ...]:
    return (
        shown_session(start.provenance.session_id),
        _state(standing),
        _agent(start) or "-",
        thousands(standing.runs),
        f"{duration(now - start.ledger_at_us / 1_000_000)} ago",
        f"{duration(now - standing.updated_at_us / 1_000_000)} ago",
        standing.state.owner or "-",
        standing.waits_for or "-",
    )
