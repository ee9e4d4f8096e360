"""What a model is shown, from first to last, as the command line tells it: learned, shown, explained, switched off, gone.

Read from the top: a person has asked the same in three sessions; after the last answer, and only then, the habit
becomes a line. It stands in the next prompt, word for word, `hobus why` says where it comes from, and once it is switched
off it is gone. The intent of a session outlives its supervisor, and a projection can be looked at before it is used.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from bench.cluster import Cluster, eventually
from tests.journals import check_record

pytestmark = pytest.mark.process

QUESTION = "what packages are installed?"


def learned(cluster: Cluster) -> list[dict[str, Any]]:
    return [row["artifact"] for row in cluster("memory overlays", "--json").json["overlays"]]


def why(cluster: Cluster, session_id: str) -> str:
    """Why the last turn of a session was answered as it was, with its prompts in full."""
    told = cluster("why", session_id, "--prompts")
    assert told.code == 0, told
    return told.out


def frames(cluster: Cluster) -> list[dict[str, Any]]:
    tapped = cluster("tap", "--json", "--since", "10m", "--count", "100000")
    return [one for one in map(json.loads, tapped.out.splitlines()) if "type" in one]


def test_a_habit_is_learned_shown_explained_switched_off_and_gone(cluster: Cluster) -> None:
    """Five turns in three sessions; then one in a fourth, which shows the lines, and one that does not any more."""
    cluster.up()
    for _ in range(2):
        cluster.ask(QUESTION, "--session", cluster.ask(QUESTION)["session_id"])
    assert learned(cluster) == []
    last = cluster.ask(QUESTION)
    assert "tool:list_packages" in last["consolidation_candidates"]

    # The reply is with the client before anybody begins to consolidate.
    passed = frames(cluster)
    reply = max(one["sequence"] for one in passed if one["type"] == "session.turn_result")
    [asked] = [one["sequence"] for one in passed if one["type"] == "ho2.consolidate"]
    assert reply < asked
    eventually(lambda: len(learned(cluster)) == 3)
    told = why(cluster, last["session_id"])
    assert "prompt of the consolidation" in told and told.count(f"  | {QUESTION}") >= 5, "excerpts of three sessions"
    assert "not in this record" not in told

    # In the next matching prompt, verbatim, in its own part below the system's words; and why.
    shown = cluster.ask(QUESTION)
    told = why(cluster, shown["session_id"])
    prompt = told[: told.index("\nmemory: ")]
    for artifact in learned(cluster):
        line, name = artifact["context_line"], artifact["artifact_id"]
        assert f"  | {line}" in prompt
        rests = rf"shown; rests on {artifact['source_signal_ids'][0]}: 5 events #[^\n]+#[0-9]+"
        assert re.search(rf"{name} +[0-9.]+ +{re.escape(line)} +{rests}", told)
    assert "context of the answer by ATT-ADMIN-001 1.0.0, chosen by its selectors" in told

    lines = [artifact["context_line"] for artifact in learned(cluster)]
    for artifact in learned(cluster):
        assert cluster("memory deactivate", artifact["artifact_id"], "--reason", "not any more").code == 0
    gone = cluster.ask(QUESTION)
    told = why(cluster, gone["session_id"])
    assert "memory: 0 lines shown" in told and len(re.findall(r"local \(operator/\d+\) switched it off", told)) == 3
    prompt = told[: told.index("\nmemory: ")]
    assert "  --- user: ho3_biases" not in prompt
    differs = cluster("diff", shown["session_id"], gone["session_id"]).out
    assert "user ho3_biases" in differs and all(f"  -{line}" in differs for line in lines)
    check_record(cluster.entries())
    cluster.verify()
