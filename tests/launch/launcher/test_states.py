"""The state table of supervised processes."""

from typing import get_args

import pytest

from hobus.launch.cluster.run_file import State
from hobus.launch.launcher.supervision import RUNNING, TRANSITIONS, Event, next_state

EXPECTED = {
    ("stopped", "spawned"): "starting",
    ("stopped", "drain"): "stopped",
    ("backoff", "spawned"): "starting",
    ("backoff", "gave_up"): "failed",
    ("backoff", "drain"): "stopped",
    ("failed", "drain"): "stopped",
    ("draining", "is_starting"): "draining",
    ("draining", "is_ready"): "draining",
    ("draining", "is_degraded"): "draining",
    ("draining", "crashed"): "stopped",
    ("draining", "ended"): "stopped",
    ("draining", "drain"): "draining",
} | {
    (state, event): after
    for state in ("starting", "ready", "degraded")
    for event, after in {
        "is_starting": "starting",
        "is_ready": "ready",
        "is_degraded": "degraded",
        "crashed": "backoff",
        "gave_up": "failed",
        "drain": "draining",
        "ended": "stopped",
    }.items()
}


@pytest.mark.parametrize("state", get_args(State))
@pytest.mark.parametrize("event", get_args(Event))
def test_every_pair_of_state_and_event_is_decided(state, event):
    """Each pair gives the state written here, or is refused as a programming error."""
    if (state, event) in EXPECTED:
        assert next_state(state, event) == EXPECTED[state, event]
    else:
        with pytest.raises(ValueError, match=event):
            next_state(state, event)


def test_every_state_can_be_told_to_drain():
    """Taking a cluster down never meets a state that does not know how."""
    assert all("drain" in events for events in TRANSITIONS.values())


def test_only_a_process_can_be_running():
    """States without a process are not counted as running."""
    assert {"starting", "ready", "degraded", "draining"} == RUNNING
