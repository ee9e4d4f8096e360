"""Reading the tap of a running cluster until there was enough, the user ends it, or the cluster is gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapReader
from hobus.launch.cli.tap.capture import CaptureWriter
from hobus.launch.cli.tap.choice import Choice, Chooser
from hobus.launch.cli.tap.look import Look
from hobus.launch.cli.tap.printer import Printer
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError, UnreachableFault, format_next_command, make_os_fault
from hobus.launch.console.output import note
from hobus.launch.limits import TAP_POLL_MS


@dataclass(slots=True)
class Watched:
    """Where chosen frames go."""

    chooser: Chooser
    printer: Printer | None
    writer: CaptureWriter | None

    def take(self, choice: Choice) -> bool:
        """Print and capture; return whether that was the last frame that was asked for. Raises OSError.

        The account has as shown what went out, not what was meant to.
        """
        out, wanted = 0, len(choice.chosen)
        try:
            if self.writer is not None:
                self.writer.batch(choice.batch, [one.record for one in choice.chosen])
            out = wanted if self.printer is None else self.printer.print(choice)
        finally:
            self.chooser.account.count_unshown(wanted - out)
        if self.printer is not None and self.printer.failure is not None:
            raise self.printer.failure
        return choice.is_last


@dataclass(slots=True)
class Live:
    """One run of `hobus tap` on a cluster."""

    place: Place
    watched: Watched
    look: Look | None
    gone: Callable[[], CommandError | None]
    since_s: float | None
    ends_with_ring: bool
    _failure: BaseException | None = None

    async def run(self) -> BaseException | None:
        """Return what the command ends with: None when all was shown that was asked for, or the user ended it."""
        config = self.place.snapshot.config
        zeromq = ZeroMQ(config.bus)
        reader = TapReader(zeromq, self.place.tap, since_s=self.since_s, with_bodies=self.look is not None)
        if not self.ends_with_ring:
            note("waiting for frames; end with Ctrl-C")
        try:
            loop, told = asyncio.get_running_loop(), asyncio.Event()
            with _end_by_signals(lambda: loop.call_soon_threadsafe(told.set)):
                async with asyncio.TaskGroup() as group:
                    beside = [
                        group.create_task(self._watch_the_cluster(reader)),
                        group.create_task(self._end_in_order(reader, told)),
                    ]
                    await self._read(reader)
                    for task in beside:
                        task.cancel()
                if self.look is not None and (unsaid := await self.look.close()):
                    note(unsaid)
        finally:
            reader.close()
            zeromq.close()
        return self._failure

    async def _read(self, reader: TapReader) -> None:
        """Read; keep what ends it as a value, which a task group would wrap."""
        try:
            async for batch in reader.batches():
                choice = self.watched.chooser.choose(batch)
                if self.look is not None:
                    await self.look.before(choice)
                if self.watched.take(choice) or (self.ends_with_ring and batch.reaches_at is not None):
                    return
        except (BrokenPipeError, CommandError) as error:
            self._failure = error
        except OSError as error:
            self._failure = make_os_fault(error, doing="the frames cannot be written")

    async def _end_in_order(self, reader: TapReader, told: asyncio.Event) -> None:
        """Read, once the user ends it, to where the broker stands then, so that the account reaches that far."""
        await told.wait()
        if reader.has_begun:
            try:
                async with asyncio.timeout(self.place.client_timeout_s):
                    while not reader.is_at_head:
                        reader.ask_head()  # again and again: a broker drops what a reader that is behind cannot take
                        await asyncio.sleep(self._poll_s)
            except TimeoutError:
                note("the broker did not report its last number: frames after the last one are not accounted for")
        reader.close()

    @property
    def _poll_s(self) -> float:
        return TAP_POLL_MS / 1000

    async def _watch_the_cluster(self, reader: TapReader) -> None:
        waited_s, patience_s = 0.0, self.place.client_timeout_s
        while self.gone() is None:
            await asyncio.sleep(self._poll_s)
            waited_s += self._poll_s
            if not reader.has_begun and waited_s - self._poll_s < patience_s <= waited_s:
                if self.since_s is not None:
                    self._end(reader, f"the broker did not answer in full within {patience_s:g} s", "ps")
                    return
                note("the broker does not answer; waiting for it")
        self._end(reader, "the cluster has stopped", "up")

    def _end(self, reader: TapReader, why: str, command: str) -> None:
        hint = format_next_command(command, self.place.home.root)
        self._failure = UnreachableFault(why, hint=hint)
        reader.close()


@contextmanager
def _end_by_signals(end: Callable[[], object]) -> Generator[None]:
    """End the reading in order at the first Ctrl-C or SIGTERM, at once at the second."""
    is_told = False

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_told
        if is_told:
            raise KeyboardInterrupt
        is_told = True
        end()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
