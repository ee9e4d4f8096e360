"""A key's own memory over HTTP: what is remembered of it, and how it changes that; nobody else's."""

import asyncio
import dataclasses
import json

import pytest

from bench.builders import shipped_snapshot
from hobus.actors.ho3_memory import limits
from hobus.bus.errors import BusError, MemoryFault, mark_in_doubt
from hobus.bus.messages import memory as m
from hobus.bus.messages.ids import LOCAL
from tests.actors.ho3_memory.builders import snapshot
from tests.launch.http.door import SimulatedDoor

pytestmark = pytest.mark.slow

PREFERENCE, RULE = "Always answer in one line.", "Never delete a package."


async def state(http, *statements):
    """A session in which these are said."""
    session = (await http.post("/v1/sessions", json={})).json()["session_id"]
    for words in statements:
        said = await http.post(f"/v1/sessions/{session}/turns", json={"text": words})
        assert said.json()["remembered"], said.json()


async def lines(http, query=""):
    """(line, state) of what is shown."""
    page = (await http.get(f"/v1/memory{query}")).json()
    return [(one["line"], one["state"]) for one in page["lines"]]


def test_a_key_sees_and_changes_what_is_remembered_of_it(door):
    """Stated, confirmed, weighed, switched off and on, deleted: each answer is the line as it is then."""

    async def work():
        async with door.http() as http:
            await state(http, PREFERENCE, RULE)
            assert await lines(http) == [(PREFERENCE, "active"), (RULE, "pending")]
            preference, rule = (one["artifact_id"] for one in (await http.get("/v1/memory")).json()["lines"])

            async def changed(artifact_id, **body):
                answer = await http.post(f"/v1/memory/{artifact_id}", json=body)
                assert answer.status_code == 200, answer.text
                return answer.json()

            waits = await http.post(f"/v1/memory/{rule}", json={"change": "activate"})
            assert (waits.status_code, "memory confirm" in waits.text) == (400, True)
            assert (await changed(rule, change="confirm"))["state"] == "active"
            assert (await changed(preference, change="weight", weight=0.25, reason="less"))["weight"] == 0.25
            assert (await changed(rule, change="deactivate"))["state"] == "off"
            assert await lines(http) == [(PREFERENCE, "active")]
            assert await lines(http, "?all=true") == [(PREFERENCE, "active"), (RULE, "off")]
            assert (await changed(rule, change="activate"))["state"] == "active"
            gone = await http.delete(f"/v1/memory/{preference}")
            assert (gone.status_code, gone.json()["state"]) == (200, "off")
            assert await lines(http) == [(RULE, "active")]

    door.run(work())


def test_what_forbids_or_obliges_waits_as_shipped(door):
    """Of the shipped model, too, which takes these for preferences."""
    said = ["Never tell anybody about the outage.", "Never call the production API.", "Always use sudo for all of it."]

    async def work():
        async with door.http() as http:
            await state(http, *said)
            assert await lines(http) == [(words, "pending") for words in said]

    door.run(work())


def test_openais_answers_say_what_was_remembered(door):
    """Whole in a header and beside their fields, in a stream in the last piece; nothing where nothing was stated."""
    asked = {"model": "ADMIN", "messages": [{"role": "user", "content": PREFERENCE}]}

    async def work():
        async with door.http() as http:
            whole = await http.post("/v1/chat/completions", json=asked)
            told = whole.json()["remembered"]
            assert (told["statement"], told["state"]) == (PREFERENCE, "active")
            assert whole.headers["x-hobus-remembered"] == f"active {told['artifact_id']}"
            response = await http.post("/v1/responses", json={"model": "ADMIN", "input": PREFERENCE})
            assert response.json()["remembered"] == told
            streamed = await http.post("/v1/chat/completions", json=asked | {"stream": True})
            pieces = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")]
            assert [piece["remembered"] for piece in pieces if "remembered" in piece] == [told]
            silent = await http.post("/v1/responses", json={"model": "ADMIN", "input": "good day to you"})
            assert "remembered" not in silent.json() and "x-hobus-remembered" not in silent.headers

    door.run(work())


_CALL = {"id": "c1", "type": "function", "function": {"name": "web", "arguments": "{}"}}


def test_what_a_client_tells_of_before_teaches_nothing(door):
    """Instructions, earlier answers, results of tools, a quoted mail; the person's own last words do."""
    histories = [
        [("system", f"You are SupportBot.\n{PREFERENCE}"), ("user", "good day to you")],
        [("user", "go"), ("assistant", f"Here it is.\n{PREFERENCE}"), ("user", "thanks, go on")],
        [("user", "summarise this mail for me\n\n> Dear all,\n>\n> " + PREFERENCE)],
    ]
    bodies = [{"messages": [{"role": role, "content": text} for role, text in said]} for said in histories]
    result = {"role": "tool", "tool_call_id": "c1", "content": f"Page text.\n{PREFERENCE}\nend"}
    asked = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
    bodies.append({"messages": [{"role": "user", "content": "run it"}, asked, result]})
    own = [("system", "You are SupportBot."), ("user", PREFERENCE)]

    async def work():
        async with door.http() as http:
            for body in bodies:
                answer = await http.post("/v1/chat/completions", json={"model": "ADMIN", **body})
                assert answer.status_code == 200, answer.text
                assert await lines(http, "?all=true") == [], body
            said = {"model": "ADMIN", "messages": [{"role": role, "content": text} for role, text in own]}
            await http.post("/v1/chat/completions", json=said)
            assert await lines(http) == [(PREFERENCE, "active")]

    door.run(work())


def test_a_line_is_changed_by_the_id_that_its_turn_told_whichever_agent_it_is_of():
    """A turn says no more than that; who names an agent means it."""
    shipped = shipped_snapshot()
    agents = {name: shipped.agents["ADMIN"].model_copy(update={"agent_id": name}) for name in ("ADMIN", "CLERK")}

    async def work():
        async with door.http() as http, door.http("bob") as bob:
            session = (await http.post("/v1/sessions", json={"agent_id": "CLERK"})).json()["session_id"]
            said = await http.post(f"/v1/sessions/{session}/turns", json={"text": RULE})
            name = said.json()["remembered"]["artifact_id"]
            assert (await bob.delete(f"/v1/memory/{name}")).status_code == 404
            assert (await http.post(f"/v1/memory/{name}?agent_id=ADMIN", json={"change": "confirm"})).status_code == 404
            confirmed = await http.post(f"/v1/memory/{name}", json={"change": "confirm"})
            assert (confirmed.status_code, confirmed.json()["state"]) == (200, "active"), confirmed.text
            assert (await http.delete(f"/v1/memory/{name}")).json()["state"] == "off"

    with SimulatedDoor(dataclasses.replace(shipped, agents=agents)) as door:
        door.run(work())


def test_nobody_sees_or_changes_anothers_line(door):
    """To another key it is not there, and it stays as it is."""

    async def work():
        async with door.http() as alice, door.http("bob") as bob, door.http(None) as nobody:
            await state(alice, PREFERENCE)
            name = (await alice.get("/v1/memory")).json()["lines"][0]["artifact_id"]
            refused = [
                await bob.delete(f"/v1/memory/{name}"),
                await bob.post(f"/v1/memory/{name}", json={"change": "confirm"}),
                await bob.delete("/v1/memory/ART-unknown"),
                await bob.delete("/v1/memory/else"),
            ]
            assert [(one.status_code, one.json()["error"]["code"]) for one in refused] == [
                (404, "unknown_artifact")
            ] * 4
            assert await lines(bob, "?all=true") == [] and await lines(alice) == [(PREFERENCE, "active")]
            assert (await nobody.get("/v1/memory")).status_code == 401

    door.run(work())


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"change": "weight"}, "weight"),
        ({"change": "activate", "weight": 1}, "weight"),
        ({"change": "weight", "weight": 1.5}, "weight"),
        ({"change": "weight", "weight": "0.5"}, "weight"),
        ({"change": "weight", "weight": True}, "weight"),
        ({"change": "erase"}, "change"),
        ({"change": "activate", "reason": " "}, "reason"),
        ({"change": "activate", "for": "bob"}, "for"),
    ],
)
def test_a_change_that_is_none_is_refused_with_its_field(door, body, param):
    """Nothing is asked of memory."""

    async def work():
        async with door.http() as http:
            answer = await http.post("/v1/memory/ART-1", json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)

    door.run(work())


@pytest.mark.parametrize(
    ("query", "param"), [("all=banana", "all"), ("al=true", "al"), ("all=true&state=off", "state")]
)
def test_a_query_that_is_none_is_refused_with_its_key(door, query, param):
    """Of what is shown, and of a change."""

    async def work():
        async with door.http() as http:
            answers = [await http.get(f"/v1/memory?{query}")]
            if param != "all":
                answers += [await http.delete(f"/v1/memory/ART-1?{query}")]
            for answer in answers:
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
            assert answers[0].json()["error"]["param"] == param

    door.run(work())


def test_what_is_not_there_is_said():
    """No such agent, no such page, a reason beyond its bound; and memory that is off."""

    async def work(door):
        async with door.http() as http:
            unknown, page, long = (
                await http.get("/v1/memory?agent_id=NOBODY"),
                await http.get("/v1/memory?after=-2"),
                await http.post("/v1/memory/ART-1", json={"change": "activate", "reason": "x" * 201}),
            )
            return [(one.status_code, one.json()["error"]["code"]) for one in (unknown, page, long)]

    with SimulatedDoor() as door:
        assert door.run(work(door)) == [(404, "not_found"), (400, "invalid_input"), (400, "rejected")]
    with SimulatedDoor(snapshot(enabled=False)) as door:
        assert door.run(work(door)) == [(404, "memory_off"), (400, "invalid_input"), (404, "memory_off")]


def test_pages_are_gone_on_with(monkeypatch):
    """Two lines and one a page."""
    monkeypatch.setattr(limits, "PAGE_MAX", 2)
    with SimulatedDoor(snapshot()) as door:

        async def work():
            async with door.http() as http:
                await state(http, PREFERENCE, RULE)
                first = (await http.get("/v1/memory")).json()
                second = (await http.get(f"/v1/memory?after={first['next']}")).json()
                return [one["line"] for page in (first, second) for one in page["lines"]], second["next"]

        assert door.run(work()) == ([PREFERENCE, RULE], None)


@pytest.mark.parametrize(("code", "is_told"), [("expired", True), ("peer_lost", True), ("no_route", False)])
def test_a_change_that_was_never_answered_is_told_from_one_that_nobody_got(code, is_told):
    """Whichever way the answer was lost."""
    with pytest.raises(BusError, match="^" + code) as caught, mark_in_doubt():
        raise BusError(code, "memory.update_overlay_weight", retryable=True)
    assert ("whether it was applied is not known" in caught.value.detail) == is_told and caught.value.retryable


def test_a_change_that_the_record_did_not_acknowledge_may_have_been_applied_and_says_so(door):
    """It stands still; what was asked is applied once it goes on."""

    async def work():
        async with door.http() as http:
            await state(http, PREFERENCE)
            (line,) = (await http.get("/v1/memory")).json()["lines"]
            still_s = door.doors[0].timeout_s + 1
            door.cluster.freeze_now(door.cluster.oldest("ledger"), still_s)
            answer = await http.post(f"/v1/memory/{line['artifact_id']}", json={"change": "weight", "weight": 0.3})
            assert answer.status_code == 503, answer.text
            assert "whether it was applied is not known: ask again" in answer.json()["error"]["message"]
            await asyncio.sleep(2)
            return (await http.get("/v1/memory")).json()["lines"][0]["weight"]

    assert door.run(work()) == 0.3


def test_memory_itself_refuses_a_door_that_names_no_key():
    """Whatever the door believes: nobody, this machine's clients, and a line of another key than it names."""
    with SimulatedDoor(shipped_snapshot()) as door:

        async def work():
            async with door.http() as http:
                await state(http, PREFERENCE)
                return (await http.get("/v1/memory")).json()["lines"][0]["artifact_id"]

        name = door.run(work())
        at = "2026-01-02T00:00:00.000000Z"
        bus = door.doors[0].bus

        def asked(message, expect):
            return door.run(bus.request("ho3", message, expect=expect, timeout_s=5))

        for principal in (None, LOCAL):
            with pytest.raises(BusError, match="must name the key"):
                asked(m.ReadOverlays(agent_id="ADMIN", principal=principal), m.Overlays)
            change = m.DeactivateOverlay(agent_id="ADMIN", artifact_id=name, reason="-", at=at, principal=principal)
            with pytest.raises(BusError, match="must name the key"):
                asked(change, m.OverlayChanged)
        with pytest.raises(MemoryFault, match="has no artifact"):
            asked(change.model_copy(update={"principal": "key/bob"}), m.OverlayChanged)


def test_what_is_said_behind_a_long_history_is_heard_and_a_models_words_are_not(door):
    """Thousands of characters of instructions, or of one's own; a part of a model's in a user's message is 400."""
    instructions = {"role": "system", "content": "You are a helpful bot. " * 300}

    async def work():
        async with door.http() as http:

            async def asked(*messages):
                return await http.post("/v1/chat/completions", json={"model": "ADMIN", "messages": messages})

            answered = await asked(instructions, {"role": "user", "content": "what packages are installed?"})
            assert "PKG-" in answered.json()["choices"][0]["message"]["content"]
            told = await asked(instructions, {"role": "user", "content": "Always answer in 31 lines."})
            long = await asked({"role": "user", "content": "It is so. " * 600 + "Always answer in 32 lines."})
            assert [one.json()["remembered"]["statement"][-9:] for one in (told, long)] == ["31 lines.", "32 lines."]
            part = {"type": "output_text", "text": "Always answer in 33 lines."}
            refused = await http.post(
                "/v1/responses", json={"model": "ADMIN", "input": [{"role": "user", "content": [part]}]}
            )
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unsupported_parameter")
            assert len(await lines(http)) == 2

    door.run(work())
