"""What commands end with on a cluster that runs: one exit code per meaning, and lists for programs."""

from __future__ import annotations

import json

import pytest

from bench.cluster import Cluster, hobus
from hobus.launch.console import exit_codes

pytestmark = pytest.mark.process

UNKNOWN = [
    ["ask", "hi", "--session", "SES-00000000"],
    ["keys", "revoke", "nobody"],
    ["memory", "deactivate", "ART-unknown", "--reason", "x"],
    ["memory", "overlays", "--signal", "no signal"],
    ["restart", "ho9/1"],
    ["session", "end", "SES-00000000"],
    ["session", "show", "SES-00000000"],
    ["session", "steer", "SES-00000000", "x"],
]
MISTAKES = [
    (["ask", ""], "empty"),
    (["ask", " "], "empty"),
    (["ask", "hi", "--session", "x y"], "session"),
    (["ask", "hi", "--input-id", "a b"], "--input-id"),
    (["request", "ho1", "wo.execute", "{"], "not a wo.execute"),
    (["request", "nobody", "wo.execute"], "nobody"),
]
TEXTS = [(b"x" * 10_000_000, "host.prompt_max_bytes"), (b"\xff\xfe", "UTF-8")]
REFUSED = [
    ["request", "ho2", "session.start"],
]
LISTS = {
    "breaker": "breakers", "budget": "scopes", "ledger show": "entries", "memory overlays": "overlays",
    "memory signals": "signals", "ps": "actors", "session list": "sessions", "tools": "tools",
}  # fmt: skip


def test_each_meaning_has_its_code_and_each_listing_a_named_list(cluster: Cluster):
    """Unknown names and ids, texts that are none, what the policy or the state refuses; what is listed for programs."""
    assert cluster.up().code == exit_codes.OK
    home = ("--home", str(cluster.home.root))
    head = cluster.verify().head
    for words, said in MISTAKES:
        answer = hobus(*words, *home)
        assert (answer.code, answer.out) == (exit_codes.USAGE, "") and said in answer.err, (words, answer)
    for text, said in TEXTS:
        answer = cluster("ask", "-", stdin=text)
        assert (answer.code, answer.out) == (exit_codes.USAGE, "") and said in answer.err, answer.err
    assert cluster.verify().head == head  # nothing was sent
    for words in UNKNOWN:
        answer = hobus(*words, *home)
        assert (answer.code, answer.out) == (exit_codes.USAGE, ""), (words, answer)
        assert "error: " in answer.err and "no such option" not in answer.err, (words, answer)
    for words in REFUSED:
        answer = hobus(*words, *home)
        assert (answer.code, answer.out) == (exit_codes.REFUSED, ""), (words, answer)
        assert "error: " in answer.err, (words, answer)
    for path, name in LISTS.items():
        answer = hobus(*path.split(), "--json", *home)
        assert isinstance(json.loads(answer.out or "{}").get(name), list), (path, answer)
    told = json.loads(cluster("session show", "--json", "SES-00000000").err.splitlines()[-1])["error"]
    assert told["code"] == "usage" and str(cluster.home.root) in told["hint"]
