"""The collector's settings of a long-lived process."""

from __future__ import annotations

import subprocess
import sys


def test_what_start_up_made_is_not_looked_at_again_and_messages_seldom() -> None:
    """In a process of its own, since the settings are a process's: frozen, and far beyond Python's 700 allocations."""
    code = "import gc; from hobus.bus import collector; collector.settle(); print(gc.get_freeze_count() > 0, gc.get_threshold()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "10000"]
