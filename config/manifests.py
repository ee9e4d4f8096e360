"""Keeps the hashes of governed files that are shipped true: `python -m hobus.config.manifests --check | --write`.

What must hold is gate G0 (`gates/ownership.py`); here is what makes it hold again: each file's hash in the
manifest of its package, each manifest's in `packages/sealed.json`.
Adding a file to a package is done by hand: ownership is a decision.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hobus.bus.messages.base import compute_digest
from hobus.config import files
from hobus.config.gates.layer import SEAL, Layer, read_layer
from hobus.config.gates.ownership import find_breaches
from hobus.config.parse import BadText, parse_json


def read_shipped_layer(root: Path = files.SHIPPED_ROOT) -> Layer:
    return read_layer("shipped", root, {name: root / name for name in files.list_governed(root)}, max_bytes=None)


def refresh(root: Path) -> list[str]:
    """Write the true hash of every owned file into its manifest, and those of the manifests; return what changed."""
    changed: list[str] = []
    for manifest in sorted((root / "packages").glob("*/manifest.json")):
        value = parse_json(manifest.read_text(encoding="utf-8"))
        for asset in value["assets"]:
            path = root / asset["path"]
            if path.is_file():
                asset["sha256"] = compute_digest(path.read_bytes())
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        if text != manifest.read_text(encoding="utf-8"):
            manifest.write_text(text, encoding="utf-8")
            changed.append(manifest.relative_to(root).as_posix())
    manifests = sorted((root / "packages").glob("*/manifest.json"))
    seal = {path.relative_to(root).as_posix(): compute_digest(path.read_bytes()) for path in manifests}
    text = json.dumps(seal, indent=2) + "\n"
    if not (root / SEAL).is_file() or text != (root / SEAL).read_text(encoding="utf-8"):
        (root / SEAL).write_text(text, encoding="utf-8")
        changed.append(SEAL)
    return changed


def main(arguments: Sequence[str]) -> int:
    """Run `--check`: 0 if all is well, 1 with every fault; `--write`: refresh, then check. 2: neither was asked for."""
    if list(arguments) not in (["--check"], ["--write"]):
        sys.stderr.write("usage: python -m hobus.config.manifests --check | --write\n")
        return 2
    try:
        for name in refresh(files.SHIPPED_ROOT) if arguments[0] == "--write" else ():
            sys.stdout.write(f"refreshed {name}\n")
    except (BadText, KeyError, TypeError) as error:
        sys.stderr.write(f"a package manifest cannot be read ({error}); see: hobus config check\n")
        return 1
    faults = list(find_breaches([read_shipped_layer()], is_checkout=True))
    for fault in faults:
        sys.stderr.write(f"{fault.line}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
