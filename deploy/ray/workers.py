"""Workers as actors of a Ray cluster, with hobus on each node: HOBUS_JOIN_TOKEN=hobus1... python workers.py --count 8.

The token is --ephemeral: each start of an actor joins with a key of its own. Ray starts an actor anew where its node
has died; what its worker had in work goes to others at once. Fewer than before: the surplus drains within its grace.
RAY_ADDRESS says which cluster (default: the one on this machine). --count 0 ends all. DRY_RUN=1: say it only.
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

try:
    import ray
except ImportError:
    ray = None

NAMESPACE, GRACE_S, CPUS = "hobus", 60, 1
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Worker:
    """A worker process for as long as this actor lives; where it ends unasked, Ray starts another actor."""

    def __init__(self, token: str, slots: int) -> None:
        self.is_draining = False
        self.process: subprocess.Popen[bytes] | None = None
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
            self.process.wait()
        if not self.is_draining:
            os._exit(1)

    def drain(self) -> None:
        """Let the worker finish what it has, within its grace, and end."""
        self.is_draining = True
        if self.process is not None:
            self.process.terminate()
        self.thread.join(GRACE_S + 15)


def scale(token: str, count: int, slots: int) -> list[str]:
    """So many workers, named hobus-worker-1 and on; what was done, in words."""
    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), namespace=NAMESPACE, log_to_driver=False)
    there = {name for name in ray.util.list_named_actors() if name.startswith("hobus-worker-")}
    wanted = [f"hobus-worker-{number}" for number in range(1, count + 1)]
    done: list[str] = []
    for name in sorted(there - set(wanted)):
        actor = ray.get_actor(name)
        try:
            ray.get(actor.drain.remote(), timeout=GRACE_S + 30)
        except ray.exceptions.RayError as error:
            done.append(f"{name} did not drain ({type(error).__name__})")
        ray.kill(actor)
        done.append(f"{name} ended")
    for name in wanted:
        if name not in there:
            remote = ray.remote(num_cpus=CPUS, max_restarts=-1)(Worker)
            remote.options(name=name, lifetime="detached").remote(token, slots)
            done.append(f"{name} started")
    return done or [f"{count} workers are there already"]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Workers of hobus on a Ray cluster.")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4)
    given = parser.parse_args()
    token = os.environ.get("HOBUS_JOIN_TOKEN", "")
    if ray is None and os.environ.get("DRY_RUN") != "1":
        parser.error("the Python package ray is not here: pip install ray, in this environment and on every node")
    if os.environ.get("DRY_RUN"):
        sys.stdout.write(f"actors hobus-worker-1 to hobus-worker-{given.count}, others drain\n")
        return
    if given.count > 0 and not token:
        parser.error("HOBUS_JOIN_TOKEN is not set: hobus token create --uses 8 --ttl 30d --ephemeral 10m")
    for line in scale(token, given.count, given.slots):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
