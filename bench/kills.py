"""The kill matrix (R1): SIGKILL of every process at five points of a turn, on real processes, with real effects outside.

Each cell is a cluster of its own and one turn of two model calls with one tool between them. The turn is brought to a
recorded fact and held there, the process is killed, the turn goes on; then the answer, the same question under the same
input id once more, the outside and the whole record are looked at. The points: `llm1_done`, the model has answered and
the gateway has not passed the answer on; `tool_effect`, the effect is there and the tool has not returned; `in_llm2`,
the second prompt is recorded and the model is thinking, killed at once; `in_llm2_300ms`, the same 300 ms later;
`llm2_done`. The tool (bench/outside_tools): `charge_keyed` passes our idempotency key to an outside that knows keys,
and may run twice; `charge_unkeyed` may not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import psutil

from bench.cluster import Cluster, eventually, temporary
from bench.outside import Outside, asking_for, with_outside
from bench.report import arguments, concluded, rows_table
from hobus.launch.cluster import identity
from hobus.launch.lab.simulation.record import ENDS, answer_text, call_of, list_answers
from hobus.launch.process.failpoint import VARIABLE
from hobus.launch.process.failpoint import parse_drill as point_of

INPUT_ID = "in-1"
THINKING_MS = 600
SETTINGS = {"gateway.providers.offline.latency_ms": THINKING_MS, "ho2.classify": False}
LATER_S = 0.3
DEADLINE_S = 30
ASKED = ("--input-id", INPUT_ID, "--timeout", str(DEADLINE_S))
MODEL_CALLS = 2
PROCESSES = ("broker", "ledger", "gateway", "ho3", "ho1", "ho2", "host", "launcher")
EVERYBODY = "everybody"
"""All of these at once, the zygote with them: what a power cut is to a cluster, short of its disk."""
POINTS = ("llm1_done", "tool_effect", "in_llm2", "in_llm2_300ms", "llm2_done")
TOOLS = ("charge_keyed", "charge_unkeyed")
HELD = {f"llm{call}_done": f"gateway:STOP:before-send:gateway.response:{call}" for call in (1, 2)}
"""Point -> the frame at which the turn stands still (launch/process/failpoint.py); elsewhere the model thinks, or the tool waits."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of one turn in which one process was killed at one point."""

    process: str
    point: str
    tool: str
    outcome: str
    code: str  # of an error
    tool_code: str  # '' for a call that succeeded
    answered_after_ms: int  # from the kill to the client's answer; of the undisturbed turn: from its point
    answers: int  # entries that answer the input
    same_again: bool  # the same input id brings the same answer afterwards
    effects: int  # outside
    tool_runs: int  # outside
    prompts: int  # PROMPT_SENT: calls of the model
    prompts_open: int  # of these without exactly one end
    open_at_kill: int  # prompts that no end of their own gateway ever came into the record for
    tool_orders: int
    tool_ends: int  # ends of tool orders
    record: str  # "ok", or what is wrong by the invariants of launch/lab/simulation/record.py, the verifier, or what the client was told


def run_cell(directory: Path, process: str, point: str, tool: str) -> Cell:
    """One cluster, one turn, one kill ("nobody": none). Everything that it started has ended when this returns."""
    outside, cluster = with_outside(directory, SETTINGS)
    try:
        if point in HELD:
            cluster.env[VARIABLE] = HELD[point]
        cluster.up("--detach")
        asked = cluster.start_ask(asking_for(tool), *ASKED)
        struck_at = _struck(cluster, outside, process, point, tool)
        result = _answer(cluster, process, tool, asked)
        answered_after_ms = round((time.monotonic() - struck_at) * 1000)
        again = _asked_again(cluster, process, tool)
        assert cluster("down").code == 0
        which = {"process": process, "point": point, "tool": tool}
        return _cell(cluster, outside, which, answered_after_ms, result, again)
    finally:
        outside.release()
        cluster.end()


def _answer(cluster: Cluster, process: str, tool: str, asked: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What the client is told; after everybody's death, what it is told when it asks the restarted cluster."""
    out, err = asked.communicate(timeout=2 * DEADLINE_S)
    if process == EVERYBODY:
        cluster.env.pop(VARIABLE, None)
        cluster.up("--detach")
        return cluster.ask(asking_for(tool), *ASKED)
    assert out, f"{process}: no answer: {err.decode()}"
    return json.loads(out)


def _struck(cluster: Cluster, outside: Outside, process: str, point: str, tool: str) -> float:
    """The turn is at its point, the victim dead: when that was."""
    if point in HELD:
        mark = point_of(HELD[point]).mark_in(cluster.home.run)
        eventually(lambda: mark.exists() and mark.read_text())
        pid = int(mark.read_text())
        eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        struck_at = _kill(cluster, process)
        if process not in ("gateway", EVERYBODY):
            os.kill(pid, signal.SIGCONT)
        return struck_at
    if point == "tool_effect":
        outside.hold()
        eventually(lambda: outside.effects(tool))
    else:
        eventually(lambda: len(cluster.entries("PROMPT_SENT")) == MODEL_CALLS)
        time.sleep(LATER_S if point == "in_llm2_300ms" else 0.0)
    struck_at = _kill(cluster, process)
    outside.release()
    return struck_at


def _kill(cluster: Cluster, process: str) -> float:
    run, now = cluster.run(), time.monotonic()
    for one in run.processes():
        if process == EVERYBODY:
            identity.end(one.pid, one.mark, signal.SIGKILL)  # a zygote ends by itself as soon as its launcher is gone
        elif one.actor in (process, f"{process}/1"):
            assert identity.end(one.pid, one.mark, signal.SIGKILL)
    return now


def _asked_again(cluster: Cluster, process: str, tool: str) -> dict[str, Any]:
    """The answer to the same input, asked again of a cluster that is whole again: restarted by its launcher, or started anew."""
    cluster.env.pop(VARIABLE, None)
    if process == "launcher":
        eventually(lambda: cluster.living() == [], within_s=30)
        cluster.up("--detach")
    elif process not in ("nobody", EVERYBODY):
        eventually(lambda: cluster.row(f"{process}/1").restarts == 1 and cluster.is_up(f"{process}/1"))
    return cluster.ask(asking_for(tool), *ASKED)


def _cell(cluster: Cluster, outside: Outside, which: dict[str, str], after_ms: int, result: Any, again: Any) -> Cell:
    tool, entries = which["tool"], cluster.entries()
    sent = [(call_of(entry), entry.origin) for entry in entries if entry.event_type == "PROMPT_SENT"]
    # An end that was on its way at the kill still counts as its own gateway's.
    own = {(call_of(entry), entry.origin) for entry in entries if entry.event_type in ENDS}
    ends = Counter(call_of(entry) for entry in entries if entry.event_type in ENDS)
    calls = {entry.provenance.work_order_id for entry in entries if entry.event_type == "TOOL_STARTED"}
    of_calls = [entry for entry in entries if entry.provenance.work_order_id in calls]
    verdict = cluster.record_verdict()
    if verdict == "ok" and answer_text(entries, INPUT_ID) != result["response"]:
        verdict = "the client was told other words"
    same = ("outcome", "response", "session_id", "input_id")
    return Cell(
        **which, outcome=result["outcome"], code=result["code"] or "",
        tool_code=",".join(call.get("code") or "" for call in result["tool_calls"]), answered_after_ms=after_ms,
        answers=len(list_answers(entries, INPUT_ID)), same_again=all(again[name] == result[name] for name in same),
        effects=len(outside.effects(tool)), tool_runs=len(outside.runs(tool)), prompts=len(sent),
        prompts_open=sum(ends[name] != 1 for name, _ in sent), open_at_kill=len(set(sent) - own), tool_orders=len(calls),
        tool_ends=sum(entry.event_type in ("WO_COMPLETED", "WO_FAILED") for entry in of_calls), record=verdict,
    )  # fmt: skip


def faults_of(cell: Cell) -> list[str]:
    """What guarantees 1 to 4 demand of every cell, as what is missing from it."""
    is_lost_call = cell.process in ("gateway", EVERYBODY) and cell.open_at_kill > 0
    # An executor that dies behind the effect of a tool that must not run twice: nobody knows, and that is said.
    is_in_doubt = cell.process in ("ho1", EVERYBODY) and (cell.point, cell.tool) == ("tool_effect", "charge_unkeyed")
    wanted = {
        "answered with a success": cell.outcome == "success",
        "answered before the deadline": cell.answered_after_ms < DEADLINE_S * 1000,
        "one recorded answer": cell.answers == 1,
        "the same answer when asked again": cell.same_again,
        "one effect": cell.effects == 1,
        "in doubt where it is, and reported": cell.tool_code == ("unknown_outcome" if is_in_doubt else ""),
        "run once where once is all it may": cell.tool == "charge_keyed" or cell.tool_runs == 1,
        "no model call but for a lost answer": cell.prompts == MODEL_CALLS + is_lost_call,
        "every prompt with exactly one end": cell.prompts_open == 0,
        "every tool order ended once": cell.tool_ends == cell.tool_orders == 1,
        "a whole record": cell.record == "ok",
    }
    return [what for what, is_so in wanted.items() if not is_so]


def main() -> None:
    every = {"process": ("nobody", *PROCESSES, EVERYBODY), "point": POINTS, "tool": TOOLS}
    names = {name: (",".join(all_of), "some of them, by commas") for name, all_of in every.items()}
    given, cells = arguments(__doc__, write=True, **names).parse_args(), list[Cell]()
    for which in product(*(getattr(given, name).split(",") for name in every)):
        with temporary("kills") as directory:
            cells.append(run_cell(directory, *which))
        print(f"{cells[-1].process} at {cells[-1].point}: {cells[-1]}", file=sys.stderr, flush=True)
    wrong = [f"{cell.process} at {cell.point}, {cell.tool}: {what}" for cell in cells for what in faults_of(cell)]
    figures = {"thinking_ms": THINKING_MS, "cells": [asdict(cell) for cell in cells]}
    how = f"each model call thinks {THINKING_MS} ms"
    sys.exit(concluded(given, rows_table(cells), wrong, figures=figures, name="kills", how=how))


if __name__ == "__main__":
    main()
