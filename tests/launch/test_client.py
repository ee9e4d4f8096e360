"""A command's place on the bus."""

import asyncio
import errno
import os

import pytest

from bus.zeromq import tokens
from config.snapshot import load_snapshot
from launch.client import connected
from launch.commands import ps
from launch.endpoints import Place
from launch.errors import CommandError
from launch.home import home_of
from tests.launch.test_run_file import RUN


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home on a full disk: what is there can be read, nothing can be written."""
    home = home_of(tmp_path / "my home")
    home.run.mkdir(parents=True)
    home.snapshot.write_bytes(load_snapshot().to_bytes())

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tokens, "mint", full)
    return home


def test_a_full_disk_is_said_with_its_path_and_with_what_still_works(home):
    """A command cannot prove who it is; `down` needs no proof, and its line can be pasted."""

    async def connect():
        async with connected(Place(home=home, sockets=home.run, snapshot=load_snapshot()), "operator"):
            pass

    with pytest.raises(CommandError, match="No space left on device") as caught:
        asyncio.run(connect())
    assert str(home.run) in caught.value.message
    assert f"hobus down --home '{home.root}'" in caught.value.hint and "free some space" in caught.value.hint


def test_ps_does_without_the_bus_on_a_full_disk(home):
    """It lists what the run file says."""
    assert asyncio.run(ps.peers_of(home, RUN)) is None
