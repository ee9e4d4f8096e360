"""One layer of governed files as it lies on disk: what is there, with which hash, and what its packages list."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hobus.bus.messages.base import compute_digest
from hobus.config import files
from hobus.config.file_limits import explain_too_long
from hobus.config.files import GovernedFile, Layers, read_plain_file
from hobus.config.parse import BadText, parse_json

SEAL = "packages/sealed.json"
"""Beside the shipped packages: the hash of each of their manifests. That of an installed one is signed."""

LayerKind = Literal["shipped", "package", "own"]


class LayerFile(NamedTuple):
    """One governed file of a layer."""

    path: Path
    sha256: str
    """`sha256:<64 hex>` of its bytes; empty where it could not be read."""
    fault: str = ""
    """Why it could not, as the end of a sentence about it; behind a semicolon what mends it, where that is known."""
    content: bytes = b""
    """The bytes of a package's manifest that were hashed; of any other file they are not kept."""


class Listed(NamedTuple):
    """One file that a package of the layer lists, as its manifest says it."""

    package_id: str
    manifest: Path
    path: str
    sha256: str


class Layer(NamedTuple):
    """Files by their names relative to the layer's root."""

    kind: LayerKind
    root: Path
    held: Mapping[str, LayerFile]
    listed: tuple[Listed, ...]
    unreadable: Mapping[str, str]
    """Package manifest that cannot be read as one -> why."""
    sealed: Mapping[str, str]
    """Of what is shipped: package manifest -> its hash, since no other manifest lists it; else empty."""
    hidden: tuple[str, ...] = ()
    """Of a package: names in its directory that begin with a dot. It came without any, and nobody reads them."""

    @property
    def packages(self) -> list[str]:
        return sorted({one.package_id for one in self.listed})


def read_layers_on_disk(layers: Layers, *, max_bytes: int | None, loaded: Iterable[GovernedFile] = ()) -> list[Layer]:
    """Return every layer from the bottom; a home that has nothing of its own has no layer.

    `loaded`: files that were read for loading. Their layers have the very bytes that were loaded, whatever lies there
    by now; only what is beside them, or below, is read here.
    """
    taken = {file.path: file for file in loaded}

    def list_places(root: Path) -> dict[str, Path]:
        names = [*files.list_governed(root), *(one.name for one in taken.values() if one.path == root / one.name)]
        return {name: root / name for name in names}

    def make_layer(kind: LayerKind, root: Path, found: Mapping[str, Path]) -> Layer:
        return read_layer(kind, root, found, max_bytes=max_bytes, loaded=taken)

    found = [make_layer("shipped", files.SHIPPED_ROOT, list_places(files.SHIPPED_ROOT))]
    found += [make_layer("package", root, list_places(root)) for root in layers.packages]
    own = list_places(layers.own) if layers.own is not None else {}
    if layers.config_file is not None:
        own[files.ADMIN_CONFIG] = layers.config_file
    root = layers.own or (layers.config_file.parent if layers.config_file is not None else None)
    return found if root is None else [*found, make_layer("own", root, own)]


def read_layer(
    kind: LayerKind,
    root: Path,
    places: Mapping[str, Path],
    *,
    max_bytes: int | None,
    loaded: Mapping[Path, GovernedFile] = MappingProxyType({}),
) -> Layer:
    """Return the layer of the governed files at these places, none longer than `max_bytes`.

    In a package a link is no file.

    `loaded`: as `read_layers_on_disk`, by path.
    """
    held = {
        name: _read_held(name, path, loaded.get(path), max_bytes, may_be_link=kind != "package")
        for name, path in sorted(places.items())
    }
    listed: list[Listed] = []
    unreadable: dict[str, str] = {}
    for name, one in held.items():
        if files.find_kind(name) != "package":
            continue
        try:
            listed += _read_listed(one)
        except (BadText, ValueError) as error:
            unreadable[name] = str(error)
    hidden = tuple(files.list_hidden(root)) if kind == "package" else ()
    return Layer(kind, root, held, tuple(listed), unreadable, _read_seal(root) if kind == "shipped" else {}, hidden)


def _read_seal(root: Path) -> dict[str, str]:
    """Return what the seal says; nothing where it cannot be read, so that no manifest is sealed."""
    try:
        value: Any = parse_json((root / SEAL).read_text(encoding="utf-8"))
    except (BadText, OSError, ValueError):
        return {}
    return {str(name): str(sha256) for name, sha256 in value.items()} if isinstance(value, dict) else {}


def _read_held(
    name: str, path: Path, loaded: GovernedFile | None, max_bytes: int | None, *, may_be_link: bool
) -> LayerFile:
    try:
        about = path.stat() if may_be_link else path.lstat()
        if not stat.S_ISREG(about.st_mode):
            return LayerFile(path, "", "is not a plain file")
        if said := explain_too_long(about.st_size, max_bytes):
            return LayerFile(path, "", said)
        content = read_plain_file(path, max_bytes) if loaded is None else loaded.content
        return LayerFile(path, compute_digest(content), content=content if files.find_kind(name) == "package" else b"")
    except OSError as error:
        return LayerFile(path, "", f"cannot be read: {error.strerror}")


def _read_listed(held: LayerFile) -> Iterable[Listed]:
    """Return what a manifest lists, whatever else is wrong with it. Raises BadText, ValueError."""
    if held.fault:
        raise BadText(held.fault)
    value = parse_json(held.content.decode())
    assets: Any = value.get("assets") if isinstance(value, dict) else None
    if not isinstance(assets, list) or not all(isinstance(one, dict) for one in assets):
        raise BadText("assets: expected a list of objects")
    owner = held.path.parent.name if not isinstance(value.get("package_id"), str) else value["package_id"]
    return [
        Listed(owner, held.path, path, sha256)
        for one in assets
        if isinstance(path := one.get("path"), str) and isinstance(sha256 := one.get("sha256"), str)
    ]
