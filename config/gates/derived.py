"""Everything in force by its manifests, with the owner of each file, for the registries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hobus.config.assets import Framework, Package, Spec
from hobus.config.gates.ownership import owners_of
from hobus.config.gates.run import View


class OwnedFile(NamedTuple):
    """One file in force."""

    sha256: str
    package_id: str


class InForce(NamedTuple):
    """By id, and files by name."""

    frameworks: Mapping[str, Framework]
    specs: Mapping[str, Spec]
    packages: Mapping[str, Package]
    files: Mapping[str, OwnedFile]


def in_force(view: View) -> InForce:
    """A file that a home has in place of another's belongs to the home; so does all that no manifest of it lists."""
    owners = owners_of(view.layers)
    held = {name: one for layer in view.layers for name, one in layer.held.items()}
    assets = view.reading.assets
    files = {name: OwnedFile(held[name].sha256, owner) for name, owner in owners.items()}
    return InForce(assets["framework"], assets["spec"], assets["package"], files)
