"""A cluster over 2 to 8 hosts, through what networks and machines do: nothing lost, nothing doubled, nobody silent for too long.

Each row is a new cluster on one host and a worker on each other one (`bench/hosts/wire.py`: network namespaces, and a wire in
user space). People ask on, each in a session of its own, while the row's fault comes and goes; two of three questions make
a tool charge a card outside. A model server counts what it is asked, and the tool writes a line for each charge. Needs root.

Not here: a suspended machine's clock stands still, a stopped process's does not. All hosts share one disk.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.cluster import Cluster, eventually, temporary
from bench.far_worker import FarWorker, token_of, workers
from bench.hosts.wire import Hosts, why_not
from bench.outside import Outside, asking_for, with_outside
from bench.people import DEADLINE_S, Asked, Looked, ask_again, asking, looked_at
from bench.report import arguments, concluded, rows_table
from bench.waiting.provider import Provider
from hobus.bus.messages.control import Peers, ReadPeers
from hobus.launch.cluster.client import ask_operator

PATIENT = {"launcher.ready_timeout_ms": 120_000}  # eight hosts that start on one machine keep each other waiting
CLOCK = "import time\n_time = time.time\ntime.time = lambda: _time() + {shift}\n"
"""A worker's `sitecustomize`: the product reads the wall clock by this function alone."""


@dataclass(slots=True)
class Site:
    """A cluster on host 0 with a model server, a worker on each other host, people who ask."""

    hosts: Hosts
    cluster: Cluster
    outside: Outside
    model: Provider
    workers: dict[int, FarWorker] = field(default_factory=dict[int, FarWorker])
    answers: list[Asked] = field(default_factory=list[Asked])
    back_s: list[float] = field(default_factory=list[float])

    def join(self, host: int, directory: Path, clock_s: int) -> FarWorker:
        """A worker of this host joins; its wall clock goes so much before."""
        env = self.outside.environment()
        if clock_s:
            place = directory / f"clock{host}"
            place.mkdir()
            (place / "sitecustomize.py").write_text(CLOCK.format(shift=clock_s))
            env["PYTHONPATH"] = f"{place}:{env['PYTHONPATH']}"
        with self.hosts.inside(host):
            self.workers[host] = FarWorker(directory / f"host{host}", ["join", token_of(self.cluster)], env=env)
        return self.workers[host].works()

    def name(self, host: int) -> str:
        return self.workers[host].said.partition(" as ")[2].split()[0]

    def rows(self) -> dict[str, int]:
        """The workers elsewhere that the broker knows, and how many orders each has."""
        peers = asyncio.run(ask_operator(self.cluster.place, "broker", ReadPeers(), Peers)).peers
        return {row.instance.partition("@")[0]: row.in_flight for row in peers if row.host}

    def busy(self, host: int) -> None:
        eventually(lambda: self.rows().get(self.name(host)), within_s=30)

    def back(self, host: int) -> None:
        """Until the broker has its worker again; how long that takes is kept."""
        began = time.monotonic()
        eventually(lambda: self.name(host) in self.rows(), within_s=60)
        self.back_s.append(round(time.monotonic() - began, 1))


@contextmanager
def site(directory: Path, count: int, clock_s: Mapping[int, int]) -> Iterator[Site]:
    """All of it up, on `count` hosts, and gone afterwards."""
    with Hosts(count) as hosts, workers(directory / "far") as started:
        model = Provider(THINK_S, 1, 0)
        with hosts.inside(0):
            model.start()
        outside, cluster = with_outside(directory, {**PATIENT, **model.settings(), "ho2.classify": False})
        try:
            with hosts.inside(0):
                cluster.up("--listen", f"{hosts.address(0)}:0")
            made = Site(hosts, cluster, outside, model)
            for host in range(1, count):
                started.append(made.join(host, directory / "far", clock_s.get(host, 0)))
            yield made
        finally:
            hosts.heal()
            cluster.end()
            model.kill()


QUESTIONS = ("tell me of {}", f"{asking_for('charge_keyed')} for {{}}", f"{asking_for('charge_unkeyed')} for {{}}")
THINK_S = 0.15
HOUR_S = 3600
CUT_S = 5.0


class Times(NamedTuple):
    span_s: float
    asleep_s: float = 60.0


class Row(NamedTuple):
    """A fault: what it is, on how many hosts, and what is done while people ask."""

    words: str
    hosts: int
    fault: Callable[[Site, Times], None]
    clock_s: Mapping[int, int] = {}
    pause_s: float = 0.2


def _wire(at: Site, times: Times, **links: float) -> None:
    at.hosts.links(**links)
    time.sleep(times.span_s)


def _cut(at: Site, times: Times, a: int, b: int, *, one_way: bool) -> None:
    at.hosts.links(delay_ms=10)
    for _ in range(2):
        at.busy(max(a, b))
        at.hosts.partition(a, b, one_way=one_way)
        time.sleep(CUT_S)
        at.hosts.heal()
        at.back(max(a, b))
    time.sleep(times.span_s / 2)


def _killed(at: Site, times: Times) -> None:
    at.busy(1)
    at.hosts.kill(1)
    eventually(lambda: at.name(1) not in at.rows(), within_s=60)
    time.sleep(times.span_s)


def _asleep(at: Site, times: Times, hosts: Sequence[int] = (1,), most_s: float = math.inf) -> None:
    at.busy(1)
    for act in (at.hosts.sleep, lambda _: time.sleep(min(times.asleep_s, most_s) / len(hosts)), at.hosts.wake):
        for host in hosts:
            act(host)
    at.back(1)
    time.sleep(times.span_s / 2)


def _revoked(at: Site, times: Times) -> None:
    at.hosts.links(delay_ms=50)
    at.busy(1)
    assert at.cluster("keys revoke", at.name(1)).code == 0
    assert at.workers[1].ended() == 5, at.workers[1].said
    time.sleep(times.span_s)


ROWS = {
    "quiet": Row("no fault", 3, _wire),
    "latency": Row("50 ms each way", 3, partial(_wire, delay_ms=50)),
    "loss": Row("50 ms, 2 % lost", 3, partial(_wire, delay_ms=50, loss=0.02)),
    "eight": Row("50 ms, 2 % lost", 8, partial(_wire, delay_ms=50, loss=0.02)),
    "slow": Row("20 kB/s", 3, partial(_wire, delay_ms=20, bytes_per_s=20_000)),
    "partition": Row("cut for 5 s, twice", 3, partial(_cut, a=0, b=1, one_way=False)),
    "deaf": Row("cut to the worker alone", 3, partial(_cut, a=0, b=1, one_way=True)),
    "mute": Row("cut from the worker alone", 3, partial(_cut, a=1, b=0, one_way=True)),
    "killed": Row("a host without power", 3, _killed),
    "asleep": Row("a host asleep", 3, _asleep, pause_s=2.0),
    "machines": Row("all asleep for 20 s", 3, partial(_asleep, hosts=range(3), most_s=20.0), pause_s=2.0),
    "revoked": Row("a key taken back in mid-order", 3, _revoked),
    "clock": Row("clocks an hour before and behind", 3, partial(_wire, delay_ms=10), clock_s={1: HOUR_S, 2: -HOUR_S}),
}


def seen(directory: Path, name: str, times: Times, *, people: int) -> tuple[dict[str, object], list[str], Looked]:
    """One cluster, one fault: its cells of the table, what must not be, and what became of what was asked."""
    row = ROWS[name]
    with site(directory, row.hosts, row.clock_s) as at:
        with asking(at.cluster, people, at.answers, questions=QUESTIONS, pause_s=row.pause_s):
            row.fault(at, times)
        at.hosts.heal()
        with at.hosts.inside(0):
            model = at.model.stats()
        ask_again(at.cluster, at.answers)
        assert at.cluster("down").code == 0
        looked = looked_at(at.cluster, at.outside, at.answers)
        faults = [*looked.faults, *at.cluster.defects()]
        if model["doubled"]:
            faults.append(f"the model was asked the same {model['doubled']} times too often")
        if looked.slowest_s > DEADLINE_S + 1:
            faults.append(f"somebody heard nothing for {looked.slowest_s} s, beyond the deadline of {DEADLINE_S} s")
        ends = at.cluster.entries("WO_COMPLETED")
        elsewhere = [entry for entry in ends if entry.origin.startswith("ho1/remote-")]
        off_s = {round((entry.at_us - entry.ledger_at_us) / 1e6 / HOUR_S) * HOUR_S for entry in elsewhere}
        if not elsewhere or not off_s.issuperset(row.clock_s.values()):
            faults.append(f"the row shows nothing: {len(elsewhere)} orders done elsewhere, by clocks {off_s} s off")
    done, in_doubt = (sum(one.get(what, 0) for one in looked.charges.values()) for what in ("completed", "in_doubt"))
    lost, twice, wrongly = (len(looked.wrong[what]) for what in ("lost", "answered twice", "wrongly charged"))
    cells = {
        "row": f"{name}: {row.words}", "hosts": row.hosts,
        "turns: asked, right": f"{len(at.answers)}, {looked.turns.get('success', 0)}",
        "asked again": looked.answered_when_asked_again, "lost, twice": f"{lost}, {twice}",
        "model calls (doubled)": f"{model['calls']} ({model['doubled']})",
        "orders done elsewhere": f"{len(elsewhere)} of {len(ends)}",
        "charges: done, in doubt (wrong)": f"{done}, {in_doubt} ({wrongly})",
        "s to an answer: p50, slowest": f"{looked.p50_s}, {looked.slowest_s} of {DEADLINE_S}",
        "s until the worker was back": at.back_s, "packets lost": at.hosts.dropped(), "record": looked.record,
    }  # fmt: skip
    return cells, [f"{name}: {one}" for one in faults], looked


def main() -> int:
    seconds, asleep = (10.0, "how long people ask beside a fault"), (60.0, "seconds for which a host sleeps")
    parser = arguments(__doc__, write=True, people=6, seconds=seconds, asleep=asleep)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    given = parser.parse_args()
    if words := why_not():
        raise SystemExit(words)
    table, faults, figures = list[dict[str, object]](), list[str](), dict[str, Any]()
    for name in given.rows:
        with temporary("hosts") as directory:
            cells, wrong, looked = seen(directory, name, Times(given.seconds, given.asleep), people=given.people)
        print(cells, flush=True)
        table.append(cells)
        faults += wrong
        figures[name] = asdict(looked)
    how = f"{given.people} people, a model that thinks {THINK_S} s, a host asleep for {given.asleep:.0f} s"
    return concluded(given, rows_table(table), faults, figures=figures, name="hosts", how=how)


if __name__ == "__main__":
    sys.exit(main())
