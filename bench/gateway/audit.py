"""R7: the provider's own count of its calls against the record, with the gateway killed at exact points of a call.

usage: python -m bench.gateway audit [--kills 20] [--point NAME] [--write]

A row is a cluster of its own, eight executors that ask one call after the other, half of them streamed, and a provider
that counts. At the point the gateway gets SIGKILL, at its every twentieth call: by itself, as it is about to send or has just
received the frame that the point names (launch/process/failpoint.py), or by the provider, which knows how far its answer has come. It
is started again, those who ask ask again under their keys, and it is killed again. In the end both sides are compared, key by key
(`bench/gateway/compared.py`): every call that the provider counted has exactly one PROMPT_SENT with exactly one
end; every end that is sure of a call is one that the provider counted; what nobody can know is UNKNOWN_OUTCOME and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster import Cluster, eventually
from bench.gateway.compared import Compared, compared
from bench.gateway.parts import TIRELESS, Books, ask, call_of, cluster_of, kill_gateway
from bench.gateway.servers import served
from bench.report import judged
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import derive_session_id
from hobus.launch.cluster.client import connect_bus
from hobus.launch.process.failpoint import VARIABLE, parse_drill

POINTS: dict[str, tuple[str, str]] = {
    "nobody": ("", "nobody is killed"),
    "reserved": ("before-send:ledger.write~PROMPT_SENT", "reserved, PROMPT_SENT not yet handed over"),
    "recording": ("after-send:ledger.write~PROMPT_SENT", "PROMPT_SENT handed over, its ack not received"),
    "recorded": ("on-receive:ledger.written~PROMPT_SENT", "PROMPT_SENT durable, nothing sent"),
    "sent": ("request", "the request is at the provider"),
    "middle": ("half", "half of the answer is on its way"),
    "answered": ("whole", "the whole answer is on its way"),
    "received": ("before-send:ledger.write~PROMPT_RECEIVED", "answer received, PROMPT_RECEIVED not handed over"),
    "ending": ("after-send:ledger.write~PROMPT_RECEIVED", "PROMPT_RECEIVED handed over, perhaps not durable"),
    "telling": ("before-send:gateway.response", "about to answer whoever asked"),
}
"""Name -> where, and what that is: a frame of the gateway, or how far the provider is."""
ASKERS = 8
EVERY = 20
"""At which of its calls a gateway is killed: some of each process's calls end well."""
LIMIT_S = 60.0
RESULTS = Path("bench/results/gateway_audit.json")


@dataclass(slots=True)
class Row:
    """One point."""

    point: str
    kills: int
    told: int = 0  # calls whose answer somebody was given
    untold: list[str] = field(default_factory=list[str])  # what others were told
    compared: Compared = field(default_factory=Compared)

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        return [f"{self.point}: {fault}" for fault in [*self.compared.faults, *self.untold]]


class _Killer:
    """Counts what the provider sees, and kills the gateway at every so many calls that are so far."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen = 0
        self.cluster: Cluster | None = None  # None: nobody is to be killed, or no more
        self.kills = 0

    def so_far(self, where: str) -> None:
        """A call is this far."""
        if where != self._where or self.cluster is None:
            return
        self._seen += 1
        if self._seen % EVERY == 0:
            self.kills += kill_gateway(self.cluster)


def measure(point: str, kills: int) -> Row:
    """This many kills at this point, or, of nobody, a few calls."""
    where, _ = POINTS[point]
    killer = _Killer(where)
    books = Books(lambda _call: "whole", on_way=killer.so_far)
    env = {VARIABLE: f"gateway:KILL:{where}:{EVERY}"} if ":" in where else {}
    with served(books.behave) as server, cluster_of({"mine": server.url}, TIRELESS, **env) as cluster:
        killer.cluster = cluster
        row = Row(point, 0)
        told = asyncio.run(_until_killed(cluster, row, killer, kills, lambda: len(books.calls)))
        assert cluster("down").code == 0
        cluster.verify()
        row.told = len(told)
        row.compared = compared(cluster.entries(), books.calls, told)
    return row


async def _until_killed(
    cluster: Cluster, row: Row, killer: _Killer, kills: int, counted: Callable[[], int]
) -> dict[str, str]:
    told: dict[str, str] = {}
    is_over = asyncio.Event()
    mark = parse_drill(cluster.env[VARIABLE]).mark_in(cluster.home.run) if VARIABLE in cluster.env else None

    async with connect_bus(cluster.place, "ho1") as bus:

        async def one(asker: int) -> None:
            session_id = derive_session_id("door", f"audit-{asker}")
            for number in itertools.takewhile(lambda _: not is_over.is_set(), itertools.count(1)):
                key = f"WO-a{asker}n{number}#1"
                try:
                    answer = await ask(bus, call_of(key, session_id, stream=bool(asker % 2)), timeout_s=LIMIT_S)
                except RuntimeFault as fault:
                    row.untold.append(f"{key}: {fault.code}")
                    continue
                if answer.outcome == "SUCCESS":
                    told[key] = answer.content
                else:
                    row.untold.append(f"{key}: {answer.error_code}")

        async with asyncio.TaskGroup() as group:
            for asker in range(ASKERS):
                group.create_task(one(asker))
            until = time.monotonic() + LIMIT_S + 5 * kills
            while row.kills < kills if row.point != "nobody" else counted() < 20 * ASKERS:
                if time.monotonic() > until:
                    row.untold.append(f"only {row.kills} kills")
                    break
                await asyncio.sleep(0.002)
                if mark is not None and mark.exists():
                    row.kills += 1
                    if row.kills < kills:
                        mark.unlink()  # so that the next process strikes, too
                elif mark is None:
                    row.kills = killer.kills
            killer.cluster = None
            row.kills = killer.kills or row.kills
            is_over.set()
    await asyncio.to_thread(eventually, lambda: cluster.is_up("gateway/1"))
    return told


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many kills, and where."""
    parser.add_argument("--kills", type=int, default=20, help="of each row")
    parser.add_argument("--point", choices=POINTS, action="append")


def run(given: argparse.Namespace) -> int:
    """0 where both sides agree at every point."""
    rows: list[Row] = []
    for point in given.point or POINTS:
        rows.append(measure(point, given.kills))
        print(rows[-1], file=sys.stderr, flush=True)
    return judged(given, rows, results=RESULTS, name="gateway audit", how="goal: difference 0")
