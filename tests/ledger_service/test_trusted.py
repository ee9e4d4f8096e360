"""What the commit takes for granted: each of it untrue once, by a part that is broken, and what becomes of the ledger then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from hobus.bus.errors import LedgerError
from hobus.bus.sim.disk import SimDisk
from hobus.ledger_service import writer as writing
from hobus.ledger_service.frame import Built, build_frame
from hobus.ledger_service.intake import Batch, Intake, Sealed, seal
from hobus.ledger_service.segment import ActiveSegment
from hobus.ledger_service.source import Untrue, require_true
from hobus.ledger_service.writer import Writer
from tests.ledger_service.rig import medium, running, start, write

Spoil = Callable[[pytest.MonkeyPatch, Writer], None]


def frames(change: Callable[[Built, tuple[Any, ...]], Built]) -> Spoil:
    """Batches are encoded wrongly."""

    def spoil(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
        patch.setattr(writing, "build_frame", lambda *given: change(build_frame(*given), given))

    return spoil


def batches(change: Callable[[Sealed], Sealed]) -> Spoil:
    """What was decided is made into something else; the frame holds what it is said to hold."""

    def spoil(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
        patch.setattr(writing, "seal", lambda *given: change(seal(*given)))

    return spoil


def places(change: Callable[[list[Any]], list[Any]]) -> Spoil:
    """Readers would look elsewhere."""
    real = writing.list_places

    def spoil(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
        patch.setattr(writing, "list_places", lambda *given, **named: change(real(*given, **named)))

    return spoil


def ahead(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
    """A batch leaves a sequence out."""
    patch.setattr(writing, "Batch", lambda first, now_us: Batch(first + 1, now_us))


def acks_ahead(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
    """Acks name sequences that nobody wrote."""
    decide = Intake.decide

    def decided(self: Intake, *given: Any) -> Any:
        ack = decide(self, *given)
        return ack._replace(sequence=ack.sequence + 1)

    patch.setattr(Intake, "decide", decided)


def acks_short(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
    """A write is held to be decided, and one of its entries is not."""
    gather = Writer._gather

    def gathered(self: Writer, batch: Batch, finished: list[Any]) -> None:
        gather(self, batch, finished)
        finished[-1].outcomes[-1].pop()

    patch.setattr(Writer, "_gather", gathered)


def not_written(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
    """A batch that is said to be durable, and is not."""
    patch.setattr(ActiveSegment, "append", lambda self, frame: None)


def not_filled(patch: pytest.MonkeyPatch, _writer: Writer) -> None:
    """No zeros are there to be written over."""
    patch.setattr(ActiveSegment, "_fill", lambda self, wanted: setattr(self, "_filled", self.end))


def misnamed(_patch: pytest.MonkeyPatch, writer: Writer) -> None:
    """The open segment is one that begins later."""
    writer._active.first = 99


def misplaced(_patch: pytest.MonkeyPatch, writer: Writer) -> None:
    """The last batch ended where none can."""
    writer._active.end += 4


ENTRIES, BODIES, HEADER = "entries lie at their places", "bodies lie at the places", "a frame's header tells"
CASES: list[tuple[Spoil, str, bool]] = [
    (ahead, "a batch begins behind the head", False),
    (batches(lambda sealed: replace(sealed, entries=sealed.entries[:-1])), "every entry has its chain value", False),
    (batches(lambda sealed: replace(sealed, bodies=[*sealed.bodies, bytes(17)])), BODIES, False),
    (batches(lambda sealed: replace(sealed, bodies=sealed.bodies[:-1])), BODIES, False),
    (frames(lambda built, _: built._replace(chains=built.chains[:-1])), "every entry has its chain value", False),
    (frames(lambda built, _: built._replace(chains=[bytes(32)] * 3)), "the chain goes on", False),
    (frames(lambda built, given: built._replace(data=build_frame(*given[:2], given[2][::-1], *given[3:]).data)), ENTRIES, False),
    (frames(lambda built, given: built._replace(data=build_frame(*given[:3], given[3][::-1], given[4]).data)), BODIES, False),
    (frames(lambda built, _: built._replace(data=built.data[:-8])), HEADER, False),
    (frames(lambda built, given: built._replace(data=build_frame(7, *given[1:]).data)), HEADER, False),
    (frames(lambda built, given: built._replace(data=build_frame(given[0], bytes(32), *given[2:]).data)), HEADER, False),
    (places(lambda found: [*found[:-1], found[0]]), ENTRIES, False),
    (places(lambda found: found[:-1]), "every entry has its chain value", False),
    (places(lambda found: [*found[:-1], found[-1]._replace(bodies_at=found[0].bodies_at)]), BODIES, False),
    (misnamed, "a segment begins with its name", False),
    (misplaced, "a batch begins where the mask allows", False),
    (not_filled, "a batch is written over zeros", False),
    (not_written, "the batch is written whole, and synced", False),
    (acks_ahead, "what is acknowledged is durable", True),
    (acks_short, "every entry of an answered write has its ack", True),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "words", "is_durable"), CASES)
async def test_a_commit_whose_trust_is_broken_acknowledges_nothing_and_ends_the_ledger(
    monkeypatch: pytest.MonkeyPatch, spoil: Spoil, words: str, is_durable: bool
) -> None:
    """Whoever waits is told that the ledger stopped and why; the next start finds a whole record, and takes them again."""
    device = medium()
    ledger = await start(SimDisk(device))
    await ledger.write(write("a"))
    with monkeypatch.context() as patch:
        spoil(patch, ledger.service._ledger.writer)
        waiting = [ledger.write(write("b"), write("c")), ledger.write(write("d"))]
        async with asyncio.timeout(5):
            answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [getattr(answer, "code", answer) for answer in answers] == ["fenced", "fenced"]
        fault = await ledger.service.failed
        assert "an internal error (Untrue: " in fault.detail
        assert words in fault.detail
        with pytest.raises(LedgerError, match="fenced"):
            await ledger.write(write("e"))
    await ledger.service.drain()
    async with running(SimDisk(device)) as again:
        acks = await again.write(write("a"), write("b"), write("c"), write("d"))
        assert [ack.outcome for ack in acks] == ["known", *["known" if is_durable else "committed"] * 3]
        assert [ack.sequence for ack in acks] == [0, 1, 2, 3]


def test_a_segment_does_not_end_behind_its_file() -> None:
    """What recovery says of a file is looked at when it is opened to be written."""
    disk = SimDisk(medium())
    handle = disk.open("x", create=True)
    handle.write_at(0, bytes(64))
    with pytest.raises(Untrue, match="within its file"):
        ActiveSegment(handle, first=0, end=72, limit_bytes=1000, chunk_bytes=100)


async def test_a_failure_between_two_decisions_of_a_batch_answers_the_first_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever ends a commit, everybody whose write it had taken is told, and at once."""
    ledger = await start(SimDisk(medium()))
    decide = Intake.decide

    def fails_at_second(self: Intake, entry: Any, *rest: Any) -> Any:
        require_true(entry.submission_id != "b", "this is a test")
        return decide(self, entry, *rest)

    monkeypatch.setattr(Intake, "decide", fails_at_second)
    async with asyncio.timeout(5):
        answers = await asyncio.gather(
            ledger.write(write("a")), ledger.write(write("b")), ledger.write(write("c")), return_exceptions=True
        )
    assert [getattr(answer, "code", answer) for answer in answers] == ["fenced"] * 3
    await ledger.service.drain()


def test_what_is_trusted_cannot_be_switched_off() -> None:
    """An `assert` could."""
    require_true(True, "so it is")  # noqa: FBT003 - as it is called
    with pytest.raises(Untrue, match="so it is not"):
        require_true(False, "so it is not")  # noqa: FBT003 - as it is called
