"""What the gates G0 to G4 said of these very files, kept in the home, so that a start need not judge them again.

The key is made of every governed file's hash, taken of its bytes just now, and of the state in which this software lies
on disk: another byte anywhere is another key. Failures are never kept; signatures and the record are looked at by each
start. Whoever can write this file can write the governed files beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import Any

from hobus.config.file_limits import file_max_bytes
from hobus.config.gates.finding import Finding, failed
from hobus.config.gates.run import View
from hobus.config.plain_file import plain_bytes
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.sources import sources_digest


def key_of(view: View) -> str:
    """Of files, layers and software; empty where the software itself is worked on, and every run is another one."""
    if view.is_checkout:
        return ""
    held = [(layer.kind, str(layer.root), name, one.sha256, one.fault) for layer in view.layers
            for name, one in layer.held.items()]  # fmt: skip
    sealed = [(dict(layer.sealed), layer.hidden) for layer in view.layers]
    text = json.dumps([sources_digest(), held, sealed, list(view.reading.faults)])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def kept(home: Home, key: str) -> list[Finding] | None:
    """What was said under this key; None: nothing, or nothing that can be read.

    It is read as far as a governed file may be; what is longer, deeper, or no plain file is nothing.
    """
    if not key:
        return None
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        value: Any = json.loads(plain_bytes(home.gates, file_max_bytes()))
        if value["key"] == key:
            found = [Finding(*map(str, one)) for one in value["findings"]]  # type: ignore[arg-type]
            return None if failed(found) else found
    return None


def keep(home: Home, key: str, found: list[Finding]) -> None:
    """That is what the next start under this key reads; where it cannot be written, the next one judges again."""
    if not key or failed(found):
        return
    new = home.gates.with_name(f"{home.gates.name}.{os.getpid()}.new")
    try:
        new.write_text(json.dumps({"key": key, "findings": found}), encoding="utf-8")
        new.replace(home.gates)
    except OSError:
        with suppress(OSError):
            new.unlink()
