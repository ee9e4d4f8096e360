"""Workers on engines that people have: what is asked of SLURM, Kubernetes and Ray, from the files in deploy/. Pure.

No scheduler of our own: each engine is told how many, in its own words, and starts, places and restarts them itself.
Nothing here runs a command or knows a token; `TOKEN` stands where one is put in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from msgspec import Struct

from hobus.bus.limits import JOIN_USES_MAX

DEPLOY = Path(__file__).parents[2] / "deploy"
"""The files that docs/deploy.md tells of, as they are installed."""
TOKEN = "<the token>"  # noqa: S105 - where one stands
NAMESPACE = "hobus"

Engine = Literal["slurm", "kubernetes", "ray"]
ENGINES: tuple[Engine, ...] = ("slurm", "kubernetes", "ray")
NEEDS = {"slurm": ("squeue", "sbatch", "scancel"), "kubernetes": ("kubectl",), "ray": ()}
"""The engine's own commands, all of which must be there."""
MENDS = {
    "slurm": "run it where SLURM's commands are: on a login node, with hobus and this home there",
    "kubernetes": "install kubectl, and let `kubectl config current-context` name the cluster that is meant",
    "ray": "pip install ray, in the environment of this hobus and of the one on every node of the Ray cluster",
}


class Wanted(Struct, frozen=True):
    """So many workers; of Kubernetes also between how many its autoscaler chooses."""

    count: int | None = None
    least: int | None = None
    most: int | None = None

    @property
    def uses(self) -> int:
        """Of the token: workers at once, and as many again while one generation of them follows another."""
        return max(1, min(JOIN_USES_MAX, 2 * (self.count or self.most or 0)))

    @property
    def is_none(self) -> bool:
        """Whether none are wanted any more, so that no token is needed."""
        return self.count == 0

    def fault(self, engine: Engine) -> str:
        """Why this engine cannot be asked for that; empty: it can."""
        is_between = self.least is not None or self.most is not None
        if is_between and engine != "kubernetes":
            of = {
                "slurm": "SLURM runs as many jobs as were submitted",
                "ray": "Ray runs as many actors as were started",
            }
            return f"--min, --max: {of[engine]}, and has no autoscaler for them; say --count"
        if is_between and self.count is not None:
            return "--count is a fixed number, --min and --max are the bounds of an autoscaler: give one or the other"
        if not is_between and self.count is None:
            return "how many? --count N" + (", or --min N --max M with KEDA" if engine == "kubernetes" else "")
        if is_between and (self.least is None or self.most is None or not 0 < self.most >= self.least):
            return "--min and --max go together, --max being at least --min and at least 1"
        return ""


class EngineStep(NamedTuple):
    """One command of the engine's; `stdin` and `environ` may hold TOKEN."""

    words: Sequence[str]
    stdin: str = ""
    environ: tuple[tuple[str, str], ...] = ()


# --- SLURM -----------------------------------------------------------------------------------------------------------


class EngineJob(NamedTuple):
    """One job of an array, as squeue names it."""

    job_id: str
    is_pending: bool


def slurm_question(name: str) -> EngineStep:
    """Which of this user's jobs are workers of this cluster."""
    return EngineStep(["squeue", "--me", "--noheader", "--array", "--name", name, "--format", "%i %t"])


def jobs_in(said: str) -> list[EngineJob]:
    """What squeue answers, without jobs that are ending."""
    rows = [line.split() for line in said.splitlines() if line.strip()]
    return [EngineJob(row[0], row[1] == "PD") for row in rows if row[1:] and row[1] not in ("CG", "CD", "CA")]


def slurm(
    count: int, jobs: Sequence[EngineJob], *, name: str, token_file: Path, options: Sequence[str]
) -> list[EngineStep]:
    """What is missing is submitted as one array; of a surplus those go first that have not begun, then the newest.

    A running one is signalled as before its time limit, without being requeued: it drains within its grace.
    """
    if (missing := count - len(jobs)) > 0:
        export = f"--export=ALL,JOIN_TOKEN_FILE={token_file}"
        script = str(DEPLOY / "slurm" / "worker.sbatch")
        return [EngineStep(["sbatch", f"--array=1-{missing}", f"--job-name={name}", export, *options, script])]
    newest_last = sorted(jobs, key=lambda job: [int(part) for part in job.job_id.split("_") if part.isdigit()])
    by_worth = sorted(newest_last, key=lambda job: job.is_pending)
    surplus = by_worth[count:]
    pending = [job.job_id for job in surplus if job.is_pending]
    running = [job.job_id for job in surplus if not job.is_pending]
    steps = [EngineStep(["scancel", *pending])] if pending else []
    return [*steps, EngineStep(["scancel", "--signal=TERM", *running])] if running else steps


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def kubernetes(wanted: Wanted, *, image: str) -> list[EngineStep]:
    """The workers of deploy/kubernetes alone, applied: their cluster may be anywhere that they reach."""
    if wanted.is_none:
        return [EngineStep(["kubectl", "--namespace", NAMESPACE, "scale", "deployment/hobus-worker", "--replicas=0"])]
    text = yaml.safe_dump_all(_manifests(wanted, image), sort_keys=False)
    return [EngineStep(["kubectl", "apply", "--filename", "-"], stdin=text)]


def _manifests(wanted: Wanted, image: str) -> list[dict[str, Any]]:
    folder = DEPLOY / "kubernetes"
    found = [*_read(folder / "base" / "namespace.yaml"), _secret(), *_read(folder / "base" / "worker.yaml")]
    if wanted.count is None:
        (scaled,) = _read(folder / "keda" / "scaledobject.yaml")
        scaled["spec"] |= {"minReplicaCount": wanted.least, "maxReplicaCount": wanted.most}
        found.append(scaled)
    for one in found:
        if one["kind"] != "Namespace":
            one["metadata"]["namespace"] = NAMESPACE
        if one["kind"] == "Deployment":
            one["spec"].pop("replicas")  # beside an autoscaler, whose number it is
            one["spec"] |= {} if wanted.count is None else {"replicas": wanted.count}
            one["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return found


def _secret() -> dict[str, Any]:
    about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hobus-join"}}
    return {**about, "stringData": {"token": TOKEN}}


def _read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


# --- Ray -------------------------------------------------------------------------------------------------------------


def ray(count: int, *, python: str) -> list[EngineStep]:
    """By Ray's own interface, in deploy/ray: detached actors, those that are there counted."""
    environ = (("HOBUS_JOIN_TOKEN", TOKEN),) if count else ()
    return [EngineStep([python, str(DEPLOY / "ray" / "workers.py"), "--count", str(count)], environ=environ)]
