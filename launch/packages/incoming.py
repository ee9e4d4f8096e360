"""A bundle that somebody gives: read within its limits, its signature and its hashes checked, and nothing else done."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple

from hobus.config.assets import Package
from hobus.config.files import SIGNATURE, read_plain_file
from hobus.config.gates.finding import Finding
from hobus.launch import limits
from hobus.launch.cluster.installed import HEX
from hobus.launch.console.errors import UsageFault, format_next_here, make_os_fault
from hobus.launch.packages.bundle import Bundle, NoPackage, check_bundle, decode, name_manifest, read_manifest
from hobus.launch.packages.judging import PackageRefused
from hobus.launch.packages.signing import BadSignature, PackageSignature, check_signature

_AGAIN = "get the bundle again from its maker"
_MADE_BY = "name a bundle, as `package build` makes one"


class Incoming(NamedTuple):
    """A package whose signature is its manifest's, and whose files are those of the manifest."""

    package: Package
    bundle: Bundle
    signature: PackageSignature

    @property
    def directory(self) -> str:
        return f"{self.package.package_id}-{self.package.version}-{self.bundle.manifest_sha256[:HEX]}"

    @property
    def files(self) -> dict[str, bytes]:
        own = {name_manifest(self.package.package_id): self.bundle.manifest, SIGNATURE: self.bundle.signature}
        return {**self.bundle.files, **own}


def read_bundle(path: Path) -> Incoming:
    """Read the package in this file. Raises UsageFault for no bundle, PackageRefused for a changed one."""
    return check_incoming(str(path), _read(path))


def check_incoming(name: str, data: bytes, *, mend: str = "") -> Incoming:
    """Check the file's bytes. `name`: what it is called in faults; `mend`: what helps whoever made it."""
    try:
        bundle = decode(data)
    except NoPackage as fault:
        again = f"get the bundle again, or make one: {format_next_here('package build DIR --key FILE')}"
        raise UsageFault(f"{name}: {fault}", hint=mend or again) from None
    try:
        # First: what somebody else made of a manifest is not read at all.
        signature = check_signature(bundle.signature, bundle.manifest)
    except BadSignature as fault:
        raise PackageRefused(name, [Finding("G5", name, str(fault), mend or _AGAIN)]) from None
    try:
        read_manifest(bundle.manifest)
    except NoPackage as fault:
        raise PackageRefused(name, [Finding("G2", name, str(fault), mend or "ask its maker for another one")]) from None
    try:
        return Incoming(check_bundle(bundle), bundle, signature)
    except NoPackage as fault:
        raise PackageRefused(name, [Finding("G0", name, str(fault), mend or _AGAIN)]) from None


def _read(path: Path) -> bytes:
    """Return the file's bytes, within their limit. A pipe or a device is not waited for."""
    if path.is_dir():
        hint = f"make a bundle of it: {format_next_here(f'package build {path} --key FILE')}"
        raise UsageFault(f"{path}: a directory, not a bundle", hint=hint)
    try:
        return read_plain_file(path, limits.BUNDLE_MAX_BYTES)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL, errno.EFBIG):
            raise UsageFault(f"{path}: {error.strerror}", hint=_MADE_BY) from None
        raise make_os_fault(error, doing="the bundle cannot be read") from error
