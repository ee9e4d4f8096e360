"""What an engine is asked for so many workers: exact words and objects, without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hobus.bus.limits import JOIN_USES_MAX
from hobus.launch.worker import engines
from hobus.launch.worker.engines import DEPLOY, NAMESPACE, TOKEN, EngineJob, Wanted

SCRIPT = str(DEPLOY / "slurm" / "worker.sbatch")
FILE = Path("/a/.token")


def asked(count: int, jobs: list[EngineJob], *options: str) -> list[list[str]]:
    """The words of each command."""
    return [list(one.words) for one in engines.slurm(count, jobs, name="mine", token_file=FILE, options=options)]


def test_what_is_missing_is_submitted_as_one_array() -> None:
    """Those that are there count; options of sbatch stand before the script."""
    export = f"--export=ALL,JOIN_TOKEN_FILE={FILE}"
    there = [EngineJob("7_1", is_pending=False)]
    assert asked(3, there, "--partition=x") == [
        ["sbatch", "--array=1-2", "--job-name=mine", export, "--partition=x", SCRIPT]
    ]
    assert asked(1, there) == []
    assert Path(SCRIPT).is_file()


def test_of_a_surplus_those_go_first_that_have_not_begun_then_the_newest() -> None:
    """A running one is signalled, so that it drains; numbers are compared as such."""
    jobs = [EngineJob("10_1", is_pending=False), EngineJob("9_2", is_pending=False), EngineJob("9_1", is_pending=True)]
    assert asked(2, jobs) == [["scancel", "9_1"]]
    assert asked(1, jobs) == [["scancel", "9_1"], ["scancel", "--signal=TERM", "10_1"]]
    assert asked(0, jobs) == [["scancel", "9_1"], ["scancel", "--signal=TERM", "9_2", "10_1"]]


def test_jobs_that_are_ending_are_none() -> None:
    """As squeue prints them; an empty answer names none."""
    said = "70_1 R\n70_2 PD\n70_3 CG\n\n71 CF\n"
    assert engines.jobs_in(said) == [
        EngineJob("70_1", is_pending=False),
        EngineJob("70_2", is_pending=True),
        EngineJob("71", is_pending=False),
    ]
    assert engines.jobs_in("") == []


def applied(wanted: Wanted) -> dict[str, dict[str, Any]]:
    """What kubectl is given, by kind."""
    (step,) = engines.kubernetes(wanted, image="r.example/hobus:9")
    assert step.words == ["kubectl", "apply", "--filename", "-"]
    return {one["kind"]: one for one in yaml.safe_load_all(step.stdin)}


def test_kubernetes_gets_the_shipped_workers_with_number_image_and_token() -> None:
    """All in one namespace; everything else of the Deployment as it is shipped."""
    made = applied(Wanted(count=5))
    assert list(made) == ["Namespace", "Secret", "Deployment", "PodDisruptionBudget"]
    assert {one["metadata"].get("namespace") for kind, one in made.items() if kind != "Namespace"} == {NAMESPACE}
    assert made["Namespace"]["metadata"]["name"] == NAMESPACE
    assert made["Secret"]["stringData"] == {"token": TOKEN}
    spec = made["Deployment"]["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert (spec["replicas"], container["image"]) == (5, "r.example/hobus:9")
    reference = container["env"][0]["valueFrom"]["secretKeyRef"]
    assert (reference["name"], reference["key"]) == (made["Secret"]["metadata"]["name"], "token")
    shipped = yaml.safe_load((DEPLOY / "kubernetes/base/worker.yaml").read_text().split("\n---\n")[0])["spec"]
    shipped["template"]["spec"]["containers"][0]["image"] = "r.example/hobus:9"
    assert spec == {**shipped, "replicas": 5}


def test_between_bounds_the_number_is_keda_s() -> None:
    """A ScaledObject with them, and no replicas beside it."""
    made = applied(Wanted(least=0, most=9))
    scaled = made["ScaledObject"]["spec"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (0, 9)
    assert scaled["scaleTargetRef"]["name"] == made["Deployment"]["metadata"]["name"]
    assert "replicas" not in made["Deployment"]["spec"]


def test_none_on_kubernetes_needs_neither_image_nor_token() -> None:
    """The Deployment stays, scaled to nothing."""
    (step,) = engines.kubernetes(Wanted(count=0), image="")
    assert (step.words[-2:], step.stdin) == (["deployment/hobus-worker", "--replicas=0"], "")


@pytest.mark.parametrize(("count", "has_token"), [(8, True), (0, False)])
def test_ray_is_asked_by_the_shipped_script(count: int, has_token: bool) -> None:
    """The token comes by the environment, which nobody else reads on a command line."""
    (step,) = engines.ray(count, python="py")
    assert step.words == ["py", str(DEPLOY / "ray" / "workers.py"), "--count", str(count)]
    assert (dict(step.environ) == {"HOBUS_JOIN_TOKEN": TOKEN}) is has_token


@pytest.mark.parametrize(
    ("engine", "wanted", "word"),
    [
        ("slurm", Wanted(), "--count"), ("slurm", Wanted(least=1, most=2), "SLURM"), ("ray", Wanted(most=2), "Ray"),
        ("kubernetes", Wanted(count=1, least=1, most=2), "one or the other"), ("kubernetes", Wanted(), "KEDA"),
        ("kubernetes", Wanted(least=1), "together"), ("kubernetes", Wanted(least=3, most=2), "at least"),
        ("kubernetes", Wanted(most=2), "together"),
    ],
)  # fmt: skip
def test_what_an_engine_cannot_be_asked_is_said(engine: engines.Engine, wanted: Wanted, word: str) -> None:
    """Before anything is made."""
    assert word in wanted.fault(engine)


@pytest.mark.parametrize("wanted", [Wanted(count=0), Wanted(count=4), Wanted(least=2, most=2)])
def test_what_kubernetes_can_be_asked_has_no_fault(wanted: Wanted) -> None:
    """And the token is good for two generations of them, within the bound."""
    assert not wanted.fault("kubernetes")
    assert wanted.uses == max(1, 2 * (wanted.count or wanted.most or 0))
    assert Wanted(count=900).uses == JOIN_USES_MAX
