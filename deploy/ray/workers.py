"""Workers as actors of a Ray cluster, with hobus on each node: HOBUS_JOIN_TOKEN=hobus1... python workers.py --count 8.

The token is --ephemeral: each start of an actor joins with a key of its own. Ray starts an actor anew where its node
has died; what its worker had in work goes to others at once. Fewer than before: the surplus drains within its grace.
RAY_ADDRESS says which cluster (default: the one on this machine). --count 0 ends all. DRY_RUN=1: say it only; check:
exit code 3 where no worker is to start, so that no token is needed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

try:
    import ray
except ImportError:
    ray = None

NAMESPACE, GRACE_S, READY_S, CPUS, NONE_STARTS = "hobus", 60, 15, 1, 3
NAME = os.environ.get("HOBUS_WORKERS", "hobus-worker")  # `hobus workers on ray`: of the cluster's home
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Worker:
    """A worker process for as long as this actor lives; where it ends unasked, Ray starts another actor."""

    def __init__(self, token: str, slots: int) -> None:
        self.is_draining = False
        self.process: subprocess.Popen[bytes] | None = None
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(token, slots), daemon=True)
        self.thread.start()

    def _run(self, token: str, slots: int) -> None:
        # In a thread that waits for it: the kernel's signal at the parent's death is at that of the thread.
        beside, libc = Path(sys.executable).with_name("hobus"), ctypes.CDLL(None)
        with tempfile.TemporaryDirectory(prefix="hobus-worker-") as directory:
            hobus = str(beside) if beside.exists() else "hobus"
            words = ["worker", "join", "--home", f"{directory}/home", "--slots", str(slots), "--grace", f"{GRACE_S}s"]
            self.process = subprocess.Popen(
                [hobus, *words],
                env={**os.environ, "HOBUS_JOIN_TOKEN": token},
                preexec_fn=lambda: libc.prctl(_DIES_WITH_PARENT, signal.SIGTERM),  # noqa: PLW1509 - nothing else does it
            )
            self.begun.set()
            self.process.wait()
        if not self.is_draining:
            os._exit(1)

    def drain(self) -> None:
        """Let the worker finish what it has, within its grace, and end."""
        self.is_draining = True
        if self.begun.wait(READY_S) and self.process is not None:
            self.process.terminate()
        self.thread.join(GRACE_S + 15)


def list_workers(count: int) -> tuple[list[str], list[str]]:
    """Return the names of workers that are too many, and of those that are missing."""
    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), namespace=NAMESPACE, log_to_driver=False)
    there = {name for name in ray.util.list_named_actors() if name.startswith(f"{NAME}-")}
    wanted = [f"{NAME}-{number}" for number in range(1, count + 1)]
    return sorted(there - set(wanted)), [name for name in wanted if name not in there]


def done_of(asked: dict[Any, str], timeout_s: float) -> set[str]:
    """Return the names of the actors that answered in time; `asked`: by what was asked of each."""
    answered = ray.wait(list(asked), num_returns=len(asked), timeout=timeout_s)[0] if asked else []
    return {asked[one] for one in answered}


def scale(surplus: list[str], missing: list[str], token: str, slots: int) -> list[str]:
    """Drain the surplus, all at once, and start what is missing; what was done, in words."""
    actors = {name: ray.get_actor(name) for name in surplus}
    placed = done_of({actor.__ray_ready__.remote(): name for name, actor in actors.items()}, READY_S)
    drained = done_of({actors[name].drain.remote(): name for name in placed}, GRACE_S + 30)
    for actor in actors.values():
        ray.kill(actor)
    done = [f"{name} ended{' before it had drained' * (name in placed - drained)}" for name in surplus]
    remote = ray.remote(num_cpus=CPUS, max_restarts=-1)(Worker) if missing else None
    started = {name: remote.options(name=name, lifetime="detached").remote(token, slots) for name in missing}
    ready = done_of({actor.__ray_ready__.remote(): name for name, actor in started.items()}, READY_S)
    return done + [f"{name} {'started' if name in ready else 'waits for a free CPU'}" for name in missing]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Workers of hobus on a Ray cluster.")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4)
    given = parser.parse_args()
    token = os.environ.get("HOBUS_JOIN_TOKEN", "")
    if ray is None and os.environ.get("DRY_RUN") != "1":
        parser.error("the Python package ray is not here: pip install ray, in this environment and on every node")
    if os.environ.get("DRY_RUN") == "1":
        sys.stdout.write(f"actors {NAME}-1 to {NAME}-{given.count}, others drain\n")
        return
    surplus, missing = list_workers(given.count)
    if os.environ.get("DRY_RUN"):
        sys.exit(0 if missing else NONE_STARTS)
    if missing and not token:
        parser.error("HOBUS_JOIN_TOKEN is not set: hobus token create --uses 8 --ttl 30d --ephemeral 10m")
    for line in scale(surplus, missing, token, given.slots) or [f"{given.count} workers are there already"]:
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
