"""What nobody but its owner may read: keys of the HTTP door, and what was asked through it (R10)."""

import json
from pathlib import Path

import httpx2
import psutil
import pytest

from bench.cluster import eventually, hobus
from hobus import Client

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("launchers_are_executed")]

MARK = "the-vault-is-under-the-stairs"


def everywhere_but_the_record(cluster):
    """Every file of the home outside the ledger, and what the system shows of each process: (where, bytes)."""
    for path in cluster.home.root.rglob("*"):
        if path.is_file() and cluster.home.ledger not in path.parents:
            yield str(path), path.read_bytes()
    run = cluster.run()
    for pid in (run.launcher_pid, run.zygote_pid, *(row.pid for row in run.children)):
        for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            for kind in ("environ", "cmdline"):
                yield f"{kind} of {one.name()}", Path(f"/proc/{one.pid}/{kind}").read_bytes()


def strange_requests(http, key):
    """The key and the text in every place where they do not belong."""
    bearer = {"authorization": f"Bearer {key}"}
    chat = "/v1/chat/completions"
    message = {"model": "ADMIN", "messages": [{"role": "user", "content": MARK}]}
    as_json = {"content-type": "application/json"}
    yield http.post(chat, headers=bearer | as_json, content=f'{{"model": "{MARK}", "messages": [{{"{key}": ')
    yield http.post(chat, headers=bearer, json={**message, "model": f"{MARK}{key}"})
    yield http.post(chat, headers=bearer, json={**message, "tools": MARK, key: key})
    yield http.post(chat, headers={"authorization": f"Bearer {key}x"}, json=message)
    yield http.post(chat, headers={"authorization": f"Basic {key}"}, json=message)
    yield http.post(chat, headers=bearer | {"x-hobus-session": f"{key}"}, json=message)
    yield http.post(chat, headers=bearer | {"origin": f"https://{key}"}, json=message)
    yield http.get(f"/v1/models/{key}/{MARK}", headers=bearer)
    yield http.get(f"/{MARK}/{key}?api_key={key}", headers=bearer | {"host": f"{key}.example"})
    yield http.post("/v1/sessions", headers=bearer | {"idempotency-key": key}, json={})
    yield http.post("/v1/sessions", headers=bearer | {"content-type": f"text/{MARK}"}, content=MARK)
    yield http.post(
        "/v1/responses", headers=bearer, json={"model": "ADMIN", "input": MARK, "previous_response_id": key}
    )


def test_keys_and_texts_of_clients_stand_where_they_belong_and_nowhere_else(cluster):
    """A key: with its owner alone. A text: in the record alone; on the tap and in the logs its size and hash at most."""
    cluster.up("--http", "127.0.0.1:0")
    key = cluster("token create", "--role", "http", "--name", "alice").out.strip()
    wrong = "hobus-" + "0" * 64
    url = f"http://{cluster.home.bound(http=True)}"
    with Client(url, key, timeout_s=30) as client, httpx2.Client(base_url=url, timeout=30) as http:
        assert client.ask(f"remember: {MARK}").outcome == "success"
        list(client.stream(f"and again: {MARK}"))
        said = [answer.text for one in (key, wrong) for answer in strange_requests(http, one)]
    tapped = hobus("tap", "--home", str(cluster.home.root), "--since", "10m", "-f", "jsonl")
    shown = [json.dumps(cluster("ps", "--json").json), cluster("keys list", "--json").out, tapped.out, tapped.err]
    assert '"host.process_turn"' in tapped.out or "process_turn" in tapped.out
    found = [(where, data) for where, data in everywhere_but_the_record(cluster)]
    found += [("what was answered", text.encode()) for text in said] + [("what is shown", t.encode()) for t in shown]
    for secret in (key, key.removeprefix("hobus-"), wrong.removeprefix("hobus-"), MARK):
        assert [where for where, data in found if secret.encode() in data] == [], secret
    record = b"".join(body or b"" for entry in cluster.entries() for body in entry.bodies)
    texts = record + repr([entry._replace(bodies=[]) for entry in cluster.entries()]).encode()
    assert MARK.encode() in record
    assert key.removeprefix("hobus-").encode() not in texts and wrong.removeprefix("hobus-").encode() not in texts


def test_keys_that_were_made_and_taken_back_stand_in_the_record(cluster):
    """By name and fingerprint, also those of a time without a cluster."""
    assert cluster("token create", "--role", "http", "--name", "early").code == 0
    assert cluster("keys revoke", "early").code == 0
    cluster.up("--http", "127.0.0.1:0")
    assert cluster("token create", "--role", "http", "--name", "alice").code == 0
    eventually(lambda: cluster.entries("HTTP_KEY_CREATED"))
    assert cluster("keys revoke", "alice").code == 0
    gone = eventually(lambda: len(found := cluster.entries("HTTP_KEY_REVOKED")) == 2 and found)
    (made,) = cluster.entries("HTTP_KEY_CREATED")
    assert made.submission_id.partition(":")[2] in {entry.submission_id.partition(":")[2] for entry in gone}
    assert made.submission_id.startswith("HTTP_KEY_CREATED:alice/") and made.origin.startswith("http/1@")
    cluster.verify()
