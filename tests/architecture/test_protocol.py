"""bus/PROTOCOL.md is the authority for what crosses the wire, and is made from the code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hobus.bus import protocol_doc
from hobus.bus.catalog import CLASSES
from tests.architecture.source import ROOT


def test_protocol_page_is_current() -> None:
    """If this fails after a change made on purpose: python -m hobus.bus.protocol_doc --write."""
    assert protocol_doc.main(["--check"]) == 0


@pytest.mark.slow
def test_the_page_is_looked_at_by_a_program_of_its_own() -> None:
    """As somebody who changed a message types it."""
    check = subprocess.run(
        [sys.executable, "-m", "hobus.bus.protocol_doc", "--check"], cwd=ROOT, capture_output=True, check=False
    )
    assert check.returncode == 0, check.stderr.decode()


def test_protocol_page_names_every_routed_type() -> None:
    """Nothing that the catalogue routes is left out."""
    text = (ROOT / "bus" / "PROTOCOL.md").read_text(encoding="utf-8")
    assert [name for name in CLASSES if f"`{name}`" not in text] == []
