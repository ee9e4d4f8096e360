"""A bundle that somebody gives."""

from __future__ import annotations

import os
import random

import pytest

from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, UsageFault
from hobus.launch.packages.bundle import Bundle, encode
from hobus.launch.packages.incoming import checked_bundle, read_bundle
from hobus.launch.packages.judging import PackageRefused
from tests.launch.packages import parts

STRIDES = pytest.mark.parametrize("stride", [41, pytest.param(7, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a bundle that is what its maker signed."""
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


@STRIDES
def test_no_byte_of_a_bundle_can_be_another_one(whole, stride):
    """Each byte, changed in three ways: refused, with a sentence and a code that tells a program."""
    checked_bundle("it", whole)
    for at in places(whole, stride):
        for mask in (0x01, 0x80, 0xFF):
            changed = whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
            with pytest.raises(CommandError) as caught:
                checked_bundle("it", changed)
            assert caught.value.exit_code in (exit_codes.USAGE, exit_codes.INTEGRITY), (at, mask)


@STRIDES
def test_no_bundle_can_be_cut_or_added_to(whole, stride):
    """At each place."""
    for at in places(whole, stride):
        with pytest.raises(UsageFault):
            checked_bundle("it", whole[:at])
    for more in (b"\0", whole, whole[:100]):
        with pytest.raises(UsageFault):
            checked_bundle("it", whole + more)


def test_parts_of_two_bundles_make_no_third(tmp_path):
    """The manifest of one version with the signature or the files of another, by the same maker."""
    key = parts.key(tmp_path)
    one = parts.bundle(key, parts.files_of(prompt="One."), version="1.0.0")
    two = parts.bundle(key, parts.files_of(prompt="Two."), version="2.0.0")
    for mixed, gate in (
        (Bundle(one.manifest, two.signature, one.files), "G5"),
        (Bundle(two.manifest, one.signature, two.files), "G5"),
        (Bundle(one.manifest, one.signature, two.files), "G0"),
    ):
        with pytest.raises(PackageRefused) as caught:
            checked_bundle("it", encode(mixed))
        assert [one.gate for one in caught.value.findings] == [gate] and all(one.mend for one in caught.value.findings)


def test_who_signs_a_changed_manifest_anew_is_another_signer(tmp_path):
    """A package may be signed by anybody; whose it is then is said, and gate G5 knows whom to believe."""
    made = parts.bundle(parts.key(tmp_path))
    again = parts.bundle(parts.key(tmp_path, "other.key"))
    first, second = (checked_bundle("it", encode(one)) for one in (made, again))
    assert first.bundle.manifest == second.bundle.manifest
    assert first.signature.public_key != second.signature.public_key


@pytest.mark.parametrize("name", ["../../evil.json", "/etc/x", "admin_config.json", "agents/.x.json"])
def test_a_name_that_leads_elsewhere_is_refused_by_its_gate(tmp_path, name):
    """With the reason, before anything is written; it is a bundle, so that this is no slip of whoever typed its name."""
    made = parts.bundle(parts.key(tmp_path), parts.files_of() | {name: b"{}"})
    with pytest.raises(PackageRefused, match="no file of a package has this place") as caught:
        checked_bundle("it", encode(made))
    assert [(one.gate, one.file) for one in caught.value.findings] == [("G0", "it")]
    assert caught.value.exit_code == exit_codes.INTEGRITY


def test_a_file_that_is_none_is_refused_at_once(tmp_path):
    """A directory, a pipe that nobody writes to, a device, nothing, and what is larger than a bundle may be."""
    os.mkfifo(tmp_path / "pipe")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path, said in (
        (tmp_path, "a directory"), (tmp_path / "pipe", "no plain file"), ("/dev/zero", "no plain file"),
        (tmp_path / "gone", "no such file"), (large, "larger than 4194304 bytes"), (__file__, "it is no package as"),
        ("/dev/null", "no plain file"),
    ):  # fmt: skip
        with pytest.raises(UsageFault, match=said):
            read_bundle(type(tmp_path)(path))
