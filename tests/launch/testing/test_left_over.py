"""What a run of tests that was killed leaves behind."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hobus.launch.testing.cluster import owned, remove_left_over

KILLED = """
import os, signal, sys
from pathlib import Path
from hobus.launch.testing.cluster import owned
file = owned(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_directories_whose_owner_is_gone_are_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of a run beside this one, not one that is being made, not what only has such a name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, beside, made = (tmp_path / f"hobus-test-{name}" for name in ("left", "beside", "made"))
    other, file = tmp_path / "other", tmp_path / "hobus-test-file"
    for root in (left, beside, made, other):
        (root / "home").mkdir(parents=True)
    (tmp_path / "hobus-test-link").symlink_to(other)
    file.write_text("")
    subprocess.run([sys.executable, "-c", KILLED, str(left)], check=False)
    (other / "owner").write_text("")
    with owned(beside):
        remove_left_over()
        assert not left.exists()
        assert all(one.exists() for one in (beside, made, other, file))
    remove_left_over()
    assert not beside.exists() and made.exists()
