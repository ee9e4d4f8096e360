"""The one file that a package travels in: its manifest, the signature of it, its files. Pure.

    "hobus-package 1", end of line         says what it is
    u32 length, manifest                   packages/<PKG-ID>/manifest.json, as it was signed
    u32 length, signature                  signature.json
    u32 count, then for each file          in the order of their names, each name once:
      u32 length, name; u32 length, bytes

Numbers are big-endian. Nothing is compressed, so that nothing grows; there are no links, modes or directories, since
there is no place for them; nothing may follow the last file. One package has one form: the manifest is covered by the
signature, each file by its hash in the manifest, and the rest by what it means, so that no byte can be another one.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from hobus.bus.messages.base import digest_of
from hobus.config import files
from hobus.config.assets import HOME_PACKAGE, Package
from hobus.config.gates.links import folded
from hobus.config.parse import BadText, checked, json_value
from hobus.config.sections.governance import GovernanceConfig

MAGIC = b"hobus-package 1\n"
SUFFIX = ".hobus-package"

_PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
"""Relative, and never leading out: no part begins with a dot."""
_LENGTH = struct.Struct(">I")
_NAME_MAX_CHARS = 255
"""What a file system takes as one name; a path of governed files has few parts."""


class NoPackage(ValueError):
    """Not a package as they are made; the message says why, as the end of a sentence."""


class Misplaced(NoPackage):
    """A package as they are made, but for the name of a file, which has no place in any."""


@dataclass(frozen=True)
class Bundle:
    """A package as it travels; `files` by their names below config/, without the manifest."""

    manifest: bytes
    signature: bytes
    files: Mapping[str, bytes]

    @property
    def manifest_sha256(self) -> str:
        """64 hex digits: what the package is named by beside its id and version."""
        return hashlib.sha256(self.manifest).hexdigest()


def encode(bundle: Bundle) -> bytes:
    """The bytes of the file."""
    parts = [MAGIC, *_framed(bundle.manifest), *_framed(bundle.signature), _LENGTH.pack(len(bundle.files))]
    for name, data in sorted(bundle.files.items()):
        parts += [*_framed(name.encode()), *_framed(data)]
    return b"".join(parts)


def decode(data: bytes, limits: GovernanceConfig) -> Bundle:
    """What the bytes hold, whatever that is worth: no hash and no signature is looked at. Raises NoPackage."""
    if len(data) > limits.bundle_max_bytes:
        raise NoPackage(f"it is larger than {limits.bundle_max_bytes} bytes (governance.bundle_max_bytes)")
    if not data.startswith(MAGIC):
        raise NoPackage("it is no package: it does not begin as one")
    reader = _Reader(data, len(MAGIC))
    manifest = reader.part(limits.file_max_bytes, "its manifest")
    signature = reader.part(limits.file_max_bytes, "its signature")
    count = reader.number()
    if count >= limits.files_max:
        raise NoPackage(f"it has {count + 1} files, more than {limits.files_max} (governance.files_max)")
    found: dict[str, bytes] = {}
    before = ""
    for number in range(count):
        name = _name(reader.part(limits.file_max_bytes, f"the name of file {number + 1}"))
        if name <= before:
            raise NoPackage(f"its files are not in order at {name!r}, or one is there twice")
        before = name
        found[name] = reader.part(limits.file_max_bytes, name)
    reader.end()
    return Bundle(manifest, signature, found)


def package_in(bundle: Bundle) -> Package:
    """The package, all of whose files are there with their hashes, and no other. Raises NoPackage."""
    package = manifest_of(bundle.manifest)
    listed = {asset.path: asset.sha256 for asset in package.assets}
    if faults := _listing_faults([asset.path for asset in package.assets]):
        raise NoPackage(faults[0])
    for name in sorted({*listed, *bundle.files}):
        if name not in bundle.files:
            raise NoPackage(f"{name}: the manifest lists it, and it is not in the bundle")
        if name not in listed:
            raise NoPackage(f"{name}: it is in the bundle, and the manifest does not list it")
        if listed[name] != digest_of(bundle.files[name]):
            raise NoPackage(f"{name}: it has another hash than its manifest states")
    return package


def manifest_of(data: bytes) -> Package:
    """The manifest behind its bytes. Raises NoPackage."""
    try:
        value = json_value(data.decode())
    except (BadText, UnicodeDecodeError) as error:
        raise NoPackage(f"its manifest: {error}") from None
    version = value.get("schema_version") if isinstance(value, dict) else None
    if isinstance(version, str) and version != SCHEMA_VERSION:
        raise NoPackage(
            f"its manifest: schema_version {version[:20]!r}; this version of hobus reads {SCHEMA_VERSION!r} alone"
        )
    package, faults = checked(Package, value)
    if package is None:
        raise NoPackage(f"its manifest: {faults[0]}")
    if folded(package.package_id) == folded(HOME_PACKAGE):
        raise NoPackage(
            f"package_id: {HOME_PACKAGE} is the name of a home's own files; no package may have it, or one like it"
        )
    return package


SCHEMA_VERSION = "1.2"


def manifest_text(value: object) -> bytes:
    """A manifest as it is written and signed."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def manifest_name(package_id: str) -> str:
    """Where the manifest lies in the package's directory."""
    return f"packages/{package_id}/manifest.json"


def _listing_faults(names: list[str]) -> list[str]:
    """What of these names no package may own, or owns twice."""
    faults = [f"{name}: no file of a package has this place" for name in names if has_no_place(name)]
    folded: dict[str, str] = {}
    for name in names:
        other = folded.setdefault(name.casefold(), name)
        if other is not name:
            faults.append(f"{name}: the manifest lists {other!r} too, which differs from it by no letter")
    return faults


def has_no_place(name: str) -> bool:
    """Whether no file of a package may have this name, its manifest and its signature aside."""
    is_one = len(name) <= _NAME_MAX_CHARS and _PLACE.fullmatch(name) is not None
    return not is_one or files.kind_of(name) in (None, "config", "package")


def _framed(data: bytes) -> tuple[bytes, bytes]:
    return _LENGTH.pack(len(data)), data


def _name(data: bytes) -> str:
    try:
        name = data.decode("ascii")
    except UnicodeDecodeError:
        name = ""
    if has_no_place(name):
        shown = data[:80].decode(errors="backslashreplace")
        raise Misplaced(f"{shown!r}: no file of a package has this place")
    return name


class _Reader:
    """Takes one part after the other, never more than there is."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def number(self) -> int:
        """The next length or count."""
        return int(_LENGTH.unpack(self._take(_LENGTH.size, "a length"))[0])

    def part(self, max_bytes: int, what: str) -> bytes:
        """The next part, which is not longer than that."""
        size = self.number()
        if size > max_bytes:
            raise NoPackage(f"{what} is said to have {size} bytes, more than {max_bytes} (governance.file_max_bytes)")
        return self._take(size, what)

    def end(self) -> None:
        """Nothing may be left."""
        if self._at != len(self._data):
            raise NoPackage(f"{len(self._data) - self._at} bytes follow its last file")

    def _take(self, size: int, what: str) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise NoPackage(f"it ends within {what}: it was cut off, or changed")
        part, self._at = self._data[self._at : end], end
        return part
