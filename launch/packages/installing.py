"""Packages come into a home, are replaced by higher versions, and go: judged first, changed at once or not at all.

What was in force stays on disk until the next command: who has just read where it lies can still read it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hobus.bus.disk import RealDisk
from hobus.config.assets import Package
from hobus.config.file_limits import file_max_bytes
from hobus.config.files import SHIPPED_ROOT, SIGNATURE, Layers, find, governed_names, plain_bytes
from hobus.config.gates.finding import Finding
from hobus.config.gates.layer import layers_on_disk
from hobus.config.gates.ownership import ownership
from hobus.launch import limits
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.installed import layers_of, package_of
from hobus.launch.console.errors import RefusedFault, UsageFault, next_here
from hobus.launch.packages.building import write_tree
from hobus.launch.packages.bundle import NoPackage, manifest_name, manifest_of
from hobus.launch.packages.incoming import Incoming, read_bundle
from hobus.launch.packages.judging import LayerJudgement, PackageRefused, clashes, config_of, judged
from hobus.launch.packages.signing import BadSignature, checked_signature, fingerprint
from hobus.launch.packages.store import PackageStore, changing, doing
from hobus.launch.packages.trust import trusted


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
        """Names of the governed files that it owns beside its manifest, in order."""
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


def installed_in(home: Home) -> dict[str, Installed]:
    """Package id -> what is in force of it. Raises ConfigError for a damaged pointer."""
    return {one.package_id: one for one in map(_installed, layers_of(home).packages)}


def state_faults(home: Home) -> dict[Path, str]:
    """Directory of an installed package -> what there is not as it came: its first fault of G0; without, no row."""
    found: dict[Path, str] = {}
    packages = layers_of(home).packages
    layers = [
        one
        for one in layers_on_disk(Layers(packages), max_bytes=file_max_bytes(config_of(home)))
        if one.kind == "package"
    ]
    told = [(one.file, one.reason) for layer in layers for one in ownership([layer], is_checkout=False)]
    told += [fault.partition("; ")[0].split(": ", 1) for fault in find(Layers(packages))[1]]
    for file, reason in told:
        root = next((root for root in packages if Path(file).is_relative_to(root)), None)
        if root is not None:
            name = Path(file).relative_to(root)
            found.setdefault(root, f"{name}: {reason}" if name.parts else reason)
    return found


def install(home: Home, path: Path, *, disk: type[RealDisk] = RealDisk) -> PackageChange:
    """The package in this bundle is in force, and was not before. Raises CommandError, ConfigError: nothing changed."""
    incoming = read_bundle(path)
    with changing(home, disk) as store:
        before = installed_in(home).get(incoming.package.package_id)
        if before is not None:
            _demand_the_same(incoming, before, path)
            return _as_it_came(store, home, incoming, before)
        return _put(store, home, incoming, None)


def upgrade(home: Home, path: Path, *, disk: type[RealDisk] = RealDisk) -> PackageChange:
    """The package in this bundle is in force in place of a lower version. Raises as `install` does."""
    incoming = read_bundle(path)
    package = incoming.package
    _upgraded_by(home, package.package_id, path)  # here, too: what is refused makes nothing
    with changing(home, disk) as store:
        before = _upgraded_by(home, package.package_id, path)
        if before.directory.name == incoming.directory:
            return _as_it_came(store, home, incoming, before)
        if order_of(package.version) <= order_of(before.version):
            raise UsageFault(
                f"{package.package_id} {before.version} is installed, and {package.version} is not higher",
                hint="a new content has a higher version; to go back, remove the package, then install the other one",
            )
        return _put(store, home, incoming, before)


def remove(home: Home, package_id: str, *, disk: type[RealDisk] = RealDisk) -> PackageChange:
    """The package is no longer in force. Raises as `install` does: something here needs it, or there is none."""
    _removed(package_id, installed_in(home))
    with changing(home, disk) as store:
        there = installed_in(home)
        before = _removed(package_id, there)
        layers = layers_of(home)
        rest = Layers(tuple(path for path in layers.packages if path != before.directory), layers.own)
        was = judged(home, layers)
        if needed := _needed_by(home, before, list(there.values()), was.config.host.agent_id):
            raise RefusedFault(f"{package_id} stays: {needed}")
        after = judged(home, rest)
        if failures := after.failures_beside(was):
            raise PackageRefused(f"{package_id} stays", _with_own_mend(failures, layers, before))
        with doing("the package cannot be removed, and is in force as before"):
            store.put_in_force(path.name for path in rest.packages)
        return PackageChange(None, before, after.warnings)


def candidate_layers(home: Home, staged: Path, replaced: Installed | None) -> Layers:
    """What would be in force with the package in this directory, in place of another version of it."""
    layers = layers_of(home)
    kept = [path for path in layers.packages if replaced is None or path != replaced.directory]
    return Layers((*kept, staged), layers.own)


def refusals(
    home: Home, incoming: Incoming, staged: Path, before: Installed | None
) -> tuple[list[Finding], LayerJudgement]:
    """Why this package may not come into force, though it is what its maker signed; and all that the gates say."""
    layers = candidate_layers(home, staged, before)
    package_id = incoming.package.package_id
    taken = clashes(Layers(layers.packages[:-1], layers.own), package_id, incoming.files.keys() - {SIGNATURE})
    if before is not None:
        # What the home has in place of the installed version's file stands in place of this one's, too.
        replaced = {f"{package_id}/{name}" for name in _files_of(before) & _own_names(layers)}
        taken = [one for one in taken if one.file not in replaced]
    judgement = judged(home, layers, called={staged: package_id})
    failures = judgement.failures_behind(taken, package_id)
    if before is not None:
        # What was wrong before is not made worse by a better version; but whoever signed this one has to count.
        was = judged(home, layers_of(home), called={before.directory: package_id})
        worse = judgement.failures_beside(was)
        failures = [one for one in failures if one in worse or (one.gate, one.file) == ("G5", package_id)]
    limit = limits.PACKAGES_MAX
    if len(layers.packages) > limit:
        reason = f"{limit} packages are installed already"
        taken.append(Finding("G2", package_id, reason, "remove one, or raise that setting"))
    if before is not None and before.public_key not in ("", incoming.signature.public_key):
        now, was = fingerprint(incoming.signature.public_key), fingerprint(before.public_key)
        said = f"{now} signed it, and {was} signed the version that is installed"
        other = Finding("G5", package_id, said, "ask its maker, unless you know why", "warn")
        judgement = judgement._replace(findings=[*judgement.findings, other])
    return [*taken, *failures], judgement


def _with_own_mend(failures: Sequence[Finding], layers: Layers, gone: Installed) -> list[Finding]:
    """What fails in a file that the home has in place of the package's: that file has to go before the package."""
    own = layers.own or Path()
    replaced = {str(own / name) for name in _files_of(gone) & _own_names(layers)}
    mend = f"remove this file, which stands in place of that of {gone.package_id}, then the package"
    return [one._replace(mend=mend) if one.file in replaced else one for one in failures]


def _files_of(one: Installed) -> set[str]:
    """What it brought, also where its manifest no longer says so; without that."""
    return {*one.files, *governed_names(one.directory)} - {manifest_name(one.package_id)}


def _own_names(layers: Layers) -> set[str]:
    return set() if layers.own is None else set(governed_names(layers.own))


def order_of(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _as_it_came(store: PackageStore, home: Home, incoming: Incoming, before: Installed) -> PackageChange:
    """What is in force already holds what the bundle does, and nothing else: nothing is done, or it is repaired."""
    if store.holds(incoming.directory, incoming.files):
        return PackageChange(before, before)
    return _put(store, home, incoming, before)._replace(is_repair=True)


def _put(store: PackageStore, home: Home, incoming: Incoming, before: Installed | None) -> PackageChange:
    package_id = incoming.package.package_id
    try:
        with doing(f"{package_id} cannot be written, and nothing was changed"):
            staged = store.staged(incoming.files)
        failures, judgement = refusals(home, incoming, staged, before)
        if failures:
            raise PackageRefused(f"{package_id} {incoming.package.version}", failures)
        rest = [path.name for path in store.in_force() if before is None or path != before.directory]
        with doing(f"{package_id} cannot be put in force, and nothing was changed"):
            if before is not None and before.directory.name == incoming.directory:
                store.name_in_place(incoming.directory)
            else:
                store.name_staged(incoming.directory)
            store.put_in_force([*rest, incoming.directory])
    except BaseException:
        _swept(store)
        raise
    now = _installed(home.packages / incoming.directory)
    return PackageChange(now, before, judgement.warnings)


def _upgraded_by(home: Home, package_id: str, path: Path) -> Installed:
    before = installed_in(home).get(package_id)
    if before is None:
        raise UsageFault(
            f"{package_id} is not installed, so that there is nothing to upgrade",
            hint=next_here(f"package install {path}"),
        )
    return before


def _removed(package_id: str, there: Mapping[str, Installed]) -> Installed:
    if package_id in there:
        return there[package_id]
    if manifest_name(package_id) in governed_names(SHIPPED_ROOT):
        raise UsageFault(f"{package_id} comes with hobus itself, and cannot be removed")
    known = ", ".join(there) or "none"
    raise UsageFault(f"no package {package_id[:80]!r} is installed; there: {known}", hint=next_here("package list"))


def _swept(store: PackageStore) -> None:
    """What was begun is gone, or goes with the next command: it counts for nothing."""
    with suppress(OSError):
        store.sweep()


def _demand_the_same(incoming: Incoming, before: Installed, path: Path) -> None:
    if before.directory.name == incoming.directory:
        return
    said, comes = f"{before.package_id} {before.version} is installed already", incoming.package.version
    if order_of(comes) > order_of(before.version):
        raise UsageFault(said, hint=next_here(f"package upgrade {path}"))
    if comes == before.version:
        raise UsageFault(
            f"{said}, with another content", hint="ask its maker for a higher version: a new content has one"
        )
    hint = f"to go back: {next_here(f'package remove {before.package_id}')}, then the same command again"
    raise UsageFault(f"{said}, and {comes} is lower", hint=hint)


def _needed_by(home: Home, before: Installed, there: Sequence[Installed], agent_id: str) -> str:
    """Who needs it, with the mend; empty: nobody that is known by name."""
    dependants = [
        one.package_id for one in there if one.package is not None and before.package_id in one.package.dependencies
    ]
    if dependants:
        return f"{', '.join(dependants)} depends on it; remove that first"
    if f"agents/{agent_id}.json" in before.files and not (home.config / "agents" / f"{agent_id}.json").exists():
        return f"its agent {agent_id} answers whoever names none (host.agent_id); name another one there first"
    return ""


def _installed(directory: Path) -> Installed:
    """As far as it is what it was when it came."""
    package_id, version = package_of(directory), directory.name.rsplit("-", 2)[1]
    package, key, limit = None, "", file_max_bytes()
    with suppress(OSError, NoPackage, BadSignature):
        data = plain_bytes(directory / manifest_name(package_id), limit)
        package = manifest_of(data)
        key = checked_signature(plain_bytes(directory / SIGNATURE, limit), data).public_key
    return Installed(directory, package_id, version, package, key)


class Inspected(NamedTuple):
    """A bundle, seen from a home."""

    incoming: Incoming
    trusted_as: str
    """Name of its signer's key in this home; empty: none of those that it trusts."""
    before: Installed | None
    """What is installed of this package."""
    would: str
    """What a command would do: `install`, `upgrade`, or `nothing` where it is no higher version."""
    failures: Sequence[Finding]
    """What would keep it out."""
    warnings: Sequence[Finding]


def inspect(home: Home, path: Path) -> Inspected:
    """The bundle in this file. Raises CommandError for one that is none, or was changed; ConfigError."""
    incoming = read_bundle(path)
    before = installed_in(home).get(incoming.package.package_id)
    is_higher = before is not None and order_of(incoming.package.version) > order_of(before.version)
    names = [name for name, key in trusted(home).items() if key == incoming.signature.public_key]
    would = "install" if before is None else "upgrade" if is_higher else "nothing"
    with tempfile.TemporaryDirectory(prefix="hobus-package-") as directory:
        staged = Path(directory, "package")
        write_tree(staged, incoming.files)
        failures, judgement = refusals(home, incoming, staged, before)
    return Inspected(incoming, next(iter(names), ""), before, would, failures, judgement.warnings)
