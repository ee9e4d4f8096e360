"""The registries: frameworks, their invariants, specs, packages, file ownership, derived from manifests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hobus.config.assets import HOME_PACKAGE, FileInForce, Framework, Package, Spec
from hobus.config.files import find_kind


class RegistryRow(NamedTuple):
    """One row: what can be asked of it, and what a prompt shows."""

    row_id: str
    fields: Mapping[str, str]
    text: str


class Manifests(NamedTuple):
    """Everything in force: by its id, and files by name, a home's own ones, which no manifest lists, among them."""

    frameworks: Mapping[str, Framework]
    specs: Mapping[str, Spec]
    packages: Mapping[str, Package]
    files: Mapping[str, FileInForce]


FIELDS: Mapping[str, tuple[str, ...]] = {
    "frameworks": ("framework_id", "title", "version", "status", "ring", "plane_id"),
    "specs": ("spec_id", "framework_id", "title", "version"),
    "packages": ("package_id", "version", "title", "spec_id", "framework_id", "plane_id"),
    "file_ownership": ("path", "package_id", "classification", "sha256"),
    "invariants": ("invariant_id", "framework_id", "level", "statement", "enforced_by"),
}
"""Registry -> what its rows can be filtered by; the first one is their id."""


def list_rows(registry: str, manifests: Manifests, filters: Mapping[str, str]) -> list[RegistryRow]:
    """Return the rows of a registry whose fields equal those of the filters, in order of their ids."""
    found = _ROWS[registry](manifests)
    return [row for row in found if all(row.fields.get(name) == value for name, value in filters.items())]


def _list_frameworks(manifests: Manifests) -> list[RegistryRow]:
    return [
        _make_row(
            "frameworks",
            framework,
            "\n".join(
                [
                    f"{framework.framework_id} {framework.version}: {framework.title} ({framework.status})",
                    *(f"- {rule.level}: {rule.statement}" for rule in framework.invariants),
                ]
            ),
        )
        for _, framework in sorted(manifests.frameworks.items())
    ]


def _list_specs(manifests: Manifests) -> list[RegistryRow]:
    return [
        _make_row("specs", spec, f"{spec.spec_id} {spec.version}: {spec.title} (of {spec.framework_id})")
        for _, spec in sorted(manifests.specs.items())
    ]


def _list_packages(manifests: Manifests) -> list[RegistryRow]:
    found = [
        _make_row("packages", package, f"{package.package_id} {package.version}: {package.title}")
        for _, package in sorted(manifests.packages.items())
    ]
    if any(file.package_id == HOME_PACKAGE for file in manifests.files.values()):
        told = dict.fromkeys(FIELDS["packages"], "") | {"package_id": HOME_PACKAGE, "title": _HOME_TITLE}
        found.append(RegistryRow(HOME_PACKAGE, told, f"{HOME_PACKAGE}: {_HOME_TITLE}"))
    return sorted(found, key=lambda row: row.row_id)


_HOME_TITLE = "This home's own files"


def _list_file_ownership(manifests: Manifests) -> list[RegistryRow]:
    listed = {
        (package_id, asset.path): asset
        for package_id, package in manifests.packages.items()
        for asset in package.assets
    }
    found: list[RegistryRow] = []
    for path, file in sorted(manifests.files.items()):
        package_id = file.package_id
        asset = listed.get((package_id, path))
        kind = find_kind(path)
        classification = asset.classification if asset is not None else _CLASSIFICATIONS.get(kind or "doc", "doc")
        fields = {"path": path, "package_id": package_id, "classification": classification, "sha256": file.sha256}
        found.append(RegistryRow(path, fields, f"{path}: {package_id} ({classification})"))
    return found


_CLASSIFICATIONS = {kind: kind for kind in ("config", "agent", "contract", "prompt_pack", "template", "framework")}
"""Kind of a file that no manifest lists -> its classification; any other is a text for people."""


def _list_invariants(manifests: Manifests) -> list[RegistryRow]:
    """Return the invariants, numbered in their framework, as its manifest has them."""
    return [
        RegistryRow(
            f"{framework_id}.{number}",
            {
                "invariant_id": f"{framework_id}.{number}",
                "framework_id": framework_id,
                "level": rule.level,
                "statement": rule.statement,
                "enforced_by": ", ".join(rule.enforced_by),
            },
            f"{framework_id}.{number} {rule.level}: {rule.statement}",
        )
        for framework_id, framework in sorted(manifests.frameworks.items())
        for number, rule in enumerate(framework.invariants, 1)
    ]


def _make_row(registry: str, asset: Any, text: str) -> RegistryRow:
    fields = {name: str(getattr(asset, name)) for name in FIELDS[registry]}
    return RegistryRow(fields[FIELDS[registry][0]], fields, text)


_ROWS: Mapping[str, Callable[[Manifests], list[RegistryRow]]] = {
    "frameworks": _list_frameworks,
    "specs": _list_specs,
    "packages": _list_packages,
    "file_ownership": _list_file_ownership,
    "invariants": _list_invariants,
}
