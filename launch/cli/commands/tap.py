"""`hobus tap`: watch the frames on the bus. Lossy for a slow reader, and says exactly what was lost."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import click

from hobus.bus import limits
from hobus.bus.clock import SystemClock
from hobus.launch.cli.commands.options import DURATION, filter_given, with_home
from hobus.launch.cli.tap.capture import CaptureDamaged, CaptureReader, CaptureWriter
from hobus.launch.cli.tap.choice import Chooser, Replies, TurnBook
from hobus.launch.cli.tap.live import Live, Watched
from hobus.launch.cli.tap.look import Look
from hobus.launch.cli.tap.printer import Printer
from hobus.launch.cli.tap.table import TapTable
from hobus.launch.cluster.client import find_cluster
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import find_gone
from hobus.launch.cluster.version import __version__
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, RefusedFault, UsageFault, make_os_fault
from hobus.launch.console.output import note, say_prose
from hobus.launch.filters.tap_fields import EXAMPLE, FIELDS, tap_filter


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@click.option(
    "-f", "--format", "form", type=click.Choice(["table", "jsonl"]), help="Default: table, or nothing with -w."
)
@click.option("--json", "as_json_", is_flag=True, help="The same as -f jsonl: one JSON object per line.")
@click.option(
    "--since", "since_s", type=DURATION, help="Begin with the frames of the last DURATION in the ring, e.g. 10m."
)
@click.option("--follow", is_flag=True, help="With --since: continue with new frames.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many frames.")
@click.option("--match-replies", is_flag=True, help="Also show the answers of shown requests, with their latency.")
@click.option("--bodies/--headers-only", default=False, help="Show decoded bodies too; the record notes it.")
@click.option("-w", "--write", "into", type=click.Path(path_type=Path, dir_okay=False), help="Capture into a file.")
@click.option("--force", is_flag=True, help="With -w: overwrite the file.")
@click.option("-r", "--read", "source", type=click.Path(path_type=Path, dir_okay=False), help="Read a captured file.")
@click.option("--utc", is_flag=True, help="Times in UTC instead of this machine's zone.")
@click.option("--all", "everything", is_flag=True, help="Include heartbeats and the launcher's routine.")
@with_home
def tap(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    filters: tuple[str, ...],
    form: str | None,
    as_json_: bool,
    since_s: float | None,
    follow: bool,
    count: int | None,
    match_replies: bool,
    bodies: bool,
    into: Path | None,
    force: bool,
    source: Path | None,
    utc: bool,
    everything: bool,
) -> int:
    """Watch the frames that the broker handles.

    FILTER: comparisons joined by & and |, with ! and parentheses; several arguments must all hold. For example:
    'turn=SES-1a2b3c4d-2 & kind=wo.* & !actor=ho3 & size>10k'. Entries of the record do not pass the broker: use hobus
    ledger tail.
    """
    wanted = filter_given(tap_filter, filters, names=FIELDS, example=EXAMPLE)
    if as_json_ and form == "table":
        raise UsageFault("--json and -f table: one of the two")
    form = "jsonl" if as_json_ else form
    if source is not None and (since_s is not None or follow):
        raise UsageFault("-r reads a file: --since and --follow do not apply")
    place = find_cluster(home) if source is None else None
    kept_max = limits.TAP_RING if place is not None else None
    clock = SystemClock()
    chooser = Chooser(
        wanted,
        TurnBook(kept_max),
        clock.now,
        with_routine=everything,
        replies=Replies(kept_max) if match_replies else None,
        count=count,
    )
    printer = None
    if into is None or form is not None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None  # a pipe's reader wants everything
        table = TapTable(width=width, utc=utc, with_latency=match_replies) if form != "jsonl" else None
        printer = Printer(table, with_bodies=bodies, asked_since_s=since_s, now_s=clock.now())
    writer = _make_writer(into, filters, clock, replace=force) if into is not None else None
    watched = Watched(chooser, printer, writer)
    try:
        if place is None:
            assert source is not None  # noqa: S101 - one of the two
            failure = _read_capture(source, watched)
        else:
            look = Look(place, clock, filters, since_s, clock.new_id()) if bodies else None
            live = Live(
                place,
                watched,
                look,
                lambda: find_gone(home),
                since_s=since_s,
                ends_with_ring=since_s is not None and not follow,
            )
            failure = asyncio.run(live.run())
    finally:
        if writer is not None:
            writer.close(chooser.account.document())
    if chooser.account.epochs or source is None or failure is None:
        _summarise(watched, into)
    if failure is not None:
        raise failure
    return exit_codes.OK


def _make_writer(into: Path, filters: tuple[str, ...], clock: SystemClock, *, replace: bool) -> CaptureWriter:
    facts = {"hobus": __version__, "began_at": clock.now(), "filter": list(filters)}
    try:
        return CaptureWriter(into, facts, replace=replace)
    except FileExistsError:
        raise RefusedFault(
            f"{into} is there already, and a capture would replace it", hint="name another file, or add --force"
        ) from None
    except OSError as error:
        raise make_os_fault(error, doing="the capture cannot be written") from error


def _read_capture(source: Path, watched: Watched) -> BaseException | None:
    """Read twice: what belongs to which turn is learnt from the whole file before anything is shown."""
    reader = CaptureReader(source)
    try:
        for batch in reader.batches():
            watched.chooser.book.learn(batch.records)
        for batch in reader.batches():
            if watched.take(watched.chooser.choose(batch)):
                break
    except BrokenPipeError as error:
        return error
    except CaptureDamaged as error:
        return CommandError(str(error), exit_code=exit_codes.INTEGRITY)
    except OSError as error:
        return make_os_fault(error, doing="the capture cannot be read")
    for line in reader.list_missing():
        note(line)
    return None


def _summarise(watched: Watched, into: Path | None) -> None:
    chooser = watched.chooser
    if into is not None:
        note(f"captured in {into}")
    for line in chooser.account.lines():
        say_prose("", line, to_stderr=True)
