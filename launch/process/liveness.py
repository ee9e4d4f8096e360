"""The pipe that tells a process whether its launcher still lives, and what follows when it does not.

The launcher keeps the writing end open and writes two lines: what this process is given of the environment, and the
secret of this incarnation. The kernel closes that end when the launcher dies, however it dies, and every child reads
the end of the file. PDEATHSIG is not used: it fires when a *thread* of the launcher ends. Then edges end first, what
others still need last, and everything is bounded.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable

from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import DRAIN_MS
from hobus.bus.port import Clock
from hobus.config.schema import AdminConfig
from hobus.launch.limits import ORPHAN_POLL_MS

FINISH = signal.SIGUSR1
"""From the launcher: take nothing new, finish, end. SIGTERM tells the same with little time."""

STAGES = {"http": 0, "host": 0, "ho2": 1, "ho1": 2, "ho3": 2, "gateway": 2, "ledger": 3, "broker": 4}
"""A role ends when nobody of an earlier stage is left: the host answers its turns, HO2 settles its runs, and so on."""


class LauncherGone(Exception):
    """The launcher was gone before it had said the secret."""


def read_given(fd: int) -> tuple[dict[str, str], str]:
    """Return variables and secret that the launcher wrote; raises LauncherGone when it died first."""
    return json.loads(_read_line(fd)), _read_line(fd)


def _read_line(fd: int) -> str:
    said = b""
    while not said.endswith(b"\n"):
        piece = os.read(fd, 1)
        if not piece:
            raise LauncherGone
        said += piece
    return said[:-1].decode("ascii")


def watch(fd: int, *, on_gone: Callable[[], None], hard_limit_s: float) -> None:
    """Call `on_gone`, on a thread of its own, when the launcher is gone; `hard_limit_s` later the process ends.

    A thread, because it must work while the process's loop is stuck; it does nothing but wait.
    """

    def wait() -> None:
        try:
            while os.read(fd, 64):
                pass
        except OSError:
            return  # this process closed the pipe: it is ending by itself
        on_gone()
        threading.Event().wait(hard_limit_s)
        os._exit(70)

    threading.Thread(target=wait, name="liveness", daemon=True).start()


def needed_by(role: str, roles: Iterable[str]) -> bool:
    """Return whether any of these roles still needs a process of `role`; clients and launchers do not count."""
    return any(STAGES.get(other, STAGES["broker"]) < STAGES[role] for other in roles)


def compute_patience_s(role: str, config: AdminConfig) -> float:
    """Return how long after the launcher's death a process of this role ends at the latest."""
    return config.launcher.orphan_drain_s + max(0, STAGES[role] - 1) * DRAIN_MS / 1000


def compute_hard_limit_s(config: AdminConfig) -> float:
    return config.launcher.orphan_drain_s + (STAGES["broker"] + 1) * DRAIN_MS / 1000


async def wait_until_not_needed(
    role: str,
    roles_present: Callable[[], Awaitable[list[str]]],
    *,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]],
    config: AdminConfig,
) -> float:
    """Wait until nobody needs this process or its patience is over; return what is left of that, in seconds."""
    deadline = clock.monotonic() + compute_patience_s(role, config)
    while clock.monotonic() < deadline:
        try:
            present = await roles_present()
        except RuntimeFault as fault:  # without the broker nobody can need this process; a late one did not say so
            present = [] if fault.code == "no_route" else [*STAGES]
        if not needed_by(role, present):
            break
        await sleep(ORPHAN_POLL_MS / 1000)
    return max(0.0, deadline - clock.monotonic())
