"""The native API over the whole simulated cluster: sessions, turns, commands, events."""

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace

import pytest

from bench.builders import changed
from hobus.bus import limits
from hobus.bus.messages.given_history import find_own_words
from hobus.bus.messages.ids import parse_iso
from hobus.bus.record.journal import read_event
from hobus.config.assets import Approval
from hobus.launch.http.events import show_entry
from hobus.launch.http.metrics import Metrics
from hobus.launch.http.sse import make_frame
from hobus.launch.sessions.client_errors import RequestError
from tests.launch.http.door import SNAPSHOT, SimulatedDoor

pytestmark = pytest.mark.slow

ASKED = "what packages are installed?"


async def session_of(http):
    """A new session."""
    made = await http.post("/v1/sessions", json={})
    assert made.status_code == 201
    return made.json()["session_id"]


def events_in(text):
    """(id, event, data) of each frame of a stream."""
    found = []
    for part in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.split("\n") if line and not line.startswith(":"))
        if fields:
            found.append((fields.get("id"), fields.get("event"), json.loads(fields["data"])))
    return found


def test_a_turn_and_its_retry_at_another_door(door):
    """One input id, one answer, one run."""

    async def work():
        async with door.http() as http, door.http(app=1) as other:
            session = await session_of(http)
            asked = {"text": ASKED, "input_id": "in-1"}
            one = await http.post(f"/v1/sessions/{session}/turns", json=asked)
            two = await other.post(f"/v1/sessions/{session}/turns", json=asked)
            conflict = await other.post(f"/v1/sessions/{session}/turns", json=asked | {"text": "another"})
            return one.json(), two.json(), conflict

    door.apps.append(door.open())
    one, two, conflict = door.run(work())
    assert one == two and one["outcome"] == "success" and one["run_id"]["run_seq"] == 1
    assert conflict.status_code == 409 and conflict.json()["error"]["code"] == "input_conflict"
    assert len([entry for entry in door.cluster.entries() if entry.event_type == "RunRequested"]) == 1


@pytest.mark.parametrize("header", ["x-hobus-timeout", "x-stainless-read-timeout"])
def test_a_client_s_own_time_out_is_the_deadline_of_its_turn(door, header):
    """A model that takes a minute is waited for as long as the client waits, and no longer."""

    async def work():
        async with door.http() as http:
            session = await session_of(http)
            path = f"/v1/sessions/{session}/turns"
            return [await http.post(path, json={"text": ASKED}, headers={header: said}) for said in ("900", "0", "nan")]

    *_, long, none, nan = door.run(work())
    requested = next(entry for entry in door.cluster.entries() if entry.event_type == "RunRequested")
    event = read_event(requested).event
    assert long.status_code == 200 and none.status_code == nan.status_code == 400
    assert 895 < parse_iso(event.deadline_at) - requested.at_us / 1_000_000 < 900


def test_a_streamed_turn_names_itself_first_and_ends_with_its_result(door):
    """With the ids of the first frame the same can be asked again; deltas together are the answer."""

    async def work():
        async with door.http() as http:
            session = await session_of(http)
            answer = await http.post(f"/v1/sessions/{session}/turns", json={"text": ASKED, "stream": True})
            return session, answer

    session, answer = door.run(work())
    (_, first, named), *between, (_, last, result) = events_in(answer.text)
    assert (first, named["session_id"], last) == ("turn", session, "result")
    said = ""
    for _, event, data in between:
        said = "" if event == "reset" else said + data.get("text", "")
    assert said == result["response"] and result["input_id"] == named["input_id"] == answer.headers["x-hobus-input"]


def test_no_word_ends_a_line_of_a_stream_for_a_reader_that_takes_each_line_end_of_unicode_for_one():
    """Httpx does, and Python's own splitlines: what a text holds never breaks an event in two."""
    words = {"text": "a\u0085b\u2028c\u2029d\x0be\x1cf\r\ng"}
    for data in (words, json.dumps(words, ensure_ascii=False)):
        lines = make_frame(data, event="delta", identity="7").splitlines()
        assert lines[:2] == ["id: 7", "event: delta"] and len(lines) == 4
        assert json.loads(lines[2].removeprefix("data: ")) == words


def test_nobody_reaches_a_session_of_another_key(door):
    """A session's id that was seen opens nothing: it is as if it were not there."""

    async def work():
        async with door.http() as http, door.http("bob") as bob:
            session = await session_of(http)
            tries = [
                await bob.get(f"/v1/sessions/{session}"),
                await bob.delete(f"/v1/sessions/{session}"),
                await bob.post(f"/v1/sessions/{session}/turns", json={"text": ASKED}),
                await bob.post(f"/v1/sessions/{session}/commands", json={"command": {"kind": "Pause"}}),
                await bob.get(f"/v1/sessions/{session}/events"),
                await http.get("/v1/sessions/11111111-1111-4111-8111-111111111111"),
            ]
            return [answer.status_code for answer in tries], (await http.get(f"/v1/sessions/{session}")).json()

    statuses, view = door.run(work())
    assert statuses == [404] * 6
    assert view["status"] == "open" and view["turn_count"] == 0


def test_commands_have_verdicts(door):
    """Rejected with its reason where no run is; applied once; a follow-up is answered by its own run."""

    async def work():
        async with door.http() as http:
            session = await session_of(http)
            path = f"/v1/sessions/{session}/commands"
            paused = await http.post(path, json={"command": {"kind": "Pause"}, "command_id": "c-1"})
            follow = {"command": {"kind": "FollowUp", "text": ASKED}, "command_id": "c-2"}
            one, two = await http.post(path, json=follow), await http.post(path, json=follow)
            wrong = [
                await http.post(path, json={"command": one})
                for one in ({"kind": "Dance"}, {"kind": "Approve", "call": "x"})
            ]
            return paused, one.json(), two.json(), wrong

    paused, one, two, wrong = door.run(work())
    assert paused.status_code == 409 and paused.json()["reason"].startswith("no_active_run")
    assert one["outcome"] == two["outcome"] == "applied" and (one["is_repeat"], two["is_repeat"]) == (False, True)
    assert [one.status_code for one in wrong] == [400, 400]
    assert all("Approve(call_id)" in one.json()["error"]["message"] for one in wrong), "what is meant, where it is not"


def test_a_reader_who_comes_back_has_missed_nothing(door):
    """From any sequence on, at any door, while turns go on: what was read in parts is the journal, once and in order."""
    door.apps.append(door.open())
    here, there = (one.journals for one in door.doors)

    async def followed(journals, session, after, count):
        found = []
        async with aclosing(journals.follow(session, after)) as events:
            async for event in events:
                if event is not None:
                    found.append(event)
                if len(found) == count:
                    return found
        return found

    async def in_two(session, cut):
        first = await followed(here, session, -1, cut) if cut else []
        after = first[-1].sequence if first else -1
        return first + await followed(there, session, after, 30 - cut)

    async def work():
        async with door.http() as http:
            session = await session_of(http)
            readers = [followed(here, session, -1, 30), *(in_two(session, cut) for cut in (0, 1, 5, 20))]
            *read, _ = await asyncio.gather(*readers, three_turns(http, session))
            return session, read

    async def three_turns(http, session):
        for number in range(3):
            await http.post(f"/v1/sessions/{session}/turns", json={"text": ASKED, "input_id": f"in-{number}"})

    session, read = door.run(work())
    written = [entry for entry in door.cluster.entries() if entry.stream == f"session/{session}"]
    expected = [show_entry(entry) for entry in written[:30]]
    assert len(expected) == 30 and [parts == expected for parts in read] == [True] * 5
    assert door.doors[0].journals.readers == door.doors[1].journals.readers == 0


def test_the_head_of_a_stream_of_events_is_an_answer_that_ends(door):
    """It opens no reader: there is no body to write to."""

    async def work():
        async with door.http() as http:
            return await http.head(f"/v1/sessions/{await session_of(http)}/events")

    answer = door.run(work())
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("input_id", ["ü", " ", "a\nb"])
def test_a_client_is_told_at_once_of_an_id_that_is_none(door, input_id):
    """Before anything is sent, as over the bus; not after the client's time-out, and not that there is no door."""

    async def work():
        async with door.client() as client:
            with pytest.raises(RequestError) as refused:
                await client.ask("hello", input_id=input_id)
            return refused.value

    refused = door.run(work())
    assert refused.code == "invalid_input" and "input_id" in str(refused)


def test_events_as_a_page_and_a_number_that_is_none(door):
    """`follow=false` ends; a Last-Event-ID that is no sequence is refused."""

    async def work():
        async with door.http() as http:
            session = await session_of(http)
            path = f"/v1/sessions/{session}/events"
            page = await http.get(path, params={"follow": "false"})
            behind = await http.get(path, params={"follow": "false", "after": page.json()["events"][-1]["sequence"]})
            wrong = [await http.get(path, params={"after": text}) for text in ("x", "-2", "--1", "9" * 30, "1e3", "²")]
            return page.json(), behind.json(), [answer.status_code for answer in wrong]

    page, behind, wrong = door.run(work())
    assert "SESSION_START" in [event["type"] for event in page["events"]]
    assert behind["events"] == [] and wrong == [400] * 6


def test_ready_and_metrics(door):
    """Ready with a host; metrics have no label that a client made."""

    async def work():
        async with door.http() as http:
            await http.get("/v1/../../etc/passwd")
            await http.request("BREW", "/v1/models/teapot%0a")
            session = await session_of(http)
            await http.post(f"/v1/sessions/{session}/turns", json={"text": ASKED, "input_id": "in-1"})
            ready = await door.http(who=None).get("/readyz")
            await asyncio.sleep(2 * limits.LANE_FRAMES_MS / 1000)  # the broker is told of lanes
            text = (await http.get("/metrics")).text
            return ready.status_code, text

    status, text = door.run(work())
    assert status == 200
    assert 'hobus_http_requests_total{handler="start_session",method="POST",status="201"} 1.0' in text
    assert 'name="inbox_handled"' in text or "hobus_peer_counter" in text
    for name, least in (("turn", 1), ("call", 2), ("queue_wait", 3)):
        labels = 'actor="broker/1",role="broker"'
        counted = next(line for line in text.splitlines() if line.startswith(f"hobus_{name}_seconds_count{{{labels}"))
        assert float(counted.split()[-1]) >= least
        everything = 'actor="broker/1",le="+Inf",role="broker"'
        assert f"hobus_{name}_seconds_bucket{{{everything}}} {counted.split()[-1]}" in text
    assert 'hobus_http_turn_seconds_count{api="native",outcome="success"} 1.0' in text
    assert "_ms_le_" not in text
    assert "passwd" not in text and "BREW" not in text and "teapot" not in text


def test_what_an_autoscaler_reads_is_told_by_service_and_role(door):
    """Waiting and running requests of each service, slots of each role by the state of its processes."""

    async def work():
        return (await door.http().get("/metrics")).text

    lines = [line for line in door.run(work()).splitlines() if not line.startswith("#")]
    rows = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    executors = rows['hobus_peers{role="ho1",state="ready"}']
    assert rows['hobus_slots{role="ho1",state="ready"}'] == executors * SNAPSHOT.config.ho1.orders_max
    assert rows['hobus_queued{service="ho1"}'] == rows['hobus_in_flight{service="ho1"}'] == 0
    assert not any('_flight{service="broker"}' in row for row in rows)
    assert 'hobus_slots{role="ho1",state="ready"} 0.0' in Metrics().render_exposition([], []).decode()


@pytest.mark.parametrize(("role", "named"), [("host", "host"), ("ho1", "executor")])
def test_not_ready_without_a_host_or_an_executor(door, role, named):
    """And says why."""
    while instance := door.cluster.oldest(role):
        door.cluster.world.kill(instance)

    async def work():
        await door.doors[0].bus.sleep(5)
        return await door.http(who=None).get("/readyz")

    answer = door.run(work())
    assert answer.status_code == 503 and named in answer.text


# --- lists, and calls that wait ---------------------------------------------------------------------------------------


@pytest.fixture
def held():
    """A door whose agent waits for an approval of its calls, given by a second person."""
    agents = {
        name: agent.model_copy(update={"approval": Approval(by="other")}) for name, agent in SNAPSHOT.agents.items()
    }
    config = type(SNAPSHOT.config).model_validate(
        changed(SNAPSHOT.config.model_dump(), [("tools.approval", ["list_packages"])])
    )
    with SimulatedDoor(replace(SNAPSHOT, agents=agents, config=config)) as made:
        yield made


def test_a_key_lists_its_own_sessions_and_what_waits_with_its_arguments(held):
    """Nobody else's; its own approval is refused where a second person is wanted, and a key that approves gives it."""

    async def work():
        async with held.http() as http, held.http("bob") as bob, held.http("carol") as carol:
            session = await session_of(http)
            await session_of(bob)
            path = f"/v1/sessions/{session}"
            asking = asyncio.ensure_future(http.post(f"{path}/turns", json={"text": ASKED, "input_id": "i"}))
            rows = []
            while not [one for one in rows if one["held_calls"]]:
                await asyncio.sleep(0.1)
                rows = (await http.get("/v1/sessions")).json()["sessions"]
            (row,) = rows
            view = (await http.get(path)).json()
            seen = {"row": row, "calls": view["run"]["calls"]}
            seen["carol"] = (await carol.get("/v1/sessions")).json()["sessions"]
            approve = {"command": {"kind": "Approve", "call_id": row["held_calls"][0]["call_id"]}}
            seen["tries"] = [
                await carol.post(f"{path}/commands", json={"command": {"kind": "Cancel"}}),
                await carol.post(f"{path}/turns", json={"text": ASKED}),
                await carol.get(path),
                await bob.post(f"{path}/commands", json=approve),
                await http.post(f"{path}/commands", json=approve),
                await carol.post(f"/v1/sessions/SES-{session[:8]}/commands", json=approve),
            ]
            return session, seen, (await asking).json(), (await bob.get("/v1/sessions?all=true")).json()

    session, seen, answer, bobs = held.run(work())
    assert (seen["row"]["session_id"], seen["row"]["principal"]) == (session, "key/alice")
    assert seen["row"]["lifecycle"] == "WaitingInput" and seen["row"]["waits_for"].startswith("approval of 00")
    (call,) = seen["row"]["held_calls"]
    assert call["tool_id"] == "list_packages" and [call] == [
        {name: one[name] for name in call} for one in seen["calls"] if one["held"]
    ]
    assert [row["session_id"] for row in seen["carol"]] == [session]
    assert [one.status_code for one in seen["tries"]] == [403, 403, 403, 404, 409, 200]
    assert seen["tries"][4].json()["reason"].startswith("own_call: key/alice")
    assert answer["outcome"] == "success"
    assert len(bobs["sessions"]) == 1 and not bobs["more"] and bobs["sessions"][0]["session_id"] != session
    said = [read_event(one).event for one in held.cluster.entries() if one.event_type == "HostCommandReceived"]
    assert [one.principal for one in said] == ["key/alice", "key/carol"] and said[0].door.startswith("http/")


def test_a_list_is_bounded_and_says_that_there_is_more(door):
    """The newest first; what has ended only where all are wanted."""

    async def work():
        async with door.http() as http:
            first, second, third = [await session_of(http) for _ in range(3)]
            await http.delete(f"/v1/sessions/{second}")
            await asyncio.sleep(1)
            pages = [(await http.get(f"/v1/sessions{query}")).json() for query in ("?limit=1", "", "?all=true")]
            wrong = [(await http.get(f"/v1/sessions?limit={given}")).status_code for given in ("0", "x", "51")]
            return (first, second, third), pages, wrong

    (first, second, third), (one, opened, everything), wrong = door.run(work())
    assert ([row["session_id"] for row in one["sessions"]], one["more"]) == ([third], True)
    assert [row["session_id"] for row in opened["sessions"]] == [third, first] and not opened["more"]
    assert [row["session_id"] for row in everything["sessions"]] == [third, second, first]
    end = everything["sessions"][1]["end"]
    assert (end["principal"], end["turn_count"]) == ("key/alice", 0)
    assert wrong == [400] * 3


def test_a_turn_may_be_a_conversation_that_was_held_elsewhere(door):
    """What was said stands before the question, as in a chat completion; it is one message, and asked again the same."""
    said = [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"}, {"role": "user", "content": ASKED},
    ]  # fmt: skip

    async def work():
        async with door.http() as http, door.client() as client:
            session = await session_of(http)
            path = f"/v1/sessions/{session}/turns"
            one = await http.post(path, json={"messages": said, "input_id": "i"})
            again = await http.post(path, json={"messages": said, "input_id": "i"})
            wrong = [
                await http.post(path, json=body)
                for body in ({"messages": said[:3]}, {"messages": []}, {"messages": said, "text": "and"})
            ]
            await asyncio.sleep(1)  # the record's index is behind by so much at most
            listed = await client.sessions()
            return one.json(), again.json(), wrong, await client.ask(messages=said), listed

    one, again, wrong, asked, listed = door.run(work())
    assert one == again and one["outcome"] == asked.outcome == "success"
    assert [(answer.status_code, answer.json()["error"]["param"]) for answer in wrong] == [(400, "messages")] * 3
    texts = {entry.bodies[1].decode() for entry in door.requested()}
    assert len(texts) == 1 and find_own_words(texts.pop()) == ASKED
    assert [row.runs for row in listed] == [1]


def test_a_key_for_metrics_reads_them_and_nothing_else(door):
    """A scraper's key tells nothing of anybody."""

    async def work():
        async with door.http("scraper") as http:
            answers = [await http.get("/metrics"), await http.get("/healthz"), await http.get("/v1/sessions"),
                       await http.post("/v1/sessions", json={}), await http.get("/v1/memory")]  # fmt: skip
            return [(one.status_code, one.json()["error"]["code"] if one.status_code > 399 else "") for one in answers]

    assert door.run(work()) == [(200, ""), (200, ""), *[(403, "key_not_for_this")] * 3]


def test_a_session_is_named_by_the_beginning_of_its_id(door):
    """In every path with one, in the header, and by our own client; of one's own sessions alone."""

    async def work():
        async with door.http() as http, door.http("bob") as bob, door.client() as client:
            session = await session_of(http)
            await asyncio.sleep(2)  # the record's index is a little behind
            await client.ask("hello", session_id=f"SES-{session[:8]}")
            short = [session[:8], f"SES-{session[:8]}", session[:13].upper()]
            views = [(await http.get(f"/v1/sessions/{one}")).json()["session_id"] for one in short]
            others = [(await bob.get(f"/v1/sessions/{one}")).status_code for one in (*short, session)]
            nothing = [
                (await http.get(f"/v1/sessions/{one}")).status_code for one in ("SES-", "ab", "zzzz", "ffffffff0")
            ]
            paused = await http.post(f"/v1/sessions/{short[1]}/commands", json={"command": {"kind": "Pause"}})
            asked = await http.post(
                "/v1/chat/completions", headers={"x-hobus-session": short[1]},
                json={"model": "ADMIN", "messages": [{"role": "user", "content": "once more"}]},
            )  # fmt: skip
            return session, views, others, nothing, paused.json()["session_id"], asked.json()["session_id"]

    session, views, others, nothing, paused, asked = door.run(work())
    assert views == [session] * 3 and (paused, asked) == (session, session)
    assert others == [404] * 4 and nothing == [404] * 4
