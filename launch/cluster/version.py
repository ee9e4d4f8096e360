"""Which version of the software this is."""

from __future__ import annotations

import functools
import importlib


@functools.cache
def find_software_version() -> str:
    """Return the installed version, or `source` in a checkout that is not installed."""
    metadata = importlib.import_module("importlib.metadata")  # 15 ms that `--help` does not pay
    try:
        return str(metadata.version("hobus"))
    except metadata.PackageNotFoundError:
        return "source"
