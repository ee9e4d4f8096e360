"""The broker as a process: who learns what, and when, if a worker is killed or frozen; what bytes on the socket can do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from hobus.bus.clock import SystemClock
from hobus.bus.errors import ConfigError
from hobus.bus.settings import BusSettings
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.tokens import TokenDirectory, mint
from tests.process.raw_peer import RawPeer

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": "."}


class Bench:
    """One broker process, raw peers of this process, worker processes."""

    def __init__(self, home: Path, **changes: object) -> None:
        self.home = home
        self.endpoint = f"ipc://{home}/broker.sock"
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

    def peer(self, instance, **fields):
        """A welcome raw peer."""
        peer = RawPeer(self.context, self.endpoint)
        self.peers.append(peer)
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
