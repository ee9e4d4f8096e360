"""Copies that wait to be tool processes: whoever stops one keeps nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from bench.cluster import eventually
from tests.process.started_here import ROOT, lives

pytestmark = pytest.mark.process

MAKER = """
import psutil
from hobus.launch.process import copies
copies.prepare(2)
print(*[one.pid for one in psutil.Process().children()], flush=True)
input()
copies.dismiss(0.0)
input()
"""


@pytest.mark.parametrize("how", ["dismissed", "their maker is killed"])
def test_one_that_is_stopped_ends_like_the_others(how: str):
    """Closing its line says nothing to it, and waiting for it would be for ever."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdin is not None and maker.stdout is not None
        pids = [int(pid) for pid in maker.stdout.readline().split()]
        assert len(pids) == 2
        os.kill(pids[0], signal.SIGSTOP)
        try:
            if how == "dismissed":
                maker.stdin.write("\n")
                maker.stdin.flush()
            else:
                maker.kill()
            eventually(lambda: not any(lives(pid) for pid in pids), within_s=20)
        finally:
            for pid in filter(lives, pids):
                os.kill(pid, signal.SIGKILL)
            maker.kill()
