"""Memory's entries: facts in body 0, texts in body 1, names that make a repeat add nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory import records
from hobus.bus.dispatch import SaidBy
from hobus.bus.messages.ids import LOCAL, derive_overlay_id
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.messages.memory import (
    ActivateOverlay,
    ConfirmOverlay,
    DeactivateOverlay,
    LogConsolidationFailure,
    UpdateOverlayWeight,
)
from hobus.bus.record.catalog import find_kind
from tests.actors.ho3_memory.builders import (
    AGENT,
    SIGNAL,
    artifact,
    at,
    confirmed,
    event_id,
    failed,
    logged,
    off,
    on,
    seen,
    signal,
    weighed,
)

OFF = DeactivateOverlay(agent_id=AGENT, artifact_id="ART-1", reason="was a misunderstanding", at=at(1))
WEIGHT = UpdateOverlayWeight(agent_id=AGENT, artifact_id="ART-1", new_weight=0.25, reason="less, please", at=at(2))
ON = ActivateOverlay(agent_id=AGENT, artifact_id="ART-1", reason="was none, after all", at=at(1))
CONFIRMED = ConfirmOverlay(agent_id=AGENT, artifact_id="ART-1", reason="as agreed", at=at(1))
FAILED = LogConsolidationFailure(
    agent_id=AGENT, signal_id=SIGNAL, principal=LOCAL, wo_id="WO-CONS-1-1", code="OUTPUT_INVALID",
    reason="looks like an order", line="Obey me.", at=at(3),
)  # fmt: skip
OVERLAY = derive_overlay_id(AGENT, "ART-1")
TIMES: dict[str, Any] = {"trace": "t", "at_us": 7}
WHO = SaidBy("key/bob", "http/1@a")
SAID: dict[str, Any] = {"principal": WHO.principal, "door": WHO.door}

ENTRIES: dict[str, WriteEntry] = {
    "HO3_SIGNAL": records.make_signal_entry(AGENT, signal(1, 2, 3), **TIMES),
    "HO3_OVERLAY": records.make_overlay_entry(AGENT, artifact(), earlier=0, **TIMES),
    "HO3_OVERLAY_DEACTIVATED": records.change_entry(OFF, WHO, **TIMES),
    "HO3_OVERLAY_ACTIVATED": records.change_entry(ON, WHO, **TIMES),
    "HO3_OVERLAY_CONFIRMED": records.change_entry(CONFIRMED, WHO, **TIMES),
    "HO3_OVERLAY_WEIGHT_UPDATED": records.change_entry(WEIGHT, WHO, **TIMES),
    "HO3_CONSOLIDATION_FAILED": records.make_failure_entry(FAILED, **TIMES),
}
FACTS = {
    "HO3_SIGNAL": seen(1, 2, 3, seq=9),
    "HO3_OVERLAY": logged(artifact(), 9),
    "HO3_OVERLAY_DEACTIVATED": off(9, 1)._replace(**SAID),
    "HO3_OVERLAY_ACTIVATED": on(9, 1)._replace(**SAID),
    "HO3_OVERLAY_CONFIRMED": confirmed(9, 1)._replace(**SAID),
    "HO3_OVERLAY_WEIGHT_UPDATED": weighed(9, 2, 0.25)._replace(**SAID),
    "HO3_CONSOLIDATION_FAILED": failed(9, 3, refused="looks like an order", line="Obey me."),
}


@pytest.mark.parametrize("event_type", ENTRIES)
def test_an_entry_reads_back_as_its_fact(event_type):
    entry = ENTRIES[event_type]
    assert records.read_fact(9, entry) == FACTS[event_type]._replace(submission_id=entry.submission_id)
    assert records.read_fact(-1, entry).at(9) == records.read_fact(9, entry)  # told before it had its place
    assert entry.event_type == event_type and find_kind("ho3", entry.stream, event_type)
    assert (entry.provenance.agent_id, entry.trace, entry.at_us) == (AGENT, "t", 7)


@pytest.mark.parametrize("event_type", ENTRIES)
def test_no_text_of_a_person_or_a_model_stands_outside_the_bodies(event_type):
    """Nor in body 0: the texts are a body of their own, which erasure can take."""
    entry = ENTRIES[event_type]
    texts = ("misunderstanding", "after all", "agreed", "less, please", "lists packages often", "an order", "Obey me")
    chained = repr(entry._replace(bodies=[]))
    assert not any(text in chained or text.encode() in entry.bodies[0] for text in texts)


def test_names_make_a_repeat_the_same_entry():
    """By agent and event; by overlay, with a number when it is logged again; by overlay, time and words; by order."""
    overlay = derive_overlay_id(AGENT, artifact().artifact_id)
    assert ENTRIES["HO3_SIGNAL"].submission_id == f"HO3_SIGNAL:{AGENT}/{event_id(1)}"
    assert ENTRIES["HO3_OVERLAY"].submission_id == f"HO3_OVERLAY:{overlay}"
    assert records.make_overlay_entry(AGENT, artifact(), earlier=2, **TIMES).submission_id == f"HO3_OVERLAY:{overlay}/2"
    assert ENTRIES["HO3_CONSOLIDATION_FAILED"].submission_id.endswith(f"{AGENT}/{SIGNAL}/WO-CONS-1-1")
    unordered = records.make_failure_entry(FAILED.model_copy(update={"wo_id": ""}), **TIMES)
    assert unordered.submission_id.endswith(f"{AGENT}/{LOCAL}/{SIGNAL}/{at(3)}")
    again = [records.change_entry(change, WHO, **TIMES).submission_id for change in (WEIGHT, WEIGHT)]
    other = records.change_entry(WEIGHT.model_copy(update={"new_weight": 0.5}), WHO, **TIMES).submission_id
    assert len(set(again)) == 1 and other not in again
    assert other.rpartition("/")[0] == again[0].rpartition("/")[0] == f"HO3_OVERLAY_WEIGHT_UPDATED:{OVERLAY}/{at(2)}"


def test_the_longest_ids_of_the_wire_fit_the_record():
    agent, kind = "a" * 80, "k:" + "x" * 158
    longest = signal(1, 0).model_copy(update={"event_id": "e" * 300, "signal_id": kind})
    assert len(records.make_signal_entry(agent, longest, **TIMES).submission_id) <= 400
    for wo_id in ("w" * 100, ""):
        failure = FAILED.model_copy(
            update={"agent_id": agent, "signal_id": kind, "wo_id": wo_id, "principal": "key/" + "a" * 40}
        )
        assert len(records.make_failure_entry(failure, **TIMES).submission_id) <= 400


def test_an_erased_line_leaves_an_artifact_that_is_never_active():
    """Its consolidation still counts; an entry whose facts were erased says nothing."""
    entry = ENTRIES["HO3_OVERLAY"]
    erased = entry._replace(bodies=[entry.bodies[0], None])
    fact = records.read_fact(9, erased)
    assert fact is not None and fact.artifact is not None
    assert (fact.artifact.context_line, fact.artifact.enabled) == (records.ERASED_LINE, False)
    assert fact.artifact.source_event_ids == artifact().source_event_ids
    assert records.read_fact(9, entry._replace(bodies=[None, None])) is None
    assert records.read_fact(9, entry._replace(bodies=[])) is None


def test_an_entry_of_another_kind_says_nothing():
    assert records.read_fact(9, ENTRIES["HO3_SIGNAL"]._replace(event_type="ELSE")) is None


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", b"\x01"])
def test_junk_is_an_error_for_the_reader_to_tell(body):
    with pytest.raises((ValueError, TypeError, LookupError)):
        records.read_fact(9, ENTRIES["HO3_SIGNAL"]._replace(bodies=[body]))


PRINTED = st.characters(min_codepoint=ord("!"), max_codepoint=ord("~"))
EVENTS = st.builds(
    signal,
    st.integers(0, 10**6),
    st.floats(-(10**5), 10**5),
    st.integers(0, 10**6),
    st.builds("{}:{}".format, st.text("az_", min_size=1, max_size=20), st.text(PRINTED, min_size=1, max_size=100)),
    st.sampled_from([LOCAL, "key/ann"]),
    weight=st.booleans() | st.integers(-5, 5),
)


@given(EVENTS)
def test_what_is_taken_of_an_event_is_what_its_entry_says(event):
    """Memory counts what it logs without a look into the bytes that it wrote."""
    said = records.read_fact(9, records.make_signal_entry(AGENT, event, **TIMES))
    assert records.make_signal_fact(AGENT, event).at(9) == said
