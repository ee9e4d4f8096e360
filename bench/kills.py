"""The kill matrix: SIGKILL of every process at three moments of a turn, on real processes.

usage: python -m bench.kills [--process host,ho2] [--moment reply] [--write]

Each cell is a cluster of its own. A turn is brought to its moment and held there, the process is killed, the turn goes
on; then the answer, the same question under the same input id once more, and the whole record are looked at. A moment is
a recorded fact, never a pause: `classify`: PROMPT_SENT of the classification is durable and the model is thinking;
`tool`: TOOL_STARTED is durable and the tool runs (its executor is stopped in the middle of it); `reply`: RunCompleted is
durable and the reply has not left (the supervisor is stopped at it). `--write` puts the table into docs/reliability.md
and the figures into bench/results/kills.json. tests/process/test_kills.py demands of every cell what `faults_of` says.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bus.messages.ledger import Entry
from launch import identity
from launch.drill import VARIABLE
from tests.journals import ENDS, answers_of, check_record, count_of
from tests.process.cluster import Cluster, cluster_in, eventually, write_config

QUESTION = "what did this session cost?"
"""Two model rounds around one tool that asks the gateway while it runs: there is a middle of the tool to be killed in."""
INPUT_ID = "in-1"
THINKING_MS = 400
DEADLINE_S = 30
PROCESSES = ("broker", "ledger", "gateway", "ho3", "ho1", "ho2", "host", "zygote", "launcher")
MOMENTS = ("classify", "tool", "reply")
HELD = {"tool": ("ho1/1", "before-send:gateway.read_budget:1"), "reply": ("ho2/1", "before-send:ho2.turn_reply:1")}
"""Moment -> the process that stands still at it, and the frame at which it does (launch/drill.py)."""

DOCUMENT = Path("docs/reliability.md")
RESULTS = Path("bench/results/kills.json")
BEGIN, END = "<!-- kills: begin -->", "<!-- kills: end -->"


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of one turn in which one process was killed at one moment."""

    process: str
    moment: str
    outcome: str
    code: str  # of an error; of a degraded turn the reason that its DEGRADATION record gives
    answered_after_ms: int  # from the kill to the client's answer; of the undisturbed turn: from its moment
    answers: int  # entries that answer the input
    same_again: bool  # the same input id brings the same answer afterwards
    prompts: int  # PROMPT_SENT
    prompts_unknown: int  # of these closed as unknown outcome
    prompts_open: int  # of these without exactly one end
    tool_orders: int
    tool_starts: int  # TOOL_STARTED, one for each time that a tool ran
    tool_ends: int  # WO_COMPLETED of tool orders
    record: str  # what the invariants of tests/journals.py and the verifier say: "ok", or what is wrong


def run_cell(directory: Path, process: str, moment: str) -> Cell:
    """One cluster, one turn, one kill ("nobody": none). Everything that it started has ended when this returns."""
    cluster = cluster_in(directory / "home")
    asked: subprocess.Popen[bytes] | None = None
    try:
        asked, struck_at = _struck(cluster, directory, process, moment)
        out, err = asked.communicate(timeout=2 * DEADLINE_S)
        answered_after_ms = round((time.monotonic() - struck_at) * 1000)
        if not out:
            raise AssertionError(f"{process} at {moment}: no answer: {err.decode()}")
        result = json.loads(out)
        again = _asked_again(cluster, process)
        assert cluster("down").code == 0
        return _cell(cluster, process, moment, answered_after_ms, result, again)
    finally:
        if asked is not None and asked.poll() is None:
            asked.kill()
            asked.communicate()
        cluster.end()


def _struck(cluster: Cluster, directory: Path, process: str, moment: str) -> tuple[subprocess.Popen[bytes], float]:
    """A turn that is on its way, its victim dead, and when that was."""
    if moment in HELD:
        holder, frame = HELD[moment]
        cluster.env[VARIABLE] = f"{holder}:STOP:{frame}"
    config = write_config(directory / "config.json", ("gateway.providers.offline.latency_ms", THINKING_MS))
    cluster.up("--detach", "--config", str(config))
    asked = cluster.start_ask(QUESTION, "--input-id", INPUT_ID, "--timeout", str(DEADLINE_S))
    if moment not in HELD:
        eventually(lambda: cluster.entries("PROMPT_SENT"))
        struck_at = _kill(cluster, process)
        return asked, struck_at
    holder, _ = HELD[moment]
    pid = cluster.row(holder).pid
    eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    struck_at = _kill(cluster, process)
    if process != holder.partition("/")[0]:
        os.kill(pid, signal.SIGCONT)
    return asked, struck_at


def _kill(cluster: Cluster, process: str) -> float:
    """SIGKILL, and when."""
    run = cluster.run()
    own = {"launcher": (run.launcher_pid, run.launcher_mark), "zygote": (run.zygote_pid, run.zygote_mark)}
    actors = {row.actor: (row.pid, row.mark) for row in run.children}
    now = time.monotonic()
    if process != "nobody":
        pid, mark = own[process] if process in own else actors[f"{process}/1"]
        assert identity.end(pid, mark, signal.SIGKILL)
    return now


def _asked_again(cluster: Cluster, process: str) -> dict[str, Any]:
    """The same input once more, from a cluster that is whole again: restarted by its launcher, or started anew."""
    if process == "launcher":
        eventually(lambda: cluster.living() == [], within_s=30)
        cluster.env.pop(VARIABLE, None)
        cluster.up("--detach")
    elif process == "zygote":
        eventually(lambda: identity.is_alive(cluster.run().zygote_pid, cluster.run().zygote_mark))
        cluster.kill("ho1/1")  # the new zygote can do what the old one could
        eventually(lambda: cluster.row("ho1/1").restarts == 1 and cluster.is_up("ho1/1"))
    elif process != "nobody":
        eventually(lambda: cluster.row(f"{process}/1").restarts == 1 and cluster.is_up(f"{process}/1"))
    return cluster.ask(QUESTION, "--input-id", INPUT_ID, "--timeout", str(DEADLINE_S))


def _cell(
    cluster: Cluster, process: str, moment: str, answered_after_ms: int, result: dict[str, Any], again: dict[str, Any]
) -> Cell:
    entries = cluster.entries()
    sent = [entry.submission_id.partition(":")[2] for entry in entries if entry.event_type == "PROMPT_SENT"]
    ends = Counter(entry.submission_id.partition(":")[2] for entry in entries if entry.event_type in ENDS)
    calls = {entry.provenance.work_order_id for entry in entries if entry.event_type == "TOOL_STARTED"}
    reasons = [entry.reason for entry in entries if entry.event_type == "DEGRADATION"]
    return Cell(
        process=process,
        moment=moment,
        outcome=result["outcome"],
        code=reasons[-1] if reasons and result["outcome"] == "degraded" else result["code"] or "",
        answered_after_ms=answered_after_ms,
        answers=len(answers_of(entries, INPUT_ID)),
        same_again=_told(again) == _told(result),
        prompts=len(sent),
        prompts_unknown=sum(
            entry.event_type == "PROMPT_FAILED" and entry.reason == "UNKNOWN_OUTCOME" for entry in entries
        ),
        prompts_open=sum(ends[name] != 1 for name in sent),
        tool_orders=len(calls),
        tool_starts=count_of(entries, "TOOL_STARTED"),
        tool_ends=sum(e.event_type == "WO_COMPLETED" and e.provenance.work_order_id in calls for e in entries),
        record=_verdict_on(cluster, entries),
    )


def _told(result: dict[str, Any]) -> tuple[Any, ...]:
    """What of an answer must be the same whenever it is given."""
    return result["outcome"], result["response"], result["session_id"], result["input_id"]


def _verdict_on(cluster: Cluster, entries: list[Entry]) -> str:
    try:
        check_record(entries)
        cluster.verify()
    except AssertionError as wrong:
        return str(wrong) or "broken"
    return "ok"


def faults_of(cell: Cell) -> list[str]:
    """What guarantee 1 (and 2 to 4 beside it) demands of every cell, as what is missing from it."""
    wanted = {
        "answered with a success or marked as degraded": cell.outcome in ("success", "degraded"),
        "answered well before the deadline": cell.answered_after_ms < DEADLINE_S * 1000 / 2,
        "one recorded answer": cell.answers == 1,
        "the same answer when asked again": cell.same_again,
        "every prompt with exactly one end": cell.prompts_open == 0,
        "every tool order ended once": cell.tool_ends == cell.tool_orders or cell.outcome == "degraded",
        "a whole record": cell.record == "ok",
    }
    return [what for what, is_so in wanted.items() if not is_so]


# --- the table ------------------------------------------------------------------------------------------------------


def table(cells: list[Cell]) -> str:
    """The matrix as people read it."""
    lines = [
        "| killed | at | outcome | answers | again | ms from kill to answer | prompts (unknown) | tool runs / orders | record |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell in cells:
        outcome = f"{cell.outcome} ({cell.code})" if cell.code else cell.outcome
        lines.append(
            f"| {cell.process} | {cell.moment} | {outcome} | {cell.answers} | {'same' if cell.same_again else 'OTHER'} "
            f"| {cell.answered_after_ms} | {cell.prompts} ({cell.prompts_unknown}) "
            f"| {cell.tool_starts} / {cell.tool_orders} | {cell.record} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--process", help="some of them, by comma")
    parser.add_argument("--moment", help="some of them, by comma")
    parser.add_argument("--write", action="store_true", help="into the document and the results")
    given = parser.parse_args()
    processes = given.process.split(",") if given.process else ["nobody", *PROCESSES]
    moments = given.moment.split(",") if given.moment else MOMENTS
    cells: list[Cell] = []
    for process in processes:
        for moment in moments:
            directory = Path(tempfile.mkdtemp(prefix="hobus-kills-"))
            try:
                cells.append(run_cell(directory, process, moment))
            finally:
                shutil.rmtree(directory, ignore_errors=True)
            print(f"{process} at {moment}: {asdict(cells[-1])}", file=sys.stderr, flush=True)
    print(table(cells))
    wrong = [f"{cell.process} at {cell.moment}: {what}" for cell in cells for what in faults_of(cell)]
    print(*wrong, sep="\n")
    if given.write:
        write(cells)
    sys.exit(1 if wrong else 0)


def write(cells: list[Cell]) -> None:
    """The document's table and the results are these."""
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    found = {"machine": machine, "thinking_ms": THINKING_MS, "cells": [asdict(cell) for cell in cells]}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    made = f"{BEGIN}\nMeasured on {machine}; each model call thinks {THINKING_MS} ms.\n\n{table(cells)}\n{END}"
    DOCUMENT.write_text(before + made + after, encoding="utf-8")


if __name__ == "__main__":
    main()
