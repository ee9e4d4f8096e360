"""The bytes of one batch."""

from hypothesis import given
from hypothesis import strategies as st

from hobus.ledger_service.frame import (
    GENESIS,
    HEADER_BYTES,
    FrameFault,
    StoredFrame,
    compute_next_chain,
    read_frame,
    read_header,
)
from hobus.ledger_service.mask import apply_mask
from tests.ledger_service.rig import MASK, in_format, stored_frame

SALT = bytes(range(16))
AT = 424
"""Where the frames of these tests lie in their segment: not at a sector's border."""


def _read(data: bytes) -> StoredFrame | FrameFault | None:
    header = read_header(data)
    return None if header is None or header.frame_bytes != len(data) else read_frame(bytes(data), header, AT)


@given(
    st.lists(st.binary(min_size=1, max_size=80), min_size=1, max_size=6), st.lists(st.binary(max_size=80), max_size=6)
)
def test_what_was_built_is_read_back(entries, bodies):
    built = stored_frame(7, GENESIS, entries, [(SALT, body) for body in bodies], at=AT)
    frame = _read(built.data)
    assert isinstance(frame, StoredFrame)
    assert frame.entries == entries and [body.data for body in frame.bodies] == bodies
    assert (frame.header.first_sequence, frame.header.entry_count) == (7, len(entries))
    content = bytearray(built.data)
    apply_mask(content, AT, MASK, start=HEADER_BYTES, end=len(content) - 8)
    assert [content[at : at + len(entry)] for at, entry in zip(frame.entries_at, entries, strict=True)] == entries
    salted = [SALT + body for body in bodies]
    lie = [content[body.at + 9 : body.at + 9 + len(one)] for body, one in zip(frame.bodies, salted, strict=True)]
    assert lie == salted
    assert len(built.data) % 8 == 0 and built.data[-1] != 0
    chain = GENESIS
    for entry, after in zip(entries, built.chains, strict=True):
        chain = compute_next_chain(chain, entry)
        assert after == chain


def test_no_flipped_bit_is_accepted():
    data = stored_frame(
        3, GENESIS, [b"first entry", b"second"], [(SALT, b"a body"), (SALT, b""), (SALT, bytes(40))], at=AT
    ).data
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        assert not isinstance(_read(bytes(changed)), StoredFrame), f"bit {bit}"


def test_a_fault_names_the_damaged_part():
    built = stored_frame(3, GENESIS, [b"first entry"], [(SALT, b"a body"), (SALT, b"another")], at=AT)
    for byte in range(HEADER_BYTES, len(built.data)):
        changed = bytearray(built.data)
        changed[byte] ^= 0x40
        fault = _read(bytes(changed))
        assert isinstance(fault, FrameFault) and fault.start <= byte < fault.end


def test_another_format_is_known_by_its_version_and_not_by_damage():
    """A whole header of another version reads as such; one whose version a bit made another is none."""
    data = stored_frame(0, GENESIS, [b"e"], []).data
    data[8] = 1
    assert read_header(bytes(data)) is None
    header = read_header(in_format(1, data))
    assert header is not None and header.version == 1
