"""Keys and signatures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from hobus.launch.console.errors import CommandError
from hobus.launch.packages import signing
from hobus.launch.packages.signing import (
    PUBLIC_KEY,
    BadSignature,
    check_signature,
    compute_fingerprint,
    make_key,
    sign_manifest,
)

PEM = b"-----BEGIN %s-----\nAAAA\n-----END %s-----\n" % ((b"PRIVATE " + b"KEY",) * 2)
MANIFEST = b'{"package_id": "PKG-A"}\n'


@pytest.fixture
def key(tmp_path):
    make_key(tmp_path / "key")
    return tmp_path / "key"


def test_a_key_is_made_for_its_owner_alone_and_never_over_another(tmp_path):
    """Its public half is what is handed on; the file holds no trace of it in another form."""
    file = tmp_path / "key"
    public = make_key(file)
    assert PUBLIC_KEY.fullmatch(public) and file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    with pytest.raises(CommandError, match="no key is overwritten"):
        make_key(file)
    assert file.read_bytes() == before and make_key(tmp_path / "other") != public
    assert compute_fingerprint(public).startswith("key:") and len(compute_fingerprint(public)) == len("key:") + 16


@pytest.mark.parametrize("bits", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_no_bit_of_manifest_or_signature_can_be_another_one(key, bits):
    """Each bit of both, and both cut at each place; else of each byte the bits that are next in turn."""
    made = sign_manifest(MANIFEST, key).to_bytes()
    for data, is_signature in ((made, True), (MANIFEST, False)):
        for at in range(len(data)):
            for changed in (
                *(data[:at] + bytes([data[at] ^ 1 << (at + bit) % 8]) + data[at + 1 :] for bit in range(bits)),
                data[:at],
            ):
                with pytest.raises(BadSignature):
                    check_signature(*((changed, MANIFEST) if is_signature else (made, changed)))


def test_a_signature_of_other_bytes_with_the_same_key_is_none_of_a_manifest(key):
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - loaded where it is used

    private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    elsewhere = sign_manifest(MANIFEST, key)._replace(signature=private.sign(MANIFEST).hex())
    with pytest.raises(BadSignature):
        check_signature(elsewhere.to_bytes(), MANIFEST)


def test_a_signature_in_another_form_is_refused(key):
    made = sign_manifest(MANIFEST, key)
    value = json.loads(made.to_bytes())
    for changed in (
        json.dumps(value).encode(), made.to_bytes() + b"\n", made._replace(signature=made.signature.upper()).to_bytes(),
        made._replace(public_key=made.public_key.upper()).to_bytes(), json.dumps(value | {"format": 2}, indent=1).encode(),
    ):  # fmt: skip
        with pytest.raises(BadSignature):
            check_signature(changed, MANIFEST)


def test_a_key_that_others_may_read_is_not_used(key):
    key.chmod(0o640)
    with pytest.raises(CommandError, match="other users can read it") as caught:
        sign_manifest(MANIFEST, key)
    assert caught.value.hint == f"chmod 600 {key}"


@pytest.mark.parametrize("data", [b"", b"x", PEM])
def test_a_file_that_is_no_key_is_refused(tmp_path, data):
    file = tmp_path / "bad"
    file.write_bytes(data)
    file.chmod(0o600)
    for path in (file, tmp_path / "gone", tmp_path):
        with pytest.raises(CommandError) as caught:
            sign_manifest(MANIFEST, path)
        assert "hobus package key FILE" in caught.value.hint


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
@pytest.mark.parametrize(("algorithm", "is_taken"), [("ed25519", True), ("x25519", False)])
def test_a_key_that_openssl_made_is_taken_if_it_is_of_the_kind(tmp_path, algorithm, is_taken):
    file = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", algorithm, "-out", file], check=True, capture_output=True)
    file.chmod(0o600)
    if is_taken:
        assert check_signature(sign_manifest(MANIFEST, file).to_bytes(), MANIFEST)
    else:
        with pytest.raises(CommandError, match="not an Ed25519 private key"):
            sign_manifest(MANIFEST, file)


@pytest.mark.slow
def test_the_library_is_loaded_where_it_is_used_alone():
    """No process of a cluster, nor any other command, keeps it."""
    code = (
        "import sys, hobus.launch.packages.trust, hobus.launch.packages.store, hobus.launch.launcher.launcher; "
        "sys.exit(any(name.partition('.')[0] == 'cryptography' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert signing.__name__ in sys.modules


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"format": 1, "public_key": 7}']
)
def test_what_is_no_signature_is_refused(data):
    """With one sentence."""
    with pytest.raises(BadSignature, match="not as they are made"):
        check_signature(data, MANIFEST)
