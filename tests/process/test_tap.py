"""`hobus tap` on a real cluster: filters, the ring, exact losses, restarts, captures, looks at bodies, clear endings."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import Cluster, eventually
from bench.cluster import cluster as standing
from hobus.bus.messages.control import Peers, ReadPeers
from hobus.launch.cluster.client import connect_bus

pytestmark = pytest.mark.process

PACKAGES = "what packages are installed?"


@dataclass(slots=True)
class Tapper:
    """A tap that runs while the test does something else."""

    process: subprocess.Popen[bytes]
    lines: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def start(cls, cluster: Cluster, *words: str) -> Tapper:
        process = cluster.begin("tap", "-f", "jsonl", *words)
        made = cls(process)
        for stream, into in ((process.stdout, made.lines), (process.stderr, made.said)):
            thread = threading.Thread(target=_drain, args=(stream, into))
            thread.start()
            made.threads.append(thread)
        return made

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        code = self.process.wait(20)
        for thread in self.threads:
            thread.join(20)
        return code

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [found for line in self.lines if "note" not in (found := json.loads(line))]

    @property
    def notes(self) -> list[dict[str, Any]]:
        return [found for line in self.lines if "note" in (found := json.loads(line))]

    @property
    def summary(self) -> str:
        return "\n".join(self.said)


def _drain(stream: Any, into: list[str]) -> None:
    with stream:
        into.extend(line.decode().rstrip("\n") for line in stream)


@pytest.fixture
def tappers() -> Iterator[list[Tapper]]:
    made: list[Tapper] = []
    yield made
    for tapper in made:
        if tapper.process.poll() is None:
            tapper.process.kill()
            tapper.process.wait()
        for thread in tapper.threads:
            thread.join(20)


@pytest.fixture(scope="module")
def calm() -> Iterator[Cluster]:
    with standing({}) as up:
        yield up


def heard(tapper: Tapper) -> bool:
    return bool(tapper.frames)


def frames_of(answer: Any) -> list[dict[str, Any]]:
    assert answer.code == 0, answer.err
    return [found for line in answer.out.splitlines() if "note" not in (found := json.loads(line))]


def numbers(frames: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(frame["epoch"], frame["sequence"]) for frame in frames]


def plain(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d)", "", text)


def flood(cluster: Cluster, count: int) -> None:
    """So many questions to the broker, as fast as it answers."""
    place = cluster.place

    async def ask() -> None:
        async with connect_bus(place, "operator") as bus:
            for _ in range(count):
                await bus.request("broker", ReadPeers(), expect=Peers, timeout_s=10)

    asyncio.run(ask())


def test_filters_find_a_real_turn_by_actor_type_session_and_run(cluster: Cluster):
    """Against everything that was tapped: no frame too many, none missing, its first frames included."""
    cluster.up("--scale", "ho1=2")
    result = cluster.ask(PACKAGES)
    session = result["session_id"]
    again = cluster.ask("is the ledger intact?", "--session", session)
    other = cluster.ask(PACKAGES)
    run = f"{session}-{again['run_id']['run_seq']}"
    since = ("-f", "jsonl", "--since", "10m")
    everything = frames_of(cluster("tap", *since))
    last = everything[-1]["sequence"]

    def found(*words: str) -> list[tuple[str, int]]:
        return numbers(frames_of(cluster("tap", *since, f"sequence<={last}", *words)))

    for words, holds in (
        ([f"session=SES-{session[:8]}"], lambda f: f["session"] == session),
        ([f"session={session}", "kind=wo.*"], lambda f: f["session"] == session and f["type"].startswith("wo.")),
        ([f"turn={run}"], lambda f: f["turn"] == run),
        ([f"turn=SES-{session[:8]}-2 & kind=request"], lambda f: f["turn"] == run and f["kind"] == "request"),
        (["actor=gateway"], lambda f: any(f[end].startswith("gateway") for end in ("sender", "destination", "worker"))),
        (["type=wo.execute | type=wo.receipt"], lambda f: f["type"] in ("wo.execute", "wo.receipt")),
        (["size>2k"], lambda f: f["size"] > 2048),
        (["!(actor=ho1 | actor=ho2)", "kind!=wo.*"], lambda f: "ho1" not in _ends(f) and "ho2" not in _ends(f)),
    ):
        expected = numbers([frame for frame in everything if holds(frame)])
        assert expected, words
        assert found(*words) == expected, words
    # Frames of lanes come a moment after those of the broker; their times are their own.
    turn = sorted((frame for frame in everything if frame["turn"] == run), key=lambda frame: frame["at"])
    assert (turn[0]["type"], turn[-1]["type"]) == ("host.process_turn", "session.turn_result")
    assert {frame["session"] for frame in everything} >= {session, other["session_id"]}
    assert {frame["worker"].partition("/")[0] for frame in everything if frame["type"] == "wo.execute"} == {"ho1"}
    answers = frames_of(cluster("tap", *since, "--match-replies", "type=host.process_turn"))
    assert [frame["type"] for frame in answers] == ["host.process_turn", "session.turn_result"] * 3
    assert all(frame["latency_ms"] > 0 for frame in answers if frame["kind"] == "reply")
    entries = cluster("ledger show", "--json", "--limit", "999", f"turn={run} & actor=gateway").json["entries"]
    assert entries and {(e["provenance"]["session_id"], e["provenance"]["run_seq"]) for e in entries} == {(session, 2)}


def _ends(frame: dict[str, Any]) -> set[str]:
    return {frame[end].partition("/")[0] for end in ("sender", "destination", "worker")}


def test_a_reader_that_stops_for_a_while_knows_exactly_what_it_lost(
    calm: Cluster, tappers: list[Tapper], tmp_path: Path
):
    """Shown, filtered out and lost are every number from the first to the last, while the bus went on as if nobody had listened."""
    tapper = Tapper.start(calm, "--all", "kind!=beat")
    tappers.append(tapper)
    flood(calm, 5)
    eventually(lambda: heard(tapper))
    tapper.process.send_signal(signal.SIGSTOP)
    flood(calm, 6000)
    tapper.process.send_signal(signal.SIGCONT)
    eventually(lambda: any(note["note"] == "lost" for note in tapper.notes))
    flood(calm, 5)
    assert calm.ask(PACKAGES)["outcome"] == "success"
    assert tapper.end() == 0
    shown = [frame["sequence"] for frame in tapper.frames]
    assert shown == sorted(set(shown))
    lost = sum(note["count"] for note in tapper.notes if note["note"] == "lost")
    words = plain(tapper.summary.splitlines()[-1]).split()
    assert words[1:3] == ["frames", "shown,"] and int(words[0]) == len(shown)
    filtered, said_lost = int(words[3]), int(words[6])
    first, last = (int(word.lstrip("(#")) for word in (words[8], words[10]))
    assert said_lost == lost > 1000
    assert len(shown) + filtered + lost == last - first + 1
    assert first <= shown[0] and shown[-1] <= last


def test_a_broker_that_is_killed_under_a_tap_is_told_and_the_numbers_begin_anew(
    cluster: Cluster, tappers: list[Tapper]
):
    """The new epoch is named; no number comes twice or is negative; the account has a line for each life."""
    cluster.up()
    tapper = Tapper.start(cluster, "--all")
    tappers.append(tapper)
    cluster.ask(PACKAGES)
    eventually(lambda: heard(tapper))
    old = cluster.kill("broker/1")
    eventually(lambda: cluster.is_up("broker/1", other_than=old.instance))
    eventually(lambda: cluster.is_up("ho2/1"))
    result = cluster.ask(PACKAGES)
    eventually(lambda: any(frame["turn"].startswith(result["session_id"]) for frame in tapper.frames))
    assert tapper.end() == 0
    restarts = [note for note in tapper.notes if note["note"] == "restarted"]
    assert [note["epoch"] for note in restarts] == [cluster.row("broker/1").instance.rpartition("@")[2]]
    found = numbers(tapper.frames)
    assert len(set(found)) == len(found)
    epochs = list(dict.fromkeys(epoch for epoch, _ in found))
    assert epochs == [old.instance.rpartition("@")[2], restarts[0]["epoch"]]
    lost = sum(note["count"] for note in tapper.notes if note["note"] == "lost")
    new = [number for epoch, number in found if epoch == epochs[1]]
    assert new == list(range(lost + 1, lost + 1 + len(new)))
    assert "; the broker restarted once" in tapper.summary
    assert f"#1 to #{new[-1]} of broker {epochs[1]}: {len(new)} shown, 0 filtered out, {lost} lost" in tapper.summary


def test_a_look_at_sensitive_bodies_stands_in_the_record_before_it_is_had(cluster: Cluster, tmp_path: Path):
    """One record at its beginning, one at its end, none for what is not sensitive; no text in either."""
    cluster.up()
    cluster.ask(PACKAGES)
    since = ("-f", "jsonl", "--since", "10m")
    hidden = frames_of(cluster("tap", *since))
    assert hidden and not any("body" in frame for frame in hidden)
    assert all(len(frame["body_sha256"]) == 64 for frame in hidden)
    harmless = frames_of(cluster("tap", *since, "--bodies", "type=broker.read_peers"))
    assert harmless and all("body" in frame for frame in harmless)
    assert cluster.entries("TAP_BODIES_READ") == []

    texts = frames_of(cluster("tap", *since, "--bodies", "type=host.process_turn"))
    assert [frame["body"]["text"] for frame in texts] == [PACKAGES]
    opened, closed = cluster.entries("TAP_BODIES_READ", "TAP_BODIES_CLOSED")
    assert (opened.stream, opened.origin.partition("/")[0]) == ("governance", "operator")
    shown = cluster("ledger show", "--json", "--bodies", "type=TAP_*").json["entries"]
    facts = [entry["bodies"][0] for entry in shown]
    assert facts[0]["filter"] == ["type=host.process_turn"] and facts[0]["since_s"] == 600.0
    assert facts[1]["bodies"] == 1 and facts[1]["elapsed_ms"] >= 0 and facts[0]["look"] == facts[1]["look"]
    assert closed.parents == [opened.submission_id]
    assert PACKAGES.encode() not in b"".join(body for body in (*opened.bodies, *closed.bodies) if body)

    capture = tmp_path / "bodies.tap"
    assert cluster("tap", "-w", str(capture), "--since", "10m", "--bodies", "type=host.process_turn").code == 0
    assert len(cluster.entries("TAP_BODIES_READ")) == 2
    assert PACKAGES.encode() in capture.read_bytes()
