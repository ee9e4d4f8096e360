"""The memory process of a real cluster: what it learned survives SIGKILL, and without it nothing else changes."""

from __future__ import annotations

import json

import pytest

from bench.cluster import Cluster, eventually
from hobus.launch.console import exit_codes
from tests.actors.ho3_memory.builders import artifact

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"
SIGNAL = "tool:list_packages"
LATE = "2126-01-01"


def answers(cluster: Cluster, seq: int) -> tuple[object, object]:
    """Signals and overlays as of one time and sequence."""
    found: list[object] = []
    for name in ("read_signals", "read_overlays"):
        asked = {"agent_id": "ADMIN", "as_of_ts": f"{LATE}T00:00:00.000000Z", "as_of_seq": seq}
        if name == "read_overlays":
            asked["active_only"] = False
        found.append(cluster("request", "ho3", f"memory.{name}", json.dumps(asked)).json)
    return found[0], found[1]


def learn(cluster: Cluster) -> str:
    """Three turns in three sessions, then an artifact that rests on what they left; its id."""
    for _ in range(3):
        assert cluster.ask(QUESTION)["outcome"] == "success"
    eventually(lambda: len(cluster.entries("HO3_SIGNAL")) >= 3 and _count(cluster) == 3)
    found = cluster("memory gate", SIGNAL, "--json").json
    when = found["accumulator"]["last_seen"]
    times = dict.fromkeys(("created_at_event_ts", "consolidation_event_ts", "window_start", "window_end"), when)
    made = artifact(source_signal_ids=[SIGNAL], source_event_ids=found["accumulator"]["event_ids"], **times)
    body = json.dumps({"agent_id": "ADMIN", "overlay": made.model_dump(mode="json")})
    logged = cluster("request", "ho3", "memory.log_overlay", body)
    assert logged.code == 0 and logged.json["is_new"], logged.err
    return made.artifact_id


def _count(cluster: Cluster) -> int:
    found = cluster("memory gate", SIGNAL, "--json").json["accumulator"]
    return 0 if found is None else found["count"]


def test_what_was_learned_survives_a_sigkill_and_a_stop(cluster: Cluster):
    """Killed right after an acknowledged write, with no checkpoint; stopped in order, with one: the same bytes."""
    cluster.up()
    name = learn(cluster)
    changed = cluster("memory weight", name, "0.25", "--reason", "less of this", "--json").json
    assert changed["overlay"]["artifact"]["weight"] == 0.25
    seq = cluster("memory stats", "--json").json["applied_seq"]
    before = answers(cluster, seq)
    old = cluster.kill("ho3/1")
    assert answers(cluster, seq) == before  # asked at once: the request waits for the successor
    eventually(lambda: cluster.is_up("ho3/1", other_than=old.instance))
    cluster("down")
    assert (cluster.home.root / "memory" / "memory.checkpoint").stat().st_size > 0
    cluster.up()
    assert answers(cluster, seq) == before
    assert cluster("memory stats", "--json").json["checkpoint_seq"] >= seq - 1
    off = cluster("memory deactivate", name, "--reason", "was a misunderstanding")
    assert off.code == 0 and f"{name}: off" in off.out
    assert cluster("memory overlays", "--json").json["overlays"] == []
    assert answers(cluster, seq) == before
    listed = cluster("memory overlays", "--all").out
    assert name in listed and "off" in listed
    entries = cluster.entries("HO3_OVERLAY_DEACTIVATED")
    assert [entry.bodies[1] for entry in entries] == [b"was a misunderstanding"]
    assert "misunderstanding" not in repr([entry._replace(bodies=[]) for entry in entries])
    cluster.verify()
    unknown = cluster("memory deactivate", "ART-unknown", "--reason", "no")
    assert unknown.code == exit_codes.USAGE and "ART-unknown" in unknown.err and "memory overlays" in unknown.err
    assert cluster("memory weight", "ART-x", "1.5", "--reason", "no").code == exit_codes.USAGE
    assert cluster("memory signals", "--agent", "NOBODY").code == exit_codes.USAGE
    assert "no event was ever logged" in cluster("memory gate", "tool:never").out
    cluster("down")
    assert cluster("memory stats").code == exit_codes.UNREACHABLE
