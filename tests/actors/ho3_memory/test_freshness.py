"""Signals by their newest event: what a read as of any moment may find fresh."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.actors.ho3_memory.event_rows import SignalEvent
from hobus.actors.ho3_memory.event_time import PointInTime, decay
from hobus.actors.ho3_memory.freshness import Freshness, open_reach_us, reach_us
from hobus.actors.ho3_memory.signal_log import SignalLog
from tests.actors.ho3_memory.builders import SIGNAL, config, us

EVENTS = st.lists(st.tuples(st.sampled_from(["tool:a", "tool:b", "tool:c"]), st.integers(0, 20)), max_size=20)


@given(EVENTS, st.integers(-1, 21))
def test_a_signal_stands_where_its_newest_event_is(events, since):
    """Whatever order its events came in; the border counts."""
    fresh, newest = Freshness(), {}
    for signal_id, at in events:
        fresh.note(signal_id, at)
        newest[signal_id] = max(at, newest.get(signal_id, at))
    assert fresh.since(since) == [name for _, name in sorted((at, name) for name, at in newest.items() if at >= since)]


@pytest.mark.parametrize("floor", [0.05, 0.5, 0.25, 1.0, 1e-9, 3e-10])
def test_beyond_its_reach_no_signal_weighs_its_floor(floor):
    """One microsecond more and its rounded weight is below it; and nearly all of the reach is needed."""
    rules = config(bias_decay_floor=floor)
    reach, half_life = reach_us(rules), rules.decay_half_life_hours
    assert decay(us(0), us(0) + int(reach) + 1, half_life) < floor
    assert reach_us(rules.model_copy(update={"bias_decay_floor": 0.0})) == float("inf")
    if floor == 0.25:
        assert abs(reach - (us(2 * half_life) - us(0))) < us(1) - us(0)


def test_beyond_its_reach_no_gate_stands_open():
    """However much evidence there was: at its end it is open, a microsecond later closed; counting gates never close."""
    rules = config(gate_mode="bistable", gate_high=3.0, gate_low=1.5, evidence_half_life_hours=48.0)
    log = SignalLog(SIGNAL, rules, "local")
    for number in range(20):
        log.insert(SignalEvent(us(0), f"e{number}", f"s{number}", number))
    reach = open_reach_us(rules)
    opened = [log.level(PointInTime(us(0) + int(reach) + late, 99)).is_open for late in (-300, 1)]
    assert opened == [True, False]
    assert open_reach_us(config()) == float("inf")
