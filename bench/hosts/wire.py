"""Hosts on one machine, and the wire between them: delay, loss, a rate, partitions, sleep and death.

A host is a network namespace of its own with one TUN device; a thread of this process carries each IP packet from one
device to the other, so that TCP sees what it would see between machines. The kernel's own `netem` is not needed. Files,
users and clocks are the machine's. Whatever runs on a host is killed at the end; namespaces and devices go with this process.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import random
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_NEWNET = 0x40000000
_TUNSETIFF, _TUN, _NO_PI = 0x400454CA, 0x0001, 0x1000
_PACKET_MAX = 65536
_AT_ONCE = 64
_QUEUE_S = 1.0  # what waits longer than this for a slow link is dropped, as a router does with a full queue
_libc = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """Why there can be no hosts here, in a sentence; nothing where they can be."""
    if os.geteuid() != 0:
        return "hosts need root: each is a network namespace"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK) or shutil.which("ip") is None:
        return "hosts need /dev/net/tun and the command ip (iproute2)"
    try:
        with _own_namespace():
            _checked(_libc.unshare(_NEWNET))
    except OSError as fault:
        return f"hosts need network namespaces: {fault}"
    return ""


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def _own_namespace() -> Iterator[None]:
    """This thread is back in its network namespace afterwards."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _checked(_libc.setns(own, _NEWNET))
        os.close(own)


@dataclass(slots=True)
class Direction:
    delay_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float = 0.0  # 0: as fast as it can
    is_cut: bool = False
    free_at: float = 0.0
    dropped: int = 0


class Hosts:
    """So many hosts, each connected to each; a context manager."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._draw = random.Random(1)  # which packets a loss takes
        self._wires = {(a, b): Direction() for a in range(count) for b in range(count) if a != b}
        self._namespaces: list[int] = []
        self._devices: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)

    def __enter__(self) -> Self:
        for host in range(self.count):
            with _own_namespace():
                _checked(_libc.unshare(_NEWNET))
                self._namespaces.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
                device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                self._devices.append(device)
                fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"wire", _TUN | _NO_PI))
                addressed = f"addr add {self.address(host)}/24 dev wire"
                for words in (addressed, "link set wire up txqueuelen 5000", "link set lo up"):
                    subprocess.run(["ip", *words.split()], check=True)
            self._loop.add_reader(device, self._carry, host)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for host in range(self.count):
            self.kill(host)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for fd in (*self._devices, *self._namespaces):
            os.close(fd)

    def address(self, host: int) -> str:
        return f"10.77.0.{host + 1}"

    def link(self, a: int, b: int, *, delay_ms: float = 0.0, loss: float = 0.0, bytes_per_s: float = 0.0) -> None:
        """Between these two, each way: a delay, the share of packets that is lost, how much it carries."""
        for wire in (self._wires[a, b], self._wires[b, a]):
            wire.delay_s, wire.loss, wire.bytes_per_s = delay_ms / 1000, loss, bytes_per_s

    def links(self, **of: float) -> None:
        for a, b in self._wires:
            self.link(a, b, **of)

    def partition(self, a: int, b: int, *, one_way: bool = False) -> None:
        """Nothing comes through from `a` to `b`; nor back, unless it is one way."""
        self._wires[a, b].is_cut = True
        self._wires[b, a].is_cut |= not one_way

    def heal(self) -> None:
        """Every link carries again, as fast as it does; what is dead or asleep stays so."""
        for wire in self._wires.values():
            wire.is_cut = False

    def dropped(self) -> int:
        return sum(wire.dropped for wire in self._wires.values())

    def _carry(self, host: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                packet = os.read(self._devices[host], _PACKET_MAX)
            except BlockingIOError:
                return
            wire = self._wires.get((host, packet[19] - 1)) if packet[0] >> 4 == 4 else None
            if wire is None:
                continue
            at = now = self._loop.time()
            if wire.bytes_per_s:
                at = max(now, wire.free_at) + len(packet) / wire.bytes_per_s
            if wire.is_cut or at - now > _QUEUE_S or self._draw.random() < wire.loss:
                wire.dropped += 1
                continue
            wire.free_at = at
            at += wire.delay_s
            if at > now:
                self._loop.call_at(at, self._deliver, wire, packet[19] - 1, packet)
            else:
                self._deliver(wire, packet[19] - 1, packet)

    def _deliver(self, wire: Direction, host: int, packet: bytes) -> None:
        if wire.is_cut:  # what was under way when it was cut
            wire.dropped += 1
            return
        with suppress(BlockingIOError):
            os.write(self._devices[host], packet)

    @contextmanager
    def inside(self, host: int) -> Iterator[None]:
        """What this thread starts, binds or connects meanwhile is on that host."""
        with _own_namespace():
            _checked(_libc.setns(self._namespaces[host], _NEWNET))
            yield

    def run(self, host: int, argv: list[str], **options: object) -> subprocess.Popen[bytes]:
        with self.inside(host):
            return subprocess.Popen(argv, **options)  # type: ignore[call-overload]

    def processes(self, host: int) -> list[psutil.Process]:
        """What runs there, this process's own threads aside; the dead, whom nobody waited for yet, do not run."""
        inode, found = os.fstat(self._namespaces[host]).st_ino, list[psutil.Process]()
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                is_there = Path(f"/proc/{process.pid}/ns/net").stat().st_ino == inode  # a zombie has none
                if is_there and process.pid != os.getpid():
                    found.append(process)
        return found

    def sleep(self, host: int) -> None:
        """All of it stands still, its kernel too: nothing is acknowledged."""
        self._isolate(host)
        self._signal(host, signal.SIGSTOP)

    def wake(self, host: int) -> None:
        self._signal(host, signal.SIGCONT)
        self.heal()

    def kill(self, host: int) -> None:
        """As without power: nobody is told, no connection is closed. Its links stay cut."""
        self._isolate(host)
        while processes := self.processes(host):
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            time.sleep(0.01)

    def _isolate(self, host: int) -> None:
        for pair, wire in self._wires.items():
            wire.is_cut |= host in pair

    def _signal(self, host: int, number: signal.Signals) -> None:
        for process in self.processes(host):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)
