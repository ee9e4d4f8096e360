"""A key that somebody can have, and those that nobody can."""

from __future__ import annotations

import pytest
import zmq
import zmq.utils.z85 as z85  # noqa: PLR0402 - the module ships no names for `from`
from hypothesis import given, settings
from hypothesis import strategies as st

from hobus.bus.zeromq.curve import is_public_key

PRIME = 2**255 - 19
LOW_ORDER = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    PRIME - 1,
    PRIME,
    PRIME + 1,
)


@settings(max_examples=20, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_the_public_half_of_every_secret_is_one(secret: bytes) -> None:
    public = z85.decode(zmq.curve_public(z85.encode(secret)))
    assert is_public_key(public)
    other_form = (int.from_bytes(public, "little") | 1 << 255).to_bytes(32, "little")
    assert not is_public_key(other_form)


@pytest.mark.parametrize("u", [*LOW_ORDER, 2, PRIME + 9, 2**256 - 1])
def test_what_no_secret_fits_is_none(u: int) -> None:
    assert not is_public_key(u.to_bytes(32, "little"))


def test_the_base_point_is_one_and_eight_of_thirty_two_points_are_not_enough() -> None:
    """A point of the curve with a part of low order in it is none: of the first hundred numbers few are public keys."""
    found = [u for u in range(100) if is_public_key(u.to_bytes(32, "little"))]
    assert 9 in found
    assert 0 < len(found) < 100 / 4
