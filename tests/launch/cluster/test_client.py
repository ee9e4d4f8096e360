"""A command's place on the bus."""

import asyncio
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import BusError
from hobus.bus.messages.memory import MemoryStats, ReadMemoryStats
from hobus.bus.zeromq import tokens
from hobus.launch.cli import checkup
from hobus.launch.cli.commands import ps
from hobus.launch.cluster.client import ask_operator, connect_bus, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import HomeLock, make_home, prepare, remove_run
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError
from hobus.launch.launcher import operate
from hobus.launch.launcher.control import LeaveCommand
from tests.launch.cluster.test_run_file import RUN


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home on a full disk: what is there can be read, nothing can be written."""
    home = make_home(tmp_path / "my home")
    home.run.mkdir(parents=True)
    home.snapshot.write_bytes(shipped_snapshot().to_bytes())

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tokens, "mint", full)
    return home


def test_two_threads_that_connect_at_once_have_two_names(home, monkeypatch):
    """A name belongs to one connection at a time: the second one's token would end the first one's."""
    named = []

    async def connect():
        async with connect_bus(Place(home=home, sockets=home.run, snapshot=shipped_snapshot()), "operator"):
            pass

    def tried():
        with suppress(CommandError):
            asyncio.run(connect())

    def mint(_directory, instance, _role, _pid):
        named.append(instance.partition("@")[0])
        if len(named) == 1:
            with ThreadPoolExecutor() as pool:
                pool.submit(tried).result()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tokens, "mint", mint)
    tried()
    tried()
    assert len(set(named[:2])) == 2 and named[2] == named[0]


def test_a_service_that_is_away_is_a_sentence_with_its_mend(home):
    """Not the id of the question and the name of its message."""

    class Bus:
        async def request(self, *_question, **_how):
            raise BusError("no_route", "memory.read_stats cli-1: ho3 was given up by the launcher")

    @asynccontextmanager
    async def connect(_role):
        yield Bus()

    place = Place(home=home, sockets=home.run, snapshot=shipped_snapshot(), connect=connect)
    with pytest.raises(CommandError) as caught:
        asyncio.run(ask_operator(place, "ho3", ReadMemoryStats(agent_id="a"), MemoryStats))
    assert (caught.value.exit_code, caught.value.code) == (exit_codes.UNREACHABLE, "no_route")
    assert caught.value.message.startswith("ho3 is away") and "cli-1" not in caught.value.message
    assert "hobus ps" in caught.value.hint


def test_ps_does_without_the_bus_on_a_full_disk(home):
    assert asyncio.run(ps.ask_peers(home, RUN)) is None


def test_a_run_directory_that_goes_between_two_looks_is_said_in_a_sentence(tmp_path):
    """The run file was read, then all of it went: the cluster has ended, or somebody removed it under a launcher."""
    home = make_home(tmp_path / "my home")
    prepare(home)
    with pytest.raises(CommandError, match="no cluster runs in") as caught:
        place_of(home, RUN)
    assert caught.value.exit_code == exit_codes.UNREACHABLE and "hobus up" in caught.value.hint
    lock = HomeLock.take(home)
    assert lock is not None
    with pytest.raises(CommandError, match=f"its run directory is gone .its launcher is pid {os.getpid()}") as caught:
        place_of(home, RUN)
    assert caught.value.exit_code == exit_codes.UNREACHABLE and "hobus down" in caught.value.hint
    (finding,), run = checkup.check_cluster(home)
    assert "run directory is gone" in finding.detail and run is None
    home.snapshot.write_bytes(shipped_snapshot().to_bytes())
    place = place_of(home, RUN)
    remove_run(home)

    async def connect():
        async with connect_bus(place, "operator"):
            pass

    with pytest.raises(CommandError, match="its run directory is gone") as caught:
        asyncio.run(connect())
    assert caught.value.exit_code == exit_codes.UNREACHABLE
    assert not home.run.exists()  # or the launcher's next run file would stand in it, and name a cluster
    lock.release()


def test_a_command_to_the_launcher_needs_the_run_directory_too(tmp_path, monkeypatch):
    """`restart broker` of a cluster that ends at this moment."""
    home = make_home(tmp_path)
    prepare(home)
    home.snapshot.write_bytes(shipped_snapshot().to_bytes())
    place = place_of(home, RUN)
    remove_run(home)
    monkeypatch.setattr(operate, "find_running", lambda _home: RUN)
    monkeypatch.setattr(operate, "place_of", lambda *_: place)
    with pytest.raises(CommandError, match="no cluster runs in") as caught:
        operate.send_command(home, LeaveCommand(actor="broker/1", then="start"), is_followed=True)
    assert caught.value.exit_code == exit_codes.UNREACHABLE
