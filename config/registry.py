"""Registries of frameworks, specs, packages and file ownership: derived from the manifests, never edited by hand.

All are plain functions over a snapshot's mappings; rows are in order of their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hobus.config.assets import Framework, Package, Spec


@dataclass(frozen=True)
class PackageRow:
    """One line of the package registry."""

    package_id: str
    version: str
    title: str
    layer: int
    spec_id: str
    framework_id: str
    dependencies: tuple[str, ...]
    file_count: int


@dataclass(frozen=True)
class FrameworkRow:
    """One line of the framework registry; `unenforced_count` of its invariants have no test or run-time check yet."""

    framework_id: str
    version: str
    title: str
    status: str
    invariant_count: int
    unenforced_count: int
    specs: tuple[str, ...]
    packages: tuple[str, ...]


@dataclass(frozen=True)
class SpecRow:
    """One line of the spec registry."""

    spec_id: str
    version: str
    title: str
    framework_id: str
    packages: tuple[str, ...]


def package_rows(packages: Mapping[str, Package]) -> list[PackageRow]:
    """Every package."""
    return [
        PackageRow(
            package_id=package_id,
            version=package.version,
            title=package.title,
            layer=package.layer,
            spec_id=package.spec_id,
            framework_id=package.framework_id,
            dependencies=package.dependencies,
            file_count=len(package.assets),
        )
        for package_id, package in sorted(packages.items())
    ]


def framework_rows(
    frameworks: Mapping[str, Framework], specs: Mapping[str, Spec], packages: Mapping[str, Package]
) -> list[FrameworkRow]:
    """Every framework with the specs and packages that name it."""
    return [
        FrameworkRow(
            framework_id=framework_id,
            version=framework.version,
            title=framework.title,
            status=framework.status,
            invariant_count=len(framework.invariants),
            unenforced_count=len(unenforced(framework)),
            specs=tuple(sorted(spec_id for spec_id, spec in specs.items() if spec.framework_id == framework_id)),
            packages=tuple(sorted(name for name, package in packages.items() if package.framework_id == framework_id)),
        )
        for framework_id, framework in sorted(frameworks.items())
    ]


def spec_rows(specs: Mapping[str, Spec], packages: Mapping[str, Package]) -> list[SpecRow]:
    """Every spec with the packages that realise it."""
    return [
        SpecRow(
            spec_id=spec_id,
            version=spec.version,
            title=spec.title,
            framework_id=spec.framework_id,
            packages=tuple(sorted(name for name, package in packages.items() if package.spec_id == spec_id)),
        )
        for spec_id, spec in sorted(specs.items())
    ]


def file_owners(packages: Mapping[str, Package]) -> dict[str, tuple[str, ...]]:
    """Governed path -> the packages that list it, one of them if all is well; sorted by path."""
    owners: dict[str, list[str]] = {}
    for package_id, package in sorted(packages.items()):
        for asset in package.assets:
            owners.setdefault(asset.path, []).append(package_id)
    return {path: tuple(names) for path, names in sorted(owners.items())}


def unenforced(framework: Framework) -> list[str]:
    """Statements of the invariants that nothing enforces yet."""
    return [invariant.statement for invariant in framework.invariants if not invariant.enforced_by]
