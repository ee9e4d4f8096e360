"""The screen of the bus: frames as the tap has them, by its filter language; a turn's as a sequence diagram; a capture.

Headers alone: no body of a frame comes to a browser.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from hobus.bus import limits as bus_limits
from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.broker.tap_wire import TapBatch
from hobus.bus.messages.ids import TurnRef
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapReader
from hobus.launch.cli.commands.options import filter_given
from hobus.launch.cli.tap.capture import CaptureDamaged, CaptureReader, CaptureWriter
from hobus.launch.cli.tap.choice import Choice, Chooser, SeenLives, TurnBook
from hobus.launch.cli.tap.table import format_turn
from hobus.launch.cli.turn_reading import run_in
from hobus.launch.cli.web import limits
from hobus.launch.cli.web.app import BadQuery, Console, PageAnswer, PageRequest
from hobus.launch.cli.web.source import HomeSource
from hobus.launch.cluster.run_file import find_gone
from hobus.launch.cluster.version import __version__
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UnreachableFault, UsageFault, make_os_fault
from hobus.launch.console.output import format_clock_time
from hobus.launch.filters.quantities import parse_duration
from hobus.launch.filters.tap_fields import EXAMPLE, FIELDS, shorten_instance, tap_filter
from hobus.launch.http.sse import PING, make_frame, make_stream

_ASKS = ("request", "post", "cancel")
_LANE, _ROW, _TOP = 130.0, 22.0, 34.0
"""Of a diagram: between two processes, between two frames, above the first."""


async def show_bus(look: PageRequest) -> PageAnswer:
    """`hobus tap`: the page alone, whose frames come by a stream; of a capture its last frames that are wanted."""
    said, capture = look.text("filter"), look.source.capture
    _parse_wanted(said)
    shown: dict[str, Any] = {"said": said, "rows": [], "account": [], "missing": []}
    if capture is None:
        look.source.run()
        return PageAnswer("bus.html", "Bus", {"filter": said, "frames": "/bus/frames"}, shown)
    choices, account, missing = await _read_kept(look.source, said, "")
    rows = [_make_row(one.record, one.turn) for choice in choices for one in choice.chosen]
    shown |= {"rows": rows[: -limits.FRAMES_MAX - 1 : -1], "account": account.lines(), "missing": missing}
    document = {"filter": said, "frames": rows, "account": account.document(), "missing": missing}
    return PageAnswer("bus.html", "Bus", document, shown)


async def show_diagram(look: PageRequest) -> PageAnswer:
    """`hobus tap 'turn=…' --since`: the frames of one turn that the broker's ring still has, who told whom what."""
    turn, since = look.text("turn"), look.text("since") or limits.RING
    if run_in(turn) is None:
        raise BadQuery(f"turn {turn[:80]}: expected SES-<8 hex>-<n>")
    choices, _, missing = await _read_kept(look.source, f"turn={turn}", since)
    found = [(one.record, one.turn) for choice in choices for one in choice.chosen]
    drawn = make_drawing([record for record, _ in found])
    document = {"turn": turn, "frames": [_make_row(record, turn) for record, turn in found], "missing": missing}
    left_out = max(0, len(found) - limits.DIAGRAM_MAX)
    shown = {"turn": turn, "drawn": drawn, "count": len(found), "left_out": left_out, "missing": missing}
    return PageAnswer("diagram.html", f"Frames of {turn}", document, shown)


class Arrow(NamedTuple):
    """One frame of a diagram."""

    record: TapRecord
    y: float
    x1: float
    x2: float
    label: str


class Drawing(NamedTuple):
    """A sequence diagram, in its own units."""

    lanes: list[tuple[str, float]]
    arrows: list[Arrow]
    width: float
    height: float


def make_drawing(records: Sequence[TapRecord]) -> Drawing:
    """Draw a line for each process in the order in which it spoke, and an arrow for each frame, the first ones. Pure.

    By their times: a frame of a lane has its number from when the broker heard of it.
    """
    lanes: dict[str, float] = {}

    def place_lane(name: str) -> float:
        return lanes.setdefault(shorten_instance(name) or "?", len(lanes) * _LANE + _LANE / 2)

    arrows: list[Arrow] = []
    for number, one in enumerate(sorted(records, key=lambda each: each.at)[: limits.DIAGRAM_MAX]):
        to = (one.worker or one.destination) if one.kind in _ASKS else one.destination
        y = _TOP + (number + 1) * _ROW
        label = one.type if one.kind in _ASKS else f"{one.type} ({one.kind})"
        arrows.append(Arrow(one, y, place_lane(one.sender), place_lane(to), label))
    return Drawing(list(lanes.items()), arrows, len(lanes) * _LANE, _TOP + (len(arrows) + 1) * _ROW)


# --- streams ----------------------------------------------------------------------------------------------------------


async def stream_frames(request: Request) -> Response:
    """Stream chosen frames as they come, and where every other one went."""
    console, query = request.scope["app"], request.query_params
    return make_stream(_follow_live(console.source, query.get("filter", ""), query.get("all") == "1"))


async def send_capture(request: Request) -> Response:
    """Return the chosen frames that the ring still has, as a file for `hobus tap -r`. Raises CommandError."""
    console: Console = request.scope["app"]
    console.source.run()  # a capture that is shown is a file already, and may be torn
    said, since = request.query_params.get("filter", ""), request.query_params.get("since") or limits.RING
    choices, account, _ = await _read_kept(console.source, said, since)
    facts = {"hobus": __version__, "began_at": console.source.clock.now(), "filter": [said]}

    def write_capture() -> bytes:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "frames.tap"
            writer = CaptureWriter(path, facts, replace=True)
            for choice in choices:
                writer.batch(choice.batch, [one.record for one in choice.chosen])
            writer.close(account.document())
            return path.read_bytes()

    named = {"content-disposition": 'attachment; filename="frames.tap"'}
    return Response(await run_in_threadpool(write_capture), media_type="application/octet-stream", headers=named)


async def _follow_live(source: HomeSource, said: str, with_routine: bool) -> AsyncGenerator[str]:
    chooser = Chooser(_parse_wanted(said), TurnBook(bus_limits.TAP_RING), source.clock.now, with_routine=with_routine)
    with _open_reader(source, None) as reader:
        ending = asyncio.get_running_loop().create_task(_end_with_the_cluster(source, reader))
        try:
            yield PING
            async for batch in reader.batches():
                choice = chooser.choose(batch)
                sent = choice.chosen[: limits.ROWS_AT_ONCE]
                chooser.account.count_unshown(len(choice.chosen) - len(sent))
                account = chooser.account
                counts = {"shown": account.shown, "filtered": account.filtered, "lost": account.lost}
                rows = [_make_row(one.record, one.turn) for one in sent]
                yield make_frame({"rows": rows, "restarted": batch.restarted, **counts}, event="frames")
            yield make_frame({}, event="gone")
        finally:
            ending.cancel()


async def _end_with_the_cluster(source: HomeSource, reader: TapReader) -> None:
    while find_gone(source.home) is None:  # noqa: ASYNC110 - that processes are gone wakes nobody
        await asyncio.sleep(limits.TICK_S)
    reader.close()


async def _read_kept(source: HomeSource, said: str, since: str) -> tuple[list[Choice], SeenLives, list[str]]:
    """Return what the ring holds of the last `since`, else the capture; its account; what is missing at its end.

    Raises CommandError.
    """
    if source.capture is not None:
        return await run_in_threadpool(_read_capture, source.capture, _parse_wanted(said), source.clock.now)
    source.run("broker")
    try:
        since_s = parse_duration(since)
    except ValueError:
        raise UsageFault(f"since {since[:40]}: expected a length of time, such as 10m") from None
    chooser = Chooser(_parse_wanted(said), TurnBook(None), source.clock.now, with_routine=False)
    choices: list[Choice] = []
    with _open_reader(source, since_s) as reader:
        try:
            async with asyncio.timeout(source.place().client_timeout_s):
                async for batch in reader.batches():
                    choices.append(chooser.choose(batch))
                    if batch.reaches_at is not None:
                        break
        except TimeoutError:
            raise UnreachableFault("the broker did not answer in time") from None
    return choices, chooser.account, []


def read_batches(capture: CaptureReader) -> Generator[TapBatch]:
    """Yield what was captured, in order. Raises CommandError, with the exit codes of `hobus tap -r`."""
    try:
        yield from capture.batches()
    except CaptureDamaged as fault:
        raise CommandError(str(fault), exit_code=exit_codes.INTEGRITY) from None
    except OSError as error:
        raise make_os_fault(error, doing="the capture cannot be read") from error


def _read_capture(path: Path, wanted: Any, now: Callable[[], float]) -> tuple[list[Choice], SeenLives, list[str]]:
    """Read twice, as `hobus tap -r` does: which turn a frame is of may be said behind it."""
    chooser, reader = Chooser(wanted, TurnBook(None), now, with_routine=False), CaptureReader(path)
    for batch in read_batches(reader):
        chooser.book.learn(batch.records)
    choices = [chooser.choose(batch) for batch in read_batches(reader)]
    return choices, chooser.account, reader.list_missing()


@contextmanager
def _open_reader(source: HomeSource, since_s: float | None) -> Generator[TapReader]:
    place = source.place()
    zeromq = ZeroMQ(place.snapshot.config.bus)
    reader = TapReader(zeromq, place.tap, since_s=since_s)
    try:
        yield reader
    finally:
        reader.close()
        zeromq.close()


def _parse_wanted(said: str) -> Any:
    return filter_given(tap_filter, (said,) if said.strip() else (), names=FIELDS, example=EXAMPLE)


def _make_row(record: TapRecord, turn: TurnRef) -> dict[str, Any]:
    """Return the columns of `hobus tap`."""
    to = (record.worker or record.destination) if record.kind in _ASKS else record.destination
    return {
        "sequence": record.sequence, "time": format_clock_time(record.at), "kind": record.kind, "type": record.type,
        "from": shorten_instance(record.sender), "to": shorten_instance(to), "size": record.size,
        "turn": format_turn(turn),
        "verdict": f"{record.verdict}:{record.code}" if record.code else record.verdict, "lane": record.lane,
    }  # fmt: skip
