"""Captures: what goes in comes out; a torn end is said, damage is refused."""

from __future__ import annotations

import stat
import struct

import pytest

from hobus.launch.cli.tap.capture import MAGIC, CaptureDamaged, CaptureReader, CaptureWriter
from tests.launch.cli.tap.batches import batch

BATCHES = [
    batch([2, 5], first=2, beats=2, reaches_at=1.5),
    batch([9], first=6, lost=3, body=b"text"),
    batch([1], epoch="f", restarted=True),
]


def written(path, *, ended: bool = True) -> bytes:
    writer = CaptureWriter(path, {"filter": ["type=wo.*"]}, replace=False)
    for one in BATCHES:
        writer.batch(one, one.records)
    if ended:
        writer.close([{"epoch": "e", "shown": 3}])
    else:
        writer._file.close()
    return path.read_bytes()


def test_what_was_captured_is_read_as_it_was(tmp_path):
    """Epochs, numbers, losses, restarts, the reach, bodies, the account; nobody else reads the file."""
    path = tmp_path / "a.tap"
    written(path)
    reader = CaptureReader(path)
    assert list(reader.batches()) == BATCHES
    assert reader.facts["filter"] == ["type=wo.*"]
    assert (reader.account, reader.torn_at) == ([{"epoch": "e", "shown": 3}], None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_batch_of_which_nothing_is_kept_and_that_says_nothing_takes_no_room(tmp_path):
    """A narrow filter makes a small file."""
    writer = CaptureWriter(tmp_path / "a.tap", {}, replace=False)
    writer.batch(batch([1, 2]), [])
    writer.batch(batch([5], first=3, lost=2), [])
    writer.close([])
    (one,) = CaptureReader(tmp_path / "a.tap").batches()
    assert (one.records, one.lost, one.first, one.next) == ([], 2, 3, 6)


def test_a_capture_torn_anywhere_gives_its_whole_items_and_says_where(memory_path):
    """Every length: a prefix of the batches, and the byte at which the torn item begins."""
    whole = written(memory_path / "a.tap", ended=False)
    path = memory_path / "torn.tap"
    ends = _ends(whole)
    for length in range(ends[0], len(whole)):
        path.write_bytes(whole[:length])
        reader = CaptureReader(path)
        found = list(reader.batches())
        assert found == BATCHES[: len(found)]
        begun = max(end for end in ends if end <= length)
        assert (reader.torn_at, reader.account) == (begun if length > begun else None, None)


def _ends(data: bytes) -> list[int]:
    at, ends = len(MAGIC), []
    while at < len(data):
        at += 8 + struct.unpack_from(">I", data, at)[0]
        ends.append(at)
    return ends


def test_a_flipped_bit_is_found_and_its_place_named(tmp_path):
    """Before the last item it cannot be a torn write."""
    path = tmp_path / "a.tap"
    data = bytearray(written(path))
    data[_ends(bytes(data))[0] + 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(CaptureDamaged, match=r"byte \d+"):
        list(CaptureReader(path).batches())


@pytest.mark.parametrize("data", [b"", b"hello", MAGIC, MAGIC + b"\x00\x00"])
def test_another_file_is_no_capture(tmp_path, data):
    path = tmp_path / "notes.txt"
    path.write_bytes(data)
    with pytest.raises(CaptureDamaged, match=r"notes\.txt"):
        list(CaptureReader(path).batches())


def test_a_file_that_holds_something_is_replaced_only_when_that_is_asked_for(tmp_path):
    path = tmp_path / "a.tap"
    path.touch()
    CaptureWriter(path, {}, replace=False).close([])
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        CaptureWriter(path, {"other": True}, replace=False)
    assert path.read_bytes() == before
    CaptureWriter(path, {"other": True}, replace=True).close([])
    assert path.read_bytes() != before
