"""Frames that no honest peer sends, at every socket of a real cluster: whoever sends them is refused, and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from bench.cluster import cluster
from bench.hostile.__main__ import TARGETS, faults_of, fuzz, options

pytestmark = pytest.mark.process


def test_nonsense_at_every_socket_harms_nobody_but_its_sender() -> None:
    """By counts, not by times: everything was sent, the servers said no and recorded it, and every turn was answered."""
    given = options().parse_args(["--frames", "200", "--seed", "7", "--alone", "0.1"])
    with cluster({"bus.listen": "127.0.0.1:0"}) as up:
        result = asyncio.run(fuzz(up, given))
        up.verify()
    assert faults_of(result) == []
    assert [row["target"] for row in result["rows"]] == list(TARGETS)
    for row in result["rows"]:
        assert row["sent"] == -(-200 // len(TARGETS)), row
        assert sum(row["told"].values()) + row["cut_off"] > 0, row
        assert row["beside"]["outcomes"]["success"] > 0, row
        if "broker" in row["target"] or "remote" in row["target"]:
            assert row["recorded"], row
