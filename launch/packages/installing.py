"""Packages come into a home, are replaced by higher versions, and go: judged first, changed at once or not at all.

What was in force stays on disk until the store is opened again: who has just read where it lies can still read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hobus.bus.disk import RealDisk
from hobus.config.assets import Package
from hobus.config.file_limits import get_file_max_bytes
from hobus.config.files import SHIPPED_ROOT, SIGNATURE, Layers, list_governed, read_plain_file
from hobus.config.gates.finding import Finding
from hobus.launch import limits
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import find_layers, find_package
from hobus.launch.console.errors import UsageFault, format_next_here
from hobus.launch.console.output import escape_line
from hobus.launch.packages.bundle import NoPackage, name_manifest, read_manifest
from hobus.launch.packages.incoming import Incoming, read_bundle
from hobus.launch.packages.judging import LayerJudgement, PackageRefused, find_clashes, judge_layers
from hobus.launch.packages.signing import BadSignature, check_signature, compute_fingerprint
from hobus.launch.packages.store import PackageStore, open_store, tell_refusal_as


class Installed(NamedTuple):
    """A package that is in force."""

    directory: Path
    package_id: str
    version: str
    package: Package | None
    """None where its manifest is not what it was."""
    public_key: str
    """Who signed it; empty where its signature is not what it was."""

    @property
    def files(self) -> list[str]:
        """Return the names of the governed files that it owns beside its manifest, in order."""
        return [] if self.package is None else sorted(asset.path for asset in self.package.assets)


class PackageChange(NamedTuple):
    """What became of a command."""

    now: Installed | None
    """What is in force in its place; None: it was removed."""
    before: Installed | None
    """What was in force in its place; None: nothing."""
    warnings: Sequence[Finding] = ()
    is_repair: bool = False
    """It was in force, and not what came; now it is again."""

    @property
    def is_change(self) -> bool:
        return self.is_repair or self.now != self.before


def map_installed(home: Home) -> dict[str, Installed]:
    """Map package id to what is in force of it. Raises ConfigError for a damaged pointer."""
    return {one.package_id: one for one in map(_read_installed, find_layers(home).packages)}


def install(home: Home, path: Path, *, disk: type[RealDisk] = RealDisk) -> PackageChange:
    """Put the package in this bundle in force, in place of a lower version if there is one.

    The same one again is repaired where it was damaged. Raises CommandError, ConfigError: nothing changed.
    """
    incoming = read_bundle(path)
    with open_store(home, disk) as store:
        before = map_installed(home).get(incoming.package.package_id)
        if before is None:
            return _put(store, home, incoming, None)
        if before.directory.name != incoming.directory:
            _demand_higher(incoming.package, before)
            return _put(store, home, incoming, before)
        if store.holds(incoming.directory, incoming.files):
            return PackageChange(before, before)
        return _put(store, home, incoming, before)._replace(is_repair=True)


def remove(home: Home, package_id: str, *, disk: type[RealDisk] = RealDisk) -> PackageChange:
    """Take the package out of force. Raises as `install` does: something here needs it, or there is none."""
    _remove(package_id, map_installed(home))
    with open_store(home, disk) as store:
        before = _remove(package_id, map_installed(home))
        layers = find_layers(home)
        rest = Layers(tuple(path for path in layers.packages if path != before.directory), layers.own)
        was = judge_layers(home, layers)
        after = judge_layers(home, rest)
        if failures := after.list_failures_beside(was):
            raise PackageRefused(f"{package_id} stays", failures)
        with tell_refusal_as("the package cannot be removed, and is in force as before"):
            store.put_in_force(path.name for path in rest.packages)
        return PackageChange(None, before, after.warnings)


def list_refusals(
    home: Home, incoming: Incoming, staged: Path, before: Installed | None
) -> tuple[list[Finding], LayerJudgement]:
    """Return why this package may not come into force, though signed; and all that the gates say."""
    there, package_id = find_layers(home), incoming.package.package_id
    kept = tuple(path for path in there.packages if before is None or path != before.directory)
    layers = Layers((*kept, staged), there.own)
    taken = find_clashes(Layers(kept, there.own), package_id, incoming.files.keys() - {SIGNATURE})
    judgement = judge_layers(home, layers, called={staged: package_id})
    failures = judgement.list_failures_behind(taken, package_id)
    if before is not None:
        # What was wrong before is not made worse by a better version; but whoever signed this one has to count.
        was = judge_layers(home, there, called={before.directory: package_id})
        worse = judgement.list_failures_beside(was)
        failures = [one for one in failures if one in worse or (one.gate, one.file) == ("G5", package_id)]
    limit = limits.PACKAGES_MAX
    if len(layers.packages) > limit:
        reason = f"{limit} packages are installed already"
        taken.append(Finding("G2", package_id, reason, "remove one, or raise that setting"))
    if before is not None and before.public_key not in ("", incoming.signature.public_key):
        now, was = compute_fingerprint(incoming.signature.public_key), compute_fingerprint(before.public_key)
        said = f"{now} signed it, and {was} signed the version that is installed"
        other = Finding("G5", package_id, said, "ask its maker, unless you know why", "warn")
        judgement = judgement._replace(findings=[*judgement.findings, other])
    return [*taken, *failures], judgement


def parse_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _put(store: PackageStore, home: Home, incoming: Incoming, before: Installed | None) -> PackageChange:
    package_id = incoming.package.package_id
    try:
        with tell_refusal_as(f"{package_id} cannot be written, and nothing was changed"):
            staged = store.staged(incoming.files)
        failures, judgement = list_refusals(home, incoming, staged, before)
        if failures:
            needs = escape_line(incoming.package.description) if any(one.gate == "G2" for one in failures) else ""
            hint = f"do before what its maker says: {needs}" if needs else ""
            raise PackageRefused(f"{package_id} {incoming.package.version}", failures, hint)
        rest = [path.name for path in store.in_force() if before is None or path != before.directory]
        with tell_refusal_as(f"{package_id} cannot be put in force, and nothing was changed"):
            if before is not None and before.directory.name == incoming.directory:
                store.name_in_place(incoming.directory)
            else:
                store.name_staged(incoming.directory)
            store.put_in_force([*rest, incoming.directory])
    except BaseException:
        with suppress(OSError):  # else the next command does that: what was begun counts for nothing
            store.sweep()
        raise
    now = _read_installed(home.packages / incoming.directory)
    return PackageChange(now, before, judgement.warnings)


def _demand_higher(comes: Package, before: Installed) -> None:
    said = f"{before.package_id} {before.version} is installed already"
    if parse_version(comes.version) > parse_version(before.version):
        return
    if comes.version == before.version:
        said, hint = f"{said}, with another content", "ask its maker for a higher version: a new content has one"
    else:
        said = f"{said}, and {comes.version} is lower"
        hint = f"to go back: {format_next_here(f'package remove {before.package_id}')}, then the same command again"
    raise UsageFault(said, hint=hint)


def _remove(package_id: str, there: Mapping[str, Installed]) -> Installed:
    if package_id in there:
        return there[package_id]
    if name_manifest(package_id) in list_governed(SHIPPED_ROOT):
        raise UsageFault(f"{package_id} comes with hobus itself, and cannot be removed")
    known = ", ".join(there) or "none"
    raise UsageFault(
        f"no package {package_id[:80]!r} is installed; there: {known}", hint=format_next_here("package list")
    )


def _read_installed(directory: Path) -> Installed:
    package_id, version = find_package(directory), directory.name.rsplit("-", 2)[1]
    package, key, limit = None, "", get_file_max_bytes()
    with suppress(OSError, NoPackage, BadSignature):
        data = read_plain_file(directory / name_manifest(package_id), limit)
        package = read_manifest(data)
        key = check_signature(read_plain_file(directory / SIGNATURE, limit), data).public_key
    return Installed(directory, package_id, version, package, key)
