"""Which version of each governed file is in force, and whose it is. Pure.

A version is named by the SHA-256 of the file's bytes, as manifests state it: there is no other digest of an asset.
"""

from __future__ import annotations

from collections.abc import Mapping

from hobus.bus.messages.base import compute_digest
from hobus.config.assets import HOME_PACKAGE, FileInForce, Package
from hobus.config.files import OWN, SHIPPED, GovernedFile


def map_in_force(found: Mapping[str, GovernedFile], packages: Mapping[str, Package]) -> dict[str, FileInForce]:
    """Return each file in force by its name. Raises OSError for one that cannot be read."""
    listed = [(package_id, asset.path) for package_id, package in packages.items() for asset in package.assets]
    anybody = {path: package_id for package_id, path in listed}
    same_layer = {(_find_layer(package_id, found), path): package_id for package_id, path in listed}
    return {
        name: FileInForce(
            sha256=compute_digest(file.content),
            package_id=_find_owner(file, same_layer.get((file.layer, name), ""), anybody.get(name, "")),
        )
        for name, file in found.items()
    }


def _find_layer(package_id: str, found: Mapping[str, GovernedFile]) -> str:
    manifest = found.get(f"packages/{package_id}/manifest.json")
    return "" if manifest is None else manifest.layer


def _find_owner(file: GovernedFile, beside: str, anybody: str) -> str:
    """Return the owner. `beside`: the package of its own layer that lists it; `anybody`: one of any layer."""
    if file.kind == "package":
        return file.name.split("/")[1]
    if file.layer == OWN:
        return beside or HOME_PACKAGE
    return beside or anybody if file.layer == SHIPPED else file.layer
