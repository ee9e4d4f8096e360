"""The console as a process: over a running cluster, without one, and when it is ended."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import psutil
import pytest

from bench.cluster import Cluster, begun, eventually, family_in
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process


class Served:
    def __init__(self, cluster: Cluster, *words: str) -> None:
        self.start(cluster, *words)
        self.client = httpx2.Client(base_url=self.link.partition("/sign-in")[0], timeout=30)

    def sign_in(self) -> None:
        assert self.client.get(self.link).status_code == 303

    def start(self, cluster: Cluster, *words: str) -> None:
        self.process = begun("console", "--home", str(cluster.home.root), *words, stdin=subprocess.DEVNULL)
        assert self.process.stdout is not None
        self.link = re.search(r"http\S+", self.process.stdout.readline().decode())[0]
        self.client = httpx2.Client()

    def csrf(self) -> str:
        return re.search(r'name="csrf" value="(\w+)"', self.client.get("/").text)[1]

    def post(self, path: str, **form: str) -> str:
        answer = self.client.post(path, data={"csrf": self.csrf(), "back": "/sessions", **form})
        assert answer.status_code == 303
        said = re.search(
            r'<p class="said \w+" role="status">(.*?)</p>', self.client.get(answer.headers["location"]).text
        )
        return "" if said is None else said[1]

    def end(self) -> int:
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=20)
        self.process.communicate()
        return code


@pytest.fixture
def serve(cluster):
    made: list[Served] = []

    def served(*words: str) -> Served:
        made.append(Served(cluster, *words))
        made[-1].sign_in()
        return made[-1]

    yield served
    for one in made:
        if one.process.poll() is None:
            one.end()


def test_the_cluster_is_shown_and_told_and_may_go_and_come_under_the_page(cluster, serve):
    """Every process with its state, as `hobus ps` has it; scaled from the page; the page outlives the cluster."""
    cluster.up()
    console = serve()
    told, shown = cluster("ps", "--json").json, console.client.get("/index.json").json()
    facts = [(row["actor"], row["pid"], row["state"]) for row in told["actors"]]
    assert [(row["actor"], row["pid"], row["state"]) for row in shown["actors"]] == facts
    assert {row["service"] for row in shown["queues"]} >= {"ho1", "ho2", "gateway"}
    assert console.post("/cluster/scale", role="ho1", count="2") == "ho1 is to have 2"
    assert "expected ROLE=N" in console.post("/cluster/scale", role="ledger", count="2")
    assert "there is no nobody/1" in console.post("/cluster/leave", actor="nobody/1", verb="drain")
    session = cluster.ask("what packages are installed?")["session_id"]
    warning = "no other process offers gateway: its requests fail until then"
    assert console.post("/cluster/leave", actor="gateway/1", verb="drain") == f"gateway/1 is draining; {warning}"
    assert warning in cluster("drain", "gateway/1").err
    without = console.client.get("/")
    assert without.status_code == 200 and without.text.count("the gateway does not answer") == 2
    assert cluster("restart", "gateway/1").code == exit_codes.OK
    assert cluster("drain", "ledger/1").code == exit_codes.OK
    for path in ("/", "/sessions", "/record", "/tools", "/config"):
        assert console.client.get(path).status_code == 200, path
    unrecorded = console.client.get(f"/sessions/{session}")
    assert unrecorded.status_code == 503 and "hobus restart ledger/1" in unrecorded.text
    assert cluster("restart", "ledger/1").code == exit_codes.OK
    assert cluster("down").code == exit_codes.OK
    assert "No cluster runs here" in console.client.get("/").text
    # A second's page is shared.
    eventually(lambda: len(console.client.get("/sessions.json").json()["sessions"]) == 1)
    cluster.up()
    eventually(lambda: "broker/1" in console.client.get("/").text)
    assert console.end() == exit_codes.OK
    cluster.verify()


def test_a_home_at_rest_is_looked_at_and_nothing_in_it_changes(cluster, serve, tmp_path):
    """With --read-only no cluster is asked, also where one runs; every screen of the record shows what it says.

    Without a record, without its capture and on a port that is taken the console says so.
    """
    none = cluster("console")
    assert none.code == exit_codes.USAGE and "no record" in none.err
    cluster.up()
    session = cluster.ask("what packages are installed?")["session_id"]
    running = serve("--read-only")
    assert "a cluster runs in" in running.client.get("/").text
    taken = cluster("console", "--port", running.link.rpartition(":")[2].partition("/")[0])
    assert taken.code == exit_codes.USAGE and "in use" in taken.err
    assert cluster("console", "--person", "eve:root").code == exit_codes.USAGE
    for words, path in ((), tmp_path / "nope"), (("damaged",), tmp_path / "no-capture"):
        for word in words:
            path.write_text(word)
        wanted = [cluster(*command, str(path)) for command in (("console", "--capture"), ("tap", "-r"))]
        assert wanted[0].code == wanted[1].code != exit_codes.OK and str(path) in wanted[0].err
    assert cluster("down").code == exit_codes.OK
    before = {path: path.stat().st_mtime_ns for path in cluster.home.root.rglob("*")}
    console = serve("--read-only")
    for path in ("/sessions", f"/sessions/{session}", f"/sessions/{session}/turns/1", "/record", "/gateway", "/config"):
        for one in (running, console):
            answer = one.client.get(path)
            assert answer.status_code == 200 and "Begin a session" not in answer.text, path
            assert 'method="post" action="/ask"' not in answer.text, path
    assert running.client.get("/memory.json").json()["running"] is False
    assert console.client.post("/ask", data={"csrf": console.csrf(), "text": "hello"}).status_code == 403
    assert {path: path.stat().st_mtime_ns for path in cluster.home.root.rglob("*")} == before


def test_a_turn_is_asked_held_and_approved_from_pages(cluster, serve):
    """Its answer is told while it is written; the call waits in the inbox; who approved it stands in the record."""
    cluster.up(settings={"tools.approval": ["verify_*"]})
    console = serve("--person", "ada lovelace")
    answer = console.client.post("/ask", data={"csrf": console.csrf(), "text": "is the ledger intact?"})
    assert answer.status_code == 303
    session = answer.headers["location"]
    with console.client.stream("GET", talk_in(console.client.get(session).text)) as talk:
        lines = talk.iter_lines()
        next(line for line in lines if "waits for an approval" in line)
        inbox = console.client.get("/approvals.json").json()["approvals"]
        assert [(one["tool_id"], one["arguments"], one["asked"]) for one in inbox] == [
            ("verify_ledger", {}, "is the ledger intact?")
        ]
        listed = cluster("session list", "--state", "approval", "--json").json["sessions"]
        assert [one["held_calls"][0]["call_id"] for one in listed] == [inbox[0]["call_id"]]
        assert inbox[0]["since"] and any("waits for approval of 001" in said for said in inbox[0]["done"])
        call = {"kind": "Approve", "call_id": inbox[0]["call_id"]}
        assert "stale_target" in console.post(f"{session}/commands", run="7", **call)
        assert console.post(f"{session}/commands", run="1", **call) == "Approve: applied"
        said = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
        assert "The ledger is intact" in "".join(one.get("text", "") for one in said) and said[-1] == {"fault": ""}
    shown = console.client.get(f"{session}.json").json()
    assert [(one["outcome"], one["code"]) for one in shown["turns"]] == [("success", "")]
    applied = [one for one in shown["commands"] if one["outcome"] == "applied"]
    assert [one["person"] for one in applied] == ["ada lovelace"]
    assert shown["turns"][0]["input_id"].startswith("console:ada_lovelace-")
    assert console.client.get("/approvals.json").json()["approvals"] == []
    looks = cluster("ledger show", "type=TAP_BODIES_READ", "--bodies", "--json").json["entries"]
    said = [(one["bodies"][0]["person"], *one["bodies"][0]["filter"]) for one in looks]
    name = f"SES-{session.rpartition('/')[2][:8]}"
    assert said == [("ada lovelace", f"session show {name}"), ("ada lovelace", "session list --state approval --json")]
    steps = console.client.get(f"{session}/turns/1.json").json()["steps"]
    [held] = [one for one in steps if one["kind"] == "wait"]
    assert held["verdict"] == "approved" and held["by"].endswith(", ada lovelace")
    assert "End session" in console.client.get(session).text
    assert "has ended" in console.post(f"{session}/commands", kind="End", text="enough")
    ended = console.client.get(f"{session}.json").json()["end"]
    assert ended["reason"] == "enough (ada lovelace)"
    assert "1 answered turn," in console.client.get(session).text
    assert "1 answered turn," in cluster("session show", session.rpartition("/")[2]).out
    assert "session_closed" in console.post(f"{session}/commands", kind="Steer", text="more")
    assert console.post("/ask", text=" ") == "the message is empty (nothing was sent)"
    console.post("/ask", session=session.rpartition("/")[2], text="pay the bill")  # its page was open before the end
    page = eventually(lambda: "Not answered" in (text := console.client.get(session).text) and text)
    assert "pay the bill" in page and "has ended" in page and "data-talk" not in page
    cluster.verify()


def talk_in(page: str) -> str:
    return re.search(r'data-talk="([^"]+)"', page)[1]


def test_what_only_a_cluster_knows_is_shown_as_the_commands_do(cluster, serve, tmp_path):
    """Tools, memory with a line switched off by name, frames live and of a turn, and a capture for `hobus tap -r`."""
    cluster.up()
    console = serve("--person", "ada")
    with console.client.stream("GET", "/bus/frames?filter=type=host.process_turn") as frames:
        lines = frames.iter_lines()
        assert next(lines).startswith(":")
        turn = cluster.ask("what packages are installed?")
        told = json.loads(next(line for line in lines if '"host.process_turn"' in line).removeprefix("data: "))
        assert [(row["type"], row["to"]) for row in told["rows"]] == [("host.process_turn", "host/1")]
        assert told["lost"] == 0 and told["filtered"] > 0
    name = f"SES-{turn['session_id'][:8]}-1"
    drawn = console.client.get(f"/bus/diagram.json?turn={name}").json()["frames"]
    assert {"wo.execute", "gateway.prompt", "session.turn_result"} <= {row["type"] for row in drawn}
    assert console.client.get(f"/bus/diagram?turn={name}").text.count('class="arrow"') == len(drawn)
    capture = tmp_path / "frames.tap"
    capture.write_bytes(console.client.get("/bus/capture.tap?filter=type=wo.execute").content)
    read = cluster("tap", "-r", str(capture), "--json")
    assert read.code == exit_codes.OK and read.out.count('"wo.execute"') >= 3
    assert console.client.get("/bus?filter=colour=red").status_code == 400
    kept = serve("--capture", str(capture))
    shown = kept.client.get("/bus.json").json()
    assert {row["type"] for row in shown["frames"]} == {"wo.execute"} and len(shown["frames"]) == read.out.count(
        '"wo.execute"'
    )
    assert kept.client.get("/bus").text.count("<td>wo.execute") == len(shown["frames"])
    assert kept.client.get(f"/bus/diagram.json?turn={name}").json()["frames"] == shown["frames"]
    capture.write_bytes(b"no capture")
    assert "not a capture" in kept.client.get("/bus?filter=").text
    assert console.client.get("/tools.json").json()["tools"] == cluster("tools", "--json").json["tools"]
    cluster.ask("Never delete a package.")
    memory = console.client.get("/memory.json").json()
    assert [one["signal_id"] for one in memory["gates"]] == [one["signal_id"] for one in memory["signals"]] != []
    assert memory["overlays"]["overlays"] == cluster("memory overlays", "--all", "--json").json["overlays"]
    line = memory["review"]["pending"][0]["artifact"]["artifact_id"]
    change = {"agent": memory["agent_id"], "artifact": line}
    assert "Waits to be confirmed" in console.client.get("/memory").text
    assert console.post("/memory/change", verb="confirm", **change) == f"{line} is active"
    assert console.post("/memory/change", verb="deactivate", text="not so", **change) == f"{line} is off"
    assert "expected confirm" in console.post("/memory/change", verb="erase", **change)
    assert "confirm:" in console.post("/memory/change", verb="confirm", agent=memory["agent_id"], artifact="x")
    shown = console.client.get("/memory")
    assert shown.status_code == 200 and f">{line[:12]}<" in shown.text
    bodies = [
        json.dumps(one["bodies"])
        for one in cluster("ledger show", "--stream", "overlays", "--bodies", "--json").json["entries"]
    ]
    assert ["(ada)" in one for one in bodies[-2:]] == [True, True]
    cluster.verify()


@contextmanager
def signed_in(link: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=link.partition("/sign-in")[0], timeout=60) as client:
        assert client.get(link).status_code == 303
        yield client


def console_process(cluster: Cluster) -> list[psutil.Process]:
    return [one for one in family_in(cluster.home) if "hobus console" in " ".join(one.cmdline())]


def test_a_cluster_with_a_door_offers_the_console_itself(cluster):
    """Its start prints a link, the door's first page leads there; the process begins with who opens it, and ends with it."""
    printed = cluster.up("--http", "127.0.0.1:0").out
    assert console_process(cluster) == []
    first = httpx2.get(f"http://{cluster.home.bound(http=True)}/")
    link = re.search(r"console: (http\S+)", printed)[1]
    assert f'<a href="{link.partition("sign-in")[0]}">' in first.text
    with signed_in(link) as client:
        assert "broker/1" in client.get("/").text
        (process,) = console_process(cluster)
        assert httpx2.get(link).status_code == 403
        more = cluster("console", "--person", "eve:viewer")
        assert more.code == exit_codes.OK
        with signed_in(re.search(r"http\S+", more.out)[0]) as other:
            assert "eve (viewer)" in other.get("/").text
        assert console_process(cluster) == [process]
        process.kill()
        process.wait(20)
        assert client.get("/").status_code == 401
    (process,) = console_process(cluster)
    assert cluster("down").code == exit_codes.OK
    process.wait(20)


def test_the_console_of_a_cluster_ends_with_a_launcher_that_is_killed(cluster):
    """And a door that others may reach brings none with it."""
    link = re.search(r"console: (http\S+)", cluster.up("--http", "127.0.0.1:0").out)[1]
    with signed_in(link):
        (process,) = console_process(cluster)
        psutil.Process(cluster.run().launcher_pid).kill()
        process.wait(20)
    assert cluster("down").code == exit_codes.OK
    assert "console:" not in cluster.up("--http", "0.0.0.0:0").out
    assert httpx2.get(f"http://127.0.0.1:{cluster.home.bound(http=True).rpartition(':')[2]}/").status_code == 404
