"""`hobus workers on slurm` against a real cluster: stand-ins for SLURM's commands run the shipped batch script, whose workers are real."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cluster import Answer, Cluster, eventually, hobus
from bench.cluster import cluster as standing

pytestmark = pytest.mark.process

STAND_INS = {
    # Each job is a process group of its own; its file holds the group's number.
    "sbatch": """
for word in "$@"; do case $word in --array=1-*) count=${word#--array=1-};; --export=ALL,*) export "${word#--export=ALL,}";; esac; done
job=$(( $(ls "$JOBS" | wc -l) + 70 ))
for task in $(seq "$count"); do
  SLURM_JOB_ID=$job SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$task setsid bash "${@: -1}" > "$OUT/$job.$task" 2>&1 < /dev/null &
  echo $! > "$JOBS/${job}_$task"
done
echo "Submitted batch job $job" """,
    "squeue": 'for file in "$JOBS"/*; do [ -e "$file" ] && kill -0 "$(cat "$file")" 2>/dev/null && echo "R ${file##*/}"; done; true',
    "scancel": 'for word in "$@"; do case $word in --*) ;; *) pkill -TERM -g "$(cat "$JOBS/$word")" -f "hobus worker";; esac; done; true',
    "srun": 'exec "$@"',
    "kubectl": "cat > /dev/null",
}


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    folders = {name: tmp_path / name for name in ("bin", "jobs", "out", "home")}
    for folder in folders.values():
        folder.mkdir()
    for name, script in STAND_INS.items():
        (folders["bin"] / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        (folders["bin"] / name).chmod(0o755)
    beside = Path(os.sys.executable).parent
    yield {
        "PATH": f"{folders['bin']}:{beside}:{os.environ['PATH']}", "JOBS": str(folders["jobs"]),
        "OUT": str(folders["out"]), "HOME": str(folders["home"]),
    }  # fmt: skip
    for file in folders["jobs"].iterdir():
        try:
            os.killpg(int(file.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_so_many_workers_are_there_as_were_asked_for(slurm: dict[str, str]) -> None:
    """Two, then two again (nothing is done), then one, then none: by real tokens, joins, drains; the secret is for its owner alone."""
    with standing({}, "--listen", "127.0.0.1:0") as up:

        def on(*words: str) -> Answer:
            answer = hobus("workers", "on", "slurm", *words, "--home", str(up.home.root), env=slurm)
            assert answer.code == 0, answer.err
            return answer

        def ready(cluster: Cluster = up) -> int:
            return len(
                [row for row in cluster("ps", "--json").json["actors"] if row["host"] and row["state"] == "ready"]
            )

        assert "sbatch --array=1-2 " in on("--count", "2", "--dry-run").out
        pods = hobus(
            "workers", "on", "kubernetes", "--count", "1", "--image", "i", "--home", str(up.home.root), env=slurm
        )
        assert pods.code == 2 and "no pod reaches" in pods.err
        assert up("token list", "--json").json["tokens"] == []
        assert "Submitted" in on("--count", "2").out
        (file,) = Path(slurm["HOME"]).glob(".hobus-worker-*.token")
        assert (file.stat().st_mode & 0o077, file.read_text()[:6]) == (0, "hobus1")
        eventually(lambda: ready() == 2)
        assert "already" in on("--count", "2").out
        on("--count", "1")
        eventually(lambda: ready() == 1)
        on("--count", "0")
        eventually(lambda: ready() == 0)
        assert {one["uses"] for one in up("token list", "--json").json["tokens"]} == {4, 2}
        up.verify()
