"""A bundle that somebody gives."""

from __future__ import annotations

import os
import random

import pytest

from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.packages.incoming import check_incoming, read_bundle
from tests.launch.packages import parts

STRIDES = pytest.mark.parametrize("stride", [41, pytest.param(7, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return parts.clerk(tmp_path_factory.mktemp("made")).read_bytes()


def places(whole, stride):
    """Every so many bytes, from a place that is drawn, and where things begin and end."""
    return sorted(
        {
            *range(64),
            *range(random.Random(12).randrange(stride), len(whole), stride),
            *range(len(whole) - 64, len(whole)),
        }
    )


@pytest.mark.slow
@STRIDES
def test_no_byte_of_a_bundle_can_be_another_one(whole, stride):
    """Each byte, changed in three ways: refused, with a sentence and a code that tells a program."""
    check_incoming("it", whole)
    for at in places(whole, stride):
        for mask in (0x01, 0x80, 0xFF):
            changed = whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
            with pytest.raises(CommandError) as caught:
                check_incoming("it", changed)
            assert caught.value.exit_code in (exit_codes.USAGE, exit_codes.INTEGRITY), (at, mask)


def test_a_file_that_is_none_is_refused_at_once(tmp_path):
    """A directory, a pipe that nobody writes to, a device, nothing, and what is larger than a bundle may be."""
    os.mkfifo(tmp_path / "pipe")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path, said in (
        (tmp_path, "a directory"), (tmp_path / "pipe", "not a plain file"), ("/dev/zero", "not a plain file"),
        (tmp_path / "gone", "No such file"), (large, "more than 4194304 bytes"), (__file__, "it is no package as"),
        ("/dev/null", "not a plain file"),
    ):  # fmt: skip
        with pytest.raises(UsageFault, match=said):
            read_bundle(type(tmp_path)(path))
