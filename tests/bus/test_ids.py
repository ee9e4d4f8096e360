"""Ids are derived: same facts, same id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.messages.ids import compute_window_key, derive_artifact_id, derive_overlay_id, derive_signal_event_id

SESSION = "0e8f7a52-1c1b-5b0e-9a59-7b0e4d1c6f21"


def test_a_signal_has_one_event_per_run():
    assert derive_signal_event_id(SESSION, 3, "tool:x") == f"EVT-{SESSION}-3-tool:x"


@pytest.mark.parametrize(
    ("as_of", "key"),
    [
        ("1970-01-01T00:00:00.000000Z", 0),
        ("1970-01-07T23:59:59.999999Z", 0),
        ("1970-01-08T00:00:00.000000Z", 1),
        ("2025-12-31T23:59:59.999999Z", 2921),
        ("2026-01-01T00:00:00.000000Z", 2922),
    ],
)
def test_a_window_begins_at_its_very_microsecond(as_of, key):
    assert compute_window_key(as_of, 168) == key


@given(sources=st.lists(st.text(min_size=1), min_size=1, max_size=5), draw=st.randoms(use_true_random=False))
def test_an_artifact_does_not_depend_on_the_order_of_its_sources(sources, draw):
    shuffled = list(sources)
    draw.shuffle(shuffled)
    assert derive_artifact_id("local", shuffled, 7, model="m", prompt_pack_version="1") == derive_artifact_id(
        "local", sources, 7, model="m", prompt_pack_version="1"
    )


def test_every_part_of_an_artifact_makes_another_one():
    names = {
        derive_artifact_id("local", ["a:b"], 7, model="m", prompt_pack_version="1"),
        derive_artifact_id("local", ["a:b", "a:c"], 7, model="m", prompt_pack_version="1"),
        derive_artifact_id("local", ["a:b"], 8, model="m", prompt_pack_version="1"),
        derive_artifact_id("local", ["a:b"], "explicit", model="m", prompt_pack_version="1"),
        derive_artifact_id("local", ["a:b"], 7, model="m1", prompt_pack_version=""),
        derive_artifact_id("local", ["a:b"], 7, model="m", prompt_pack_version="2"),
        derive_artifact_id("key/bob", ["a:b"], 7, model="m", prompt_pack_version="1"),
        derive_artifact_id(None, ["a:b"], 7, model="m", prompt_pack_version="1"),
    }
    assert len(names) == 8 and all(name.startswith("ART-") and len(name) == 24 for name in names)


def test_an_artifact_of_two_agents_is_two_overlays():
    assert derive_overlay_id("A", "ART-1") == derive_overlay_id("A", "ART-1") != derive_overlay_id("B", "ART-1")
    assert derive_overlay_id("A", "ART-1").startswith("OVL-")
