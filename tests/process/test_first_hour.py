"""docs/first-hour.md: its rows, and each command of them in a cluster."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bench.cluster import Cluster, hobus
from hobus.launch.console import exit_codes
from tests.architecture.source import ROOT

pytestmark = pytest.mark.process
PAGE = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\|.*\|$", PAGE, re.MULTILINE)][2:]
COMMANDS = [command for row in ROWS for command in re.findall(r"`(hobus [^`]+)`", row[2])]

NOT_ALONE = {"hobus keys revoke ho1/remote-1": "is enrolled"}
"""Commands that need what only another host brings (tests/process/test_worker.py has it) -> what they say without."""


def test_every_wish_has_a_command_or_says_when():
    """The twenty-two, and which version made an answer; what is not there names the step of the roadmap."""
    assert len(ROWS) == 23
    for wish, here, command in ROWS:
        assert ("yes" in here) == bool(command), wish
        assert "yes" in here or re.search(r"not yet \(\d\)", here), wish


@pytest.mark.timeout(300)
def test_every_command_of_the_page_does_what_it_says(cluster: Cluster, tmp_path: Path):
    """One after the other, beside a session that it is about; a live tap until its first frame."""
    cluster.up("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    name = f"SES-{cluster.ask('what packages are installed?')['session_id'][:8]}"
    cluster.ask("is the ledger intact?", "--session", name)
    for line in COMMANDS:
        words = shlex.split(line.replace("SES-1a2b3c4d", name))[1:]
        if words[0] == "tap" and len(words) == 2:
            watching = cluster.begin("tap", *words[1:], "--count", "1", "--since", "10m", "--follow")
            out, err = watching.communicate(timeout=60)
            assert watching.returncode == exit_codes.OK and b"wo." in out, err
            continue
        answer = hobus("--home", str(cluster.home.root), *words, cwd=tmp_path)
        if line in NOT_ALONE:
            assert answer.code == exit_codes.USAGE and NOT_ALONE[line] in answer.err, answer.err
            continue
        assert answer.code == exit_codes.OK, (line, answer.out, answer.err)
        assert (answer.out + answer.err).strip(), line
    assert "degraded" in cluster("session list").out
