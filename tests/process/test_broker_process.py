"""The broker as a process: who learns what, and when, if a worker is killed or frozen; what bytes on the socket can do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from hobus.bus.clock import SystemClock
from hobus.bus.envelope import Kind
from hobus.bus.errors import ConfigError
from hobus.bus.messages.control import Ready
from hobus.bus.settings import BusSettings
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapReader
from hobus.bus.zeromq.tokens import TokenDirectory, mint
from tests.process.raw_peer import RawPeer

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": "."}


class Bench:
    """One broker process, raw peers of this process, worker processes."""

    def __init__(self, home: Path, **changes: object) -> None:
        self.home = home
        self.endpoint, self.tap = f"ipc://{home}/broker.sock", f"ipc://{home}/tap.sock"
        shipped = json.loads((ROOT / "config/admin_config.json").read_bytes())["bus"]
        self.settings = BusSettings.model_validate(shipped | changes)
        self.context = zmq.Context()
        self.peers: list[RawPeer] = []
        self.processes: list[subprocess.Popen[str]] = []
        read_end, self.stop_fd = os.pipe()
        words = (str(home), str(read_end), self.settings.model_dump_json())
        self.broker = self._start("broker_alone.py", *words, pass_fds=(read_end,))
        os.close(read_end)
        assert self.broker.stdout.readline() == "ready\n"

    def _start(self, script, *arguments, pass_fds=()):
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(script)), *arguments],
            stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT, pass_fds=pass_fds,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def worker(self, instance):
        """A worker process that never answers, welcome and ready."""
        worker = self._start("raw_peer.py", self.endpoint, instance, mint(self.home, instance, "ho1", None))
        assert worker.stdout.readline() == "up\n"
        return worker

    def stranger(self):
        """A connection that has said nothing yet."""
        peer = RawPeer(self.context, self.endpoint)
        self.peers.append(peer)
        return peer

    def peer(self, instance, **fields):
        """A welcome raw peer."""
        peer = self.stranger()
        token = mint(self.home, instance, instance.partition("/")[0], None)
        assert peer.hello(instance, token, **fields).type == "bus.welcome"
        return peer

    def end(self):
        os.close(self.stop_fd)
        for process in self.processes[1:]:
            process.kill()
        for process in self.processes:
            process.wait(timeout=60)
            process.stdout.close()
        for peer in self.peers:
            peer.socket.close(linger=0)
        self.context.destroy(linger=0)


@pytest.fixture
def bench(tmp_path, request):
    """A bench that is ended afterwards, its broker in order; a parameter changes settings of the bus."""
    tmp_path.chmod(0o700)
    made = Bench(tmp_path, **getattr(request, "param", {}))
    yield made
    made.end()


@pytest.mark.parametrize(
    ("bench", "sig"), [({"peer_timeout_ms": 60_000}, signal.SIGKILL), ({}, signal.SIGSTOP)], indirect=["bench"]
)
def test_a_caller_learns_of_a_killed_worker_at_once_and_of_a_frozen_one_within_a_second(bench, sig):
    """A death is heard, not waited for; a silence is over at bus.peer_timeout_ms."""
    workers = [bench.worker(f"ho1/{number}@a") for number in range(2)]
    client = bench.peer("ho2/1@a")
    for number, worker in enumerate(workers):
        client.ask(f"WO-{number}", to=f"ho1/{number}@a")
        assert worker.stdout.readline() == f"WO-{number}\n"
        client.idle(0.3)
        worker.send_signal(sig)
        assert client.failure(20.0) == (f"WO-{number}", "peer_lost")


def test_work_of_a_killed_worker_is_done_by_another(bench):
    """Redelivered with the next attempt as soon as the loss is known."""
    worker = bench.worker("ho1/1@a")
    client = bench.peer("ho2/1@a")
    client.ask("WO-1")
    assert worker.stdout.readline() == "WO-1\n"
    other = bench.peer("ho1/2@a", offers=("ho1",))
    other.control(Kind.READY, Ready(state="ready"))
    worker.kill()
    head, _ = other.receive(30.0)
    assert (head.message_id, head.attempt, head.sender) == ("WO-1", 2, "ho2/1@a")


def test_a_wrong_token_is_refused_on_the_socket(bench):
    """A stranger with a good name and a bad secret is told so and stays outside."""
    mint(bench.home, "ho2/1@a", "ho2", None)
    stranger = bench.stranger()
    assert stranger.hello("ho2/1@a", "guess").type == "bus.refused"
    stranger.ask("q")
    assert stranger.receive(30.0)[0].type == "bus.rehello"


async def test_the_tap_shows_all_frames_live_and_from_the_ring_without_gap_or_repetition(bench):
    """A reader that asks for the last minute gets what was, then what comes: every sequence number once."""
    client = bench.peer("ho2/1@a")
    for number in range(200):
        client.ask(f"early-{number}", to="ledger", type_name="wo.execute")
        client.failure(30.0)
    zeromq = ZeroMQ(bench.settings)
    reader = TapReader(zeromq, bench.tap, since_s=60)
    async with asyncio.timeout(30):
        await reader.is_heard()
    for number in range(200):
        client.ask(f"late-{number}", to="ledger", type_name="wo.execute")
        client.failure(30.0)
    seen, lost = [], 0
    async with asyncio.timeout(30):
        async for batch in reader.batches():
            seen += [record for record in batch.records if record.kind != "beat"]
            lost += batch.lost
            if any(record.message_id == "late-199" for record in batch.records):
                break
    reader.close()
    zeromq.close()
    asked = [record.message_id for record in seen if record.verdict == "denied"]
    assert asked == [f"early-{n}" for n in range(200)] + [f"late-{n}" for n in range(200)]
    assert lost == 0
    numbers = [record.sequence for record in seen]
    assert numbers == sorted(set(numbers))


async def until_the_ring_is_read(reader):
    """Its batches up to the one with the ring's answer."""
    async for batch in reader.batches():
        yield batch
        if batch.reaches_at is not None:
            return


async def test_many_that_ask_for_the_ring_at_once_have_all_of_it_and_the_broker_goes_on(bench):
    """Nobody has a gap or a frame twice."""
    client = bench.peer("ho2/1@a")
    for number in range(500):
        client.ask(f"early-{number}", to="ledger", type_name="wo.execute", body=b"x" * 2_000)
        client.failure(30.0)
    zeromq = ZeroMQ(bench.settings)
    readers = [TapReader(zeromq, bench.tap, since_s=60, with_bodies=True) for _ in range(8)]

    async def read(reader):
        return [batch async for batch in until_the_ring_is_read(reader)][-1]

    async with asyncio.timeout(60):
        batches = await asyncio.gather(*map(read, readers))
    client = bench.peer(
        "ho2/1@b"
    )  # the first one was silent meanwhile: on a busy machine for longer than a peer may be
    client.ask("late", to="ledger", type_name="wo.execute")
    client.failure(30.0)
    for reader in readers:
        reader.close()
    zeromq.close()
    for batch in batches:
        asked = [record.message_id for record in batch.records if record.verdict == "denied"]
        assert asked == [f"early-{number}" for number in range(500)]
        assert batch.lost == 0
        assert len(batch.records) + batch.beats == batch.next - batch.first


def test_the_stop_pipe_ends_the_broker_in_order(bench):
    """A closed pipe wakes the poller; the process ends by itself with 0."""
    extra = bench.processes[0]
    os.close(bench.stop_fd)
    assert extra.stdout.readline() == "ended\n"
    assert extra.wait(timeout=60) == 0
    bench.stop_fd = os.open("/dev/null", os.O_RDONLY)


def test_a_broker_that_would_let_anybody_in_or_be_reached_from_outside_does_not_start(tmp_path, bench):
    """The self-test, the socket's directory and the address are checked before anything is bound."""
    good = {
        "settings": bench.settings,
        "endpoint": f"ipc://{tmp_path}/b",
        "tap_endpoint": f"ipc://{tmp_path}/t",
        "epoch": "e",
        "tokens": TokenDirectory(tmp_path),
        "clock": SystemClock(),
        "stops": {},
        "on_ready": lambda: pytest.fail("it started"),
    }

    class Open(TokenDirectory):
        def authenticate(self, hello):
            return None

    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o755)
    for change, says in [
        ({"tokens": Open(tmp_path)}, "token"),
        ({"tap_endpoint": "tcp://127.0.0.1:5999"}, "tap"),
        ({"endpoint": "tcp://0.0.0.0:5999"}, "CURVE"),
        ({"tap_endpoint": f"ipc://{wide}/t"}, "0700"),
        ({"endpoint": f"ipc://{tmp_path}/nowhere/b"}, "0700"),
    ]:
        with pytest.raises(ConfigError, match=says):
            run_broker(**(good | change))
