"""`hobus demo` interrupted: whatever ends it but SIGKILL, nothing runs and nothing lies about afterwards."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from bench.cluster import alive, begun, eventually, family_in
from hobus.launch.cluster.home import make_home
from tests.process.pseudo_terminal import typing

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("number", "where"),
    [(signal.SIGINT, b"[1/6]"), (signal.SIGHUP, b"[2/6]")],
    ids=["interrupted in its start", "hung up in its turn"],
)
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals, where: bytes):
    """In the start or in a turn: the processes are gone when it has ended, and so is its home."""
    with begun("demo", env={"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if where in line:
                break
        eventually(lambda: any(tmp_path.glob("hobus-demo-*/run")))
        (home,) = tmp_path.glob("hobus-demo-*")
        family = eventually(lambda: family_in(make_home(home)))
        demo.send_signal(number)
        _, err = demo.communicate(timeout=120)
    assert demo.returncode == 128 + number, err.decode()
    assert b"interrupted" in err and b"Traceback" not in err
    assert list(tmp_path.iterdir()) == []
    assert alive(family) == []


def test_in_a_terminal_with_colours_the_demo_ends_with_what_was_checked(tmp_path: Path):
    """Its last step too: how many entries, and the head of their chain."""
    with typing("demo", env={"TMPDIR": str(tmp_path), "NO_COLOR": ""}) as demo:
        assert demo.end() == 0, demo.text
    (checked,) = [row for row in demo.seen if " entries in one chain, head #" in row]
    for told in ("SIGKILL", "attempt 2", "ended once", "has one answer"):
        assert told in demo.text
    assert list(tmp_path.iterdir()) == []
    assert checked.strip().startswith("OK: ") and "\x1b[32mOK\x1b[0m" in demo.written
