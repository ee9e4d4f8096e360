"""Everything of ours is imported under one name: what users call their own modules meets nothing of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from bench.cluster import Cluster
from bench.far_worker import FarWorker, token_of, workers
from hobus.launch.launcher.children import make_environment
from tests.actors.ho1_executor.tools.packages import entries, install
from tests.process.mcp_servers import ROOT, configure, use
from tests.process.test_package_tools import SOURCE

pytestmark = pytest.mark.process

FOLDERS = ("actors", "bus", "config", "gateway_service", "launch", "ledger_service")


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """Modules of somebody else by the names of our folders, half of them packages; each ends whoever imports it."""
    directory = tmp_path / "strangers"
    for name in FOLDERS:
        file = directory / (f"{name}.py" if len(name) % 2 else f"{name}/__init__.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"raise SystemExit('a stranger was imported: {name}')\n")
    return directory


def test_an_installation_holds_one_package() -> None:
    """And its metadata, and the command; in a checkout that is installed to be changed, the way to it."""
    files = metadata.files("hobus")
    assert files
    tops = {file.parts[0] for file in files}
    assert {top for top in tops if not top.startswith(("hobus", "_editable_impl_hobus", ".."))} == set()


def test_modules_of_our_folders_names_disturb_no_process(cluster: Cluster, strangers: Path, tmp_path: Path) -> None:
    """First on the import path of a whole cluster, its tool processes, and a worker elsewhere; in that one's directory."""
    packages = install(tmp_path / "packages", "tested_pack", SOURCE)
    cluster.env["PYTHONPATH"] = f"{strangers}:{packages}:{ROOT}"
    cluster.env["PYTHONUNBUFFERED"] = "1"  # so that each command is an interpreter of its own
    cluster.up(
        *configure(
            cluster,
            {},
            tools=["double"],
            permitted=["double"],
            tools__entry_points=entries("tested_pack", ["double"]),
        ),
        "--listen",
        "127.0.0.1:0",
    )
    assert "double: 42" in cluster.ask(use("double", number=21))["response"]
    told = cluster("doctor")
    assert told.code == 0, told.out + told.err
    with workers(tmp_path / "far") as started:
        shutil.copytree(strangers, tmp_path / "far" / "one")
        started.append(FarWorker(tmp_path / "far" / "one", ["join", token_of(cluster)], env=cluster.env))
        started[0].works()
    assert cluster("down").code == 0
    logs = "".join(log.read_text(errors="replace") for log in cluster.home.logs.iterdir())
    assert "a stranger was imported" not in logs


def test_a_program_with_such_modules_of_its_own_embeds_a_client(cluster: Cluster, tmp_path: Path) -> None:
    """It has its own `config` and `launch` beside it, imports them, and asks."""
    cluster.up()
    (tmp_path / "config.py").write_text("MINE = 'mine'\n")
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "__init__.py").write_text("YOURS = 'yours'\n")
    (tmp_path / "program.py").write_text(
        "import sys, config, launch\n"
        "from hobus import ClusterClient\n"
        "with ClusterClient(sys.argv[1], timeout_s=30) as client:\n"
        "    print(client.ask('hello').outcome, config.MINE, launch.YOURS)\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py", str(cluster.home.root)],
        cwd=tmp_path,
        env=make_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "success mine yours\n", done.stderr
