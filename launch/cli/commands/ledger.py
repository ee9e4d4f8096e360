"""`hobus ledger`: show, follow, search and verify the record, with or without a running cluster."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ledger import STREAMS, Entries, Entry, Tail
from hobus.bus.record.catalog import EVENT_TYPES, is_session_stream
from hobus.launch.cli.commands.options import Family, Output, filter_given, with_home, with_json
from hobus.launch.cli.entry_view import format_cells, make_entry_document, show_bodies
from hobus.launch.cluster import run_file
from hobus.launch.cluster.home import Home, find_holder
from hobus.launch.cluster.record import demand_record, list_unread_spools
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault, format_next_command
from hobus.launch.console.output import (
    as_json,
    format_count,
    format_zone,
    note,
    print_table,
    say,
    say_zone,
    style,
    tell_progress,
)
from hobus.launch.filters.ledger_fields import EXAMPLE, FIELDS, LedgerRow, make_ledger_filter
from hobus.launch.filters.meaning import Test
from hobus.ledger_service.reader import EntryFilter, find_head, read_entries

if TYPE_CHECKING:
    from hobus.launch.cluster.run_file import RunFile
    from hobus.ledger_service.verify import VerifyReport

_PAGE = 500


@click.group(cls=Family, elsewhere={"search": "ledger_search"})
def ledger() -> None:
    """Show, follow, search and verify the record."""


def _add_filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command `wanted: _Wanted`, from FILTER and the options that narrow it."""

    @functools.wraps(command)
    def filtered(
        *, filters: tuple[str, ...], stream: str | None, session: str | None, event_type: str | None, **arguments: Any
    ) -> Any:
        options = EntryFilter(stream=stream, session=session, event_type=event_type)
        chosen = filter_given(make_ledger_filter, filters, names=FIELDS, example=EXAMPLE)
        return command(wanted=_Wanted(options, chosen), **arguments)

    for option in (
        click.argument("filters", nargs=-1, metavar="[FILTER]..."),
        click.option("--type", "event_type", metavar="TYPE", help="Only entries of this event type."),
        click.option("--session", metavar="ID", help="Only entries of this session (its id or first characters)."),
        click.option("--stream", metavar="NAME", help="Only entries of this stream."),
    ):
        option(filtered)
    return filtered


@ledger.command()
@_add_filters
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Number of entries.")
@click.option("--bodies", is_flag=True, help="With their bodies.")
@with_json
def show(*, home: Home, wanted: _Wanted, limit: int, bodies: bool) -> Output:
    """Show the last entries of the record, in order.

    FILTER: the number of an entry, or comparisons joined by & and |, for example 'turn=SES-1a2b3c4d-2 & type=WO_* &
    !actor=ho1'.
    """
    demand_record(home)
    newest = wanted.last(home, limit + 1, with_bodies=bodies)
    found = newest[-limit:]
    if not found:
        wanted.check_known(home)

    def make_document() -> dict[str, Any]:
        rows = [make_entry_document(entry) for entry in found]
        return {"head": find_head(home.ledger), "entries": rows, "more": len(newest) > limit}

    def show_all() -> None:
        _show_entries(found)
        if len(newest) > limit:
            note(f"older entries are left out: --limit {limit * 2}")

    return Output(make_document, show_all)


@ledger.command()
@_add_filters
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Number of earlier entries to show first.",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many entries.")
@click.option("--bodies", is_flag=True, help="With their bodies.")
@click.option("--json", "as_json_", is_flag=True, help="One JSON object per line.")
@with_home
def tail(  # noqa: PLR0913 - one per option
    *, home: Home, wanted: _Wanted, limit: int, count: int | None, bodies: bool, as_json_: bool
) -> int:
    """Follow the record: the last entries, then new ones as they become durable.

    FILTER: as for hobus ledger show.
    """
    demand_record(home)
    printer = _Printer(wanted, count, as_json_=as_json_)
    if not as_json_:
        say_zone(SystemClock().now())
    after = find_head(home.ledger)
    earlier: list[Entry] = []
    if limit:
        earlier = wanted.last(home, limit, with_bodies=bodies)
    if not earlier:
        wanted.check_known(home)
    if printer.print(entry for entry in earlier if entry.sequence <= after):
        return exit_codes.OK
    run = run_file.read(home.run_file)
    if run is None or find_holder(home) is None:
        note(f"no cluster runs in {home.root}: nothing more will come")
        return exit_codes.OK
    with suppress(KeyboardInterrupt):  # that is how following ends
        asyncio.run(_follow(home, run, printer, after, with_bodies=bodies))
    return exit_codes.OK


@ledger.command()
@with_json
def verify(*, home: Home) -> Output:
    """Check every byte of the record; a fault exits 3 and names its place."""
    demand_record(home)
    for said in list_unread_spools(home):
        note(said)
    from hobus.ledger_service.verify import verify_directory  # noqa: PLC0415 - of this one command

    report = verify_directory(home.ledger, tell_progress(SystemClock().monotonic, "entries verified:"))
    code = exit_codes.OK if report.fault is None else exit_codes.INTEGRITY
    return Output(make_verdict(report), lambda: _show_report(report), code, indent=None)


def make_verdict(report: VerifyReport) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "entries": report.entries,
        "segments": report.segments,
        "head": report.head,
        "chain": report.chain,
        "tail": report.tail,
        "index": report.index,
        "fault": report.fault._asdict() if report.fault is not None else None,
    }


def _show_report(report: VerifyReport) -> None:
    fault = report.fault
    if fault is None:
        label = style("OK", "green", bold=True)
        counts = f"{format_count(report.entries, 'entry', 'entries')}, {format_count(report.segments, 'segment')}"
        say(label, f"  {counts}, head #{report.head}, chain {report.chain}")
        say(f"    index: {report.index}")
        if report.tail != "clean":
            say(f"    tail: {report.tail}")
        return
    which = f", entry {fault.sequence}" if fault.sequence is not None else ""
    label = style("OTHER FORMAT" if fault.is_other_format else "DAMAGED", "red", bold=True, to_stderr=True)
    fix = f"; {fault.fix}" if fault.fix else ""
    note(label, f"  {fault.file}, byte {fault.byte}{which}: {fault.what}{fix}")
    if fault.is_other_format:
        return
    whole = format_count(report.entries, "entry", "entries")
    note(f"  {whole} before it {'is' if report.entries == 1 else 'are'} whole")


async def _follow(home: Home, run: RunFile, printer: _Printer, after: int, *, with_bodies: bool) -> None:
    """Print new entries as the ledger publishes them: a long poll, so that nothing spins and nothing is missed."""
    from hobus.launch.cluster.client import connect_bus, place_of  # noqa: PLC0415 - a third of what `show` costs

    place = place_of(home, run)
    timeout_s = place.client_timeout_s
    async with connect_bus(place, "operator") as bus:
        while True:
            question = Tail(after=after, limit=_PAGE, wait_ms=round(timeout_s * 500), with_bodies=with_bodies)
            page = await bus.request("ledger", question, expect=Entries, timeout_s=timeout_s)
            if printer.print(page.entries):
                return
            if page.entries:
                after = page.entries[-1].sequence


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options and the filter together."""

    options: EntryFilter
    filter: Test[LedgerRow]

    def accepts(self, entry: Entry) -> bool:
        return self.options.accepts(entry) and self.filter(LedgerRow(entry, SystemClock().now()))

    def last(self, home: Home, limit: int, *, with_bodies: bool) -> list[Entry]:
        """Return the last so many of the record, oldest of them first."""
        newest = read_entries(home.ledger, self.options, newest_first=True, with_bodies=with_bodies)
        return list(islice(filter(self.accepts, newest), min(limit, sys.maxsize)))[::-1]

    def check_known(self, home: Home) -> None:
        """Raise UsageFault for an unknown stream, type or session."""
        stream, event_type, session = self.options.stream, self.options.event_type, self.options.session
        if stream is not None and not (stream in STREAMS or is_session_stream(stream)):
            raise UsageFault(f"--stream {stream[:80]}: no such stream; there are {', '.join(STREAMS)} and session/<id>")
        if event_type is not None and event_type not in EVENT_TYPES:
            near = get_close_matches(event_type.upper(), sorted(EVENT_TYPES))
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UsageFault(f"--type {event_type[:80]}: there is no such type of entry{meant}")
        if session is not None and not any(read_entries(home.ledger, EntryFilter(session=session), limit=1)):
            raise UsageFault(
                f"--session {session[:80]}: no such session in the record of {home.root}",
                hint=format_next_command("session list --all", home.root),
            )


class _Printer:
    """Print wanted entries until there were enough."""

    def __init__(self, wanted: _Wanted, count: int | None, *, as_json_: bool) -> None:
        self._wanted = wanted
        self._left = count
        self._as_json = as_json_

    def print(self, entries: Iterable[Entry]) -> bool:
        for entry in entries:
            if not self._wanted.accepts(entry):
                continue
            say(as_json(make_entry_document(entry)) if self._as_json else "  ".join(format_cells(entry)).rstrip())
            if not self._as_json:
                _show_bodies(entry)
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    return True
        return False


def _show_entries(entries: list[Entry]) -> None:
    if not any(entry.bodies for entry in entries):
        when = f"TIME {format_zone(SystemClock().now())}"
        headings = ("SEQ", when, "TYPE", "STREAM", "SESSION", "ORIGIN", "ABOUT")
        print_table(headings, [format_cells(entry) for entry in entries], spare=("STREAM", "ORIGIN"))
        return
    say_zone(SystemClock().now())
    for entry in entries:
        say("  ".join(format_cells(entry)).rstrip())
        _show_bodies(entry)


def _show_bodies(entry: Entry) -> None:
    for number, shown in enumerate(show_bodies(entry)):
        say(f"    [{number}] {'erased' if entry.bodies[number] is None else as_json(shown)}")
