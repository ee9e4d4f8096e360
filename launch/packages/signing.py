"""Ed25519 signatures of manifests, and the keys that make them. The library is loaded where one is made or checked.

A private key is a PEM file (PKCS#8, as `openssl genpkey -algorithm ed25519` writes it) that only its owner may read.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from hobus.bus.clock import SystemClock
from hobus.launch.console.errors import RefusedFault, UsageFault, format_next_here, make_os_fault

PUBLIC_KEY = re.compile(r"ed25519:[0-9a-f]{64}")
_CONTEXT = b"hobus package manifest 1\n"
"""Stands before what is signed, so that no signature of anything else can be taken for one of a manifest."""
_FORMAT = 1
_HEX = {"public_key": PUBLIC_KEY, "signature": re.compile(r"[0-9a-f]{128}")}
_KEY_FILE_MAX_BYTES = 65_536
_OTHERS = 0o077


class BadSignature(ValueError):
    """Say why this is not this key's signature of these bytes, as the end of a sentence."""


class PackageSignature(NamedTuple):
    """What signature.json holds."""

    public_key: str
    """`ed25519:<64 hex>`."""
    signature: str
    """128 hex digits."""

    def to_bytes(self) -> bytes:
        """Return the file; one signature has one form."""
        return (json.dumps({"format": _FORMAT, **self._asdict()}, indent=1) + "\n").encode()


def compute_fingerprint(public_key: str) -> str:
    """Return how a key is named to people: `key:<16 hex>` of its SHA-256."""
    return f"key:{hashlib.sha256(bytes.fromhex(public_key.partition(':')[2])).hexdigest()[:16]}"


def make_key(path: Path) -> str:
    """Write a new private key, for its owner alone; return its public half. Raises CommandError."""
    ed25519, serialization = _import_library()
    private = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SystemClock().secret()))
    pem: bytes = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        write_new(path, pem, mode=0o600)
    except FileExistsError:
        raise UsageFault(f"{path} is there already: no key is overwritten", hint="name another file") from None
    except OSError as error:
        raise make_os_fault(error, doing="the key cannot be written, and was not") from error
    return _encode_public(private.public_key())


def sign_manifest(manifest: bytes, key_file: Path) -> PackageSignature:
    """Sign this manifest with the key in the file. Raises CommandError."""
    private = _load_private_key(key_file)
    return PackageSignature(_encode_public(private.public_key()), private.sign(_CONTEXT + manifest).hex())


def check_signature(data: bytes, manifest: bytes) -> PackageSignature:
    """Return the signature in these bytes of a signature.json, which is that of this manifest. Raises BadSignature."""
    signature = read_stated_signature(data)
    ed25519, _ = _import_library()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - as the module's head says

    public = bytes.fromhex(signature.public_key.partition(":")[2])
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(public)
        key.verify(bytes.fromhex(signature.signature), _CONTEXT + manifest)
    except (InvalidSignature, ValueError):
        said = f"the manifest is not what {compute_fingerprint(signature.public_key)} signed: one of them was changed"
        raise BadSignature(said) from None
    return signature


def read_stated_signature(data: bytes) -> PackageSignature:
    """Return what these bytes of a signature.json state, whether it holds or not; load no library.

    Raises BadSignature.
    """
    try:
        value = json.loads(data)
        signature = PackageSignature(value["public_key"], value["signature"])
        is_one = all(form.fullmatch(getattr(signature, name)) for name, form in _HEX.items())
    except (ValueError, LookupError, TypeError, RecursionError):
        is_one, signature = False, PackageSignature("", "")
    if not is_one or signature.to_bytes() != data:
        raise BadSignature("signature.json is not as they are made: it was changed, or is of another version of hobus")
    return signature


def _load_private_key(path: Path) -> Any:
    make = format_next_here("package key FILE")
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_KEY_FILE_MAX_BYTES)
    except OSError as error:
        hint = f"name the file of yours, or make one: {make}"
        raise UsageFault(f"--key {path}: {error.strerror}", hint=hint) from None
    if mode & _OTHERS:
        raise RefusedFault(f"--key {path}: other users can read it", hint=f"chmod 600 {path}")
    ed25519, serialization = _import_library()
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, _import_unsupported()):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        said = f"--key {path}: not an Ed25519 private key without a password"
        raise UsageFault(said, hint=f"make one: {make}")
    return key


def _import_unsupported() -> type[Exception]:
    fault: type[Exception] = importlib.import_module("cryptography.exceptions").UnsupportedAlgorithm
    return fault


def _encode_public(key: Any) -> str:
    return f"ed25519:{key.public_bytes_raw().hex()}"


def _import_library() -> tuple[Any, Any]:
    """Import by name: no process of a cluster keeps it loaded."""
    return (
        importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519"),
        importlib.import_module("cryptography.hazmat.primitives.serialization"),
    )


def write_new(path: Path, data: bytes, *, mode: int) -> None:
    """Write a new file to the device. Raises FileExistsError, also for a link that leads nowhere; OSError."""
    if os.path.lexists(path):
        raise FileExistsError(17, "File exists", str(path))
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)  # unlike a rename, it replaces nothing
    finally:
        beside.unlink(missing_ok=True)
