"""Where the launcher's processes are born, without a cluster: whoever ended is reaped, and an heir is asked for again.

The process of the test is their parent, and plays the zygote at its end of the socket.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hobus.bus.clock import SystemClock
from hobus.config.sections.processes import LauncherConfig
from hobus.config.snapshot import load_snapshot
from hobus.launch.launcher import spawner, zygote, zygotes
from hobus.launch.launcher.children import Child
from hobus.launch.launcher.spawner import Nursery
from hobus.launch.launcher.zygote import WORD_MAX_BYTES, Fork, Forked, packed
from hobus.launch.launcher.zygotes import Lineage
from hobus.launch.process.options import ProcessOptions
from tests.process.started_here import until

pytestmark = pytest.mark.process


def launcher(**changes: object) -> LauncherConfig:
    """The shipped settings with some changed."""
    return load_snapshot().config.launcher.model_copy(update=changes)


def ended(*, is_reaped: bool) -> int:
    """The pid of a child that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if is_reaped else os.WNOWAIT))
    process.returncode = 0
    return process.pid


def is_zombie(pid: int) -> bool:
    """Whether this child waits for somebody to reap it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


async def test_a_stranger_behind_one_of_ours_is_reaped(tmp_path: Path):
    """Both ended before anybody looked, and no further signal comes: the kernel tells of the older one first."""
    exits: list[str] = []
    nursery = Nursery(launcher(start_method="spawn"), SystemClock(), log=tmp_path / "zygote.log", first=None)
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


async def test_a_process_is_asked_for_before_anybody_looks_at_the_software_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Which takes milliseconds: once for all that are asked for together, while the zygote forks."""
    body = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    body.returncode = 0  # reaped by the nursery
    ours, control = zygote.pair()
    orders_at_looks: list[int] = []

    def look(_lineage: Lineage) -> bool:
        orders_at_looks.append(sum(1 for _ in range(2) if control.recv(WORD_MAX_BYTES, socket.MSG_DONTWAIT)))
        return False

    monkeypatch.setattr(Lineage, "replace_if_outdated", look)
    monkeypatch.setattr(spawner, "become_subreaper", lambda: True)
    nursery = Nursery(launcher(), SystemClock(), log=tmp_path / "log", first=zygote.Newborn(body.pid, ours))
    for name in ("ho1/1@a", "ho1/2@a"):
        options = ProcessOptions("ho1", name, "", "")
        nursery.start(options, log=tmp_path / "log", on_born=lambda _: None, on_exit=lambda _: None)
    await asyncio.sleep(0)
    assert orders_at_looks == [2]
    await nursery.close()
    control.close()
    assert body.stdin is not None
    body.stdin.close()


def nothing(_: Lineage) -> None:
    """In place of what a test is not about."""


async def test_a_new_spare_is_told_once_who_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """When nobody waits for a process any more; until something is born again there is nothing to tell."""
    body, process = (subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2))
    body.returncode = process.returncode = 0  # reaped by the nursery
    ours, control = zygote.pair()
    control.settimeout(30)
    for unasked in ("replace_if_outdated", "want_heir"):
        monkeypatch.setattr(Lineage, unasked, nothing)
    monkeypatch.setattr(spawner, "become_subreaper", lambda: True)
    nursery = Nursery(launcher(), SystemClock(), log=tmp_path / "log", first=zygote.Newborn(body.pid, ours))
    nursery.use_calm()
    born = asyncio.Event()
    options = ProcessOptions("ho1", "ho1/1@a", "", "")
    nursery.start(options, log=tmp_path / "log", on_born=lambda _: born.set(), on_exit=lambda _: None)
    nursery.use_calm()
    order = Fork(*json.loads(control.recv(WORD_MAX_BYTES)))
    assert ProcessOptions(*order.options) == options
    control.send(packed(Forked(order.number, process.pid)))
    await born.wait()
    nursery.use_calm()
    nursery.use_calm()
    assert Fork(*json.loads(control.recv(WORD_MAX_BYTES))) == Fork(zygote.SPARE, ["2", str(process.pid)])
    control.settimeout(0)
    with pytest.raises(BlockingIOError):
        control.recv(WORD_MAX_BYTES)
    for one in (process, body):
        assert one.stdin is not None
        one.stdin.close()
    await nursery.close()
    control.close()


class Played:
    """A lineage whose first zygote is a process that does nothing, and is spoken for by the test."""

    def __init__(self, log: Path) -> None:
        self.body = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
        self.body.returncode = 0  # reaped by the lineage
        ours, self.control = zygote.pair()
        self.control.settimeout(0)
        config = launcher(restart_backoff_max_ms=1)
        self.lineage = Lineage(config, SystemClock(), log=log, on_answer=lambda _: None, on_end=lambda: None)
        self.lineage.begin(zygote.Newborn(self.body.pid, ours))

    async def answer(self, pid: int, error: str = "") -> None:
        """The next order, which is one for an heir, is answered."""
        async with asyncio.timeout(30):
            word = await asyncio.get_running_loop().sock_recv(self.control, WORD_MAX_BYTES)
        assert not Fork(*json.loads(word)).options
        self.control.send(packed(Forked(0, pid, error)))

    async def close(self) -> None:
        """Nothing of it is left."""
        assert self.body.stdin is not None
        self.body.stdin.close()
        await self.lineage.close()
        self.control.close()


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[Played]:
    """It is ended."""
    one = Played(tmp_path / "zygote.log")
    yield one
    await one.close()


async def test_an_heir_that_is_dead_before_it_is_known_is_replaced(played: Played):
    """It was reaped as a stranger while its maker's word was under way: it is not held for an heir that stands ready."""
    played.lineage.want_heir()
    await played.answer(ended(is_reaped=True))
    await played.answer(0, "enough")


async def test_an_heir_that_was_refused_is_asked_for_again(played: Played):
    """The system had no room for it: nothing else needs to be forked before the next attempt."""
    played.lineage.want_heir()
    await played.answer(0, "Resource temporarily unavailable")
    await played.answer(0, "enough")


async def test_without_descriptors_an_heir_is_asked_for_later(played: Played, monkeypatch: pytest.MonkeyPatch):
    """Nothing is raised into whoever wanted one."""
    with monkeypatch.context() as full:
        full.setattr(zygote, "pair", refused)
        played.lineage.want_heir()
    await played.answer(0, "enough")


async def test_without_descriptors_a_zygote_is_started_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The launcher's end of its socket cannot be made at first: it is tried again with back-off."""
    lineage = Lineage(launcher(), SystemClock(), log=tmp_path / "log", on_answer=print, on_end=lambda: None)
    with monkeypatch.context() as full:
        full.setattr(zygote, "pair", refused)
        lineage.begin(None)
        assert lineage.present is None and lineage.shown().state == "backoff"
    async with asyncio.timeout(30):
        while lineage.present is None:
            await asyncio.sleep(0.01)
    await lineage.close()


def refused() -> tuple[socket.socket, socket.socket]:
    """As the system does when this process holds too many descriptors."""
    raise OSError(24, "Too many open files")


ZYGOTES = {
    "breaks": "raise SystemExit(1)",
    "loads": """
import socket, sys
control = socket.socket(fileno=int(sys.argv[-1]))
control.recv(4096)
control.send(b'[0, 0, "no heir"]')
while control.recv(4096): pass
""",
}


@pytest.mark.parametrize("has_heir", [False, True], ids=["alone", "with its heir"])
async def test_a_zygote_is_kept_until_one_of_the_new_software_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_heir: bool
):
    """In the middle of an upgrade nothing loads: it forks again, and another is tried when the disk has changed."""
    said = ["breaks"]

    def python(*words: str) -> list[str]:
        return [sys.executable, "-S", "-c", ZYGOTES[said[-1]], *words]

    monkeypatch.setattr(zygotes.children, "python", python)
    bodies = [subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    for body in bodies:
        body.returncode = 0  # reaped by the lineage
    ours, control = zygote.pair()
    control.settimeout(30)
    lineage = Lineage(launcher(), SystemClock(), log=tmp_path / "log", on_answer=lambda _: None, on_end=lambda: None)
    lineage.begin(zygote.Newborn(bodies[0].pid, ours))
    if has_heir:
        lineage.want_heir()
        control.recv(WORD_MAX_BYTES)
    control.send(packed(Forked(0, bodies[1].pid if has_heir else 0)))
    former = lineage.present
    assert former is not None
    await until(lambda: former.is_loaded)
    disk = SimpleNamespace(state=lambda: ((), ((len(said), 0),)), close=lambda: None)
    monkeypatch.setattr(lineage, "_sources", disk)
    assert lineage.replace_if_outdated() and lineage.present is not former
    await until(lambda: lineage.present is former)
    assert lineage.shown().state == "ready" and not lineage.replace_if_outdated()
    pipes = [body.stdin for body in bodies if body.stdin is not None]
    if has_heir:
        pipes[0].close()
        await until(lambda: lineage.shown().pid == bodies[1].pid)
        assert lineage.shown().state == "ready" and not lineage.replace_if_outdated()
    said.append("loads")
    assert lineage.replace_if_outdated() and lineage.shown().state == "starting"
    await until(lambda: lineage.shown().state == "ready")
    assert control.recv(WORD_MAX_BYTES) == b"" and lineage.shown().pid not in [body.pid for body in bodies]
    for pipe in pipes:
        pipe.close()
    await lineage.close()
    control.close()
    if not has_heir:
        os.waitpid(bodies[1].pid, 0)
