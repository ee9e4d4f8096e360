"""Random SIGKILLs under load (R2), on real processes: no turn lost or answered twice, no record lost, no effect doubled.

usage: python -m bench.random_kills [--kills 1000] [--sessions 8] [--pause 0.3] [--seed 1] [--write]
       [--only ROLE ...] [--keep DIR]

Eight people ask one question after the other, each in a session of their own, while processes of the cluster (two
executors, two supervisors, one of everything else, the zygote) are killed one after the other at random. Some of the
questions make a tool charge a card outside (bench/outside_tools): with our key, so that it may run again, or without,
so that it must not. The people are connections of this process, each question a new one, as `hobus ask` makes it: eight
interpreters that start would measure themselves. Afterwards every answer that somebody was given is looked up in the record, every charge outside,
the record's invariants are checked and the verifier runs. The drill sets its own crash budget: the shipped one would give processes up that die so often. `--write` puts the
result into bench/results/drills.md and bench/results/random_kills.json. tests/process/test_random_kills.py does a short one.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.charges import charges_of
from bench.cluster import Cluster, eventually, temporary
from bench.following import follow
from bench.outside import asking_for, with_outside
from bench.report import arguments, cell, concluded, machine, pairs
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import ProcessTurn
from hobus.launch.cluster import identity
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.lab.simulation.record import answer_text, list_answers
from hobus.launch.sessions.watched_turn import answer_of

QUESTIONS = (
    "what packages are installed?",
    asking_for("charge_keyed"),
    "what did this session cost?",
    asking_for("charge_unkeyed"),
    "is the ledger intact?",
    "hello",
)
SESSIONS = 8
DEADLINE_S = 30
THINKING_MS = 100
ROLES = ("broker", "gateway", "ho1", "ho2", "ho3", "host", "ledger", "zygote")
SCALE = ("ho1=2", "ho2=2")
SETTINGS = {
    "gateway.providers.offline.latency_ms": THINKING_MS,
    "launcher.crash_budget": 1_000_000,
    "launcher.restart_backoff_max_ms": 500,
}
RESULTS = Path("bench/results/random_kills.json")


@dataclass(slots=True)
class Asked:
    """One question and what came of it."""

    input_id: str
    turn: ProcessTurn
    elapsed_s: float
    result: dict[str, Any]

    @property
    def is_answered(self) -> bool:
        """In full or marked as degraded."""
        return self.result["outcome"] in ("success", "degraded")


@dataclass(slots=True)
class Storm:
    """What a storm of kills left."""

    sessions: int
    seconds: float
    kills: dict[str, int]  # by role
    turns: dict[str, int]  # by outcome; `none`: the client gave up at its deadline, with an error that says so
    answered_when_asked_again: int  # of those without an answer, under the same input id, after the storm
    p50_s: float
    slowest_s: float
    answered_twice: list[str] = field(default_factory=list)
    shown: int = 0  # records that the ledger showed to a reader during the storm
    shown_and_lost: list[str] = field(default_factory=list)
    told_otherwise: list[str] = field(default_factory=list)  # somebody was told other words than the record has
    not_in_the_record: list[str] = field(default_factory=list)  # answers that somebody was given and the record lacks
    told_unrecorded: list[str] = field(default_factory=list)
    """Model answers that were used, and whose gateway died before the ledger, away itself, could take them."""
    errors: list[str] = field(default_factory=list)  # what clients without an answer were told at first
    lost: list[str] = field(default_factory=list)  # not answered when asked again either
    record: str = ""
    entries: int = 0
    charges: dict[str, dict[str, int]] = field(default_factory=dict)
    wrongly_charged: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        found = [f"answered twice: {name}" for name in self.answered_twice]
        found += [f"shown to a reader and lost: {name}" for name in self.shown_and_lost]
        found += [f"told otherwise than recorded: {name}" for name in self.told_otherwise]
        found += [f"not in the record: {name}" for name in self.not_in_the_record]
        found += [f"wrongly charged: {name}" for name in self.wrongly_charged]
        found += [f"lost: {what}" for what in self.lost]
        return found if self.record == "ok" else [*found, f"the record: {self.record}"]


def run_storm(
    directory: Path, *, kills: int, sessions: int, pause_s: float, seed: int, only: Sequence[str] = ()
) -> Storm:
    """One cluster, this many kills (of these roles alone, if any are named); all that it started has ended then."""
    outside, cluster = with_outside(directory, SETTINGS)
    is_over = threading.Event()
    answers: list[Asked] = []
    shown: set[str] = set()

    def taken(entry: Entry) -> None:
        shown.add(entry.submission_id)

    people = [
        threading.Thread(target=lambda: asyncio.run(ask_on(cluster, sessions, is_over, answers))),
        threading.Thread(target=lambda: asyncio.run(follow(cluster, is_over.is_set, taken))),
    ]
    try:
        scale = [word for one in SCALE for word in ("--scale", one)]
        cluster.up("--detach", *scale)
        began = time.monotonic()
        for person in people:
            person.start()
        struck = _strike(cluster, random.Random(seed), kills, pause_s, only)
        is_over.set()
        for person in people:
            person.join()
        seconds = time.monotonic() - began
        eventually(lambda: all(row.state == "ready" for row in cluster.run().children), within_s=30)
        first = {asked.input_id: asked.result["outcome"] for asked in answers}
        errors = asyncio.run(ask_again(cluster, answers))
        assert cluster("down").code == 0
        storm = looked_at(cluster, answers, struck, seconds, first)
        storm.errors = errors
        charges, storm.wrongly_charged = charges_of(cluster.entries(), outside)
        storm.charges = {tool_id: asdict(found) for tool_id, found in charges.items()}
        storm.shown = len(shown)
        storm.shown_and_lost = sorted(shown - {entry.submission_id for entry in cluster.entries()})
        return storm
    finally:
        is_over.set()
        for person in people:
            if person.is_alive():
                person.join()
        cluster.end()


async def ask_on(
    cluster: Cluster,
    sessions: int,
    is_over: threading.Event,
    answers: list[Asked],
    *,
    questions: Sequence[str] = QUESTIONS,
    pause_s: float = 0.0,
) -> None:
    """Question after question in each session, until the storm is over. `{}` in one of them becomes its input id."""
    place = cluster.place

    async def one(number: int) -> None:
        session_id: str | None = None
        for count in itertools.takewhile(lambda _: not is_over.is_set(), itertools.count(1)):
            input_id = f"person-{number}-{count}"
            text = questions[count % len(questions)].replace("{}", input_id)
            began = time.monotonic()
            turn = ProcessTurn(session_id=session_id, input_id=input_id, text=text)
            result = await _ask(place, turn)
            answers.append(Asked(input_id, turn, time.monotonic() - began, result))
            session_id = result.get("session_id", session_id)
            await asyncio.sleep(pause_s)

    async with asyncio.TaskGroup() as group:
        for number in range(sessions):
            group.create_task(one(number))


async def _ask(place: Place, turn: ProcessTurn) -> dict[str, Any]:
    """What `hobus ask --json` prints, or why it prints nothing."""
    try:
        return (await answer_of(place, turn, timeout_s=DEADLINE_S)).model_dump(mode="json")
    except (RuntimeFault, CommandError) as error:
        return {"outcome": "none", "code": getattr(error, "code", "unreachable"), "response": str(error)[:200]}


async def ask_again(cluster: Cluster, answers: list[Asked]) -> list[str]:
    """Whoever has no answer asks under the same input id, as the error says; what they had been told."""
    place, told = cluster.place, list[str]()
    for asked in answers:
        if not asked.is_answered:
            told.append(f"{asked.input_id}: {asked.result['code']}: {asked.result['response']}")
            asked.result = await _ask(place, asked.turn)
    return told


def _strike(cluster: Cluster, draw: random.Random, kills: int, pause_s: float, only: Sequence[str]) -> Counter[str]:
    """Kills one living process after the other, the pauses between them random around `pause_s`."""
    struck: Counter[str] = Counter()
    while struck.total() < kills:
        time.sleep(draw.random() * 2 * pause_s)
        run = cluster.run()
        living = {one: one.actor.partition("/")[0] for one in run.processes()}
        if victims := [one for one, role in living.items() if role in (only or ROLES)]:
            victim = draw.choice(victims)
            struck[living[victim]] += identity.end(victim.pid, victim.mark, signal.SIGKILL)
    return struck


def looked_at(
    cluster: Cluster, answers: list[Asked], struck: Counter[str], seconds: float, first: dict[str, str]
) -> Storm:
    """What became of all that was asked; `first`: input id -> the outcome before anything was asked again."""
    entries = cluster.entries()
    known = {entry.submission_id for entry in entries}
    times = sorted(asked.elapsed_s for asked in answers)
    storm = Storm(
        sessions=len({asked.input_id.rpartition("-")[0] for asked in answers}),
        seconds=round(seconds, 1),
        kills=dict(sorted(struck.items())),
        turns=dict(Counter(first.values())),
        answered_when_asked_again=sum(
            asked.is_answered and first[asked.input_id] in ("none", "error") for asked in answers
        ),
        p50_s=round(statistics.median(times), 2),
        slowest_s=round(times[-1], 2),
        entries=len(entries),
    )
    for asked in answers:
        input_id, result = asked.input_id, asked.result
        count = len(list_answers(entries, input_id))
        if count > 1:
            storm.answered_twice.append(input_id)
        if not asked.is_answered:
            storm.lost.append(f"{input_id}: {result['code']}: {result['response']}")
            continue
        if not count:
            storm.not_in_the_record.append(f"the answer to {input_id}")
        elif answer_text(entries, input_id) != result["response"]:
            storm.told_otherwise.append(input_id)
        storm.told_unrecorded += [name for name in result["exchange_entry_ids"] if name not in known]
    storm.record = cluster.record_verdict()
    return storm


def main() -> None:
    parser = arguments(__doc__, write=True)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="people who ask at the same time")
    parser.add_argument("--pause", type=float, default=0.3, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=(), choices=ROLES, help="kill processes of these roles alone")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave record and logs in this new directory")
    given = parser.parse_args()
    asked = {"kills": given.kills, "sessions": given.sessions, "pause_s": given.pause, "seed": given.seed}
    with temporary("random-kills") if given.keep is None else nullcontext(given.keep) as directory:
        directory.mkdir(parents=True, exist_ok=given.keep is None)
        storm = run_storm(directory, **asked, only=given.only)
    how = f"each model call thinks {THINKING_MS} ms"
    figures = asdict(storm)
    shown = pairs((name.replace("_", " "), cell(value)) for name, value in figures.items())
    figures = {"machine": machine(), **figures}
    sys.exit(concluded(given, shown, storm.faults, results=RESULTS, figures=figures, name="random kills", how=how))


if __name__ == "__main__":
    main()
