"""Floods every socket with garbage and kills the flooder in the middle: no process of the cluster may die of it.

libzmq aborts a process whose socket has both a receive limit and ZMTP heartbeats when such a peer dies. `--shape`
says what is sent, `--socket` where; after all of it a turn must be answered. Memory is that of the socket's process.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from bench.cluster import Cluster, cluster, eventually
from bench.hostile.enrol import enrolled
from bench.hostile.flooder import SHAPES

SOCKETS = {"local": "broker/1", "remote": "broker/1", "tap": "broker/1", "ledger": "ledger/1", "gateway": "gateway/1"}
"""What is flooded: the broker's local socket (without any token), its CURVE socket (with an enrolled worker's key), its
tap, and the services' lanes; and whose it is."""

_LOOK_S = 0.05


@dataclass
class Outcome:
    """What the floods of one socket did."""

    tries: int = 0
    deaths: list[str] = field(default_factory=list)
    peak_mb: float = 0.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """How often, where, what."""
    parser.add_argument("--times", type=int, default=100, help="floods per socket")
    parser.add_argument("--socket", choices=sorted(SOCKETS), nargs="*", default=list(SOCKETS))
    parser.add_argument("--shape", choices=sorted(SHAPES), default="bytes")
    parser.add_argument("--flooders", type=int, default=1, help="processes that flood at the same time")
    parser.add_argument("--seconds", type=float, default=3.0, help="from the first byte to the flooder's death")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds after each death")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds before memory is looked at a last time")


def run(options: argparse.Namespace) -> int:
    """0 if no process died and the cluster still answers."""
    settings = {"bus.listen": "127.0.0.1:0", "launcher.crash_budget": 1_000_000}  # each flood is heard
    with cluster(settings) as up:
        outcomes = {name: _attack(up, name, options) for name in options.socket}
        time.sleep(options.settle)
        after_mb = {actor: _memory_mb(pid) for actor, pid in _pids(up).items()}
        is_answered = up.ask("How are you?")["outcome"] == "success"
    for name, outcome in outcomes.items():
        died = f"; died: {', '.join(sorted(set(outcome.deaths)))}" if outcome.deaths else ""
        print(
            f"{name:8} {options.shape:6} {outcome.tries} floods, {len(outcome.deaths)} deaths{died}; "
            f"{SOCKETS[name]} at most {outcome.peak_mb:.0f} MB, {after_mb[SOCKETS[name]]:.0f} MB at the end"
        )
    print("a turn afterwards: answered" if is_answered else "a turn afterwards: NOT answered")
    return 0 if is_answered and not any(outcome.deaths for outcome in outcomes.values()) else 1


def _attack(up: Cluster, name: str, options: argparse.Namespace) -> Outcome:
    outcome = Outcome()
    words = json.dumps(_words(up, name, options.shape))
    for _ in range(options.times):
        before = _pids(up)
        flooders = [_flooder(words) for _ in range(options.flooders)]
        _watch(outcome, before[SOCKETS[name]], options.seconds)
        for flooder in flooders:
            flooder.send_signal(signal.SIGKILL)
            flooder.wait()
        _watch(outcome, before[SOCKETS[name]], options.rest)
        outcome.tries += 1
        outcome.deaths += [actor for actor, pid in before.items() if not psutil.pid_exists(pid)]
        with suppress(AssertionError):  # the next flood is to meet a whole cluster; given up after a while
            eventually(lambda: _is_whole(up), within_s=30)
    return outcome


def _words(up: Cluster, name: str, shape: str) -> dict[str, str]:
    if name == "remote":
        return {"kind": "dealer", "shape": shape, **enrolled(up)[0]}
    if name == "tap":
        return {"kind": "xsub", "shape": shape, "endpoint": up.place.tap}
    return {
        "kind": "dealer", "shape": shape, "endpoint": up.place.broker if name == "local" else up.place.lane(name),
    }  # fmt: skip


def _flooder(words: str) -> subprocess.Popen[str]:
    flooder = subprocess.Popen(
        [sys.executable, "-m", "bench.hostile.flooder"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert flooder.stdin is not None
    assert flooder.stdout is not None
    flooder.stdin.write(f"{words}\n")
    flooder.stdin.flush()
    flooder.stdout.readline()
    return flooder


def _watch(outcome: Outcome, pid: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        outcome.peak_mb = max(outcome.peak_mb, _memory_mb(pid))
        time.sleep(min(left, _LOOK_S))


def _memory_mb(pid: int) -> float:
    try:
        return psutil.Process(pid).memory_info().rss / 1e6
    except psutil.NoSuchProcess:
        return 0.0


def _pids(up: Cluster) -> dict[str, int]:
    return {child.actor: child.pid for child in up.run().children}


def _is_whole(up: Cluster) -> bool:
    return all(child.state == "ready" and psutil.pid_exists(child.pid) for child in up.run().children)
