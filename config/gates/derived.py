"""Everything in force by its manifests, with the owner of each file, for the registries. Pure."""

from __future__ import annotations

from hobus.config.assets import FileInForce
from hobus.config.gates.ownership import owners_of
from hobus.config.gates.run import View
from hobus.config.registries import Manifests


def in_force(view: View) -> Manifests:
    """A file that a home has in place of another's belongs to the home; so does all that no manifest of it lists."""
    owners = owners_of(view.layers)
    held = {name: one for layer in view.layers for name, one in layer.held.items()}
    assets = view.reading.assets
    files = {
        # Unchecked: what cannot be read is in the list, too, and has no hash.
        name: FileInForce.model_construct(sha256=held[name].sha256, package_id=owner)
        for name, owner in owners.items()
    }
    return Manifests(assets["framework"], assets["spec"], assets["package"], files)
