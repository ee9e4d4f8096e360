"""Everything in force by its manifests, and what a home has of its own, for the registries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hobus.config import files
from hobus.config.assets import Framework, OwnedFile, Package, Spec
from hobus.config.files import Kind
from hobus.config.gates.ownership import HOME_PACKAGE, owners_of
from hobus.config.gates.run import View

_CLASSIFICATIONS: Mapping[Kind, str] = {
    "config": "config", "agent": "agent", "contract": "contract", "prompt_pack": "prompt_pack", "template": "template",
    "framework": "framework",
}  # fmt: skip


class InForce(NamedTuple):
    """By id; of a file that a home's own one replaces, the latter's owner has it."""

    frameworks: Mapping[str, Framework]
    specs: Mapping[str, Spec]
    packages: Mapping[str, Package]


def in_force(view: View) -> InForce:
    """With `PKG-HOME`, which no manifest names, where the home has something of its own."""
    owners = owners_of(view.layers)
    held = {name: one for layer in view.layers for name, one in layer.held.items()}
    packages: dict[str, Package] = {
        name: package.model_copy(
            update={"assets": tuple(one for one in package.assets if owners.get(one.path) == name)}
        )
        for name, package in view.reading.assets["package"].items()
    }
    own = [
        OwnedFile(path=name, sha256=held[name].sha256 or "unreadable", classification=_classification(name))
        for name, owner in sorted(owners.items())
        if owner == HOME_PACKAGE
    ]
    if own:
        packages[HOME_PACKAGE] = Package.model_construct(
            package_id=HOME_PACKAGE, version="", schema_version="1.2", title="This home's own files",
            description="Derived.", spec_id="", framework_id="", plane_id="hot", layer=0, dependencies=(),
            assets=tuple(own),
        )  # fmt: skip
    return InForce(view.reading.assets["framework"], view.reading.assets["spec"], packages)


def _classification(name: str) -> Any:
    kind = files.kind_of(name)
    return "doc" if kind is None else _CLASSIFICATIONS.get(kind, "doc")
