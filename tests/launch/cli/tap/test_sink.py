"""What goes out to stdout: whole lines are counted, and a reader that reads nothing keeps nobody from ending."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hobus.launch.cli.tap.account import Account
from hobus.launch.cli.tap.sink import Sink
from tests.launch.cli.tap.batches import batch


@pytest.fixture
def pipe():
    """The reading end of a pipe and a stream onto its other end."""
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as stream:
        yield ours, stream
    os.close(ours)


def test_a_signal_ends_a_write_that_nobody_reads_and_the_whole_lines_are_counted(pipe):
    """The first one, without anything being read; after that nothing is waited for any more."""
    reader, stream = pipe
    sink = Sink(stream)
    lines = [f"{number:099d}" for number in range(10_000)]  # 1 MB: more than any pipe takes
    before = signal.signal(signal.SIGALRM, lambda *_: sink.told())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        written = sink.write(lines)
    finally:
        signal.signal(signal.SIGALRM, before)
    os.set_blocking(reader, False)
    out = os.read(reader, 2_000_000).decode()
    assert out.splitlines()[:written] == lines[:written] and 0 < written < len(lines)
    assert len(out) // 100 == written
    assert sink.write(["more"]) == 0 and sink.failure is None


def test_a_reader_that_is_there_gets_everything_also_after_the_end(pipe):
    """What was read already is still written when its reader takes it."""
    reader, stream = pipe
    sink = Sink(stream)
    sink.told()
    assert sink.write(["a", "b"]) == 2
    assert os.read(reader, 100) == b"a\nb\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_what_a_full_disk_did_not_take_was_not_written():
    """None of the lines counts, and the failure is kept."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        sink = Sink(full)
        assert sink.write(["a"]) == 0
        assert sink.failure is not None and "No space" in str(sink.failure)


def test_frames_that_could_not_be_written_count_as_lost():
    """The account stays exact."""
    account = Account()
    account.begin(batch([1, 2, 3]))
    for shown in (True, False, True):
        account.one(shown=shown)
    account.unshown(1)
    account.unshown(0)
    assert account.lines() == ["1 frame shown, 1 filtered out, 1 lost (#1 to #3 of broker e)"]
    assert account.epochs[0].is_exact
