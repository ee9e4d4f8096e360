"""What a process does between its fork and its secret: only what no other one could do for it.

All that it runs and loads anew it writes to memory that it would share with its siblings, and it comes back later for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("launchers_are_executed")]

PROGRAM = """
import json, os, sys
from pathlib import Path
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.home import make_home, keep_snapshot, prepare
from hobus.launch.launcher import zygote
from hobus.launch.logs import writing
from hobus.launch.process import main

home, roles = make_home(Path(sys.argv[1])), sys.argv[2:]
data = load_snapshot().to_bytes()
prepare(home)
keep_snapshot(home, data)
zygote.load()
main.warm_snapshot(data, zygote.ROLES)
writing.configure("zygote", "zygote@1")
loaded, ran = set(sys.modules), set()

def note(frame, event, _):
    if event == "call":
        ran.add(frame.f_globals.get("__name__", ""))

for role in roles:
    if os.fork() == 0:
        liveness, theirs = os.pipe()
        os.close(theirs)  # the launcher is gone before it says the secret, so the process ends there
        sys.setprofile(note)
        try:
            main.run(main.ProcessOptions(role, role + "/1@a", str(home.root), str(home.run)), liveness)
        except SystemExit as end:
            sys.setprofile(None)
            policy = os.sched_getscheduler(0)
            print(json.dumps([role, end.code, policy, sorted(ran), sorted(set(sys.modules) - loaded)]), flush=True)
        os._exit(0)
    os.wait()
"""

DONE_BEFORE = {"argparse", "gettext", "structlog.processors", "hobus.config.secret_refs"}
"""A command line read, the log's form made, the snapshot shown to tools."""


def test_a_forked_process_finds_everything_loaded_and_worked_out(tmp_path: Path):
    """No module comes after the fork, and nothing runs that is the same in each process; it preempts no other."""
    roles = ["ledger", "gateway", "ho3", "ho1", "ho2", "host"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(tmp_path / "home"), *roles],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [role for role, *_ in found] == roles, done.stderr
    for role, code, policy, ran, loaded in found:
        assert code == 0 and f"hobus.launch.process.roles.{role}" in ran, done.stderr
        assert not DONE_BEFORE.intersection(ran) and loaded == [], role
        assert policy == os.SCHED_BATCH
