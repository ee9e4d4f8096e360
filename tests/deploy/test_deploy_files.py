"""What stands in deploy/ is what the product takes: commands, settings, paths, ports, metrics, and how long it waits."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.builders import shipped_snapshot
from hobus.bus.messages.control import PeerRow, QueueRow
from hobus.config.files import Layers
from hobus.config.snapshot import load_snapshot
from hobus.launch.console import exit_codes
from hobus.launch.filters.quantities import parse_duration
from hobus.launch.http.app import OPERATIONS
from hobus.launch.http.guard import names_of
from hobus.launch.http.metrics import Metrics
from hobus.launch.launcher.supervision import drain_bound_s
from tests.docs.test_readme import not_parsed

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
BASE, KEDA = DEPLOY / "kubernetes" / "base", DEPLOY / "kubernetes" / "keda"
SBATCH = (DEPLOY / "slurm" / "worker.sbatch").read_text(encoding="utf-8")
CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
SETTINGS = load_snapshot(Layers(config_file=BASE / "settings.json")).config
DRAINED_S = drain_bound_s(shipped_snapshot().config.launcher)


def manifests(*folders: Path) -> list[dict[str, Any]]:
    """Every object in these folders' files."""
    paths = sorted(path for folder in folders for path in folder.glob("*.yaml"))
    return [one for path in paths for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def of_kind(kind: str, name: str, *folders: Path) -> dict[str, Any]:
    """The spec of this object."""
    (found,) = [
        one["spec"] for one in manifests(*folders or (BASE, KEDA)) if (one["kind"], one.get("metadata", {}).get("name")) == (kind, name)
    ]  # fmt: skip
    return found


def unit(path: Path) -> dict[str, str]:
    """The settings of a unit; of one that is set twice the last, of `Environment` all in one line."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        found[name] = f"{found[name]} {value}" if name == "Environment" and name in found else value
    return found


CLUSTER_POD = of_kind("StatefulSet", "hobus")["template"]["spec"]
WORKER_POD = of_kind("Deployment", "hobus-worker")["template"]["spec"]
WORKER_WORDS = shlex.split(WORKER_POD["containers"][0]["command"][2].removeprefix("exec "))


def commands() -> Iterator[tuple[str, str]]:
    """(file, command line) of everything in deploy/ that runs hobus, or tells people to."""
    for path in UNITS:
        environment = dict(one.split("=", 1) for one in re.findall(r"UP_OPTIONS=.*$", unit(path)["Environment"]))
        started = unit(path)["ExecStart"].replace("$UP_OPTIONS", environment.get("UP_OPTIONS", ""))
        yield path.name, re.sub(r"^\S+/bin/", "", started)
        for given in re.findall(r"UP_OPTIONS=(--[^,\n]*)", path.read_text(encoding="utf-8")):
            yield path.name, f"hobus up {given}"
    yield "worker.sbatch", re.search(r"^srun (hobus .*) &$", SBATCH, re.MULTILINE)[1]  # type: ignore[index]
    yield "Containerfile", shlex.join(["hobus", *json.loads(re.search(r"^CMD (.*)$", CONTAINERFILE, re.MULTILINE)[1])])  # type: ignore[index]
    yield "cluster.yaml", shlex.join(["hobus", *CLUSTER_POD["containers"][0]["args"]])
    yield "worker.yaml", shlex.join(WORKER_WORDS)
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    yield from (("deploy.md", found) for found in re.findall(r"-- (hobus [^|\n]*)", page))
    for path in FILES:
        text = re.sub(r"\n\s*# ", " ", path.read_text(encoding="utf-8"))
        yield from ((path.name, found) for found in re.findall(r"`(hobus [^`]*)`", text))


def option(line: str, name: str) -> str:
    """What follows this option."""
    return dict(pairwise(shlex.split(line)))[name]


def test_every_command_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it would be on the machine where it runs: the token is in the environment, its settings are a file."""
    monkeypatch.setenv("HOBUS_JOIN_TOKEN", "hobus1")
    found = list(commands())
    assert {name for name, _ in found} >= {"hobus.service", "hobus-worker@.service", "kustomization.yaml", "deploy.md"}
    assert len(found) >= 8
    assert {f"{name}: {line}": fault for name, line in found if (fault := not_parsed(line))} == {}
    assert not_parsed("hobus worker join --gracious 60s")


def test_every_variable_is_one_that_the_product_reads() -> None:
    """A name that begins with HOBUS_ is the product's, and stands in its source."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "launch").rglob("*.py"))
    named = {name for path in FILES for name in re.findall(r"\bHOBUS_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8"))}
    assert named >= {"HOBUS_HOME", "HOBUS_WORKER_HOME", "HOBUS_JOIN_TOKEN"}
    assert {name for name in named if f'"{name}"' not in source} == set()


def test_whoever_ends_a_process_waits_longer_than_that_takes() -> None:
    """The cluster by its own bound, a worker by its grace; SLURM's signal comes early enough."""
    lines = dict(commands())
    grace_s = {name: parse_duration(option(line, "--grace")) for name, line in lines.items() if " worker " in line}
    assert float(unit(DEPLOY / "systemd/hobus.service")["TimeoutStopSec"]) > DRAINED_S
    assert CLUSTER_POD["terminationGracePeriodSeconds"] > DRAINED_S
    assert float(unit(DEPLOY / "systemd/hobus-worker@.service")["TimeoutStopSec"]) > grace_s["hobus-worker@.service"]
    assert WORKER_POD["terminationGracePeriodSeconds"] > grace_s["worker.yaml"]
    assert int(re.search(r"--signal=B:USR1@(\d+)", SBATCH)[1]) > grace_s["worker.sbatch"]  # type: ignore[index]


def test_ports_and_names_are_those_of_the_settings() -> None:
    """Containers, services, policies and the image open what the cluster listens at, under names that its door takes."""
    ports = [int(address.rpartition(":")[2]) for address in (SETTINGS.bus.listen, SETTINGS.http.listen)]
    (container,) = CLUSTER_POD["containers"]
    assert [port["containerPort"] for port in container["ports"]] == ports
    services = [of_kind("Service", name)["ports"][0] for name in ("hobus-bus", "hobus")]
    assert [(one["port"], one["targetPort"]) for one in services] == list(zip(ports, ("bus", "http"), strict=True))
    assert re.search(r"^EXPOSE (.*)$", CONTAINERFILE, re.MULTILINE)[1].split() == [str(port) for port in ports]  # type: ignore[index]
    rules = [rule for one in manifests(BASE, KEDA) if one["kind"] == "NetworkPolicy" for way in ("ingress", "egress")
             for rule in one["spec"].get(way, [])]  # fmt: skip
    assert {port["port"] for rule in rules for port in rule["ports"]} == {*ports, 53}
    names = names_of("0.0.0.0", SETTINGS.http.hosts)  # noqa: S104 - what the pod listens at
    assert {"hobus", "hobus.hobus", "localhost"} <= names
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in {one.path for one in OPERATIONS}
        assert {header["value"] for header in asked["httpHeaders"]} <= names


def test_what_is_written_lies_on_a_volume_and_nothing_is_run_by_root() -> None:
    """The home one level below the volume, whose own mode the kubelet changes; the image's user everywhere."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.search(r"whl\)\[(.*)\]", CONTAINERFILE)[1].split(",")) <= set(extras)  # type: ignore[index]
    user = int(re.search(r"^USER (\d+):", CONTAINERFILE, re.MULTILINE)[1])  # type: ignore[index]
    assert user
    for pod in (CLUSTER_POD, WORKER_POD):
        (container,) = pod["containers"]
        assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsNonRoot"]) == (user, True)
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        claimed = {one["metadata"]["name"] for one in of_kind("StatefulSet", "hobus")["volumeClaimTemplates"]}
        assert set(mounted.values()) <= {one["name"] for one in pod["volumes"]} | claimed
        assert "/tmp" in mounted
    (home,) = [one["value"] for one in CLUSTER_POD["containers"][0]["env"] if one["name"] == "HOBUS_HOME"]
    assert Path(home).parent.as_posix() in {one["mountPath"] for one in CLUSTER_POD["containers"][0]["volumeMounts"]}
    assert f"HOBUS_HOME={home}" in CONTAINERFILE
    assert CLUSTER_POD["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_a_worker_s_way_to_the_bus_stays_open_while_the_cluster_is_not_ready() -> None:
    """It may be the executor that is missing; the variables of services would be settings of hobus."""
    assert of_kind("Service", of_kind("StatefulSet", "hobus")["serviceName"])["publishNotReadyAddresses"] is True
    assert CLUSTER_POD["enableServiceLinks"] is WORKER_POD["enableServiceLinks"] is False


def test_the_autoscaler_reads_metrics_that_are_told_and_knows_the_slots() -> None:
    """By name and label; the threshold is what one worker carries."""
    peer = PeerRow(
        instance="ho1/1@a", role="ho1", offers=["ho1"], state="ready", slots=4, in_flight=1, keys=0, last_beat_ms=1,
        connected_ms=1,
    )  # fmt: skip
    told = Metrics().render_exposition([peer], [QueueRow(service="ho1", queued=2, in_flight=1, delivered=3)]).decode()
    (trigger,) = of_kind("ScaledObject", "hobus-worker")["triggers"]
    read = re.findall(r"hobus_\w+\{[^}]*\}", trigger["metadata"]["query"])
    assert len(read) == 2
    assert [one for one in read if f"\n{one} " not in told] == []
    assert trigger["metadata"]["threshold"] == option(shlex.join(WORKER_WORDS), "--slots")
    assert of_kind("ScaledObject", "hobus-worker")["scaleTargetRef"]["name"] == "hobus-worker"


def test_a_unit_is_not_started_again_after_what_a_start_does_not_mend() -> None:
    """Usage, a damaged record, a refusal; whoever is unreachable is tried again."""
    for path in UNITS:
        codes = {int(code) for code in unit(path)["RestartPreventExitStatus"].split()}
        assert codes == {exit_codes.USAGE, exit_codes.INTEGRITY, exit_codes.REFUSED}


# --- by the tools of those engines, where they are --------------------------------------------------------------------


def _module(name: str) -> Any:
    """Skips without it; what it warns of while it is imported is its own affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            pytest.skip(f"{name} is not installed")


def _tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def _faults_by_schema(validate: Callable[..., Any], one: dict[str, Any]) -> str:
    try:
        validate(one, "1.32", strict=True)
    except Exception as error:  # noqa: BLE001 - whatever it raises is said
        return str(error)
    return ""


def test_manifests_fit_the_schemas_of_kubernetes() -> None:
    """Strictly: no field that is not known."""
    validate = _module("kubernetes_validate").validate
    found = [one for one in manifests(BASE, KEDA) if one["kind"] not in ("Kustomization", "ScaledObject")]
    assert {one["kind"]: fault for one in found if (fault := _faults_by_schema(validate, one))} == {}
    wrong = json.loads(json.dumps(next(one for one in found if one["kind"] == "StatefulSet")))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    assert _faults_by_schema(validate, wrong)


def test_the_scaled_object_fits_keda_s_model() -> None:
    """Every field by its own name. The model: pip install cloudcoil-models-keda filelock (its plugin of pytest wants it)."""
    model = _module("cloudcoil.models.keda.v1alpha1").ScaledObject
    (scaled,) = [one for one in manifests(KEDA) if one["kind"] == "ScaledObject"]
    read = model.model_validate(scaled).model_dump(by_alias=True, exclude_none=True, mode="json")
    assert read["spec"] == scaled["spec"]


@pytest.mark.slow
def test_kustomize_renders_base_and_overlay() -> None:
    """Everything in its namespace, the image by the name of a registry, and no number of workers beside KEDA's."""
    kubectl = _tool("kubectl")
    for folder in (BASE, KEDA):
        made = subprocess.run(
            [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=60
        )
        assert made.returncode == 0, made.stderr
        rendered = [one for one in yaml.safe_load_all(made.stdout) if one["kind"] != "Namespace"]
        assert {one["metadata"]["namespace"] for one in rendered} == {"hobus"}
        (worker,) = [one["spec"] for one in rendered if one["kind"] == "Deployment"]
        assert worker["template"]["spec"]["containers"][0]["image"].startswith("registry.example.org/hobus:")
        assert ("replicas" in worker) is (folder == BASE)


def test_systemd_takes_the_units_and_finds_little_exposed(tmp_path: Path) -> None:
    """With a program that is there in place of the installed one."""
    analyze = _tool("systemd-analyze")
    for path in UNITS:
        text = path.read_text(encoding="utf-8").replace("/opt/hobus/bin/hobus", "/bin/true")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
        unit_file = str(tmp_path / path.name)
        for words in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=20"]):
            made = subprocess.run([analyze, *words, unit_file], capture_output=True, text=True, check=False, timeout=60)
            assert (made.returncode, "Unknown" in made.stderr) == (0, False), made.stdout + made.stderr


@pytest.mark.parametrize("tool", [["bash", "-n"], ["shellcheck"]])
@pytest.mark.parametrize("script", ["slurm/worker.sbatch", "slurm/workers.sh", "kubernetes/workers.sh"])
def test_a_script_is_sound(tool: list[str], script: str) -> None:
    """Its grammar, and what shellcheck knows of."""
    words = [_tool(tool[0]), *tool[1:], str(DEPLOY / script)]
    made = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert made.returncode == 0, made.stdout + made.stderr


STUBS = {
    "srun": 'exec "$@"',
    "hobus": 'trap "echo drained >> $TOLD; exit 0" TERM; echo "hobus $* $HOBUS_JOIN_TOKEN" >> $TOLD\n'
    "echo $$ > $STEP; echo works; [ -z ${ENDS:-} ] || exit $ENDS\nwhile :; do sleep 0.05; done",
    "scancel": 'echo "scancel $*" >> $TOLD; kill -TERM $(cat $STEP)',
    "scontrol": 'echo "scontrol $*" >> $TOLD',
}
BEFORE_THE_LIMIT = ["scancel --signal=TERM 70_3", "drained", "scontrol requeue 70_3"]


@pytest.mark.parametrize(
    ("to_shell", "to_step", "ends", "code", "told"),
    [
        (signal.SIGUSR1, False, "", 0, BEFORE_THE_LIMIT),
        (signal.SIGTERM, True, "", 0, ["drained"]),
        (None, False, "5", 5, []),
    ],
)
def test_a_batch_job_drains_its_worker_and_is_requeued_before_its_time_is_over_alone(  # noqa: PLR0917 - a table
    tmp_path: Path, to_shell: signal.Signals | None, to_step: bool, ends: str, code: int, told: list[str]
) -> None:
    """Signalled as a real SLURM was seen to: the shell before the limit, shell and step after scancel."""
    stubs = tmp_path / "bin"
    stubs.mkdir()
    for name, script in STUBS.items():
        (stubs / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        (stubs / name).chmod(0o755)
    (tmp_path / "token").write_text("hobus1abc\n", encoding="utf-8")
    environment = {
        "PATH": f"{stubs}:{os.environ['PATH']}", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "SLURM_JOB_ID": "70",
        "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3", "JOIN_TOKEN_FILE": str(tmp_path / "token"),
        "TOLD": str(tmp_path / "told"), "STEP": str(tmp_path / "step"), "ENDS": ends,
    }  # fmt: skip
    words = [_tool("bash"), str(DEPLOY / "slurm" / "worker.sbatch")]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "works\n"
        if to_shell is not None:
            job.send_signal(to_shell)
        if to_step:
            os.kill(int((tmp_path / "step").read_text(encoding="utf-8")), signal.SIGTERM)
        assert job.wait(30) == code
    first, *rest = (tmp_path / "told").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"hobus worker join --home \S+/home --slots 4 --grace 100s hobus1abc", first)
    assert rest == told
    assert not list(tmp_path.glob("hobus-worker.*"))
