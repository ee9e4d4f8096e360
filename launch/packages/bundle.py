"""The one file that a package travels in: a tar archive (ustar) of its manifest, its signature and its files. Pure.

`manifest.json` and `signature.json` come first, then the files in the order of their names, all as `encode` writes
them: not compressed, plain files alone. What is read has to be what `encode` makes of it: so the manifest is covered by
the signature, each file by its hash in the manifest, and the rest by that one form, so that no byte can be another one.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

from hobus.bus.messages.base import compute_digest
from hobus.config import files
from hobus.config.assets import HOME_PACKAGE, Package
from hobus.config.files import SIGNATURE
from hobus.config.gates.links import fold
from hobus.config.parse import BadText, check_model, parse_json
from hobus.launch import limits

SUFFIX = ".hobus-package"
MANIFEST = "manifest.json"

_PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
"""Relative, and never leading out: no part begins with a dot."""
_NAME_MAX_CHARS = tarfile.LENGTH_NAME
"""What a tar archive takes as one name."""
_BLOCK = tarfile.BLOCKSIZE


_NO_TAR = "it is no package as `hobus package build` makes one: it was cut off, or changed"


class NoPackage(ValueError):
    """Say why this is not a package as they are made, as the end of a sentence."""


@dataclass(frozen=True)
class Bundle:
    """A package as it travels; `files` by their names below config/, without the manifest."""

    manifest: bytes
    signature: bytes
    files: Mapping[str, bytes]

    @property
    def manifest_sha256(self) -> str:
        """Return 64 hex digits: what the package is named by beside its id and version."""
        return hashlib.sha256(self.manifest).hexdigest()


def encode(bundle: Bundle) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        own = ((MANIFEST, bundle.manifest), (SIGNATURE, bundle.signature))
        for name, data in (*own, *sorted(bundle.files.items())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive.getvalue()


def decode(data: bytes) -> Bundle:
    """Return what the bytes hold, whatever that is worth: no name, hash or signature is judged. Raises NoPackage."""
    if len(data) > limits.BUNDLE_MAX_BYTES:
        raise NoPackage(f"it is larger than {limits.BUNDLE_MAX_BYTES} bytes")
    found: dict[str, bytes] = {}
    at = 0
    while data[at : at + 1] not in (b"", b"\0"):
        try:
            member = tarfile.TarInfo.frombuf(data[at : at + _BLOCK], "ascii", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError):
            raise NoPackage(_NO_TAR) from None
        if not 0 <= member.size <= limits.PACKAGE_FILE_MAX_BYTES:
            raise NoPackage(f"{member.name} has more than {limits.PACKAGE_FILE_MAX_BYTES} bytes")
        begin = at + _BLOCK
        found[member.name] = data[begin : begin + member.size]
        at = begin + -(-member.size // _BLOCK) * _BLOCK
        if len(found) > limits.FILES_MAX + 1:  # the signature is none of them
            raise NoPackage(f"it has more than {limits.FILES_MAX} files")
    bundle = Bundle(found.pop(MANIFEST, b""), found.pop(SIGNATURE, b""), found)
    try:
        is_one = encode(bundle) == data
    except ValueError:  # a name that no archive of ours can have
        is_one = False
    if not is_one:
        raise NoPackage(_NO_TAR)
    return bundle


def check_bundle(bundle: Bundle) -> Package:
    """Return the package, all of whose files are there with their hashes, and no other. Raises NoPackage."""
    package = read_manifest(bundle.manifest)
    listed = {asset.path: asset.sha256 for asset in package.assets}
    if faults := _find_listing_faults([asset.path for asset in package.assets]):
        raise NoPackage(faults[0])
    for name in sorted({*listed, *bundle.files}):
        if name not in bundle.files:
            raise NoPackage(f"{name}: the manifest lists it, and it is not in the bundle")
        if name not in listed:
            raise NoPackage(f"{name}: it is in the bundle, and the manifest does not list it")
        if listed[name] != compute_digest(bundle.files[name]):
            raise NoPackage(f"{name}: it has another hash than its manifest states")
    return package


def read_manifest(data: bytes) -> Package:
    """Return the manifest behind its bytes. Raises NoPackage."""
    try:
        value = parse_json(data.decode())
    except (BadText, UnicodeDecodeError) as error:
        raise NoPackage(f"its manifest: {error}") from None
    version = value.get("schema_version") if isinstance(value, dict) else None
    if isinstance(version, str) and version != SCHEMA_VERSION:
        raise NoPackage(
            f"its manifest: schema_version {version[:20]!r}; this version of hobus reads {SCHEMA_VERSION!r} alone"
        )
    package, faults = check_model(Package, value)
    if package is None:
        raise NoPackage(f"its manifest: {faults[0]}")
    if fold(package.package_id) == fold(HOME_PACKAGE):
        raise NoPackage(
            f"package_id: {HOME_PACKAGE} is the name of a home's own files; no package may have it, or one like it"
        )
    return package


SCHEMA_VERSION = "1.2"


def write_manifest(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def name_manifest(package_id: str) -> str:
    return f"packages/{package_id}/manifest.json"


def _find_listing_faults(names: list[str]) -> list[str]:
    faults = [f"{name}: no file of a package has this place" for name in names if has_no_place(name)]
    folded: dict[str, str] = {}
    for name in names:
        other = folded.setdefault(name.casefold(), name)
        if other is not name:
            faults.append(f"{name}: the manifest lists {other!r} too, which differs from it by no letter")
    return faults


def has_no_place(name: str) -> bool:
    """Return whether no file of a package may have this name, its manifest and its signature aside."""
    is_one = len(name) <= _NAME_MAX_CHARS and _PLACE.fullmatch(name) is not None
    return not is_one or files.find_kind(name) in (None, "config", "package")
