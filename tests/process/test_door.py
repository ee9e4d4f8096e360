"""Doors of a real cluster: the official SDK and our own client, deaths in the middle of streams, strangers at the port.

A cluster takes seconds, so each test checks several things on its own one.
"""

import io
import re
import socket
import threading
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import openai
import psutil
import pytest

from bench.cluster import Cluster, cluster_in, eventually
from hobus import Client, HttpError
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.prompts import PromptFailed, PromptSent
from hobus.launch.cluster.endpoints import split_address
from hobus.launch.http.turns import choose_input_id

pytestmark = pytest.mark.process

ASKED = "what packages are installed?"
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@dataclass
class Doors:
    """Two doors at one port of a cluster, whose model thinks for a moment, and who calls them."""

    cluster: Cluster
    url: str
    key: str
    client: Client
    sdk: openai.OpenAI


@pytest.fixture
def doors(cluster):
    free = {"sees": False, "input_usd_per_million": 0.0, "output_usd_per_million": 0.0, "cached_usd_per_million": 0.0}
    model = {"model_id": "offline-rules-1", **free}
    slow = {"kind": "offline", "latency_ms": 400, "concurrency_max": 64, "models": [model]}
    settings = {"http.connections_max": 150, "gateway.providers": {"offline": slow}}
    cluster.up("--http", "127.0.0.1:0", "--scale", "http=2", settings=settings)
    key = cluster("token create", "--role", "http", "--name", "alice").out.strip()
    url = f"http://{cluster.home.bound(http=True)}"
    with (
        Client(url, key, timeout_s=30) as client,
        openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as sdk,
    ):
        yield Doors(cluster, url, key, client, sdk)


def both_up(cluster):
    eventually(lambda: cluster.is_up("http/1") and cluster.is_up("http/2"))


def runs_of(cluster, session):
    ends = ("RunCompleted", "RunFailed", "RunCancelled")
    return [entry.event_type for entry in cluster.entries(*ends) if entry.stream == f"session/{session}"]


def the_official_sdk_streams_and_goes_on(cluster, sdk):
    """Chat completions streamed and whole, one conversation over two doors; then a response."""
    said = [{"role": "user", "content": ASKED}]
    chunks = list(sdk.chat.completions.create(model="ADMIN", messages=said, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert "PKG-" in text and len(chunks) > 3
    said += [{"role": "assistant", "content": text}, {"role": "user", "content": "what did I ask before?"}]
    answer = sdk.chat.completions.create(model="ADMIN", messages=said)
    assert ASKED in answer.choices[0].message.content and answer.session_id == chunks[0].session_id
    assert "PKG-" in sdk.responses.create(model="ADMIN", input=ASKED).output_text


def the_readme_example_runs(url, key):
    (example,) = [one for one in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "http://" in one]
    assert len(example.strip().splitlines()) <= 10
    said = io.StringIO()
    with redirect_stdout(said):
        exec(example.replace("http://127.0.0.1:8420", url).replace("hobus-…", key), {})  # noqa: S102 - our own words
    assert "PKG-" in said.getvalue()


def both_doors_are_in_ps_and_one_can_be_taken_away(cluster, url, client):
    """They scale like every other process, and the address is told."""
    both_up(cluster)
    shown = cluster("ps", "--json").json
    assert f"http://{shown['http']}" == url
    assert [row["state"] for row in shown["actors"] if row["actor"].startswith("http/")] == ["ready", "ready"]
    assert cluster("scale", "http=1").code == 0
    assert client.ask(ASKED).outcome == "success"
    assert cluster("scale", "http=2").code == 0


def a_door_that_leaves_answers_first(cluster, url, key):
    """Drained, and scaled away: streams without a key, which nobody could ask for again, are whole."""

    def stream():
        with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as sdk:
            said = [{"role": "user", "content": ASKED}]
            with sdk.chat.completions.create(model="ADMIN", messages=said, stream=True) as answer:
                begun.append(next(answer))
                ends.append([*answer][-1].choices[0].finish_reason)

    begun, ends = [], []
    for command in (("drain", "http/2"), ("scale", "http=1")):
        both_up(cluster)
        begun.clear()
        ends.clear()
        readers = [threading.Thread(target=stream) for _ in range(8)]
        for reader in readers:
            reader.start()
        eventually(lambda: len(begun) == 8)  # a connection that no door has read yet may be cut
        assert cluster(*command).code == 0
        for reader in readers:
            reader.join(30)
        assert ends == ["stop"] * 8
        assert cluster("scale", "http=2").code == 0


def a_door_killed_in_the_middle_of_a_stream_costs_no_answer(cluster, client):
    """SIGKILL of both doors while the answer is written: asked again under its id it is one run, and no event is lost."""
    both_up(cluster)
    session = client.start()
    pieces = client.stream(ASKED, session_id=session, input_id="in-1")
    kinds = [next(pieces).kind]
    for door in ("http/1", "http/2"):
        cluster.kill(door)
    *rest, last = list(pieces)
    assert "reset" in [*kinds, *(piece.kind for piece in rest)]
    assert last.result.outcome == "success" and "PKG-" in last.result.response
    assert runs_of(cluster, session) == ["RunCompleted"]
    both_up(cluster)


def a_reader_of_events_outlives_the_doors(cluster, client, url, key):
    """Killed under it three times while turns go on, it has read the journal, each entry once and in order."""
    both_up(cluster)
    session = client.start()
    seen, ready = [], threading.Event()

    def follow():
        with Client(url, key, timeout_s=60) as reader:
            for event in reader.events(session):
                seen.append(event)
                ready.set()
                if event.kind == "SESSION_END":
                    return

    reading = threading.Thread(target=follow, daemon=True)
    reading.start()
    assert ready.wait(20)
    for number in range(3):
        cluster.kill("http/1")
        cluster.kill("http/2")
        assert client.ask(ASKED, session_id=session, input_id=f"in-{number}").outcome == "success"
        both_up(cluster)
    client.end(session)
    reading.join(30)
    written = [entry.sequence for entry in cluster.entries() if entry.stream == f"session/{session}"]
    assert [event.sequence for event in seen] == written


def who_cannot_come_back_and_goes_has_his_run_cancelled(cluster, sdk):
    """A completion without a key: cancelled when its connection is closed; ended once where its door was killed."""
    both_up(cluster)
    sessions = []
    for how in ("closed", "killed"):
        stream = sdk.chat.completions.create(model="ADMIN", messages=[{"role": "user", "content": ASKED}], stream=True)
        sessions.append(next(iter(stream)).session_id)
        eventually(lambda: any(e.stream == f"session/{sessions[-1]}" for e in cluster.entries("WO_DISPATCHED")))
        if how == "closed":
            stream.close()
        else:
            for door in ("http/1", "http/2"):
                cluster.kill(door)
    closed, killed = [eventually(lambda session=session: runs_of(cluster, session)) for session in sessions]
    assert closed == ["RunCancelled"]
    assert killed in (["RunCancelled"], ["RunCompleted"])  # cancelled when the lease is over, if it lasts so long
    both_up(cluster)


def a_stream_that_is_left_is_charged_for_what_came(cluster, sdk):
    """The budget gets back what was reserved beyond the prompt and the words that were read."""
    stream = sdk.chat.completions.create(model="ADMIN", messages=[{"role": "user", "content": ASKED}], stream=True)
    chunks = iter(stream)
    session = next(chunks).session_id
    for chunk in chunks:
        if (chunk.choices[0].delta.content or "").strip():
            break
    stream.close()
    assert eventually(lambda: runs_of(cluster, session)) == ["RunCancelled"]

    def of_session(event_type):
        return [one for one in cluster.entries(event_type) if one.provenance.session_id == session]

    [failed] = eventually(lambda: of_session("PROMPT_FAILED"))
    charged = read_payload(PromptFailed, failed)
    reserved = read_payload(PromptSent, of_session("PROMPT_SENT")[-1]).reserved_tokens
    assert 0 < charged.tokens < reserved and charged.was_sent and not charged.is_unknown


def ten_thousand_connections_cost_little_and_keep_out_nobody_for_long(cluster, url, client):
    """More than two doors take: the others are refused, memory stays bounded, and a client who asks again is answered."""
    both_up(cluster)
    assert (
        client.ask(ASKED).outcome == "success"
    )  # who has never been answered takes the address for wrong, and waits less
    processes = [psutil.Process(cluster.row(door).pid) for door in ("http/1", "http/2")]
    before = sum(one.memory_info().rss for one in processes)
    where = split_address(url.removeprefix("http://"))
    crowd, refused = [], 0
    for _ in range(10_000):
        try:
            crowd.append(socket.create_connection(where, timeout=10))
        except OSError:
            refused += 1
    most = sum(one.memory_info().rss for one in processes)
    assert client.ask(ASKED).outcome == "success"
    said = []
    for sock in crowd:
        with sock:
            try:
                said.append(sock.recv(200)[:12])
            except OSError:
                said.append(b"")
    assert set(said) <= {b"", b"HTTP/1.1 503"} and refused < 100
    assert b"HTTP/1.1 503" in said
    assert most - before < 200_000_000
    assert all(one.is_running() for one in processes)


def a_gateway_killed_in_the_middle_of_a_stream_is_told_truthfully(cluster, client, sdk):
    """SIGKILL while the model is called: what the client was sent ends with the answer that the record has, or he is told."""
    both_up(cluster)
    input_id = choose_input_id("gw-1", "")[0]
    stream = sdk.chat.completions.create(
        model="ADMIN",
        messages=[{"role": "user", "content": ASKED}],
        stream=True,
        extra_headers={"Idempotency-Key": "gw-1"},
    )
    chunks = iter(stream)
    session = next(chunks).session_id
    eventually(lambda: any(e.provenance.session_id == session for e in cluster.entries("PROMPT_SENT")))
    cluster.kill("gateway/1")
    last, text, fault = None, "", None
    try:
        for chunk in chunks:
            text += chunk.choices[0].delta.content or ""
            last = chunk
    except openai.APIError as error:
        fault = error
    if fault is not None:
        assert fault.code and runs_of(cluster, session) == ["RunFailed"]
    else:
        assert last.choices[0].finish_reason == "stop"
        stands = client.ask(ASKED, session_id=session, input_id=input_id)
        assert stands.outcome == last.outcome and text.endswith(stands.response)
    eventually(lambda: cluster.is_up("gateway/1"))


def a_key_that_was_taken_back_opens_nothing(cluster, url):
    bob = cluster("token create", "--role", "http", "--name", "bob", "--json").json["key"]
    with Client(url, bob, timeout_s=10) as client:
        assert client.ask("hello").outcome == "success"
        assert [row["name"] for row in cluster("keys list", "--json").json["keys"]] == ["alice", "bob"]
        assert cluster("keys revoke", "bob").code == 0
        for _ in range(4):
            with pytest.raises(HttpError) as refused:
                client.start()
            assert refused.value.status == 401
    assert bob not in "".join(path.read_text(errors="replace") for path in cluster.home.logs.iterdir())


def test_clients_of_two_doors(doors):
    """The official SDK, our own client, a key that is taken back, another number of doors."""
    the_official_sdk_streams_and_goes_on(doors.cluster, doors.sdk)
    the_readme_example_runs(doors.url, doors.key)
    a_stream_that_is_left_is_charged_for_what_came(doors.cluster, doors.sdk)
    both_doors_are_in_ps_and_one_can_be_taken_away(doors.cluster, doors.url, doors.client)
    a_key_that_was_taken_back_opens_nothing(doors.cluster, doors.url)


def test_doors_that_leave(doors):
    """Commands take a door away while it answers."""
    a_door_that_leaves_answers_first(doors.cluster, doors.url, doors.key)


def test_deaths_of_doors(doors):
    """SIGKILL in the middle of streams, of both doors at once."""
    a_door_killed_in_the_middle_of_a_stream_costs_no_answer(doors.cluster, doors.client)
    who_cannot_come_back_and_goes_has_his_run_cancelled(doors.cluster, doors.sdk)
    a_gateway_killed_in_the_middle_of_a_stream_is_told_truthfully(doors.cluster, doors.client, doors.sdk)
    a_reader_of_events_outlives_the_doors(doors.cluster, doors.client, doors.url, doors.key)


def test_ten_thousand_connections(doors):
    """What is no request is tests/launch/http/test_server.py's."""
    ten_thousand_connections_cost_little_and_keep_out_nobody_for_long(doors.cluster, doors.url, doors.client)


def test_a_door_that_cannot_be_is_refused_before_anything_starts(tmp_path):
    """A port that is taken by somebody else, no address at all, a number of doors without one."""
    other = cluster_in(tmp_path / "other")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert other("up", "--wait", "--http", f"127.0.0.1:{port}").code == 4
    assert other("up", "--wait", "--http", "nowhere").code == 2
    assert other("up", "--wait", "--scale", "http=2").code == 2
