"""R6: 64 calls at once on a budget that fits k of them: never more than k are worked on, and nothing stays reserved.

The cluster is in mode `enforce`, its provider bills each call it works on with all that was reserved for it: so a
session that fits k calls has had k, whatever they brought. A round is a session of its own, a k, and 64 orders that ask
at once, half of them streamed; the provider answers at once or late, refuses (429, 500: not billed), breaks off, or
answers nonsense; a quarter of those who ask take it back after some milliseconds, and in every twentieth round the
gateway is killed meanwhile. Afterwards the provider's own books are looked at, the budget, and the record of all rounds
(`compared` of the audit).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.cluster import Cluster
from bench.gateway.audit import compared
from bench.gateway.parts import REFUSALS, TIRELESS, Books, Call, ask, call_of, cluster_of, kill_gateway
from bench.gateway.servers import served
from bench.report import cell, concluded, markdown
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.gateway import Budget, ReadBudget, ScopeBudget
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.port import Bus
from hobus.launch.cluster.client import connect_bus

AT_ONCE = 64
ESTIMATE = 25  # tokens of the prompt: 100 characters
LIMIT = 8000  # the shipped contracts fit it: a gate looks
SIZES = {k: LIMIT // k - ESTIMATE for k in (1, 2, 4, 8, 16)}
"""k -> tokens of the answer, so that k calls fit and no k + 1."""
KILL_EVERY, NAME = 20, "WO-r{:04d}"
WAYS = {"whole": 40, "late": 20, "429": 15, "500": 5, "malformed": 6, "half": 6, "disconnect": 8}
LIMIT_S = 30.0
SETTLED_S = 10.0


@dataclass(slots=True)
class Round:
    number: int
    k: int
    was_killed: bool
    worked: int = 0  # calls that the provider worked on, by its own books
    refused: int = 0  # that it refused
    at_most: int = 0  # worked on and in refusal at any one moment
    succeeded: int = 0
    used: int = 0  # tokens
    reserved: int = 0  # left so
    outcomes: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def faults(self) -> list[str]:
        wanted = {
            f"{self.worked} calls worked on": self.worked <= self.k,
            f"{self.at_most} calls at the provider at once": self.at_most <= self.k,
            f"{self.succeeded} succeeded": self.succeeded <= self.k,
            f"{self.used} tokens used": self.used <= LIMIT,
            f"{self.used} tokens used for {self.worked} calls": self.used * self.k >= self.worked * LIMIT,
            f"{self.reserved} still reserved": self.reserved == 0,
        }
        return [f"round {self.number}, k {self.k}: {what}" for what, is_so in wanted.items() if not is_so]


def drill(rounds: int, seed: int, *, kill_every: int = KILL_EVERY) -> tuple[list[Round], dict[str, Any]]:
    """All rounds on one cluster; what else there is to say of them, faults of the record among it."""
    now, at_most = (
        Counter[str](),
        Counter[str](),
    )  # calls at the provider, by session: a call's key begins with its round

    def choose(call: Call) -> str:
        """By the seed, whenever and in whatever order calls come."""
        draw = random.Random(f"{seed}/{call.key}/{call.number}")
        way = draw.choices(list(WAYS), list(WAYS.values()))[0]
        session = call.key.partition("-x")[0]
        at_most[session] = max(at_most[session], now[session] + 1)
        now[session] += way not in REFUSALS
        return way

    books = Books(choose, lambda request: (ESTIMATE, int(request.json["max_tokens"])))
    settings = {**TIRELESS, "budget.budget_mode": "enforce", "budget.session_token_limit": LIMIT}
    with served(books.behave) as server, cluster_of({"mine": server.url}, settings) as cluster:
        began = time.monotonic()
        found, told = asyncio.run(_all_rounds(cluster, rounds, seed, kill_every))
        seconds = time.monotonic() - began
        assert cluster("down").code == 0
        for one in found:
            name = NAME.format(one.number)
            calls = [call for call in books.calls if call.key.startswith(f"{name}-x")]
            one.worked = sum(call.is_worked for call in calls)
            one.refused = len(calls) - one.worked
            one.at_most = at_most[name]
        cluster.verify()
        looked = compared(cluster.entries(), books.calls, told)
    ways = Counter(call.way for call in books.calls)
    return found, {"seconds": round(seconds, 1), "ways": dict(ways), "compared": asdict(looked)}


async def _all_rounds(cluster: Cluster, rounds: int, seed: int, kill_every: int) -> tuple[list[Round], dict[str, str]]:
    found, told = list[Round](), dict[str, str]()
    async with connect_bus(cluster.place, "ho1") as bus:
        for number in range(1, rounds + 1):
            found.append(await _one_round(cluster, bus, number, seed, number % kill_every == 0, told))
            if number % 50 == 0:
                print(f"{number} rounds, {sum(len(one.faults) for one in found)} faults", file=sys.stderr, flush=True)
    return found, told


async def _one_round(
    cluster: Cluster, bus: Bus, number: int, seed: int, is_killed: bool, told: dict[str, str]
) -> Round:
    draw, session_id = random.Random(f"{seed}/{number}"), derive_session_id("door", f"budget-{seed}-{number}")
    k, outcomes = draw.choice(list(SIZES)), Counter[str]()
    found = Round(number, k, is_killed)

    async def one(place: int) -> None:
        await asyncio.sleep(draw.random() * 0.02)
        key = f"{NAME.format(number)}-x{place}#1"
        wanted = call_of(key, session_id, max_tokens=SIZES[k], stream=bool(place % 2))
        asking = asyncio.ensure_future(ask(bus, wanted, timeout_s=LIMIT_S))
        if place % 4 == 0:
            asyncio.get_running_loop().call_later(draw.random() * 0.08, asking.cancel)
        try:
            answer = await asking
        except asyncio.CancelledError:
            outcomes["taken back"] += 1
        except RuntimeFault as fault:
            outcomes[fault.code] += 1
        else:
            outcomes[answer.error_code or answer.outcome] += 1
            if answer.outcome == "SUCCESS":
                told[key] = answer.content

    async with asyncio.TaskGroup() as group:
        for place in range(AT_ONCE):
            group.create_task(one(place))
        if is_killed:
            await asyncio.sleep(draw.random() * 0.15)
            found.was_killed = kill_gateway(cluster)
    found.succeeded, found.outcomes = outcomes["SUCCESS"], dict(sorted(outcomes.items()))
    row = await _at_rest(bus, session_id)
    found.used, found.reserved = row.used, row.reserved
    return found


async def _at_rest(bus: Bus, session_id: str) -> ScopeBudget:
    """The session's scope once nothing is reserved in it, or as it stands after some time."""
    until = time.monotonic() + SETTLED_S
    while True:
        try:
            budget = await bus.request("gateway", ReadBudget(session_id=session_id), expect=Budget, timeout_s=5)
            row = next(row for row in budget.scopes if row.scope == f"session:{session_id}")
            if not row.reserved or time.monotonic() > until:
                return row
        except RuntimeFault as fault:
            if not fault.retryable or time.monotonic() > until:
                raise
        await asyncio.sleep(0.005)


def table(rounds: list[Round], said: dict[str, Any]) -> str:
    columns = (
        "fits k", "rounds", "of these killed", "calls asked", "sent", "refused by the provider", "worked on, most",
        "succeeded, most", "tokens used, most", "still reserved",
    )  # fmt: skip
    rows = []
    for k in sorted({one.k for one in rounds}):
        mine = [asdict(one) for one in rounds if one.k == k]
        total = {name: sum(one[name] for one in mine) for name in ("was_killed", "worked", "refused", "reserved")}
        most = {name: max(one[name] for one in mine) for name in ("worked", "succeeded", "used")}
        rows.append((
            k, len(mine), total["was_killed"], len(mine) * AT_ONCE, total["worked"] + total["refused"], total["refused"],
            most["worked"], most["succeeded"], f"{most['used']} of {LIMIT}", total["reserved"],
        ))  # fmt: skip
    outcomes = sum((Counter(one.outcomes) for one in rounds), Counter[str]())
    told = (
        f"Who asked was told: {cell(outcomes)}. The provider: {cell(said['ways'])}. Compared: {cell(said['compared'])}."
    )
    return f"{markdown(columns, rows)}\n\n{told}"


def faults_of(rounds: list[Round], said: dict[str, Any]) -> list[str]:
    return [fault for one in rounds for fault in one.faults] + list(said["compared"]["faults"])


OPTIONS = {"rounds": 1000, "seed": 1}


def run(given: argparse.Namespace) -> int:
    """0 where no round has a fault."""
    rounds, said = drill(given.rounds, given.seed)
    figures = {**said, "rounds": [asdict(one) for one in rounds]}
    how = f"seed {given.seed}, {said['seconds']:.0f} s; goal: never more than k, 0 still reserved"
    shown, wrong = table(rounds, said), faults_of(rounds, said)
    return concluded(given, shown, wrong, figures=figures, name="gateway budgets", how=how)
