"""The collector's settings of a long-lived process."""

from __future__ import annotations

import re
import subprocess
import sys


def test_what_start_up_made_is_not_looked_at_again_and_messages_seldom() -> None:
    """In a process of its own, since the settings are a process's: frozen, and far beyond Python's 700 allocations."""
    code = "import gc; from hobus.bus import collector; collector.settle(); print(gc.get_freeze_count() > 0, gc.get_threshold()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "10000"]


def test_what_forks_share_has_no_free_lists_that_each_would_give_back() -> None:
    """In a process of its own: after eighty lists have come and gone Python keeps none of them, and all is frozen."""
    code = """
import gc, sys
from hobus.bus import collector
lists = [[] for _ in range(80)]
del lists
sys._debugmallocstats()
print("then", file=sys.stderr, flush=True)
collector.freeze_for_forks()
sys._debugmallocstats()
print(gc.get_freeze_count() > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (int(re.findall(r"(\d+) free PyListObject", said)[0]) for said in done.stderr.split("then\n"))
    assert done.stdout.split() == ["True"] and after < 20 < before
