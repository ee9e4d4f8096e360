"""G1: packages, specs and frameworks name what is there, files lie where they may, dependencies have an order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from hobus.config import files
from hobus.config.assets import Framework, Package, Spec
from hobus.config.gates.finding import Finding
from hobus.config.registries import Manifests

_ALIKE = str.maketrans("OILSZB", "011528", "_-")
"""Characters that are taken for each other -> the one that stands for them; what only parts them is not looked at."""


def fold(name: str) -> str:
    """Return what ids have in common that people take for each other."""
    return name.translate(_ALIKE)


_BY_NAME = ("contract", "prompt_pack", "template")
"""Kinds whose files are named for them."""


class Linked(NamedTuple):
    """What G1 looks at: everything in force, and where it is."""

    there: Manifests
    agents: Mapping[str, object]
    paths: Mapping[str, str]
    """Name of a governed file -> its path on disk."""
    shipped: frozenset[str]
    """Names of what came with the program."""
    unknown: frozenset[str]
    """Ids whose files could not be read, which is told by others: nothing is said about a link to one."""

    def find_path(self, name: str) -> str:
        """Return where the file is; its name where there is none."""
        return self.paths.get(name, name)

    def find_owner(self, name: str) -> str:
        """Return the package that owns the file; empty: none, or there is no such file."""
        return self.there.files[name].package_id if name in self.there.files else ""


def find_broken_links(of: Linked) -> Iterator[Finding]:
    """Yield every link that does not hold."""
    for package in of.there.packages.values():
        yield from _check_package(package, of)
    for spec_id, spec in of.there.specs.items():
        yield from _check_spec(spec_id, spec, of)
    for framework in of.there.frameworks.values():
        yield from _check_framework(framework, of)
    yield from _find_cycles(of)
    yield from _look_alikes(of)


def _check_package(package: Package, of: Linked) -> Iterator[Finding]:
    place = of.find_path(f"packages/{package.package_id}/manifest.json")
    spec, framework = of.there.specs.get(package.spec_id), of.there.frameworks.get(package.framework_id)
    if spec is None and package.spec_id not in of.unknown:
        known = ", ".join(of.there.specs) or "none"
        yield Finding("G1", place, f"spec_id: there is no spec {package.spec_id}", f"name one of {known}, or add it")
    if framework is None and package.framework_id not in of.unknown:
        known = ", ".join(of.there.frameworks) or "none"
        reason = f"framework_id: there is no framework {package.framework_id}"
        yield Finding("G1", place, reason, f"name one of {known}, or add it")
    if spec is not None and spec.framework_id != package.framework_id:
        reason = f"framework_id: is {package.framework_id}, but its spec {spec.spec_id} is of {spec.framework_id}"
        yield Finding("G1", place, reason, "make them equal")
    for other in package.dependencies:
        yield from _check_dependency(package, other, place, of)
    if framework is not None:
        for asset in package.assets:
            if not any(is_in_place(asset.path, pattern) for pattern in framework.path_authorizations):
                reason = f"assets: {asset.path[:100]!r} lies outside of what {framework.framework_id} authorizes"
                mend = "take it off the package, or give that a framework whose path_authorizations have its place"
                yield Finding("G1", place, reason, mend)


def _check_dependency(package: Package, other: str, place: str, of: Linked) -> Iterator[Finding]:
    if other == package.package_id:
        yield Finding("G1", place, "dependencies: it depends on itself", "remove it from its own dependencies")
    elif other in of.there.packages:
        layer = of.there.packages[other].layer
        if layer > package.layer:
            reason = f"dependencies: {other} is of layer {layer}, above its own ({package.layer})"
            yield Finding("G1", place, reason, f"raise its layer to {layer} or more, or remove the dependency")
    elif other not in of.unknown:
        yield Finding("G1", place, f"dependencies: there is no package {other}", "install it first, or remove it here")


def is_in_place(path: str, pattern: str) -> bool:
    """Part by part, so that `*` never leads into another directory."""
    parts, places = path.split("/"), pattern.split("/")
    return len(parts) == len(places) and all(map(fnmatchcase, parts, places))


def _check_spec(spec_id: str, spec: Spec, of: Linked) -> Iterator[Finding]:
    place = of.find_path(f"specs/{spec_id}/manifest.yaml")
    if spec.framework_id not in of.there.frameworks and spec.framework_id not in of.unknown:
        reason = f"framework_id: there is no framework {spec.framework_id}"
        yield Finding("G1", place, reason, f"name one of {', '.join(of.there.frameworks) or 'none'}, or add it")
    for name in spec.assets:
        if name not in of.paths:
            yield Finding("G1", place, f"assets: there is no {name[:100]}", "add the file, or take it off the list")
            continue
        owner = of.there.packages.get(of.find_owner(name))
        if owner is not None and owner.spec_id != spec_id:
            reason = f"assets: {name} belongs to {owner.package_id}, which realises {owner.spec_id}"
            yield Finding("G1", place, reason, "give the spec a file that its own package owns")


def _check_framework(framework: Framework, of: Linked) -> Iterator[Finding]:
    name = _find_manifest_name(framework.framework_id, of)
    place = of.find_path(name)
    for spec_id in framework.expected_specs:
        spec = of.there.specs.get(spec_id)
        if spec is None and spec_id not in of.unknown:
            yield Finding("G1", place, f"expected_specs: there is no spec {spec_id}", "add it, or do not expect it")
        elif spec is not None and spec.framework_id != framework.framework_id:
            reason = f"expected_specs: {spec_id} is of {spec.framework_id}"
            yield Finding("G1", place, reason, f"make its framework_id {framework.framework_id}, or do not expect it")
    for asset in framework.assets:
        if f"{name.rpartition('/')[0]}/{asset}" not in of.paths:
            reason = f"assets: there is no {asset} beside the manifest"
            yield Finding("G1", place, reason, "add the file, or take it off the list")


def _find_manifest_name(framework_id: str, of: Linked) -> str:
    """Return the framework's manifest, whose directory has the framework's name behind its id."""
    begin, end = f"frameworks/{framework_id}_", "/manifest.yaml"
    return next((name for name in of.paths if name.startswith(begin) and name.endswith(end)), framework_id)


def _find_cycles(of: Linked) -> Iterator[Finding]:
    """Yield one cycle at a time: what it consists of is named, and mending it shows the next."""
    order = TopologicalSorter(
        {name: [one for one in package.dependencies if one != name] for name, package in of.there.packages.items()}
    )
    try:
        order.prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1][::-1]
        place = of.find_path(f"packages/{cycle[0]}/manifest.json")
        reason = f"dependencies: they lead back to themselves: {' -> '.join(cycle)}"
        yield Finding("G1", place, reason, "remove one of these dependencies")


def _look_alikes(of: Linked) -> Iterator[Finding]:
    """Yield ids that people take for each other, unless one owner has both."""
    places = {f"packages/{name}/manifest.json": name for name in of.there.packages}
    places |= {f"specs/{name}/manifest.yaml": name for name in of.there.specs}
    places |= {f"agents/{name}.json": name for name in of.agents}
    places |= {name: name.split("/")[1].partition(".")[0] for name in of.paths if files.find_kind(name) in _BY_NAME}
    seen: dict[str, str] = {}
    for place, name in sorted(places.items(), key=lambda one: (one[0] not in of.shipped, one)):
        other = seen.setdefault(f"{place.partition('/')[0]}/{fold(name)}", place)
        if other != place and of.find_owner(other) != of.find_owner(place):
            reason = f"its id looks like {places[other]}, which {of.find_owner(other) or 'another package'} owns"
            yield Finding("G1", of.find_path(place), reason, "give it an id that cannot be confused with that one")
