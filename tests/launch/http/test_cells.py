"""A door that routes: each person's requests go to the door of their cell, and come back as that one answered them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from hobus.launch.cells.map import Cell, CellMap
from hobus.launch.http.app import make_app
from hobus.launch.http.cells import Cells
from hobus.launch.http.keys import HttpKey
from tests.launch.http.door import KEYS, SimulatedDoor

pytestmark = pytest.mark.slow

ASKED = "what packages are installed?"
KEYS["Bearer k-front"] = HttpKey(principal="front", sha256="0" * 64, created_at_us=0, expires_at_us=None, may="cell")


class Unreachable(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request):
        raise httpx2.ConnectError("nobody listens")


def _make_map(path: Path) -> CellMap:
    path.touch()
    return CellMap(path)


@pytest.fixture
def door(tmp_path):
    """A cluster with two doors: one that routes and is no cell itself, and the one of cell b; cell c is away."""
    with SimulatedDoor() as made:
        made.map = _make_map(tmp_path / "cells.sqlite")
        made.map.put(Cell("b", "http://127.0.0.1", "", "k-front"))
        made.map.put(Cell("c", "http://c.example", "", "k-front"))
        for cell, people in (("b", ["alice", "alice/bob", "bob"]), ("c", ["alice/carl"])):
            made.map.list_people(cell, people)
        made.open()
        mounts = {"all://127.0.0.1": httpx2.ASGITransport(app=made.apps[0]), "all://c.example": Unreachable()}
        routing = Cells(made.doors[1], "none", made.map, httpx2.AsyncClient(mounts=mounts, timeout=None))
        made.apps.append(make_app(made.doors[1], routing))
        yield made
        made.run(routing.close())


def test_a_session_with_all_that_it_takes(door):
    """Begun, asked twice under one input, told, commanded, ended: the same as at its own door, where it is known too."""

    async def work():
        async with door.http(app=1) as front, door.http() as own:
            session = (await front.post("/v1/sessions", json={})).json()["session_id"]
            asked = {"text": ASKED, "input_id": "in-1"}
            one = await front.post(f"/v1/sessions/{session}/turns", json=asked)
            two = await own.post(f"/v1/sessions/{session}/turns", json=asked)
            assert one.json() == two.json() and one.json()["outcome"] == "success"
            assert one.headers["x-hobus-session"] == session and one.headers["content-type"] == "application/json"
            await asyncio.sleep(1)  # lists are a little behind
            listed = await front.get("/v1/sessions", params={"limit": 1})
            assert [row["session_id"] for row in listed.json()["sessions"]] == [session]
            events = await front.get(f"/v1/sessions/SES-{session[:8]}/events?follow=false&after=-1")
            assert "RunCompleted" in events.text
            missing = await front.get("/v1/sessions/SES-00000000")
            assert (missing.status_code, missing.json()["error"]["code"]) == (404, "session_not_found")
            assert (await front.delete(f"/v1/sessions/{session}")).status_code == 200

    door.run(work())


def test_a_stream_comes_as_it_is_made(door):
    """Its first piece is there before its result."""

    async def work():
        async with door.http(app=1) as http:
            session = (await http.post("/v1/sessions", json={})).json()["session_id"]
            asked = {"text": ASKED, "stream": True}
            answer = await http.post(f"/v1/sessions/{session}/turns", json=asked)
            return answer.headers["content-type"], answer.text

    kind, text = door.run(work())
    assert kind.startswith("text/event-stream") and text.index("event: delta") < text.index("event: result")


def test_openai_s_requests_are_their_user_s(door):
    """The person that a body names decides where it goes; a conversation by its transcript is found there."""

    async def work():
        said = [{"role": "user", "content": ASKED}]
        async with door.http(app=1) as http:
            one = await http.post("/v1/chat/completions", json={"model": "ADMIN", "messages": said, "user": "bob"})
            said += [one.json()["choices"][0]["message"], {"role": "user", "content": "what did I ask before?"}]
            said[1] = {"role": "assistant", "content": said[1]["content"]}
            two = await http.post("/v1/chat/completions", json={"model": "ADMIN", "messages": said, "user": "bob"})
            away = await http.post("/v1/chat/completions", json={"model": "ADMIN", "messages": said, "user": "carl"})
            named = await http.get("/v1/sessions", headers={"x-hobus-user": "carl"})
            await asyncio.sleep(1)  # lists are a little behind
            other = await http.get("/v1/sessions", headers={"x-hobus-user": "bob"})
            return one, two, away, named, other

    one, two, away, named, other = door.run(work())
    assert one.headers["x-hobus-session"] == two.headers["x-hobus-session"] and ASKED in two.text
    for answer in (away, named):
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "cell_away")
        assert answer.headers["retry-after"] == "1"
    assert [row["session_id"] for row in other.json()["sessions"]] == [one.headers["x-hobus-session"]]


def test_nobody_is_asked_while_a_person_moves(door):
    """Told to ask again; afterwards the request goes to where they are now."""
    move = door.map.begin("bob", "c", 1)

    async def work():
        async with door.http("bob", app=1) as http:
            return await http.post("/v1/sessions", json={})

    answer = door.run(work())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "moving") and answer.headers["retry-after"]
    while move.step != "done":
        move = door.map.advance(move, 2)
    assert door.run(work()).json()["error"]["code"] == "cell_away"


def test_the_key_of_another_door_says_whose_request_it_is(door):
    """Without a name, or with one that nobody has, it opens nothing; and no other key may say so."""

    async def work():
        async with door.http("front") as http, door.http("alice") as alice:
            without = await http.get("/v1/sessions")
            strange = await http.get("/v1/sessions", headers={"x-hobus-person": "Alice/.."})
            known = await http.get("/v1/sessions", headers={"x-hobus-person": "alice"})
            session = (await alice.post("/v1/sessions", json={})).json()["session_id"]
            theirs = await alice.get(f"/v1/sessions/{session}", headers={"x-hobus-person": "bob"})
            return without, strange, known, theirs

    without, strange, known, theirs = door.run(work())
    assert without.status_code == strange.status_code == 400
    assert known.status_code == theirs.status_code == 200


def test_a_door_that_is_a_cell_itself_keeps_who_was_there(door, tmp_path):
    """Who had sessions before there was a map stays in this door's own cluster; who is new is placed by their name."""

    async def begin(app):
        async with door.http(app=app) as http:
            return (await http.post("/v1/sessions", json={})).json()

    session = door.run(begin(0))["session_id"]
    here = _make_map(tmp_path / "own.sqlite")
    here.put(Cell("a", "http://a.example", "", ""))
    here.put(Cell("c", "http://c.example", "", "k-front"))
    routing = Cells(door.doors[1], "a", here, httpx2.AsyncClient(transport=Unreachable()))
    door.apps.append(make_app(door.doors[1], routing))

    async def seen():
        await asyncio.sleep(1)  # the index, by which they are found, is a little behind
        async with door.http(app=2) as http:
            rows = (await http.get("/v1/sessions")).json()["sessions"]
            tried = {name: await http.get("/v1/sessions", headers={"x-hobus-user": name}) for name in "dehijk"}
            return rows, {name: here.find_cell(f"alice/{name}") for name in tried}, tried

    rows, placed, tried = door.run(seen())
    assert [row["session_id"] for row in rows] == [session] and here.find_cell("alice") == "a"
    assert set(placed.values()) == {"a", "c"}
    assert all((tried[name].status_code == 200) == (cell == "a") for name, cell in placed.items())
    door.run(routing.close())
