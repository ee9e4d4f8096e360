"""Logs are for operators: that they cannot be written ends nothing."""

import json
import logging
import os
import shutil
import threading
from contextvars import copy_context
from types import SimpleNamespace

import pytest
import structlog

from hobus.bus.inbox import CAUSE
from hobus.launch.logs import writing
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


def test_a_log_that_was_removed_with_its_directory_is_made_again(tmp_path):
    """Whoever writes to it already goes on in the new one, and so does what is printed to the same descriptor."""
    path = tmp_path / "logs" / "ho1-1.log"
    lines = LossyLines(writing.open_log(path))
    lines.limit(path, 1000)
    lines.write("one\n")
    shutil.rmtree(path.parent)
    lines.write("two\n")
    assert path.read_text() == "two\n"
    lines.write("x" * 998 + "\n")
    assert path.read_text() == "x" * 998 + "\n"
    assert path.with_name("ho1-1.log.1").read_text() == "two\n"


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """This process configured for its log, as one of a cluster is; behind the test it is as before."""
    before, level = structlog.get_config(), logging.root.level
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(writing, "_SPEAKER", {})
    writing._make_lines.cache_clear()
    path = tmp_path / "log"
    with path.open("w") as stream:
        yield path, lambda: writing.configure("ho1/1", "ho1/1@a", stream=stream)
    writing._make_lines.cache_clear()
    logging.root.setLevel(level)
    structlog.configure(**before)


def test_a_warning_of_a_library_is_a_line_like_any_other(configured):
    """In a process that is configured for its log: with the request that is handled, the process, and a traceback; from a thread too."""
    path, configure = configured

    def logs():
        configure()
        CAUSE.set(SimpleNamespace(message_id="m1", trace="t1"))
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            logging.getLogger("lib").warning("it %s", "broke", exc_info=True)
        thread = threading.Thread(target=logging.getLogger("lib").error, args=("elsewhere",))
        thread.start()
        thread.join()
        logging.getLogger("lib").info("of no interest")

    copy_context().run(logs)
    here, there = (json.loads(line) for line in path.read_text().splitlines())
    assert here["at"].endswith("Z") and "ZeroDivisionError" in here.pop("exception")
    process = {"actor": "ho1/1", "instance": "ho1/1@a", "pid": os.getpid(), "logger": "lib"}
    asked = {"request": "m1", "trace": "t1"}
    assert here == {"event": "it broke", "level": "warning", "at": here["at"], **process, **asked}
    assert there == {"event": "elsewhere", "level": "error", "at": there["at"], **process}
