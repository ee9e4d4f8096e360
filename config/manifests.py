"""Keeps the hashes in `packages/*/manifest.json` true: `python -m hobus.config.manifests --check | --write`.

Every governed file but the package manifests themselves is owned by exactly one package, exists, and has the hash that
its owner states. Adding a file to a package is done by hand: ownership is a decision.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hobus.config import files
from hobus.config.in_force import digest_of
from hobus.config.parse import BadText, json_value

_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def hash_of(path: Path) -> str:
    """`sha256:<64 hex>` of a file's bytes."""
    return digest_of(path.read_bytes())


def ownership_faults(root: Path) -> list[str]:
    """Every governed file below `root` that is not owned exactly once, is missing, or has another hash than stated."""
    faults: list[str] = []
    owners: dict[str, str] = {}
    for manifest in _manifests(root):
        for asset in json_value(manifest.read_text(encoding="utf-8"))["assets"]:
            faults.extend(_asset_faults(root, manifest, asset, owners))
    orphans = [name for name in files.governed_names(root) if name not in owners and files.kind_of(name) != "package"]
    faults.extend(
        f"{name}: no package owns it; add it to the assets of one packages/*/manifest.json" for name in orphans
    )
    return faults


def refresh(root: Path) -> list[str]:
    """Write the true hash of every owned file into its manifest; the manifests that changed."""
    changed: list[str] = []
    for manifest in _manifests(root):
        value = json_value(manifest.read_text(encoding="utf-8"))
        for asset in value["assets"]:
            path = root / asset["path"]
            if path.is_file():
                asset["sha256"] = hash_of(path)
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        if text != manifest.read_text(encoding="utf-8"):
            manifest.write_text(text, encoding="utf-8")
            changed.append(manifest.relative_to(root).as_posix())
    return changed


def _manifests(root: Path) -> list[Path]:
    return sorted((root / "packages").glob("*/manifest.json"))


def _asset_faults(root: Path, manifest: Path, asset: dict[str, Any], owners: dict[str, str]) -> list[str]:
    owner, name, stated = manifest.parent.name, asset["path"], asset["sha256"]
    if name in owners:
        return [f"{name}: owned by {owners[name]} and by {owner}; remove it from one of them"]
    owners[name] = owner
    if files.kind_of(name) in (None, "package"):
        return [f"{name}: {owner} lists it, but no governed file lives there"]
    if not (root / name).is_file():
        return [f"{name}: {owner} lists it, but it does not exist"]
    if not _HASH.fullmatch(stated):
        return [f"{name}: {owner} states a hash that is not `sha256:` and 64 hex digits"]
    if stated != hash_of(root / name):
        return [
            f"{name}: changed since {owner} stated its hash; if on purpose: python -m hobus.config.manifests --write"
        ]
    return []


def main(arguments: Sequence[str]) -> int:
    """`--check`: 0 if all is well, 1 with every fault. `--write`: refresh, then check. 2: neither was asked for."""
    if list(arguments) not in (["--check"], ["--write"]):
        sys.stderr.write("usage: python -m hobus.config.manifests --check | --write\n")
        return 2
    try:
        for name in refresh(files.SHIPPED_ROOT) if arguments[0] == "--write" else ():
            sys.stdout.write(f"refreshed {name}\n")
        faults = ownership_faults(files.SHIPPED_ROOT)
    except (BadText, KeyError, TypeError) as error:
        sys.stderr.write(f"a package manifest cannot be read ({error}); see: hobus config check\n")
        return 1
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
