"""The bytes of checkpoints: whole frames are read back, everything else is not."""

import random
import struct
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.checkpoint import NO_FRAME, RecordPosition, encode, read_frames
from hobus.actors.ho3_memory.records import Fact
from hobus.bus.messages.base import pack
from tests.actors.ho3_memory.builders import artifact, failed, logged, off, seen, weighed

FACTS: list[Fact] = [
    seen(0, 1.5, 2),
    logged(artifact(), 1),
    off(2, 3),
    weighed(3, 4, 0.25),
    failed(4, 5),
]


def position(seq):
    return RecordPosition(seq, f"entry {seq}", bytes([seq]) * 32)


def file_of(*groups):
    """The bytes of one frame per group of facts."""
    data, digest = b"", NO_FRAME.digest
    for number, facts in enumerate(groups):
        frame, digest = encode(facts, position(number), digest)
        data += frame
    return data


def frames_in(data, read=None):
    return read_frames(read or (lambda offset, size: data[offset : offset + size]), len(data))


def test_a_file_is_read_frame_by_frame():
    """However long it is, what is asked for at once is one frame; and never more than there is, whatever a head says."""
    data, asked = file_of(*[FACTS] * 20), []

    def some(offset, size):
        asked.append(size)
        return data[offset : offset + size]

    assert len(list(frames_in(data, some))) == 20
    assert max(asked) < 2 * len(data) / 20
    torn = data[:4] + struct.pack(">I", 2**32 - 1) + data[8:]
    assert list(frames_in(torn, lambda _offset, size: torn[:size] if size < 100 else pytest.fail("read"))) == []


def read(data):
    """Facts and last position of every whole frame."""
    found = list(frames_in(data))
    return [fact for frame in found for fact in frame.facts], found[-1].position if found else None


def test_every_kind_of_fact_comes_back():
    data = file_of(FACTS[:2], FACTS[2:], [])
    assert read(data) == (FACTS, position(2))
    assert [frame.end for frame in frames_in(data)][-1] == len(data)
    assert read(b"") == ([], None)


def test_a_torn_file_ends_at_its_last_whole_frame():
    first = len(file_of(FACTS[:2]))
    data = file_of(FACTS[:2], FACTS[2:])
    for end in range(len(data)):
        assert read(data[:end]) == ((FACTS[:2], position(0)) if end >= first else ([], None)), end


def test_no_changed_byte_is_believed():
    data = file_of(FACTS[:2], FACTS[2:])
    first = len(file_of(FACTS[:2]))
    draw = random.Random(1)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << draw.randrange(8)
        assert read(bytes(changed)) == ((FACTS[:2], position(0)) if at >= first else ([], None)), at


def test_a_frame_does_not_fit_behind_another_file():
    """Each digest covers what stands before it."""
    other = file_of(FACTS[:1])
    data = file_of(FACTS[:2], FACTS[2:])
    assert read(other + data[len(file_of(FACTS[:2])) :]) == (FACTS[:1], position(0))


@given(st.binary(max_size=200))
def test_junk_is_no_checkpoint(data):
    assert read(data) == ([], None)
    assert read(file_of(FACTS) + data) == (FACTS, position(0))


@pytest.mark.parametrize("rows", [[["signal", 1]], [[]], "junk"])
def test_a_frame_of_another_version_ends_the_reading(rows):
    payload = pack([2, [0, "entry 0", bytes(32)], rows])
    data = struct.pack(">4sI32s", b"HO3C", len(payload), sha256(NO_FRAME.digest + payload).digest()) + payload
    assert read(data) == ([], None)
