"""G0: every governed file is owned by exactly one package, is there, and has the hash that its owner states. Pure.

Each layer is held to it by itself: a package owns files that lie beside its manifest. What a home has of its own and
no manifest lists belongs to the home (`PKG-HOME`), so that nothing is an orphan there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hobus.config import files
from hobus.config.assets import HOME_PACKAGE
from hobus.config.gates.finding import Finding
from hobus.config.gates.layer import SEAL, Layer, LayerFile, Listed

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_BARE = re.compile(r"[0-9a-fA-F]{64}")
_SHOWN_CHARS = 100


def map_owners(layers: Sequence[Layer]) -> dict[str, str]:
    """Map each governed file in force to the package that owns it, manifests included."""
    owners: dict[str, str] = {}
    for layer in layers:
        rest = HOME_PACKAGE if layer.kind == "own" else ""
        listed = {one.path: one.package_id for one in layer.listed}
        for name in layer.held:
            own = name.split("/")[1] if files.find_kind(name) == "package" else rest
            owners[name] = listed.get(name, own)
    return owners


def find_breaches(layers: Sequence[Layer], *, is_checkout: bool) -> Iterator[Finding]:
    """Yield every breach, layer by layer from the bottom. `is_checkout`: what is shipped is worked on."""
    below: dict[str, tuple[LayerFile, str]] = {}
    for layer in layers:
        yield from _check_layer(layer, is_checkout=is_checkout)
        for name in layer.hidden:
            said = "lies in a package's directory, did not come with it, and is not read"
            yield Finding("G0", str(layer.root / name), said, "remove it, or install the package again", "warn")
        owners = map_owners([layer])
        if layer.kind == "own":
            yield from _stand_ins(layer, below)
        below |= {name: (held, owners[name]) for name, held in layer.held.items()}


def _check_layer(layer: Layer, *, is_checkout: bool) -> Iterator[Finding]:
    for name, why in layer.unreadable.items():
        if layer.kind != "own":  # of a home's own the load says it
            yield Finding("G0", str(layer.held[name].path), why, _describe_restored(layer, is_checkout=is_checkout))
    if layer.kind == "shipped":
        yield from _check_seal(layer, is_checkout=is_checkout)
    owners: dict[str, str] = {}
    for one in layer.listed:
        yield from _check_listed(layer, one, owners, is_checkout=is_checkout)
    for name, held in layer.held.items():
        if held.fault:
            reason, _, mend = held.fault.rpartition("; ")
            said = (reason, mend) if reason else (held.fault, "put the file itself in its place, or remove it")
            yield Finding("G0", str(held.path), *said)
        elif layer.kind != "own" and name not in owners and files.find_kind(name) != "package":
            mend = "add it to the assets of one packages/*/manifest.json"
            if layer.kind == "package":
                mend = "install the package again: something was put into its directory"
            elif not is_checkout:
                mend = "remove it, or reinstall hobus"
            yield Finding("G0", str(held.path), "no package owns it", mend)


def _check_seal(layer: Layer, *, is_checkout: bool) -> Iterator[Finding]:
    """Yield manifests of what is shipped that are not what they were when it was made."""
    manifests = {name for name in layer.held if files.find_kind(name) == "package"}
    for name in sorted(manifests | set(layer.sealed)):
        held, stated = layer.held.get(name), layer.sealed.get(name)
        if held is None or (not held.fault and held.sha256 != stated):
            reason = f"is gone, and {SEAL} names it" if held is None else f"is not as {SEAL} has it"
            yield Finding(
                "G0", str(layer.root / name), reason, _describe_restored(layer, is_checkout=is_checkout, changed=True)
            )


def _check_listed(layer: Layer, one: Listed, owners: dict[str, str], *, is_checkout: bool) -> Iterator[Finding]:
    """Yield at most one finding for each entry of a manifest: the first thing that is wrong with it."""
    shown = one.path[:_SHOWN_CHARS]
    place = str(layer.root / one.path) if files.find_kind(one.path) else str(one.manifest)
    if one.path in owners:
        other = owners[one.path]
        who = f"listed twice by {other}" if other == one.package_id else f"owned by {other} and by {one.package_id}"
        yield Finding("G0", place, who, "remove it from one of them" if other != one.package_id else "list it once")
        return
    owners[one.path] = one.package_id
    if files.find_kind(one.path) in (None, "package"):
        reason = f"{one.package_id} lists {shown!r}, and no governed file lives there"
        yield Finding("G0", place if place == str(one.manifest) else str(one.manifest), reason, "remove it from assets")
        return
    held = layer.held.get(one.path)
    if held is None:
        reason = f"{one.package_id} lists it, but it does not exist"
        yield Finding("G0", place, reason, _describe_missing(layer, one, is_checkout=is_checkout))
    elif held.fault:
        return  # told for the file
    elif _HASH.fullmatch(one.sha256) is None:
        bare = _BARE.fullmatch(one.sha256) is not None
        form = "a bare hash, without `sha256:` before it" if bare else "no hash: `sha256:` and 64 hex digits"
        reason = f"{one.package_id} states {form}"
        yield Finding("G0", str(one.manifest), f"{one.path}: {reason}", f"write {held.sha256}")
    elif one.sha256 != held.sha256:
        reason = f"changed since {one.package_id} stated its hash"
        yield Finding("G0", place, reason, _describe_changed(layer, one, held, is_checkout=is_checkout))


def _describe_missing(layer: Layer, one: Listed, *, is_checkout: bool) -> str:
    if layer.kind == "own":
        return f"put it there, or remove it from the assets of {one.manifest}"
    return _describe_restored(layer, is_checkout=is_checkout)


def _describe_changed(layer: Layer, one: Listed, held: LayerFile, *, is_checkout: bool) -> str:
    if layer.kind == "own":
        return (
            f"state {held.sha256} in {one.manifest}, or remove that manifest: a home's own files need none, and "
            "shipped files have their own"
        )
    return _describe_restored(layer, is_checkout=is_checkout, changed=True)


def _describe_restored(layer: Layer, *, is_checkout: bool, changed: bool = False) -> str:
    if layer.kind == "package":
        return f"install the package again, or remove it: hobus package remove {' '.join(layer.packages)}"
    if not is_checkout:
        return "reinstall hobus; changes belong into the home: hobus init FILE"
    return "if on purpose: python -m hobus.config.manifests --write" if changed else "restore it, or unlist it"


def _stand_ins(layer: Layer, below: Mapping[str, tuple[LayerFile, str]]) -> Iterator[Finding]:
    """Yield what a home has in place of others' files. Settings are laid over the shipped ones, and replace nothing.

    A package is never replaced: its files would be without an owner, whom no gate had missed.
    """
    for name, held in layer.held.items():
        if name == files.ADMIN_CONFIG or name not in below:
            continue
        other, owner = below[name]
        if held.sha256 == other.sha256:
            continue
        if files.find_kind(name) == "package":
            reason = f"another package has the id {name.split('/')[1]}, and an id is one package's"
            yield Finding("G0", str(held.path), reason, "give this one an id of its own, or remove it")
        else:
            said = f"replaces {name}, which {owner} owns"
            yield Finding("G0", str(held.path), said, f"remove it to use that of {owner} again", "warn")
