"""The crash and the cancel matrix, ours and other runtimes' side by side.

usage: python -m bench.peers_matrix [--peer langgraph] [--no-peers] [--write]

One turn of two model calls around one tool with an effect outside (a line in a file). Crash: SIGKILL of everything that
carries the turn at five points of it, then the runtime's own way to resume; for a peer that is its process, for us every
process of the cluster at once (bench/kills.py, `everybody`). Perfect is two model calls and one effect. Ours is asked twice:
with a tool that passes on our idempotency key, and with one that has no key, as the peers' has none. A model call counts
once it has returned, on every side; what was killed while it was thinking does not.

Cancel: the turn is cancelled while its tool, a plain blocking function that would charge after a second, runs. How long
until control is back; does the effect land all the same; is a late result kept; is the next turn answered, and is the
transcript that it is shown valid (every tool call with its result), which real providers insist on.

Peers: LangGraph with its SQLite checkpointer (durability `sync`), Pydantic AI under DBOS, OpenAI Agents with its SQLite
session; each in an environment of its own that this command makes (bench/peers/environment.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import cancels, kills
from bench.peers.environment import PeerAway, python_of
from bench.report import arguments, machine, markdown, put_between, write_json
from bench.turn import LANGGRAPH

SCRIPTS = Path(__file__).parent / "peers"
PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "langgraph": ("LangGraph, SqliteSaver, sync", LANGGRAPH),
    "dbos": ("Pydantic AI under DBOS", ("pydantic-ai-slim==2.68.0", "dbos==3.4.0")),
    "openai_agents": ("OpenAI Agents, SQLiteSession", ("openai-agents==0.24.0",)),
}
OURSELVES = "hobus"
OURS = {"charge_keyed": "hobus, tool with our key", "charge_unkeyed": "hobus, tool without a key"}
LIFE_S = 90.0
CANCELS = 20
RESULTS = Path("bench/results/peers_matrix.json")


@dataclass(frozen=True, slots=True)
class Crash:
    """One runtime, killed at one point and resumed."""

    runtime: str
    point: str
    model_calls: int
    effects: int
    reply: str | None
    note: str = ""
    faults: tuple[str, ...] = ()
    """Ours alone: what `kills.faults_of` says of the cell."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """One runtime, cancelled in the middle of its tool."""

    runtime: str
    back_ms: float
    effect_after_cancel: bool
    late_result_kept: bool
    usable: bool
    transcript_valid: bool
    note: str = ""


def crashed(runtime: str, python: Path, name: str, point: str) -> Crash:
    """Two lives of a peer's process."""
    with tempfile.TemporaryDirectory() as directory:
        said = ""
        for life in "12":
            said = _run(python, name, "crash", point, directory, life)
        path = Path(directory) / "effects"
        seen = path.read_text().split() if path.exists() else []
        found: dict[str, Any] = json.loads(said) if said.startswith("{") else {"reply": None, "why": said}
    return Crash(runtime, point, seen.count("llm"), seen.count("tool"), found["reply"], found.get("why", ""))


def cancelled(runtime: str, python: Path, name: str) -> Cancelled:
    """One turn of a peer, cancelled."""
    with tempfile.TemporaryDirectory() as directory:
        found = json.loads(_run(python, name, "cancel", directory))
    return Cancelled(
        runtime, found["back_ms"], found["effect_after_cancel"], found.get("late_result_kept", False),
        found.get("usable", False), found.get("transcript_valid", False), found.get("why", ""),
    )  # fmt: skip


def _run(python: Path, name: str, *words: str) -> str:
    """The last line that a peer's script says; of a killed life none."""
    command = [str(python), "-E", str(SCRIPTS / f"{name}_drill.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIFE_S, check=False)
    return (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]


def ours_crashed(tool: str, point: str) -> Crash:
    """Every process of a cluster at once, then `hobus up`, and the same input again."""
    cell = kills.run_in_temporary(kills.EVERYBODY, point, tool)
    note = "in doubt: reported as unknown_outcome, not run again" if cell.tool_code == "unknown_outcome" else ""
    returned = cell.prompts - (cell.open_at_kill if point.startswith("in_llm2") else 0)
    return Crash(OURS[tool], point, returned, cell.effects, cell.outcome, note, tuple(kills.faults_of(cell)))


def ours_cancelled() -> Cancelled:
    """The operator's Cancel, a few times over; the slowest one counts."""
    row = cancels.measure("command", "tool", CANCELS)
    return Cancelled(
        OURSELVES, round(max(row.answered_ms, default=0.0), 1), row.effects > 0, late_result_kept=False,
        usable=row.usable == row.asked_next, transcript_valid=row.record == "ok",
        note=f"slowest of {CANCELS}; the tool's process is killed, so there is no late result",
    )  # fmt: skip


def crash_table(found: list[Crash]) -> str:
    """Runtimes by points: model calls, effects."""
    points = list(dict.fromkeys(one.point for one in found))
    cells = {(one.runtime, one.point): one for one in found}
    runtimes = dict.fromkeys(one.runtime for one in found)
    rows = [(runtime, *(_cell(cells[runtime, point]) for point in points)) for runtime in runtimes]
    return markdown(["killed at: model calls, effects", *points], rows)


def _cell(one: Crash) -> str:
    notes = ["no answer"] if not one.reply else []
    notes += ["reported"] if "in doubt" in one.note else []
    notes += [f"NOT {fault}" for fault in one.faults]
    return f"{one.model_calls}, {one.effects}" + (f" ({', '.join(notes)})" if notes else "")


def faults(crashes: Iterable[Crash], cancels_: Iterable[Cancelled]) -> list[str]:
    """What must not be of ours; the peers are as they are."""
    found = [f"{one.runtime} at {one.point}: not {fault}" for one in crashes for fault in one.faults]
    for one in cancels_:
        if one.runtime == OURSELVES:
            found += [f"{one.runtime}, cancelled: its effect landed all the same"] if one.effect_after_cancel else []
            found += [f"{one.runtime}, cancelled: the next turn is not answered"] if not one.usable else []
            found += [f"{one.runtime}, cancelled: the record is broken"] if not one.transcript_valid else []
    return found


def not_measured(
    crashes: Iterable[Crash], cancels_: Iterable[Cancelled], earlier: Mapping[str, Any]
) -> tuple[list[Crash], list[Cancelled]]:
    """Of an earlier run the runtimes that this one left out: a part of the matrix, written, loses no other part."""
    new_crashes, new_cancels = {one.runtime for one in crashes}, {one.runtime for one in cancels_}
    return (
        [Crash(**one) for one in earlier["crashes"] if one["runtime"] not in new_crashes],
        [Cancelled(**one) for one in earlier["cancels"] if one["runtime"] not in new_cancels],
    )


def cancel_table(found: list[Cancelled]) -> str:
    """One row for each runtime."""
    columns = (
        "cancelled inside a blocking tool", "ms until control is back", "effect lands afterwards", "late result kept",
        "next turn answered", "transcript valid",
    )  # fmt: skip
    flags = [(one.effect_after_cancel, one.late_result_kept, one.usable, one.transcript_valid) for one in found]
    rows = [
        (one.runtime, one.back_ms, *("yes" if flag else "no" for flag in each))
        for one, each in zip(found, flags, strict=True)
    ]
    return markdown(columns, rows)


def main() -> None:
    parser = arguments(__doc__, write=True)
    parser.add_argument("--peer", choices=PEERS, help="one of them")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--no-cancel", action="store_true", help="the crash matrix alone")
    given = parser.parse_args()
    crashes: list[Crash] = []
    stopped: list[Cancelled] = []
    away: list[str] = []
    for name in () if given.no_peers else [given.peer] if given.peer else PEERS:
        runtime, requirements = PEERS[name]
        try:
            python = python_of(name, requirements)
        except PeerAway as error:
            away.append(f"{runtime}: {error}")
            continue
        for point in kills.POINTS:
            crashes.append(crashed(runtime, python, name, point))
            print(crashes[-1], file=sys.stderr, flush=True)
        if not given.no_cancel:
            stopped.append(cancelled(runtime, python, name))
            print(stopped[-1], file=sys.stderr, flush=True)
    for tool in OURS:
        for point in kills.POINTS:
            crashes.append(ours_crashed(tool, point))
            print(crashes[-1], file=sys.stderr, flush=True)
    if not given.no_cancel:
        stopped.append(ours_cancelled())
    wrong = faults(crashes, stopped)
    kept = not_measured(crashes, stopped, json.loads(RESULTS.read_text())) if given.write else ([], [])
    crashes, stopped = [*kept[0], *crashes], [*kept[1], *stopped]
    shown = f"{crash_table(crashes)}\n\n{cancel_table(stopped)}"
    print(shown, *away, *wrong, sep="\n")
    if given.write:
        found = {
            **machine(), "away": away, "faults": wrong, "kept": sorted({one.runtime for one in kept[0]}), "crashes": [asdict(one) for one in crashes],
            "cancels": [asdict(one) for one in stopped],
        }  # fmt: skip
        write_json(RESULTS, found)
        how = "the peers' model takes no time, ours thinks 600 ms"
        put_between("peers", how if not kept[0] else f"{how}; the peers' rows are of an earlier run", shown)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
