"""Whose packages are believed."""

from __future__ import annotations

import json
import os

import pytest

from hobus.launch import limits
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import UsageFault
from hobus.launch.packages import trust
from tests.launch.packages import parts
from tests.launch.packages.parts import LIMITS, SIGNED

ONE, TWO = f"ed25519:{'1' * 64}", f"ed25519:{'2' * 64}"


def test_what_is_no_plain_file_holds_no_keys(tmp_path):
    home = make_home(tmp_path)
    home.packages.mkdir()
    os.mkfifo(trust.make_path(home))
    with pytest.raises(UsageFault) as caught:
        trust.read_trusted(home)
    assert caught.value.message == f"{trust.make_path(home)}: cannot be read: it is not a plain file"


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("zoe", TWO, "zoe has another key here"), ("adam", ONE, "trusted already, as zoe"),
        ("", TWO, "up to 64"), ("a b", TWO, "up to 64"), ("\u0430dam", TWO, "up to 64"), ("a\n", TWO, "up to 64"),
        ("adam", "ed25519:" + "1" * 63, "no public key"), ("adam", ONE.upper(), "no public key"),
        ("adam", f"{TWO}\n", "no public key"),
    ],
)  # fmt: skip
def test_a_key_or_a_name_that_is_none_is_refused(name, key, said):
    """And no name comes to mean another key by being named again."""
    with pytest.raises(UsageFault, match=said):
        trust.with_key({"zoe": ONE}, name, key)


def test_not_more_keys_than_are_allowed_are_trusted(monkeypatch):
    monkeypatch.setattr(limits, "TRUSTED_MAX", 1)
    with pytest.raises(UsageFault, match=r"1 keys are trusted already"):
        trust.with_key({"zoe": ONE}, "adam", TWO)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '{"format": 2, "keys": {}}', '{"format": 1}', '{"format": 1, "keys": []}',
        json.dumps({"format": 1, "keys": {"a": "x"}}), json.dumps({"format": 1, "keys": {"": ONE}}),
        json.dumps({"format": 1, "keys": {}, "more": 1}),
    ],
)  # fmt: skip
def test_a_damaged_file_believes_nobody_and_says_so(tmp_path, text):
    """Never as if it were empty: that would be another policy."""
    home = make_home(tmp_path)
    home.packages.mkdir()
    trust.make_path(home).write_text(text)
    with pytest.raises(UsageFault, match=r"trusted\.json: ") as caught:
        trust.read_trusted(home)
    assert "restore a copy" in caught.value.hint


def test_under_signed_a_trusted_key_counts_and_under_dev_that_the_manifest_is_the_one_that_came(tmp_path):
    """A key that was removed takes its packages with it; what was changed holds under neither."""
    root = tmp_path / "package"
    made = parts.bundle(parts.key(tmp_path))
    file = root / "packages/PKG-CLERK-001/manifest.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(made.manifest)
    for policy in (LIMITS, SIGNED):
        assert "nobody signed it" in trust.find_signature_fault(root, "PKG-CLERK-001", {}, policy)
        (root / "signature.json").write_bytes(made.signature[:-1])
        assert "not as they are made" in trust.find_signature_fault(root, "PKG-CLERK-001", {}, policy)
        (root / "signature.json").unlink()
    (root / "signature.json").write_bytes(made.signature)
    public = json.loads(made.signature)["public_key"]
    assert trust.find_signature_fault(root, "PKG-CLERK-001", {}, LIMITS) == ""
    assert trust.find_signature_fault(root, "PKG-CLERK-001", {"maker": public}, SIGNED) == ""
    assert "no key of `hobus package trust list`" in trust.find_signature_fault(
        root, "PKG-CLERK-001", {"zoe": ONE}, SIGNED
    )
    file.write_bytes(made.manifest + b"\n")
    assert "not what" in trust.find_signature_fault(root, "PKG-CLERK-001", {"maker": public}, SIGNED)
    named = root.rename(tmp_path / f"PKG-CLERK-001-1.0.0-{made.manifest_sha256[:16]}")
    for policy in (LIMITS, SIGNED):
        assert "not the one that was installed" in trust.find_signature_fault(
            named, "PKG-CLERK-001", {"maker": public}, policy
        )
