"""A start that a gate forbids: nothing is started, every failure is told at once, by every door."""

from __future__ import annotations

import json

import pytest

from bench.cluster import Cluster
from hobus.launch.cluster.home import holder
from hobus.launch.console import exit_codes
from tests.config.gates.homes import FILES, clerk, listed, package

pytestmark = pytest.mark.process


def broken(cluster: Cluster) -> None:
    """A package with a bare hash, of a spec and a framework that there are not, on itself and a ghost, a file twice."""
    config = cluster.home.config
    clerk(config)
    assets = [listed(config, name) for name in FILES]
    assets[0]["sha256"] = assets[0]["sha256"].removeprefix("sha256:")
    package(
        config, assets=[*assets, assets[1]], spec_id="SPEC-GHOST-001", framework_id="FMWK-999",
        dependencies=["PKG-CLERK-001", "PKG-GHOST-001"],
    )  # fmt: skip


SAID = (
    "a bare hash", "listed twice", "there is no spec SPEC-GHOST-001", "there is no framework FMWK-999",
    "it depends on itself", "there is no package PKG-GHOST-001",
)  # fmt: skip


def test_a_home_that_breaks_a_gate_is_refused_by_every_door(cluster: Cluster):
    """`up`, in the background and in front, a cluster that a command makes, `config check`, `gates --enforce`: exit 3.

    Nothing runs, nothing is left.
    """
    broken(cluster)
    doors = (
        ("up", "--wait"), ("up", "--detach"), ("up",), ("drill kill ho1 --during turn",), ("config check",), ("gates", "--enforce"),
    )  # fmt: skip
    for words in doors:
        answer = cluster(*words)
        assert answer.code == exit_codes.INTEGRITY, words
        assert all(said in answer.out + answer.err for said in SAID), words
        assert "G0" in answer.out + answer.err and "Traceback" not in answer.err
    assert holder(cluster.home) is None and not cluster.home.run.exists()
    report = cluster("gates", "--json")
    assert report.code == exit_codes.OK and report.json["ok"] is False
    assert cluster("doctor").code == exit_codes.FAILED
    package(cluster.home.config)
    assert cluster("gates", "--enforce").code == exit_codes.OK
    cluster.up()


def test_a_record_that_is_damaged_is_refused_before_anything_starts(cluster: Cluster):
    """G6 at a start: the last segment; with --full all of it."""
    cluster.up()
    cluster("down")
    (segment,) = sorted((cluster.home.ledger / "segments").glob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)
    verified = cluster("ledger verify")
    assert verified.code == exit_codes.INTEGRITY and "Traceback" not in verified.err
    assert segment.name in verified.err and "byte " in verified.err
    assert cluster("ledger verify", "--json").json["fault"]["file"].endswith(segment.name)
    refused = cluster("up", "--wait")
    assert refused.code == exit_codes.INTEGRITY and holder(cluster.home) is None
    assert "G6" in refused.err and f"{segment.name}: byte " in refused.err
    for words in (("gates",), ("gates", "--full")):
        (finding,) = [one for one in cluster(*words, "--json").json["findings"] if one["gate"] == "G6"]
        assert finding["file"] == str(segment) and finding["severity"] == "fail" and finding["mend"]


def test_a_start_says_that_there_are_warnings(cluster: Cluster):
    """A home's own file in place of a shipped one is no failure; a running cluster's record is read beside it."""
    shipped = json.loads(cluster("agent show ADMIN", "--json").out)
    assert shipped["agent_id"] == "ADMIN"
    cluster("init", "agents/ADMIN.json")
    path = cluster.home.config / "agents/ADMIN.json"
    path.write_text(path.read_text().replace("You are the administration agent", "You are the agent"))
    up = cluster("up", "--wait")
    assert up.code == exit_codes.OK and "gates: 1 warning" in up.err
    report = cluster("gates", "--enforce", "--json")
    assert report.code == exit_codes.OK and report.json["gates"]["G0"]["verdict"] == "warn"
    assert report.json["gates"]["G6"]["verdict"] == "ok"
