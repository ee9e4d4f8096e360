"""What is measured: turns, tools and streams that wait, and overload."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import psutil

from bench.builders import shipped_snapshot
from bench.cluster import Cluster, cluster, cpu_s_of, eventually, temporary
from bench.gateway.speed import KEY, MODEL_ID, litellm
from bench.outside import asking_for, with_outside
from bench.peers.environment import PeerAway, python_of
from bench.turn import LANGGRAPH, QUESTION
from bench.waiting.clients import Door, Heard, at_once, said_of
from bench.waiting.provider import Provider, provider
from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.bus.port import Bus
from hobus.config.files import SHIPPED_ROOT
from hobus.launch.cluster.client import connect_bus
from hobus.launch.http import keys

AGENT = "ADMIN"
OWN = {"agent_id": "CLERK", "agent_class": "RESIDENT", "classification": "beside"}
"""What `hobus init --agent` writes in place of the shipped agent's: it is classified while it is answered."""
QUICK = OWN | {"agent_id": "QUICK", "model": {"provider_id": "quick", "model_id": "offline-rules-1"}}
"""The same, of a model that does not think: for turns that only warm a cluster."""
WARM_ROUNDS, WARM_CLIENTS = 20, 16
"""Turns before memory is counted: they fill what a cluster keeps within bounds, with few at once."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; `model_s` is what a model call takes."""

    turns: tuple[int, ...] = (16, 64, 256, 1000)
    model_s: float = 5.0
    tools: int = 64
    streams: tuple[int, ...] = (64, 1000)
    pieces: int = 200
    gap_ms: float = 25.0
    overload_s: float = 60.0
    overload_models_s: tuple[float, ...] = (0.05, 5.0)
    hostile_turns: int = 10_000
    hostile_s: float = 20.0


SMALL = Sizes(
    turns=(8,), model_s=0.3, tools=4, streams=(8,), pieces=20, overload_s=3.0, overload_models_s=(0.05,),
    hostile_turns=100, hostile_s=3.0,
)  # fmt: skip


@dataclass(slots=True)
class Row:
    """One line of the table: ours beside the peer's, the goals that were missed, and what could not be measured."""

    row: str
    what: str
    ours: dict[str, Any]
    goal: str = ""
    peer: dict[str, Any] = field(default_factory=dict[str, Any])
    missed: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    @contextmanager
    def beside(self) -> Iterator[None]:
        """The peer is measured in here, if it is there."""
        try:
            yield
        except PeerAway as away:
            self.notes.append(str(away))

    def must(self, is_met: bool, words: str) -> None:
        if not is_met:
            self.missed.append(words)


def door_of(found: Cluster, agent_id: str = AGENT) -> Door:
    """Its door, with a new key that it knows already."""
    clock = SystemClock()
    key = keys.create(found.home, f"bench-{clock.new_id()[:8]}", new_id=clock.new_id, now_us=0, ttl_s=None)
    door = Door(int(found.home.bound(http=True).rpartition(":")[2]), key, agent_id)
    eventually(lambda: asyncio.run(door.ask("hello")).status not in (0, 401), within_s=30)
    return door


@contextmanager
def doored(changes: dict[str, Any], agents: Sequence[dict[str, Any]] = ()) -> Iterator[tuple[Cluster, Door]]:
    """A cluster as shipped but for these settings and further agents, with its door, where the first of them is asked."""
    with cluster(changes, "--http", "127.0.0.1:0", agents=agents) as found:
        yield found, door_of(found, agents[0]["agent_id"] if agents else AGENT)


@contextmanager
def with_tools(sleep_s: float) -> Iterator[Cluster]:
    """A cluster whose agents may use tools that wait so long (`bench/outside_tools`), with a door."""
    with temporary("bench-tools") as directory:
        outside, found = with_outside(directory, {})
        (outside.root / "seen" / "sleep_s").write_text(f"{sleep_s:g}")
        try:
            found.up("--http", "127.0.0.1:0")
            yield found
        finally:
            found.end()


async def warm(door: Door) -> None:
    """The cluster has answered some hundred turns, so that none of what they leave behind counts as waiting."""
    quick = replace(door, model=QUICK["agent_id"])
    for _ in range(WARM_ROUNDS):
        heard, _took_s = await at_once(quick.ask(QUESTION) for _ in range(WARM_CLIENTS))
        assert all(one.is_right for one in heard), heard


def turns(sizes: Sizes, *, has_peer: bool) -> Iterator[Row]:
    """So many clients at once, each one turn of a model that is asked twice and a tool; each cluster is a new one (P22).

    The agent is one's own, whose message is classified while it is answered; the shipped one's is classified before.
    """
    shipped = json.loads((SHIPPED_ROOT / "agents" / f"{AGENT}.json").read_text())
    offline = shipped_snapshot().config.gateway.providers["offline"].model_dump(mode="json")
    providers = {"offline": offline | {"latency_ms": round(sizes.model_s * 1000)}, "quick": offline}
    for number in sizes.turns:
        with doored({"gateway.providers": providers}, [shipped | OWN, shipped | QUICK]) as (found, door):
            alone = asyncio.run(door.ask(QUESTION))
            asyncio.run(warm(door))
            ours = asyncio.run(_waited(found, door, number, sizes.model_s)) | {"alone_s": round(alone.took_s, 1)}
        goal = "the peer's time; 60 KB per waiting turn"
        row = Row("turns", f"{number} at once, model {sizes.model_s:g} s", ours, goal)
        row.must(ours["right"] == number, f"{number - ours['right']} of {number} not right")
        row.must(ours["kb_per_waiting"] <= 60 or number < 64, f"{ours['kb_per_waiting']} KB per waiting turn")
        if has_peer:
            with row.beside():
                row.peer = langgraph(number, sizes.model_s)
                row.must(ours["took_s"] <= row.peer["took_s"], f"{ours['took_s']} s beside {row.peer['took_s']}")
        yield row


async def _waited(found: Cluster, door: Door, number: int, model_s: float) -> dict[str, Any]:
    """Their figures, with the most memory that they took while they waited, and the CPU that each cost."""
    seen_kb, cpu = [found.pss_kb()], sum(found.cpu_s().values())

    async def look() -> None:
        await asyncio.sleep(model_s * 0.8)
        while True:
            seen_kb.append(await asyncio.to_thread(found.pss_kb))
            await asyncio.sleep(model_s)

    looking = asyncio.create_task(look())
    heard, took_s = await at_once(door.ask(QUESTION) for _ in range(number))
    used_s = sum(found.cpu_s().values()) - cpu
    looking.cancel()
    kb = (max(seen_kb) - seen_kb[0]) / number
    return said_of(heard, took_s) | {"kb_per_waiting": round(kb), "cpu_ms_per_turn": round(used_s * 1000 / number, 1)}


def langgraph(threads: int, model_s: float) -> dict[str, Any]:
    """The same in LangGraph. Raises PeerAway."""
    script = Path(__file__).parent.parent / "peers" / "langgraph_waiting.py"
    words = [str(python_of("langgraph", LANGGRAPH)), "-E", str(script), str(threads), str(model_s)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerAway(f"LangGraph ended with {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def tools(sizes: Sizes, *, has_peer: bool) -> Iterator[Row]:
    """So many calls at once of a tool that waits: one that yields, and one that does not."""
    del has_peer
    for tool_id in ("sleep_async", "sleep_def"):
        with with_tools(sizes.model_s) as found:
            door = door_of(found)
            asyncio.run(door.ask(asking_for(tool_id)))
            heard, took_s = asyncio.run(at_once(door.ask(asking_for(tool_id)) for _ in range(sizes.tools)))
        row = Row("tools", f"{sizes.tools} of {tool_id}, {sizes.model_s:g} s", said_of(heard, took_s), goal="+ 1 s")
        row.must(row.ours["right"] == sizes.tools, f"{sizes.tools - row.ours['right']} of {sizes.tools} not right")
        row.must(took_s <= sizes.model_s + 1, f"{took_s - sizes.model_s:.1f} s more than the tool")
        yield row


def streams(sizes: Sizes, *, has_peer: bool) -> Iterator[Row]:
    """So many streams at once, from a real HTTP provider; asked of itself by the same clients, too (P23).

    Without a classification, which is a call of its own that the peer does not make.
    """
    for number in sizes.streams:
        with provider(0.2, sizes.pieces, sizes.gap_ms) as model:
            own = asyncio.run(_streamed(Door(model.port, "none", "m"), number, sizes.pieces))
            with doored(model.settings() | {"ho2.classify": False}) as (found, door):
                asyncio.run(door.ask("tell me a story", stream=True))
                cpu = sum(found.cpu_s().values())
                ours = asyncio.run(_streamed(door, number, sizes.pieces)) | {"model_s": own["took_s"]}
                ours["cpu_ms_per_piece"] = round((sum(found.cpu_s().values()) - cpu) * 1000 / number / sizes.pieces, 3)
            what = f"{number} of {sizes.pieces} pieces, one each {sizes.gap_ms:g} ms"
            row = Row("streams", what, ours, "none cut")
            row.must(ours["whole"] == number, f"{number - ours['whole']} of {number} not whole")
            if number <= 64:
                row.goal = "1.1 of the model's time, first words + 0.1 s, half of the peer's CPU"
                late_s, times = ours["first_words_p50_s"] - own["first_words_p50_s"], ours["took_s"] / own["took_s"]
                row.must(times <= 1.1, f"{times:.2f} of the model's time")
                row.must(late_s <= 0.1, f"first words + {late_s:.2f} s")
            if has_peer:
                with row.beside():
                    row.peer = asyncio.run(_litellm(model, number, sizes.pieces))
                    used, limit = ours["cpu_ms_per_piece"], row.peer["cpu_ms_per_piece"] / 2
                    row.must(used <= limit, f"{used} ms of CPU a piece, not {limit:.3f}")
            yield row


async def _streamed(door: Door, number: int, pieces: int) -> dict[str, Any]:
    heard, took_s = await at_once(door.ask(f"tell me a story {n}", stream=True) for n in range(number))
    return said_of(heard, took_s) | {"whole": sum(one.is_right and one.words == pieces for one in heard)}


async def _litellm(model: Provider, number: int, pieces: int) -> dict[str, Any]:
    """The same through its proxy. Raises PeerAway."""
    with litellm(model.url) as url:
        port = int(url.rpartition(":")[2])
        door = Door(port, KEY, MODEL_ID)
        await door.ask("hello", stream=True)
        of_port = {one.pid for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port and one.pid}
        processes = [psutil.Process(pid) for pid in of_port]
        before = cpu_s_of(processes)
        said = await _streamed(door, number, pieces)
        used_s = cpu_s_of(processes) - before
    return said | {"cpu_ms_per_piece": round(used_s * 1000 / number / pieces, 3)}


def overload(sizes: Sizes, *, has_peer: bool) -> Iterator[Row]:
    """Arrivals at three times the capacity, whoever waits; fast and slow model, over HTTP and over the bus (R13)."""
    del has_peer
    for model_s, way in product(sizes.overload_models_s, ("HTTP", "bus")):
        with doored({"gateway.providers.offline.latency_ms": round(model_s * 1000)}) as (found, door):
            ours = asyncio.run(_overloaded(found, door, way, sizes.overload_s))
        what = f"{way}, model {model_s:g} s, three times what it can for {sizes.overload_s:g} s"
        goal = "goodput 0.9 of capacity; refused within 1 s; none degraded; normal within 5 s"
        row = Row("overload", what, ours, goal)
        row.must(ours["goodput"] >= 0.9 * ours["capacity"], f"goodput {ours['goodput']} of {ours['capacity']} turns/s")
        row.must(ours["refused_after_s"] <= 1, f"refused after {ours['refused_after_s']} s")
        row.must(not ours["degraded"], f"{ours['degraded']} degraded")
        row.must(ours["asked"] == ours["right"] + ours["refused"] + ours["degraded"], f"ended as {ours['outcomes']}")
        then_s, alone_s = ours["afterwards_s"], ours["alone_s"]
        row.must(then_s <= 2 * alone_s + 0.5, f"{then_s} s afterwards, {alone_s} alone")
        yield row


async def _overloaded(found: Cluster, door: Door, way: str, seconds: float) -> dict[str, Any]:
    async with connect_bus(found.place, "door") as bus:
        ask = (lambda: _asked_by_bus(bus)) if way == "bus" else lambda: door.ask(QUESTION)
        await ask()
        alone = await ask()
        window_s = max(min(30.0, seconds) / 2, 2.5 * alone.took_s)
        clients = await _enough_clients(ask, window_s / 2)
        capacity = max(0.1, await _capacity(ask, clients, window_s))
        arriving: list[asyncio.Task[Heard]] = []
        began = time.monotonic()
        for number in range(round(3 * capacity * seconds)):
            await asyncio.sleep(max(0.0, began + number / (3 * capacity) - time.monotonic()))
            arriving.append(asyncio.create_task(ask()))
        await asyncio.sleep(5)
        afterwards = await ask()
        heard = await asyncio.gather(*arriving)
        said = said_of(heard, time.monotonic() - began)
        capacity = (capacity + await _capacity(ask, clients, window_s)) / 2
    # The first ones cannot be answered before a turn's own time is over.
    begin, end = began + alone.took_s, began + seconds
    good = sum(one.is_right and begin <= one.ended_at <= end for one in heard)
    return said | {
        "capacity": round(capacity, 1), "goodput": round(good / max(0.001, end - begin), 1),
        "alone_s": round(alone.took_s, 2), "afterwards_s": round(afterwards.took_s, 2) if afterwards.is_right else 999.0,
    }  # fmt: skip


async def _asked_by_bus(bus: Bus) -> Heard:
    """One turn, asked once: who is told to come back is refused."""
    began, turn = time.monotonic(), ProcessTurn(input_id=bus.new_id(), text=QUESTION)
    try:
        result = await bus.request("host", turn, expect=TurnResult, timeout_s=600, message_id=turn.input_id)
        outcome = result.outcome if result.outcome != "error" else result.code or "error"
    except RuntimeFault as fault:
        outcome = fault.code
    now = time.monotonic()
    return Heard(outcome, now - began, now)


async def _capacity(ask: Callable[[], Awaitable[Heard]], clients: int, seconds: float) -> float:
    """Right turns a second with so many clients, each of whom asks again once it is answered."""
    began = time.monotonic()

    async def client() -> int:
        right = 0
        while time.monotonic() < began + seconds:
            right += (is_right := (await ask()).is_right)
            await asyncio.sleep(0 if is_right else 0.2)
        return right

    return sum(await asyncio.gather(*(client() for _ in range(clients)))) / (time.monotonic() - began)


async def _enough_clients(ask: Callable[[], Awaitable[Heard]], seconds: float) -> int:
    """How many clients bring all that it can: four times as many bring no fifth more."""
    clients, rate = 8, 0.1
    while clients < 2048 and (more := await _capacity(ask, clients * 4, seconds)) >= 1.2 * rate:
        clients, rate = clients * 4, more
    return clients
