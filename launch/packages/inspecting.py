"""What a bundle holds, who signed it, and what would become of it in this home; nothing is changed, nowhere."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hobus.config.gates.finding import Finding
from hobus.launch.cluster.home import Home
from hobus.launch.packages.building import write_tree
from hobus.launch.packages.incoming import Incoming, read_bundle
from hobus.launch.packages.installing import Installed, installed_in, order_of, refusals
from hobus.launch.packages.judging import config_of
from hobus.launch.packages.trust import trusted


class Inspected(NamedTuple):
    """A bundle, seen from a home."""

    incoming: Incoming
    trusted_as: str
    """Name of its signer's key in this home; empty: none of those that it trusts."""
    before: Installed | None
    """What is installed of this package."""
    would: str
    """What a command would do: `install`, `upgrade`, or `nothing` where it is no higher version."""
    failures: Sequence[Finding]
    """What would keep it out."""
    warnings: Sequence[Finding]


def inspect(home: Home, path: Path) -> Inspected:
    """The bundle in this file. Raises CommandError for one that is none, or was changed; ConfigError."""
    incoming = read_bundle(path, config_of(home).governance)
    before = installed_in(home).get(incoming.package.package_id)
    is_higher = before is not None and order_of(incoming.package.version) > order_of(before.version)
    names = [name for name, key in trusted(home).items() if key == incoming.signature.public_key]
    would = "install" if before is None else "upgrade" if is_higher else "nothing"
    with tempfile.TemporaryDirectory(prefix="hobus-package-") as directory:
        staged = Path(directory, "package")
        write_tree(staged, incoming.files)
        failures, judgement = refusals(home, incoming, staged, before)
    return Inspected(incoming, next(iter(names), ""), before, would, failures, judgement.warnings)
