"""No sequence of events, legal or not, breaks an invariant of the state, and every replay gives the same bytes.

The moves, the invariants and the folding stand in `lives.py`; here Hypothesis looks for a sequence that breaks one.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from hobus.actors.ho2_supervisor.session.journal import make_envelope
from hobus.actors.ho2_supervisor.session.reducer import reduce
from hobus.actors.ho2_supervisor.session.state import pack_state, resolve_run_config
from hobus.bus.messages.session import SessionConfig
from tests.actors.ho2_supervisor.journals import (
    dispatched,
    ended,
    fold,
    issued,
    receipt,
    running,
    step,
)
from tests.actors.ho2_supervisor.lives import FORWARD, MOVES, OPENING, Life, differences

pytestmark = pytest.mark.slow


class Sessions(RuleBasedStateMachine):
    """One session and whatever comes to it."""

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(lambda options: options[0])

    @initialize(data=st.data(), is_open=st.sampled_from([True, True, True, False]))
    def begin(self, data: st.DataObject, is_open: bool) -> None:
        """Most sessions have started."""
        for name in OPENING if is_open else OPENING[:1]:
            self._move(data, name)

    @rule(data=st.data(), name=st.sampled_from(sorted(MOVES)), astray=st.sampled_from([False] * 6 + [True]))
    def anything(self, data: st.DataObject, name: str, astray: bool) -> None:
        """An event of any kind at any moment, or of another one."""
        self._move(data, name, astray=astray)

    @rule(data=st.data(), names=st.sampled_from(FORWARD))
    def onwards(self, data: st.DataObject, names: list[str]) -> None:
        """What drives the session on."""
        for name in names:
            self._move(data, name)

    def _move(self, data: st.DataObject, name: str, *, astray: bool = False) -> None:
        self.life.pick = lambda options: data.draw(st.sampled_from(options))
        assert self.life.move(name, astray=astray) == [], name

    def teardown(self) -> None:
        """Whatever the journal: no id twice, and the same bytes from the whole of it and from each snapshot."""
        assert self.life.doubled() == []
        assert differences(self.life.entries, self.life.record) == []


@pytest.mark.parametrize("count", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_journals_made_at_random_fold_to_the_same_bytes(count: int) -> None:
    """R11: no invariant breaks, no id is given twice, and each is read whole and from each of its snapshots."""
    for seed in range(count):
        dice = Random(seed)
        life = Life(dice.choice)
        names = [
            *OPENING,
            *(name for _ in range(60) for name in dice.choice(FORWARD) if name != "end" or dice.random() < 0.1),
        ]
        broken = [f"{name}: {wrong}" for name in names for wrong in life.move(name, astray=dice.random() < 0.05)]
        assert [*broken, *life.doubled(), *differences(life.entries, life.record)] == [], seed


@pytest.mark.parametrize("lives", [8, pytest.param(30, marks=pytest.mark.slow)])
def test_no_sequence_of_events_breaks_an_invariant(lives: int) -> None:
    """Epochs, ids, batches, holds, leases, deadlines, pauses, rejections, snapshots: see `lives.faults`."""
    run_state_machine_as_test(
        Sessions,
        settings=settings(
            max_examples=lives, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize("stale", [None, "002"])
def test_every_order_of_receipts_settles_the_same_batch(stale: str | None) -> None:
    """Four calls, one of them perhaps under an old fence: 24 orders, one state, byte for byte."""
    state = running(max_in_flight=4)
    state = fold(state, step(state))
    state = fold(state, step(state, new_round=False))
    state = fold(state, issued(state, "001", "002", "003", "004"))
    orders = [dispatched(state, call) for call in ("001", "002", "003", "004")]
    state = fold(state, *orders)
    settled: set[bytes] = set()
    for order in permutations(("001", "002", "003", "004")):
        after = state
        for call in order:
            epochs = {"step_epoch": state.step_epoch - 1} if call == stale else {}
            status = {"001": "Succeeded", "002": "Succeeded", "003": "Failed", "004": "Cancelled"}[call]
            wo_id = next(one.wo_id for one in orders if one.wo_id.endswith(f".{call}"))
            after = fold(after, ended(wo_id), receipt(after, call, status, **epochs))
        assert after.tool_batch is not None and after.tool_batch.is_complete
        late = reduce(after, make_envelope(after, receipt(after, "001", "Failed")))
        assert late.state.tool_batch == after.tool_batch
        settled.add(pack_state(after))
    assert len(settled) == 1


CONFIGS = st.builds(
    SessionConfig,
    provider=st.sampled_from([None, "", " ", "p"]),
    model=st.sampled_from([None, "", "m"]),
    max_tokens=st.sampled_from([None, 1, 5]),
)


@given(CONFIGS, st.none() | CONFIGS)
def test_run_configuration_is_complete_or_refused(base: SessionConfig, overrides: SessionConfig | None) -> None:
    """An override wins wherever it is given, and a run configuration always names a provider and a model."""
    resolved = resolve_run_config(base, overrides, None)
    over = overrides or SessionConfig()
    wanted = [over.provider if over.provider is not None else base.provider]
    wanted.append(over.model if over.model is not None else base.model)
    if resolved is None:
        assert not all((text or "").strip() for text in wanted)
    else:
        assert [resolved.provider, resolved.model] == wanted
        assert resolved.max_tokens == (base.max_tokens if over.max_tokens is None else over.max_tokens)
