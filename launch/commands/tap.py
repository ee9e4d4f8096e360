"""`hobus tap`: watch the frames on the bus. Lossy for a slow reader, and says exactly what was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click

from bus.broker.tap_record import TapRecord
from bus.broker.tap_wire import TapBatch
from bus.catalog import CLASSES
from bus.codec import decode
from bus.errors import RuntimeFault
from bus.zeromq.context import ZeroMQ
from bus.zeromq.tap import TapReader
from launch import exit_codes
from launch.client import place_of
from launch.commands.options import running, with_home
from launch.endpoints import Place
from launch.errors import CommandError, next_command
from launch.home import Home, holder
from launch.output import as_json, note, say, styled
from launch.tap_filter import TapFilter, parse_filter

_LOOK_INTERVAL_S = 0.2
_ASKS = ("request", "post", "cancel")
_VERDICT_COLOURS = {"denied": "red", "malformed": "red", "expired": "yellow", "dead": "red", "failed": "yellow"}


@click.command()
@click.argument("filters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("-f", "--format", "form", type=click.Choice(["table", "jsonl"]), default="table", show_default=True)
@click.option("--count", type=click.IntRange(min=1), help="End after so many frames.")
@click.option("--since", "since_s", type=click.FloatRange(min=0), metavar="SECONDS", help="First what the ring holds.")
@click.option("--follow", is_flag=True, help="With --since: go on with what comes.")
@click.option("--bodies", is_flag=True, help="With the decoded bodies.")
@click.option("--all", "everything", is_flag=True, help="With beats and the launcher's routine, left out otherwise.")
@with_home
def tap(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    filters: tuple[str, ...],
    form: str,
    count: int | None,
    since_s: float | None,
    follow: bool,
    bodies: bool,
    everything: bool,
) -> int:
    """Watch the frames on the bus.

    Filters: type, kind, verdict, sender, destination, worker, key, trace, turn; * at the end is a prefix, != excludes.
    """
    wanted = parse_filter(filters, with_routine=everything)
    place = place_of(home, running(home))
    printer = Printer(
        wanted, form=form, count=count, bodies=bodies, body_max_bytes=place.snapshot.config.bus.body_max_bytes
    )
    ends_with_ring = since_s is not None and not follow
    if not ends_with_ring:
        note("waiting for frames; end with Ctrl-C")
    try:
        complete = asyncio.run(_read(place, printer, since_s, ends_with_ring=ends_with_ring))
    except KeyboardInterrupt:
        complete = True
    note(printer.summary())
    if complete:
        return exit_codes.OK
    raise CommandError("the cluster has stopped", hint=next_command("up", home.root), exit_code=exit_codes.UNREACHABLE)


async def _read(place: Place, printer: Printer, since_s: float | None, *, ends_with_ring: bool) -> bool:
    """Whether everything that was asked for was printed; False if the cluster went away first."""
    zeromq = ZeroMQ(place.snapshot.config.bus)
    reader = TapReader(zeromq, place.snapshot.config.bus, place.tap, since_s=since_s)
    outlived = False

    async def watch_the_cluster() -> None:
        nonlocal outlived
        while holder(place.home) is not None:  # noqa: ASYNC110 - what another process holds sets no event
            await asyncio.sleep(_LOOK_INTERVAL_S)
        outlived = True
        reader.close()

    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(watch_the_cluster())
            async for batch in reader.batches():
                if printer.print(batch) or (ends_with_ring and batch.reaches_at is not None):
                    break
            watch.cancel()
    finally:
        reader.close()
        zeromq.close()
    return not outlived


class Printer:
    """Prints wanted frames and every loss until there were enough."""

    def __init__(self, wanted: TapFilter, *, form: str, count: int | None, bodies: bool, body_max_bytes: int) -> None:
        self._wanted = wanted
        self._is_json = form == "jsonl"
        self._count = count
        self._bodies = bodies
        self._body_max_bytes = body_max_bytes
        self.shown = 0
        self.seen = 0
        self.lost = 0

    def print(self, batch: TapBatch) -> bool:
        """Whether that was the last frame that was asked for."""
        self._print_gaps(batch)
        for record in batch.records:
            self.seen += 1
            if not self._wanted.accepts(record):
                continue
            self._print_record(record)
            self.shown += 1
            if self._count is not None and self.shown >= self._count:
                return True
        return False

    def summary(self) -> str:
        """The account: every frame of the time is in one of the three numbers."""
        return f"{self.shown} frames shown, {self.seen - self.shown} filtered out, {self.lost} lost"

    def _print_gaps(self, batch: TapBatch) -> None:
        if batch.reaches_at is not None:
            at = _clock_text(batch.reaches_at) if batch.reaches_at else "nothing"
            self._print_note({"ring_reaches_at": batch.reaches_at}, f"the ring reaches back to {at}")
        if batch.restarted:
            self._print_note(
                {"restarted": batch.epoch}, f"the broker restarted as {batch.epoch}: its last frames are unknown"
            )
        if batch.lost:
            self.lost += batch.lost
            first = f" before {batch.records[0].sequence}" if batch.records else ""
            self._print_note(
                {"lost": batch.lost, "epoch": batch.epoch},
                f"!!! lost {batch.lost} frames{first}: this tap was too slow; the record has it all: hobus ledger show",
            )

    def _print_note(self, document: dict[str, Any], text: str) -> None:
        say(as_json(document) if self._is_json else styled(text, "yellow"))

    def _print_record(self, record: TapRecord) -> None:
        if self._is_json:
            say(as_json(record_document(record, self._body(record) if self._bodies else None)))
            return
        say(_line(record))
        if self._bodies and record.body is not None:
            say(f"      {as_json(self._body(record))}")

    def _body(self, record: TapRecord) -> Any:
        """The decoded body; its bytes in hexadecimal where its type is unknown."""
        cls = CLASSES.get(record.type)
        if record.body is None:
            return None
        if cls is not None:
            with suppress(RuntimeFault):
                return decode(cls, record.body, self._body_max_bytes).model_dump()
        return record.body.hex()


def record_document(record: TapRecord, body: Any) -> dict[str, Any]:
    """The stable JSON shape of a tapped frame; `body` only if it was asked for."""
    document = record._asdict()
    del document["body"]
    return document if body is None else {**document, "body": body}


def _line(record: TapRecord) -> str:
    verdict = record.verdict if not record.code else f"{record.verdict}:{record.code}"
    to = (record.worker or record.destination) if record.kind in _ASKS else record.destination
    colour = _VERDICT_COLOURS.get(record.verdict)
    cells: Sequence[str] = (
        f"{record.sequence:>8}",
        _clock_text(record.at),
        f"{record.kind:<8}",
        f"{record.type:<24}",
        f"{record.sender} -> {to}" if to else record.sender,
        styled(verdict, colour),
        f"{record.size} B",
        record.correlation_id or record.message_id,
    )
    return "  ".join(cells)


def _clock_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]
