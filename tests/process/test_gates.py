"""A start that a gate forbids: nothing is started, every failure is told at once, by every door."""

from __future__ import annotations

import pytest

from bench.cluster import Cluster
from hobus.launch.cluster.home import find_holder
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
    assert find_holder(cluster.home) is None and not cluster.home.run.exists()
    report = cluster("gates", "--json")
    assert report.code == exit_codes.OK and report.json["ok"] is False
    assert cluster("doctor").code == exit_codes.FAILED
    package(cluster.home.config)
    assert cluster("gates", "--enforce").code == exit_codes.OK
    cluster.up()
