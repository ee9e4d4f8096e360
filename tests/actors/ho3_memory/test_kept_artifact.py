"""An artifact as it is kept: the whole comes back as it was, in few bytes however many events it rests on."""

import tracemalloc

import pytest

from hobus.actors.ho3_memory.kept_artifact import KeptArtifact
from hobus.actors.ho3_memory.overlay_log import OverlayLog
from hobus.bus.messages.memory import Labels
from tests.actors.ho3_memory.builders import artifact, at, logged, session

BYTES_MAX = 4000
"""Of one that rests on two hundred events, as docs/memory.md says; each id alone is of eighty characters."""
CHANGED = [
    {},
    {"principal": None, "weight": 0.1, "decay_modifier": 0.9, "context_line": "Größe: „viel“."},
    {"scope": "session", "session_id": session(3), "expires_at_event_ts": at(9)},
    {"gate_snapshot": None, "model": "", "prompt_pack_version": "", "enabled": False},
    {"labels": Labels(domain=["system"], task=["list"]), "source_signal_ids": ["tool:b", "tool:a"]},
]


@pytest.mark.parametrize("changed", CHANGED)
def test_the_whole_is_what_was_logged(changed):
    """Every field; and what the rules look at is the same as in it."""
    made = artifact(**changed)
    kept = KeptArtifact(made)
    assert kept.whole() == made and kept.is_as_logged(made)
    assert not kept.is_as_logged(made.model_copy(update={"context_line": "other"}))
    for name in ("principal", "artifact_type", "scope", "session_id", "expires_at_event_ts", "weight", "enabled"):
        assert getattr(kept, name) == getattr(made, name)
    assert (kept.source_signal_ids, kept.is_stated) == (tuple(made.source_signal_ids), made.gate_snapshot is None)


def test_a_change_is_of_a_copy():
    """The one before stays as it was, for questions as of before."""
    kept = KeptArtifact(artifact())
    weighed, off = kept.changed(weight=0.5), kept.changed(enabled=False)
    assert [(one.weight, one.whole().weight) for one in (kept, weighed)] == [(0.8, 0.8), (0.5, 0.5)]
    assert [(one.enabled, one.whole().enabled) for one in (kept, off)] == [(True, True), (False, False)]


def test_an_artifact_of_many_events_is_small():
    """Twenty lines, each of two hundred events of its own."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        logs = []
        for number in range(20):
            ids = [f"EVT-{session(200 * number + place // 3)}-{place}-tool:list_packages" for place in range(200)]
            log = OverlayLog(f"OVL-{number}")
            log.append(logged(artifact(str(number), hours=number, source_event_ids=ids), number))
            logs.append(log)
            del ids
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(logs) < BYTES_MAX
