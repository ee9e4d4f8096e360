"""People who ask while a drill strikes, who follows the record meanwhile, and what record and outside say of it afterwards."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.cluster import Cluster
from bench.outside import Outside
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ledger import Entries, Entry, Tail
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.orders import ToolStarted
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError
from hobus.launch.lab.simulation.record import answer_text, list_answers
from hobus.launch.sessions.watched_turn import answer_of

CHARGES = ("charge_keyed", "charge_unkeyed")
DEADLINE_S = 30


@dataclass(slots=True)
class Asked:
    """One question and what came of it; times on the monotonic clock."""

    turn: ProcessTurn
    asked_at: float
    answered_at: float = 0.0  # at first, with an answer or without
    result: TurnResult | None = None
    first: str = ""  # the outcome at first; `none`: the client gave up at its deadline, with an error that says so
    told: str = ""  # why there was no answer at first

    @property
    def is_answered(self) -> bool:
        return self.result is not None and self.result.outcome in ("success", "degraded")


async def ask(place: Place, one: Asked) -> None:
    """As `hobus ask` asks, by a connection of its own; again under the same input id if there was no answer before."""
    outcome, told = "none", ""
    try:
        one.result = await answer_of(place, one.turn, timeout_s=DEADLINE_S, waits_for_its_turn=True)
        outcome = one.result.outcome
        told = "" if one.is_answered else f"{one.result.code}: {one.result.response}"
    except (RuntimeFault, CommandError) as error:
        told = f"{getattr(error, 'code', 'unreachable')}: {error}"
    if not one.first:
        one.first, one.told, one.answered_at = outcome, told[:200], time.monotonic()


async def ask_on(
    cluster: Cluster, sessions: int, is_over: Callable[[], bool], answers: list[Asked], *, questions: Sequence[str],
    pause_s: float = 0.0,
) -> None:  # fmt: skip
    """Question after question in each session, until it is over. `{}` in one of them becomes its input id."""
    place = cluster.place

    async def one(number: int) -> None:
        session_id: str | None = None
        for count in itertools.takewhile(lambda _: not is_over(), itertools.count(1)):
            input_id = f"person-{number}-{count}"
            text = questions[count % len(questions)].replace("{}", input_id)
            answers.append(Asked(ProcessTurn(session_id=session_id, input_id=input_id, text=text), time.monotonic()))
            asked = answers[-1]
            await ask(place, asked)
            session_id = asked.result.session_id if asked.result else session_id
            await asyncio.sleep(pause_s)

    async with asyncio.TaskGroup() as group:
        for number in range(sessions):
            group.create_task(one(number))


@contextmanager
def asking(
    cluster: Cluster, sessions: int, answers: list[Asked], *, questions: Sequence[str], pause_s: float = 0.0,
    take: Callable[[Entry], object] | None = None,
) -> Iterator[None]:  # fmt: skip
    """Meanwhile so many people ask on, and `take` is given every entry; all have an answer, or none, afterwards."""
    is_over = threading.Event()
    jobs = [ask_on(cluster, sessions, is_over.is_set, answers, questions=questions, pause_s=pause_s)]
    jobs += [] if take is None else [follow(cluster, is_over.is_set, take)]
    threads = [threading.Thread(target=asyncio.run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def ask_again(cluster: Cluster, answers: Iterable[Asked]) -> None:
    """Whoever has no answer asks once more, under the same input id."""
    for one in answers:
        if not one.is_answered:
            asyncio.run(ask(cluster.place, one))


async def follow(cluster: Cluster, is_over: Callable[[], bool], take: Callable[[Entry], object]) -> None:
    """Every entry is taken once, in order, through every death: what was shown is durable, and must be there afterwards."""
    head = -1
    while not is_over():
        try:
            async with connect_bus(cluster.place, "operator") as operator:
                while not is_over():
                    tail = Tail(after=head, limit=500, wait_ms=500)
                    page = await operator.request("ledger", tail, expect=Entries, timeout_s=2)
                    for entry in page.entries:
                        take(entry)
                        head = entry.sequence
        except (RuntimeFault, CommandError, OSError, AssertionError):
            await asyncio.sleep(0.1)  # somebody whom it needs has just died, or the launcher with its run file


@dataclass(slots=True)
class Looked:
    """What became of all that was asked."""

    turns: dict[str, int]  # by outcome at first
    answered_when_asked_again: int
    p50_s: float
    slowest_s: float
    told: list[str]  # to those without an answer, at first
    entries: int
    record: str  # "ok", or what is wrong by the invariants or the verifier
    charges: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    wrong: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def faults(self) -> list[str]:
        found = [f"{what}: {name}" for what, names in self.wrong.items() for name in names]
        return found if self.record == "ok" else [*found, f"the record: {self.record}"]


def looked_at(cluster: Cluster, outside: Outside, answers: Sequence[Asked], *, shown: Collection[str] = ()) -> Looked:
    """All of it, after everybody has asked again and the cluster is down. `shown`: entries that somebody was shown."""
    entries = cluster.entries()
    times = [one.answered_at - one.asked_at for one in answers]
    looked = Looked(
        turns=dict(Counter(one.first for one in answers)),
        answered_when_asked_again=sum(one.is_answered and bool(one.told) for one in answers),
        p50_s=round(statistics.median(times), 2), slowest_s=round(max(times), 2),
        told=[f"{one.turn.input_id}: {one.told}" for one in answers if one.told],
        entries=len(entries), record=cluster.record_verdict(),
    )  # fmt: skip
    whats = ("lost", "answered twice", "not in the record", "told otherwise than recorded")
    looked.wrong = wrong = {what: [] for what in whats}
    charges, wrong["wrongly charged"] = charges_of(entries, outside)
    looked.charges = {tool_id: dict(counted) for tool_id, counted in charges.items()}
    wrong["shown to a reader and lost"] = sorted(set(shown) - {entry.submission_id for entry in entries})
    effects = {tool_id: outside.effects(tool_id) for tool_id in CHARGES}
    for one in answers:
        input_id, result = one.turn.input_id, one.result
        count = len(list_answers(entries, input_id))
        wrong["answered twice"] += [input_id] * (count > 1)
        if result is None or not one.is_answered:
            wrong["lost"].append(f"{input_id}: {result.code if result else one.told}")
            continue
        if not count:
            wrong["not in the record"].append(input_id)
        elif answer_text(entries, input_id) != result.response:
            wrong["told otherwise than recorded"].append(input_id)
        calls = result.tool_calls if result.outcome == "success" else ()
        for call in (call for call in calls if call.tool_id in CHARGES):
            charged = sum(line.startswith(f"WO-{result.run_id}.") for line in effects[call.tool_id])
            is_in_doubt = call.code == "unknown_outcome" and call.tool_id == "charge_unkeyed"
            if charged != 1 and not (is_in_doubt and charged == 0):
                wrong["wrongly charged"].append(f"{input_id} by {call.tool_id}: {charged} effects, told {call.code!r}")
    return looked


def charges_of(entries: Iterable[Entry], outside: Outside) -> tuple[dict[str, Counter[str]], list[str]]:
    """By tool what became of its calls; and each order that was charged twice, or not as the record says."""
    found: dict[str, Counter[str]] = {}
    wrong: list[str] = []
    tool_of, ends = dict[str | None, str](), dict[str | None, Entry]()
    for entry in entries:
        if entry.event_type == "TOOL_STARTED" and (started := read_payload(ToolStarted, entry)) is not None:
            tool_of[entry.provenance.work_order_id] = started.tool_id
        elif entry.event_type in ("WO_COMPLETED", "WO_FAILED"):
            ends[entry.provenance.work_order_id] = entry
    for tool_id in CHARGES:
        done = Counter(outside.effects(tool_id))
        found[tool_id] = Counter(effects=done.total(), runs=len(outside.runs(tool_id)))
        for wo_id in (wo_id for wo_id, name in tool_of.items() if name == tool_id):
            end = ends.get(wo_id)
            is_completed = end is not None and end.event_type == "WO_COMPLETED"
            is_in_doubt = end is not None and end.reason == "unknown_outcome"
            how = "completed" if is_completed else "in_doubt" if is_in_doubt else "otherwise"
            found[tool_id].update(["calls", how])
            if done[wo_id] > 1 or (is_completed and done[wo_id] != 1) or (is_in_doubt and tool_id == "charge_keyed"):
                wrong.append(f"{wo_id} by {tool_id}: {done[wo_id]} effects")
        wrong += [f"{wo_id} by {tool_id}: no such order" for wo_id in done if wo_id not in tool_of]
    return found, sorted(wrong)
