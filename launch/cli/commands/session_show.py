"""`hobus session show|replay`: what happened in a session, and whether its journal folds to what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import click

from hobus.bus.clock import SystemClock
from hobus.bus.dispatch import SaidBy
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.base import name_fields
from hobus.bus.messages.ids import parse_iso, shorten_session
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import SessionView
from hobus.bus.record.journal import read_agent
from hobus.bus.text import shorten
from hobus.launch.cli import intent_rows
from hobus.launch.cli.commands.options import Output, with_json
from hobus.launch.cli.commands.session import describe_lifecycle
from hobus.launch.cli.turn_reading import evidence_of, read_account, run_in
from hobus.launch.cli.turn_view import MOMENT_BY_MOMENT
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.output import as_json as json_text
from hobus.launch.console.output import (
    format_clock_time,
    format_count,
    format_duration,
    format_minute,
    format_money,
    format_zone,
    note,
    say,
    style,
)
from hobus.launch.console.view import Line, Part, Shown, Table, print_view
from hobus.launch.sessions.evidence import seen_in
from hobus.launch.sessions.history import CommandSeen, TurnSeen, list_commands, list_turns
from hobus.launch.sessions.journal import FromLedger, Journals, end_of, find_sessions, open_journals
from hobus.launch.sessions.replay import Replay
from hobus.launch.sessions.replay import replay as folded_again
from hobus.launch.sessions.steps import Figures, figures_of, steps_in
from hobus.launch.sessions.summary import LAST, SessionRow, SessionStanding, fold_standing
from hobus.launch.sessions.turns import ask_view
from hobus.launch.sessions.which import make_no_such

_SHOWN_CHARS = 60
_BESIDE = ("ho1m", "prompts", "governance")
"""Streams that say more of a turn than its journal."""
_BEGUN = ("RunRequested", "TurnDegraded")
"""Entries with which a turn begins."""


# --- show -----------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("given", metavar="SESSION")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Last commands and turns.")
@click.option("--turn", metavar="N", help="Show one turn: its number, or the id of its input.")
@with_json
def show(*, home: Home, given: str, limit: int, turn: str | None) -> Output:
    """Show a session: its run, what it waits for, the last commands with their results, the last turns.

    With --turn N, or SES-<8 hex digits>-N in place of SESSION, show that turn moment by moment, from the record alone,
    with the output and tracebacks of its tools, and the versions of agent, contracts, prompts, template and settings
    that it used; `hobus asset DIGEST` prints each.
    """
    if turn is None and (named_run := run_in(given)) is not None:
        given, turn = named_run
    if turn is not None:
        [session_id] = asyncio.run(find_sessions(home, [given], called="SESSION"))
        account = read_account(home, session_id, turn, called="--turn")
        return Output(account.document, lambda: print_view(MOMENT_BY_MOMENT, account))
    found = asyncio.run(_look_at_home(home, given, limit))
    if found.unanswered:
        note(f"no supervisor answers ({found.unanswered}): this is what the record says")

    return Output(make_document(found), lambda: print_view(_SESSION, found))


class LookedAt(NamedTuple):
    """A session as far as somebody looks."""

    session_id: str
    view: SessionView | None
    """What its owner knows; None: nobody was asked, or answers."""
    entries: list[Entry]
    """The end of its journal, oldest first."""
    standing: SessionStanding
    """Their fold."""
    commands: list[CommandSeen]
    """The last ones."""
    turns: list[TurnSeen]
    """The last ones."""
    beside: list[list[Entry]]
    """Its last entries in each of the streams that say more of a turn than its journal."""
    unanswered: str = ""
    """Why its owner says nothing; empty: it does, or there is none to be asked."""

    @property
    def row(self) -> SessionRow:
        named = next((one for one in self.entries if read_agent(one)), self.entries[0])
        return SessionRow.of(named, self.standing)

    @property
    def cards(self) -> list[tuple[TurnSeen, Figures | None]]:
        """Each turn with its figures; None: not all of its entries were read."""
        reached = max((one[0].sequence for one in self.beside if len(one) >= LAST), default=-1)
        entries = [one for part in (self.entries, *self.beside) for one in part]
        return [(turn, _count(entries, turn, reached)) for turn in self.turns]

    @property
    def has_more(self) -> bool:
        return bool(self.turns) and (self.turns[0].run or 1) > 1


def _count(entries: Sequence[Entry], turn: TurnSeen, reached: int) -> Figures | None:
    own = evidence_of([one for one in entries if one.provenance.run_seq in (0, turn.run)], turn).turn
    if own[0].sequence <= reached or not any(one.event_type in _BEGUN for one in own):
        return None
    seen = seen_in(own)
    return figures_of(seen, steps_in(seen))


def make_document(found: LookedAt) -> dict[str, Any]:
    standing = found.standing
    return found.row.model_dump(mode="json") | {
        "view": None if found.view is None else found.view.model_dump(mode="json"),
        "active_intents": standing.state.intents.active_ids,
        "intent_conflicts": standing.state.intents.conflict_count,
        "commands": [asdict(one) for one in found.commands],
        "turns": [asdict(turn) | ({} if one is None else asdict(one)) for turn, one in found.cards],
        "unanswered": found.unanswered,
        "more": found.has_more,
    }


async def _look_at_home(home: Home, given: str, limit: int) -> LookedAt:
    async with open_journals(home) as journals:
        return await with_view(await look_at(journals, given, limit), journals)


async def with_view(found: LookedAt, journals: Journals) -> LookedAt:
    """Add what the session's owner says; where nobody runs who could be asked, the record alone speaks."""
    if not isinstance(journals, FromLedger):
        return found
    try:
        return found._replace(view=await ask_view(journals.bus, found.session_id, timeout_s=journals.timeout_s))
    except RuntimeFault as fault:
        return found._replace(unanswered=fault.code)


async def look_at(journals: Journals, given: str, limit: int) -> LookedAt:
    """Return what the record says of a session. Raises CommandError."""
    session_id = await journals.named(given)
    entries = await end_of(journals, session_id)
    if not entries:
        raise make_no_such(session_id, called="SESSION")
    wanted, has_earlier, turns = LAST, True, list_turns(entries)
    while has_earlier and len(turns) < limit and wanted < limit * LAST:
        wanted *= 4
        found, has_earlier = await journals.newest(session_id, wanted)
        if len(found) > len(entries):
            entries, turns = found, list_turns(found)
    beside = [await journals.beside(stream, session_id, LAST) for stream in _BESIDE]
    commands = list_commands(entries)[-limit:]
    return LookedAt(session_id, None, entries, fold_standing(entries), commands, turns[-limit:], beside)


def _facts(found: LookedAt) -> Iterator[Shown]:
    view, standing = found.view, found.standing
    rows: list[tuple[str, str]] = [
        ("session", found.session_id),
        ("state", f"{standing.state.status}, {describe_lifecycle(standing)}"),
    ]
    if view is not None:
        rows += [
            ("agent", view.agent_id),
            ("epochs", f"session {view.session_epoch}, step {view.step_epoch}"),
            ("owner", f"{view.owner or 'nobody'} (tenure {view.tenure})"),
            ("turns", f"{view.turn_count} answered"),
            ("time", f"since {_format_time(view.created_at)}, last change {_format_time(view.updated_at)}"),
            ("follow-ups", f"{view.pending_follow_ups} wait for the end of the run"),
            ("hash", view.state_hash),
            *intent_rows.list_from_view(view),
        ]
    else:
        rows.append(("owner", f"{standing.state.owner or 'nobody'} (tenure {standing.state.tenure})"))
        rows.append(("epochs", f"session {standing.state.session_epoch}"))
        rows += intent_rows.list_from_record(standing.state.intents)
    if (end := standing.end) is not None:
        used = f"{format_count(end.turn_count, 'answered turn')}, {format_count(end.total_tokens, 'token')}"
        cost = f"{used}, {format_money(end.total_cost)}"
        rows.append(("ended", f"{end.reason}, by {SaidBy(end.principal, end.door)}; {cost}"))
    rows += _run_rows(view, standing)
    width = max(len(name) for name, _ in rows)
    return (Line(value, begin=f"{name.ljust(width)}  ") for name, value in rows)


def _format_time(at: str | None) -> str:
    return "-" if at is None else f"{format_minute(parse_iso(at))} {format_zone(parse_iso(at))}"


def _run_rows(view: SessionView | None, standing: SessionStanding) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    run = None if view is None else view.run
    if run is not None:
        rows.append(
            ("run", f"{run.run_id.run_seq}, input {run.input_id}, round {run.rounds}, {run.in_flight} in flight")
        )
        if run.pause_requested:
            rows.append(("", "pauses at its next step"))
        if run.pending_steers:
            rows.append(("", f"steers that its next round sees: {run.pending_steers}"))
        if run.cancel_reason:
            rows.append(("", f"being cancelled: {run.cancel_reason}"))
        if run.deadline_at is not None:
            left_s = parse_iso(run.deadline_at) - SystemClock().now()
            rows.append(("deadline", f"{run.deadline_at} ({format_duration(left_s) if left_s > 0 else 'over'})"))
        if run.lease_id is not None:
            rows.append(("lease", f"{run.lease_id} until {run.lease_expires_at}"))
        rows += [
            (f"call {one.call_id}", f"{one.tool_id} {one.state}{f' ({one.code})' if one.code else ''}".strip())
            for one in run.calls
            if not one.held
        ]
    elif standing.input_id:
        rows.append(("run", f"{standing.runs}, input {standing.input_id}"))
    for held in standing.held_calls():
        rows.append((f"call {held.call_id}", f"{held.tool_id} {json_text(held.arguments)} waits for an approval"))
    if standing.waits_for:
        rows.append(("waits for", standing.waits_for))
    return rows


_commands = Table[LookedAt](
    lambda _: f"last commands, times in {format_zone(SystemClock().now())}", lambda found: found.commands, {
        "AT": lambda one: format_clock_time(parse_iso(one.at)), "COMMAND": lambda one: one.kind.lower(),
        "BY": "said_by",
        "VERDICT": lambda one: f"{one.outcome} {one.reason}".strip(), "ID": "command_id",
        "ABOUT": lambda one: _shorten(one.about),
    },
)  # fmt: skip
_turns = Table[LookedAt](
    lambda _: f"last turns, times in {format_zone(SystemClock().now())}", lambda found: found.turns, {
        "AT": lambda one: format_clock_time(parse_iso(one.at)), "RUN": lambda one: one.run or "-", "OUTCOME": "ended",
        "MESSAGE": lambda one: "(not in the record)" if one.text is None else _shorten(one.text),
        "ANSWER": lambda one: _shorten(one.reply or ""),
    },
)  # fmt: skip


def _failures(found: LookedAt) -> Iterator[Shown]:
    """Yield why turns failed, and what to do: whole."""
    for one in found.turns:
        if one.outcome == "failed" and one.reply:
            yield Line(one.reply, begin=f"  run {one.run or '-'} failed: ")
    if found.has_more:
        yield Line(f"there are earlier turns: --limit {len(found.turns) * 2}", is_aside=True)


_SESSION: tuple[Part[LookedAt], ...] = (_facts, _commands, _turns, _failures)


def _shorten(text: str) -> str:
    return shorten(" ".join(text.split()), _SHOWN_CHARS)


# --- replay ---------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("given", metavar="SESSION")
@with_json
def replay(*, home: Home, given: str) -> Output:
    """Fold a session's journal again and report differences (exit code 3).

    The owner's reducer folds it twice from the first entry, and once from the newest snapshot. All states must have the
    same bytes, and no entry may be missing or rejected. It sends nothing and calls no model.
    """
    found = asyncio.run(_replay(home, given))
    code = exit_codes.OK if found.fits else exit_codes.INTEGRITY
    return Output(_replay_document(found), lambda: _show_replay(found), code)


async def _replay(home: Home, given: str) -> Replay:
    async with open_journals(home) as journals:
        session_id = await journals.named(given)
        return folded_again(session_id, await journals.whole(session_id))


def _replay_document(found: Replay) -> dict[str, Any]:
    return {
        "session_id": found.session_id,
        "fits": found.fits,
        "entries": found.entries,
        "events": dict(sorted(found.events.items())),
        "snapshots": found.events["STATE_SNAPSHOT"],
        "from_snapshot": found.from_snapshot or None,
        "refused_commands": found.events["HostCommandRejected"],
        "state_hash": found.state_hash,
        "state": name_fields(found.state),
        "misfits": [asdict(one) for one in found.misfits],
    }


def _show_replay(found: Replay) -> None:
    label = style("OK", "green", bold=True) if found.fits else style("DOES NOT FIT", "red", bold=True)
    state = found.state
    where = f"{state.status}, {state.lifecycle}, epoch {state.session_epoch}"
    folded = f"{format_count(found.entries, 'entry', 'entries')} give{'s' * (found.entries == 1)}"
    say(label, f"  {shorten_session(found.session_id)}: {folded} {where}")
    say(f"    state {found.state_hash}")
    from_where = f", also from {found.from_snapshot}" if found.from_snapshot else ""
    say(f"    folded from the first entry{from_where}; {format_count(found.events['STATE_SNAPSHOT'], 'snapshot')}")
    say(f"    refused commands: {found.events['HostCommandRejected']}")
    for one in found.misfits:
        note(f"  entry #{one.sequence} {one.submission_id}: {one.kind}: {one.what}")
