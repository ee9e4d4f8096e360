"""R7: the provider's own count of its calls against the record, with the gateway killed at exact points of a call.

A row is a cluster of its own, eight executors that ask one call after the other, half of them streamed, and a provider
that counts. At its every twentieth call the gateway gets SIGKILL at the point: by itself, as it is about to send or has
just received the frame that the point names (launch/process/failpoint.py), or by the provider, which knows how far its
answer has come. Those who ask ask again under their keys. In the end both sides are compared, key by key: every call
that the provider counted has one PROMPT_SENT with one end; every end that is sure of a call was counted; what nobody
can know is UNKNOWN_OUTCOME and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bench.cluster import Cluster, eventually
from bench.gateway.parts import TIRELESS, Books, Call, ask, call_of, cluster_of, kill_gateway
from bench.gateway.servers import served
from bench.report import judged
from hobus.bus.errors import RuntimeFault
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.ledger import Entry
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptFailed
from hobus.launch.cluster.client import connect_bus
from hobus.launch.lab.simulation.record import ENDS
from hobus.launch.lab.simulation.record import call_of as attempt_of
from hobus.launch.process.failpoint import VARIABLE, parse_drill


@dataclass(slots=True)
class Compared:
    counted: int = 0  # by the provider
    answered: int = 0  # attempts that ended as PROMPT_RECEIVED
    failed: int = 0  # as a fault after a send whose outcome is known, or that the gateway gave up itself
    unknown: int = 0  # as UNKNOWN_OUTCOME: their gateway died before it recorded an end
    unknown_reached: int = 0  # of these the calls that the provider counted
    never_sent: int = 0  # attempts whose end says that nothing left
    told_and_unknown: int = 0  # answers that somebody was given before their end was durable, and that is unknown now
    faults: list[str] = field(default_factory=list[str])  # calls that only one of the two sides knows of


def compared(entries: Iterable[Entry], calls: Iterable[Call], told: Mapping[str, str]) -> Compared:
    """By call key. `told`: content of the answers that somebody was given, by key.

    A call that the provider counted must be one of an attempt that was recorded as sent; an attempt with an end of
    which the gateway is sure must be one that the provider counted. In between are the unknown outcomes, which say of
    themselves that they may have arrived or not: as many of them as the provider's count needs.
    """
    found = Compared()
    sent, ends, sure, unsure, counted = (Counter[str]() for _ in range(5))
    contents: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        name = attempt_of(entry)
        key = name.rpartition("/")[0]
        if entry.event_type == "PROMPT_SENT":
            sent[name] += 1
        if entry.event_type not in ENDS:
            continue
        ends[name] += 1
        if entry.event_type == "PROMPT_RECEIVED":
            contents[key].append((entry.bodies[1] or b"").decode())
            found.answered += 1
            sure[key] += 1
        elif (failed := read_payload(PromptFailed, entry)) is None or not failed.was_sent:
            found.never_sent += 1
        else:
            is_unknown = entry.reason == "UNKNOWN_OUTCOME"
            found.unknown += is_unknown
            found.failed += not is_unknown
            (unsure if is_unknown or entry.reason in MAY_NOT_HAVE_ARRIVED else sure)[key] += 1
    wrong = (name for name in sent | ends if not sent[name] == ends[name] == 1)
    found.faults += [f"{name}: {sent[name]} PROMPT_SENT, {ends[name]} ends" for name in wrong]
    whole: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        counted[call.key] += 1
        if call.is_whole:
            whole[call.key].add(call.content)
    found.counted = counted.total()
    for key in counted | sure | unsure:
        found.unknown_reached += max(0, counted[key] - sure[key])
        if not sure[key] <= counted[key] <= sure[key] + unsure[key]:
            most = sure[key] + unsure[key]
            found.faults.append(f"{key}: {counted[key]} calls counted, {sure[key]} to {most} recorded")
    for key, answers in contents.items():
        if len(answers) > 1:
            found.faults.append(f"{key}: {len(answers)} recorded answers")
        never_said = (answer for answer in answers if answer not in whole[key])
        found.faults += [f"{key}: recorded {answer!r}, which was never said" for answer in never_said]
    for key, text in told.items():
        if key not in contents and unsure[key]:
            found.told_and_unknown += 1
        elif contents.get(key) != [text]:
            found.faults.append(f"{key}: told {text!r}, recorded {contents.get(key)}")
    return found


MAY_NOT_HAVE_ARRIVED = frozenset({"CANCELLED", "DEADLINE_EXCEEDED"})
"""Ends of calls that the gateway itself gave up, perhaps before their first byte was there: unknown as well."""
POINTS = {
    "nobody": "",
    "reserved": "before-send:ledger.write~PROMPT_SENT",
    "recording": "after-send:ledger.write~PROMPT_SENT",
    "recorded": "on-receive:ledger.written~PROMPT_SENT",  # PROMPT_SENT is durable, nothing sent
    "sent": "request",
    "middle": "half",
    "answered": "whole",
    "received": "before-send:ledger.write~PROMPT_RECEIVED",
    "ending": "after-send:ledger.write~PROMPT_RECEIVED",  # handed over, perhaps not durable
    "telling": "before-send:gateway.response",
}
"""Name -> where: a frame of the gateway, or how far the provider is with its answer."""
ASKERS = 8
EVERY = 20  # at which of its calls a gateway is killed: some of each process's calls end well
LIMIT_S = 60.0


@dataclass(slots=True)
class Row:
    point: str
    kills: int = 0
    told: int = 0  # calls whose answer somebody was given
    untold: list[str] = field(default_factory=list[str])  # what others were told
    compared: Compared = field(default_factory=Compared)

    @property
    def faults(self) -> list[str]:
        return [f"{self.point}: {fault}" for fault in [*self.compared.faults, *self.untold]]


def measure(point: str, kills: int) -> Row:
    """This many kills at this point, or, of nobody, a few calls."""
    where, row, seen = POINTS[point], Row(point), itertools.count(1)
    killable: list[Cluster] = []  # none: nobody is to be killed, or no more

    def so_far(here: str) -> None:
        """Of a call at the provider; at every so many that are so far the gateway is killed."""
        if here == where and killable and next(seen) % EVERY == 0:
            row.kills += kill_gateway(killable[0])

    books = Books(lambda _call: "whole", on_way=so_far)
    env = {VARIABLE: f"gateway:KILL:{where}:{EVERY}"} if ":" in where else {}
    with served(books.behave) as server, cluster_of({"mine": server.url}, TIRELESS, **env) as cluster:
        killable.append(cluster)
        told = asyncio.run(_until_killed(cluster, row, killable, kills, books))
        assert cluster("down").code == 0
        cluster.verify()
        row.told = len(told)
        row.compared = compared(cluster.entries(), books.calls, told)
    return row


async def _until_killed(
    cluster: Cluster, row: Row, killable: list[Cluster], kills: int, books: Books
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
                else:
                    if answer.outcome == "SUCCESS":
                        told[key] = answer.content
                    else:
                        row.untold.append(f"{key}: {answer.error_code}")

        async with asyncio.TaskGroup() as group:
            for asker in range(ASKERS):
                group.create_task(one(asker))
            until = time.monotonic() + LIMIT_S + 5 * kills
            while row.kills < kills if row.point != "nobody" else len(books.calls) < 20 * ASKERS:
                if time.monotonic() > until:
                    row.untold.append(f"only {row.kills} kills")
                    break
                await asyncio.sleep(0.002)
                if mark is not None and mark.exists():
                    row.kills += 1
                    if row.kills < kills:
                        mark.unlink()  # so that the next process strikes, too
            killable.clear()
            is_over.set()
    await asyncio.to_thread(eventually, lambda: cluster.is_up("gateway/1"))
    return told


OPTIONS = {"kills": (20, "of each row"), "point": (",".join(POINTS), "some of them, by commas")}


def run(given: argparse.Namespace) -> int:
    """0 where both sides agree at every point."""
    rows: list[Row] = []
    for point in given.point.split(","):
        rows.append(measure(point, given.kills))
        print(rows[-1], file=sys.stderr, flush=True)
    return judged(given, rows, name="gateway audit", how="goal: difference 0")
