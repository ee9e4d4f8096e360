"""What a search of the record costs, and whether it finds: `python -m bench.search [--turns 10 1000 10000] [--json FILE]`.

A conversation of so many turns, written as entries and not by turns, beside a second one of the same length. Words are
drawn from a vocabulary as people use one (Zipf); one message, early on, says where a key lies, and others name some of its
words. Measured at a real ledger on a real disk: what the index costs behind the writes, and what a question takes of the
ledger's time, for the needle in its session and for the most common words of the whole record.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from bench.ledger_drills.rig import SmallBus, call
from bench.report import arguments, machine, percentile, say_machine, write_json
from hobus.bus.clock import SystemClock
from hobus.bus.disk import RealDisk
from hobus.bus.messages.ids import session_id_of
from hobus.bus.messages.ledger import Hit, Hits, Provenance, Search, WriteEntry, session_stream
from hobus.config.snapshot import load_snapshot
from hobus.ledger_service.search_index import FILE
from hobus.ledger_service.service import LedgerService

SESSION, OTHER = session_id_of("bench", "one"), session_id_of("bench", "two")
NEEDLE = "By the way: the spare key of the boathouse lies under the third flowerpot."
QUESTION = "Where did I say that the key of the boathouse is?"
DISTRACTORS = ("The key question is what the house costs.", "Where is the boat that I asked for?")
_VOCABULARY = 4_000
_SYLLABLES = ("ba", "dor", "fen", "gi", "hul", "ka", "lem", "mos", "nu", "per", "qui", "ras", "so", "tin", "vel", "wo")
_ROUNDS = 20
_TURNS_TOGETHER = 64


def conversation(session_id: str, turns: int, *, needle_at: int | None, seed: int = 1) -> Iterator[list[WriteEntry]]:
    """The journal of a session, turn by turn: what was asked and what was answered, and the entries between."""
    draw = Random(f"{seed}/{session_id}")
    words = _vocabulary()
    weights = [1 / (rank + 1) for rank in range(len(words))]
    stream, about = session_stream(session_id), Provenance(agent_id="ADMIN", session_id=session_id)
    head = f"TookOver:{session_id}/1"

    def entry(event_type: str, name: str, *bodies: str) -> WriteEntry:
        nonlocal head
        made = WriteEntry(
            submission_id=f"{event_type}:{session_id}/{name}", stream=stream, event_type=event_type, provenance=about,
            prev=head, tenure=1, at_us=1, bodies=[b"\x90", *(body.encode() for body in bodies)],
        )  # fmt: skip
        head = made.submission_id
        return made

    def said(least: int, most: int) -> str:
        return " ".join(draw.choices(words, weights, k=draw.randint(least, most)))

    yield [
        WriteEntry(
            submission_id=head, stream=stream, event_type="TookOver", at_us=1, prev="", tenure=1, provenance=about
        )
    ]
    for turn in range(turns):
        message = said(5, 40)
        if turn == needle_at:
            message = NEEDLE
        elif turn % 7 == 5:
            message = f"{message} {DISTRACTORS[turn % 2]}"
        yield [
            entry("RunRequested", f"{turn}", message),
            entry("RunStarted", f"{turn}"),
            entry("StepStarted", f"{turn}"),
            entry("RunCompleted", f"{turn}", "", said(20, 120)),
        ]


def _vocabulary() -> list[str]:
    draw = Random(7)
    found: dict[str, None] = {}
    while len(found) < _VOCABULARY:
        found["".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4)))] = None
    return list(found)


class Asking:
    """A client of the ledger without a transport; remembers how long each answer took, and of the processor's time."""

    def __init__(self, service: LedgerService, sender: str) -> None:
        self._service, self._call = service, call(sender)
        self.took_s: list[float] = []
        self.cpu_s: list[float] = []

    async def search(self, question: Search) -> Hits:
        """As `LedgerClient.search`."""
        began, cpu = time.perf_counter(), time.process_time()
        hits = await self._service.on_search(question, self._call)
        self.took_s.append(time.perf_counter() - began)
        self.cpu_s.append(time.process_time() - cpu)
        return hits

    def row(self, name: str) -> dict[str, float]:
        """Its figures."""
        figures = {
            "cpu_p50_ms": percentile(self.cpu_s, 50),
            "p50_ms": percentile(self.took_s, 50),
            "max_ms": max(self.took_s),
        }
        return {f"{name}_{of}": round(seconds * 1000, 2) for of, seconds in figures.items()}


async def _needle(ledger: Asking) -> list[Hit]:
    """What the question brings, in the session that has the answer, asked as a supervisor asks."""
    return (await ledger.search(question_of(QUESTION, limit=3, score_min=0.2))).hits


def question_of(words: str, **bounds: Any) -> Search:
    """Of the texts of that session alone."""
    return Search(words=words, session_id=SESSION, streams=["session"], **bounds)


async def found_needle(service: LedgerService) -> list[Hit]:
    """What the question brings in a ledger that was just written."""
    return await _needle(Asking(service, "ho2/1@7"))


class _Bus(SmallBus):
    def __init__(self) -> None:
        super().__init__(clock=SystemClock())  # pyright: ignore[reportArgumentType] - real time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def measure(folder: Path, turns: int) -> dict[str, Any]:
    """One row."""
    service = LedgerService(RealDisk(folder), load_snapshot().config.ledger)
    await service.start(_Bus())  # pyright: ignore[reportArgumentType]
    began, cpu = time.perf_counter(), time.process_time()
    for session_id, needle_at in ((SESSION, turns // 4), (OTHER, None)):
        for some in _together(conversation(session_id, turns, needle_at=needle_at)):
            await service.append(some, "ho2/1@7")
    written_s = time.perf_counter() - began
    everybody = Asking(service, "operator/1@7")
    while (await everybody.search(Search(words="nothing", limit=1))).reached < service.counters()["head"]:
        await asyncio.sleep(0.05)
    indexed_s, indexed_cpu_s = time.perf_counter() - began, time.process_time() - cpu
    needle, common = Asking(service, "ho2/1@7"), Asking(service, "operator/1@7")
    searched, frequent = await _needle(needle), " ".join(_vocabulary()[:8])
    for _ in range(_ROUNDS):
        searched = await _needle(needle)
        await common.search(Search(words=frequent, limit=10))
    await service.drain()
    size = sum(file.stat().st_size for file in folder.glob(f"{FILE}*"))
    first = searched[0] if searched else None
    return {
        "turns": turns,
        "entries": service.counters().get("entries", 0) or turns * 8 + 2,
        "found": first is not None and first.excerpt.startswith(NEEDLE),
        "score": round(first.score, 2) if first else 0,
        "next_score": round(searched[1].score, 2) if len(searched) > 1 else 0,
        "write_s": round(written_s, 2),
        "indexed_s": round(indexed_s, 2),
        "indexed_cpu_s": round(indexed_cpu_s, 2),
        "index_bytes": size,
        **needle.row("needle"),
        **common.row("common"),
    }


def _together(turns: Iterator[list[WriteEntry]]) -> Iterator[list[WriteEntry]]:
    """Several turns in one write: this measures no syncs."""
    while some := [entry for entries in islice(turns, _TURNS_TOGETHER) for entry in entries]:
        yield some


def main() -> int:
    """The table; exit code 1 where the needle was not found first."""
    parser = arguments(__doc__, json=True)
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 1_000, 10_000], help="lengths of the conversation")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for turns in options.turns:
        folder = Path(tempfile.mkdtemp(prefix="bench-search-"))
        try:
            rows.append(asyncio.run(measure(folder, turns)))
        finally:
            shutil.rmtree(folder)
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()))
    on = machine()
    say_machine(on)
    write_json(options.json, {"rows": rows, "measured_on": on})
    return 0 if all(row["found"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
