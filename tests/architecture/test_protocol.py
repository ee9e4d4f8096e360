"""bus/PROTOCOL.md is the authority for what crosses the wire, and is made from the code."""

from __future__ import annotations

import subprocess
import sys

from hobus.bus.catalog import CLASSES
from tests.architecture.source import ROOT


def test_protocol_page_is_current() -> None:
    """If this fails after a change made on purpose: python -m hobus.bus.protocol_doc --write."""
    check = subprocess.run(
        [sys.executable, "-m", "hobus.bus.protocol_doc", "--check"], cwd=ROOT, capture_output=True, check=False
    )
    assert check.returncode == 0, check.stderr.decode()


def test_protocol_page_names_every_routed_type() -> None:
    """Nothing that the catalogue routes is left out."""
    text = (ROOT / "bus" / "PROTOCOL.md").read_text(encoding="utf-8")
    assert [name for name in CLASSES if f"`{name}`" not in text] == []
