"""Work in a process of its own, so that nothing it loads or makes stays in the launcher, which lives long."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hobus.launch.cluster.kernel import has_one_thread


def apart(work: Callable[[], Any]) -> Any:
    """What `work` gives, as JSON has it. Where it fails there, or nothing may be forked, it is done here."""
    if not has_one_thread():
        return work()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_fd)
        _answer(work, write_fd)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else work()


def _answer(work: Callable[[], Any], write_fd: int) -> None:
    """Never returns. An exception is nobody's answer: whoever asked does the work and meets it."""
    gc.disable()  # a collection would touch every page that is shared
    try:
        with suppress(BaseException):  # whatever it is, it ends here
            said = json.dumps(work()).encode()
            with os.fdopen(write_fd, "wb") as file:
                file.write(said)
    finally:
        os._exit(0)
