"""What lies in the run directory as a command and is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from hobus.launch.cluster.home import home_of, prepare
from hobus.launch.launcher.control_files import Answer, take_all
from hobus.launch.launcher.members import Crew


@pytest.mark.timeout(10)
def test_what_is_no_file_and_what_is_too_large_keeps_the_launcher_from_nothing(tmp_path: Path) -> None:
    """A pipe is never waited for, a link never followed, a huge file never read whole; the next one is answered."""
    home = home_of(tmp_path / "home")
    prepare(home)
    os.mkfifo(home.run / "command-1")
    (home.run / "command-2").symlink_to("/dev/zero")
    (home.run / "command-3").mkdir()
    (home.run / "command-4").write_bytes(bytes(5000))
    (home.run / "command-5").write_text('{"type": "nothing", "body": {}}')
    nobody = cast("Crew", None)  # none of these reaches it
    take_all(home, nobody)
    assert sorted(path.name for path in home.run.iterdir()) == ["answer-4", "answer-5", "command-3"]
    answers = [Answer.model_validate_json((home.run / f"answer-{n}").read_bytes()) for n in (4, 5)]
    assert [answer.code for answer in answers] == ["rejected", "rejected"]
    assert "4096" in answers[0].detail


def test_what_is_no_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """Some hundreds of directories would use up those that the launcher may have."""
    home = home_of(tmp_path / "home")
    prepare(home)
    (home.run / "command-1").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        take_all(home, cast("Crew", None))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
