"""What an engine is asked for so many workers, in its own words: deploy/'s scripts beside stand-ins that say what they were told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
TOKEN = "HOBUS_JOIN_TOKEN"  # noqa: S105 - where one stands
BATCH = DEPLOY / "slurm" / "worker.sbatch"


END_AUTOSCALER = "kubectl --namespace hobus delete scaledobjects.keda.sh/hobus-worker --ignore-not-found\n"


class Engine:
    """A machine that has these commands of an engine."""

    def __init__(self, directory: Path, script: str, *commands: str) -> None:
        self.home, self._script = directory, DEPLOY / script
        for name in commands:
            (directory / name).write_text(f'#!/bin/sh\necho "{name} $*"; [ {name} != kubectl ] || cat\n')
            (directory / name).chmod(0o755)
        for name in ("bash", "sh", "dirname", "sed", "sort", "cat", "mv"):  # and no engine's that this machine has
            (directory / name).symlink_to(str(shutil.which(name)))

    def says(self, command: str, text: str) -> None:
        """What this command answers from now on."""
        (self.home / command).write_text(f"#!/bin/sh\nprintf '{text}'\n")

    def __call__(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.home), "HOME": str(self.home), "HOBUS_JOIN_TOKEN": "hobus1x", **environ}
        return subprocess.run(
            ["bash", str(self._script), *words], env=env, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture
def slurm(tmp_path: Path) -> Engine:
    """Where its commands are."""
    return Engine(tmp_path, "slurm/workers.sh", "squeue", "sbatch", "scancel")


@pytest.fixture
def kubernetes(tmp_path: Path) -> Engine:
    """Where kubectl is."""
    return Engine(tmp_path, "kubernetes/workers.sh", "kubectl")


def test_what_is_missing_is_submitted_as_one_array(slurm: Engine) -> None:
    """Jobs that end are none; the token is in a file for its owner alone, and in no job's environment."""
    slurm.says("squeue", "R 7_1\\nCG 7_2\\n")
    (slurm.home / "sbatch").write_text('#!/bin/sh\necho "sbatch $* ${HOBUS_JOIN_TOKEN:-none}"\n')
    token = slurm.home / ".mine.token"
    made = slurm("--count", "3", "--partition=x", HOBUS_WORKERS="mine")
    export = f"--export=ALL,JOIN_TOKEN_FILE={token}"
    assert made.stdout == f"sbatch --array=1-2 --job-name=mine {export} --partition=x {BATCH} none\n"
    assert (token.read_text(), token.stat().st_mode & 0o777) == ("hobus1x\n", 0o600)
    assert slurm("--count", "1", HOBUS_WORKERS="mine", **{TOKEN: "hobus1y"}).stdout == "1 workers are there already\n"
    assert token.read_text() == "hobus1y\n", "for jobs that are requeued"


@pytest.mark.parametrize(
    ("count", "told"),
    [
        ("2", "scancel 9_1\n"),
        ("1", "scancel 9_1\nscancel --signal=TERM 10_1\n"),
        ("0", "scancel 9_1\nscancel --signal=TERM 9_2 10_1\n"),
    ],
)
def test_of_a_surplus_those_go_first_that_have_not_begun_then_the_newest(slurm: Engine, count: str, told: str) -> None:
    """A running one is signalled, so that it drains; numbers are compared as such."""
    slurm.says("squeue", "R 10_1\\nCF 9_2\\nPD 9_1\\n")
    assert slurm("--count", count).stdout == told


def test_kubernetes_gets_the_shipped_workers_with_number_image_and_token(kubernetes: Engine) -> None:
    """In one namespace; everything else of the Deployment as it is shipped."""
    said = kubernetes("--image", "r.example/hobus:9", "--count", "5").stdout
    words, _, text = said.removeprefix(END_AUTOSCALER).partition("\n")
    assert said.startswith(END_AUTOSCALER) and words == "kubectl --namespace hobus apply --filename -"
    made = {one["kind"]: one for one in yaml.safe_load_all(text)}
    assert list(made) == ["Namespace", "Secret", "Deployment", "PodDisruptionBudget"]
    assert (made["Secret"]["metadata"]["name"], made["Secret"]["stringData"]) == ("hobus-join", {"token": "hobus1x"})
    shipped = next(yaml.safe_load_all((DEPLOY / "kubernetes/base/worker.yaml").read_text()))["spec"]
    shipped["template"]["spec"]["containers"][0]["image"] = "r.example/hobus:9"
    assert made["Deployment"]["spec"] == {**shipped, "replicas": 5}


def test_between_bounds_the_number_is_keda_s(kubernetes: Engine) -> None:
    """A ScaledObject with them, and no replicas beside it."""
    text = kubernetes("--image", "i", "--min", "0", "--max", "9").stdout.partition("\n")[2]
    made = {one["kind"]: one["spec"] for one in yaml.safe_load_all(text) if "spec" in one}
    assert (made["ScaledObject"]["minReplicaCount"], made["ScaledObject"]["maxReplicaCount"]) == (0, 9)
    assert "replicas" not in made["Deployment"]


def test_none_on_kubernetes_needs_neither_image_nor_token(kubernetes: Engine) -> None:
    """The Deployment stays, scaled to nothing."""
    made = kubernetes("--count", "0", **{TOKEN: ""})
    assert made.stdout == f"{END_AUTOSCALER}kubectl --namespace hobus scale deployment/hobus-worker --replicas=0\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "how many?"), (("--count", "1", "--min", "1", "--max", "2"), "how many?"), (("--min", "3", "--max", "2"), "how many?"),
        (("--count", "2"), "which image"), (("--count", "2", "--image", "i; rm"), "which image"), (("--partition=x",), "expected"),
    ],
)  # fmt: skip
def test_what_kubernetes_cannot_be_asked_is_said(kubernetes: Engine, words: tuple[str, ...], said: str) -> None:
    """Before anything is done."""
    made = kubernetes(*words)
    assert (made.returncode, made.stdout) == (2, "") and said in made.stderr


@pytest.mark.parametrize(
    ("script", "words"), [("slurm/workers.sh", ["--count", "2"]), ("kubernetes/workers.sh", ["--count", "0"])]
)
def test_an_engine_that_is_not_here_is_named_with_its_mend(tmp_path: Path, script: str, words: list[str]) -> None:
    """Also where it is only asked whether it could be; a dry run needs none."""
    engine = Engine(tmp_path, script)
    for environ in ({}, {"DRY_RUN": "check"}):
        made = engine(*words, **environ)
        assert made.returncode == 2 and "is not here" in made.stderr
    assert engine(*words, DRY_RUN="1").returncode == 0
    assert not list(tmp_path.glob(".*"))
