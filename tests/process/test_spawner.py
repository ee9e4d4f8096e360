"""Where the launcher's processes are born, without a cluster: whoever ended is reaped, and no attempt is lost.

The process of the test is their parent, and plays the zygote at its end of the socket.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hobus.config.sections.processes import LauncherConfig
from hobus.config.snapshot import load_snapshot
from hobus.launch.launcher import spawner, zygote, zygotes
from hobus.launch.launcher.children import Child
from hobus.launch.launcher.spawner import ProcessNursery
from hobus.launch.launcher.zygote import WORD_MAX_BYTES
from hobus.launch.launcher.zygotes import Zygotes
from hobus.launch.process.options import ProcessOptions

pytestmark = pytest.mark.process


def launcher(**changes: object) -> LauncherConfig:
    return load_snapshot().config.launcher.model_copy(update=changes)


def ended(*, is_reaped: bool) -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if is_reaped else os.WNOWAIT))
    process.returncode = 0
    return process.pid


def is_zombie(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


async def test_a_stranger_behind_one_of_ours_is_reaped(tmp_path: Path):
    """Both ended before anybody looked, and no further signal comes: the kernel tells of the older one first."""
    exits: list[str] = []
    nursery = ProcessNursery(launcher(start_method="spawn"), log=tmp_path / "zygote.log", first=None)
    child = nursery.start(
        ProcessOptions("no role", "", "", ""), log=tmp_path / "log", on_born=lambda _: None, on_exit=exits.append
    )
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    stranger = ended(is_reaped=False)
    nursery.reap_strangers()
    assert is_zombie(child.pid) and is_zombie(stranger)
    await child.wait()
    assert exits == ["exit 2"] and not is_zombie(stranger)


async def test_who_is_reaped_before_its_birth_is_known_is_born_before_it_ends():
    """A stranger until the zygote's word is read: what follows from an end never precedes what follows from a birth."""
    told: list[str] = []
    read_fd, write_fd = os.pipe()
    child = Child(liveness_fd=write_fd, on_born=lambda _: told.append("born"), on_exit=told.append)
    child.born(ended(is_reaped=True))
    await child.wait()
    os.close(read_fd)
    assert told == ["born", "exit unknown"]


async def test_what_follows_a_change_of_the_software_is_asked_of_a_new_zygote_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The former one, which has loaded what is no longer on disk, hears nothing but the end of its socket."""
    body = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    body.returncode = 0  # reaped by the nursery
    ours, control = zygote.make_pair()
    monkeypatch.setattr(spawner, "become_subreaper", lambda: True)
    nursery = ProcessNursery(launcher(), log=tmp_path / "log", first=zygote.Newborn(body.pid, ours))
    monkeypatch.setattr(zygotes, "compute_state", lambda: (("changed.py", 1, 1),))
    for name in ("ho1/1@a", "ho1/2@a"):
        options = ProcessOptions("ho1", name, "", "")
        nursery.start(options, log=tmp_path / "log", on_born=lambda _: None, on_exit=lambda _: None)
    assert control.recv(WORD_MAX_BYTES, socket.MSG_DONTWAIT) == b""
    assert nursery.zygote().pid not in (0, body.pid) and nursery.zygote().restarts == 1
    await nursery.close()
    control.close()
    assert body.stdin is not None
    body.stdin.close()


async def test_without_descriptors_a_zygote_is_started_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The launcher's end of its socket cannot be made at first: it is tried again."""
    keeper = Zygotes(launcher(crash_window_ms=10), log=tmp_path / "log", on_answer=print, on_end=lambda: None)
    with monkeypatch.context() as full:
        full.setattr(zygote, "make_pair", refused)
        keeper.begin(None)
        assert keeper.present is None and keeper.shown().state == "failed"
    async with asyncio.timeout(30):
        while keeper.present is None:
            await asyncio.sleep(0.01)
    await keeper.close()


def refused() -> tuple[socket.socket, socket.socket]:
    """As the system does when this process holds too many descriptors."""
    raise OSError(24, "Too many open files")
