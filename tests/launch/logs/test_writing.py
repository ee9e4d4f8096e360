"""Logs are for operators: that they cannot be written ends nothing."""

import json
import os
import subprocess
import sys

from hobus.launch.logs.writing import LossyLines


def test_a_full_disk_costs_a_line_and_nothing_else():
    """Neither the write nor the flush fails, and what is written later arrives."""
    read_fd, write_fd = os.pipe()
    lines = LossyLines(write_fd)
    lines.write("one é\n")
    assert os.read(read_fd, 100) == "one é\n".encode()
    full = os.open("/dev/full", os.O_WRONLY)
    kept = os.dup(write_fd)
    os.dup2(full, write_fd)
    assert lines.write("lost\n") == 5
    lines.flush()
    os.dup2(kept, write_fd)
    lines.write("two\n")
    assert os.read(read_fd, 100) == b"two\n"
    for fd in (read_fd, write_fd, kept, full):
        os.close(fd)


def test_a_warning_of_a_library_is_a_line_like_any_other():
    """In a process that is configured for its log: with the request that is handled, the process, and a traceback; from a thread too."""
    program = """
import logging, sys, threading
from types import SimpleNamespace
from hobus.bus.inbox import CAUSE
from hobus.launch.logs import writing
writing.configure("ho1/1", "ho1/1@a")
CAUSE.set(SimpleNamespace(message_id="m1", trace="t1"))
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("lib").warning("it %s", "broke", exc_info=True)
thread = threading.Thread(target=logging.getLogger("lib").error, args=("elsewhere",))
thread.start()
thread.join()
logging.getLogger("lib").info("of no interest")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    here, there = (json.loads(line) for line in done.stderr.splitlines())
    assert here["at"].endswith("Z") and "ZeroDivisionError" in here.pop("exception")
    process = {"actor": "ho1/1", "instance": "ho1/1@a", "pid": here["pid"], "logger": "lib"}
    asked = {"request": "m1", "trace": "t1"}
    assert here == {"event": "it broke", "level": "warning", "at": here["at"], **process, **asked}
    assert there == {"event": "elsewhere", "level": "error", "at": there["at"], **process}
