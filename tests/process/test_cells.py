"""Two real clusters behind one door: people in both, and one who moves while talking, whatever is killed meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import openai
import pytest

from bench.cluster import eventually
from hobus import Client
from hobus.launch.cells.map import CellMap, choose_cell

pytestmark = pytest.mark.process

ASKED = "what packages are installed?"


class Talk(threading.Thread):
    """Somebody who says one thing after another in one session, and hears each answer."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.session_id = client.start()
        self.ended = threading.Event()
        self.answers: list[str] = []
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                said = f"note number {len(self.answers)}"
                answer = self.client.ask(said, session_id=self.session_id, input_id=f"in-{len(self.answers)}")
                assert (answer.outcome, answer.session_id) == ("success", self.session_id), answer
                self.answers.append(said)
                self.ended.wait(0.05)  # a talk, not a flood
        except Exception as error:  # noqa: BLE001 - told by `end`
            self.fault = error

    def heard(self, more: int) -> None:
        wanted = len(self.answers) + more
        eventually(lambda: self.fault or len(self.answers) >= wanted)

    def end(self) -> list[str]:
        self.ended.set()
        self.join(60)
        if self.fault is not None:
            raise self.fault
        return self.answers


def two_cells(make_cluster, tmp_path):
    """Two clusters, each with a door that leads to both; alice has a key of the first one.

    The second one is reached as on another machine, by what stands in for ssh: its command, run by a shell.
    """
    a, b = make_cluster("a"), make_cluster("b")
    rsh = tmp_path / "rsh"
    rsh.write_text(f'#!/bin/sh\ntest "$1" = there && PATH={Path(sys.executable).parent}:$PATH exec sh -c "$2"\n')
    rsh.chmod(0o700)
    a.env["HOBUS_RSH"] = str(rsh)
    a.up("--http", "127.0.0.1:0")
    key = a("token create", "--role", "http", "--name", "alice").out.strip()
    url = f"http://{a.home.bound(http=True)}"
    with Client(url, key) as client:
        first = client.ask(ASKED)  # before there is a map
    b.up("--http", "127.0.0.1:0")
    assert a("cell add", "a", "--url", url).code == 0
    there = ("--url", f"http://{b.home.bound(http=True)}", "--map", str(a.home.root))
    assert b("cell add", "b", *there, "--ssh", "there").code == 0
    # No door has entered yet who was here before: the commands do.
    assert b("cell remove", "a").code == 0
    assert where(a) == ({"b": 1}, [])
    assert a("cell add", "a", "--url", url).code == a("cell move", "alice", "a").code == 0
    for one in (b, a):
        assert one("restart", "http/1").code == 0
    return a, b, url, key, first


def where(a):
    """Cell -> how many people it has, and moves that are not done."""
    listed = json.loads(a("cell list", "--json").out)
    return {row["cell"]: row["people"] for row in listed["cells"]}, listed["moves"]


def transcript(url, key, user):
    """What OpenAI's API answers the first message of a conversation."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as sdk:
        return sdk.chat.completions.create(model="ADMIN", messages=[{"role": "user", "content": ASKED}], user=user)


def gone_on(url, key, user, told):
    said = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": told.choices[0].message.content}]
    said.append({"role": "user", "content": "what did I ask before?"})
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as sdk:
        answer = sdk.chat.completions.create(model="ADMIN", messages=said, user=user)
    assert ASKED in answer.choices[0].message.content
    return answer.session_id


def of_session(cluster, session_id):
    return [entry.submission_id for entry in cluster.entries() if entry.stream == f"session/{session_id}"]


def test_people_in_two_clusters_and_one_who_moves(make_cluster, tmp_path):
    """Placed by their names; who was there stays; a move that is killed beside a talk loses and doubles nothing."""
    a, b, url, key, first = two_cells(make_cluster, tmp_path)
    with Client(url, key) as alice:
        assert alice.ask("what did I ask before?", session_id=first.session_id).response.count(ASKED) == 1
    users = {
        cell: next(name for name in "defghijk" if choose_cell(f"alice/{name}", ["a", "b"]) == cell)
        for cell in ("a", "b")
    }
    for cell, name in users.items():
        with Client(url, key, user=name) as client:
            answer = client.ask(ASKED)
            assert answer.outcome == "success"
            assert bool(of_session(b, answer.session_id)) == (cell == "b")
            assert bool(of_session(a, answer.session_id)) == (cell == "a")
    assert where(a) == ({"b": 1, "a": 2}, [])
    mover = f"alice/{users['a']}"
    with Client(url, key, user=users["a"]) as client:
        told = transcript(url, key, users["a"])
        talk = Talk(client)
        talk.start()
        talk.heard(3)
        killed = moved(a, b, mover, "b", victim="ledger/1")
        talk.heard(3)
        assert where(a) == ({"b": 2, "a": 1}, [])
        killed += moved(a, b, mover, "a", victim="ho2/1")
        talk.heard(3)
        said = talk.end()
        last = client.ask("what did I ask before?", session_id=talk.session_id)
        assert gone_on(url, key, users["a"], told) == told.session_id
        assert said[-1] in last.response
    assert len(killed) > 4, "commands end before they are killed"
    journal = of_session(a, talk.session_id)
    requested = Counter(one.rpartition("/")[2] for one in journal if one.startswith("RunRequested:"))
    assert [requested[f"in-{number}"] for number in range(len(said))] == [1] * len(said)
    there = of_session(b, talk.session_id)
    assert journal[: len(there)] == there, "the same entries in the same order, and more since it came back"
    assert sum(one.startswith("SessionArrived:") for one in journal) == 2
    assert a.record_verdict() == b.record_verdict() == "ok"
    assert a("session replay", talk.session_id).code == 0
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    crowd = [a.begin("cell move", f"alice/{users['b']}", cell, **quiet) for cell in "abab"]
    assert [command.wait(60) for command in crowd] == [0] * 4
    assert a("cell move", f"alice/{users['b']}", "b").code == 0
    assert b("down").code == 0
    assert a("cell remove", "a").code != 0, "nobody is where its people would go to"
    assert all(row["takes_new"] for row in json.loads(a("cell list", "--json").out)["cells"])
    b.up("--http", "127.0.0.1:0")
    assert a("cell remove", "b").code == 0
    with Client(url, key, user=users["b"]) as client:
        eventually(client.sessions)  # the index is some tenths of a second behind
        assert ASKED in client.ask("what did I ask before?", session_id=client.sessions()[0].session_id).response


def moved(a, b, who, cell, *, victim):
    """The move is done, by commands that are killed in each of its steps; a process of b dies beside the second one.

    Returns the steps in which one was.
    """
    killed = []
    with closing(CellMap(a.home.root / "cells.sqlite")) as cells:
        for step in ("leaving", "copying", "arriving", "sweeping"):
            command = a.begin("cell move", who, cell, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            def is_there(step=step, command=command):
                move = cells.move_of(who)
                return command.poll() is not None or (move is not None and move.step == step)

            eventually(is_there)
            if command.poll() is None:
                command.send_signal(signal.SIGKILL)
                killed.append(step)
            command.wait()
            if step == "copying":
                b.kill(victim)
    while a("cell move", who, cell).code:
        assert where(a)[1], "it is on its way, or done"
    return killed
