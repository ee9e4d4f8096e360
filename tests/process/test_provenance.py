"""Two turns under two versions of an agent, in two lives of a cluster: both are told apart, and both versions printed."""

from __future__ import annotations

import json

import pytest

from bench.cluster import Cluster
from hobus.bus.messages.base import digest_of
from hobus.config.assets import HOME_PACKAGE
from hobus.config.files import SHIPPED_ROOT

pytestmark = pytest.mark.process

ADMIN = "agents/ADMIN.json"


def test_an_old_turn_is_explained_by_the_files_that_made_it(cluster: Cluster):
    """Also once the file is gone, and without a cluster; each record of a run leads to its configuration."""
    shipped = (SHIPPED_ROOT / ADMIN).read_bytes()
    agent = json.loads(shipped)
    own = (json.dumps(agent | {"system_prompt": "You answer in rhyme.\r\n"}) + "\r\n").encode()  # not as we write it
    cluster.up()
    session_id = cluster.ask("is the ledger intact?")["session_id"]
    assert cluster("down").code == 0
    file = cluster.home.config / ADMIN
    file.parent.mkdir(parents=True)
    file.write_bytes(own)
    checked = cluster("config check", "--json").json
    assert checked["versions"][ADMIN] == {"sha256": digest_of(own), "package_id": HOME_PACKAGE}
    cluster.up()
    cluster.ask("what packages are installed?", "--session", session_id)
    peers = cluster("request", "broker", "broker.read_peers").json["peers"]
    assert {row["role"] for row in peers} >= {"ho1", "ho2", "ho3", "gateway", "ledger", "host"}
    assert {row["config_digest"] for row in peers} == {checked["digest"]}  # what each process says that it runs under
    shown = cluster("agent show", "ADMIN", "--json").json
    assert (shown["digest"], shown["package_id"], shown["framework_id"]) == (digest_of(own), HOME_PACKAGE, "FMWK-107")

    name = f"SES-{session_id[:8]}"
    turns = [f"{name}-1", f"{name}-2"]
    told = cluster("diff", *turns)
    assert told.code == 0 and f"{ADMIN}: {digest_of(shipped)[7:19]} -> {digest_of(own)[7:19]}" in told.out, told
    assert cluster("diff", *turns, "--json").json["assets"] == [
        {"path": ADMIN, "before": digest_of(shipped), "after": digest_of(own)}
    ]
    entries = cluster("ledger show", "--session", name, "--limit", "1000", "--json").json["entries"]
    of_runs = {(one["provenance"]["run_seq"], one["config_digest"]) for one in entries if one["provenance"]["run_seq"]}
    whys = [cluster("why", turn, "--json").json for turn in turns]
    assert of_runs == {(1, whys[0]["config_digest"]), (2, whys[1]["config_digest"])} and len(of_runs) == 2
    for why, content, owner in ((whys[0], shipped, "PKG-ADMIN-AGENT-001"), (whys[1], own, HOME_PACKAGE)):
        one = next(one for one in why["made_of"] if one["kind"] == "agent")
        assert (one["digest"], one["package_id"]) == (digest_of(content), owner)
    assert {one["provenance"]["package_id"] for one in entries if one["provenance"]["run_seq"] == 2} == {HOME_PACKAGE}

    assert cluster("session show", name, "--json").json["made_of"] == whys[1]["made_of"]  # asked of the ledger
    assert cluster("down").code == 0
    assert cluster("session show", name, "--json").json["made_of"] == whys[1]["made_of"]  # read from its files
    file.unlink()
    for turn, content in zip(turns, (shipped, own), strict=True):
        listed = cluster("asset list", turn, "--json").json["assets"]
        (digest,) = [one["digest"] for one in listed if one["path"] == ADMIN and one["is_used"]]
        printed = cluster("asset show", digest, "--json").json
        assert (digest, printed["text"].encode()) == (digest_of(content), content)
        assert printed["digest"] == digest and digest[7:19] in cluster("session show", turn).out
    assert digest_of(own)[7:19] in cluster("session show", name).out
