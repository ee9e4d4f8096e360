"""What a process does when its launcher is gone."""

import pytest

from bench.builders import shipped_snapshot
from hobus.bus.errors import BusError
from hobus.bus.sim.world import World
from hobus.launch.launcher.supervision import STOP_ORDER
from hobus.launch.limits import ORPHAN_POLL_MS
from hobus.launch.process.liveness import (
    STAGES,
    compute_hard_limit_s,
    compute_patience_s,
    needed_by,
    wait_until_not_needed,
)

SNAPSHOT = shipped_snapshot()
CONFIG = SNAPSHOT.config


@pytest.mark.parametrize(
    ("role", "others", "is_needed"),
    [
        ("host", ["ho2", "ledger", "launcher", "operator"], False),
        ("ho2", ["host"], True),
        ("ho2", ["ho1", "gateway", "ho2"], False),
        ("gateway", ["ho2"], True),
        ("ho1", ["gateway"], False),
        ("ho3", ["ho2"], True),
        ("ho3", ["gateway", "ho1"], False),
        ("ledger", ["ho3"], True),
        ("ledger", ["gateway"], True),
        ("ledger", ["operator", "launcher", "door"], False),
        ("broker", ["ledger"], True),
        ("broker", ["door"], False),
        ("broker", [], False),
    ],
)
def test_a_process_waits_for_those_who_need_it(role, others, is_needed):
    """Edges go first; clients keep nobody alive."""
    assert needed_by(role, others) == is_needed


def test_stages_follow_the_order_of_stopping():
    """The death of the launcher ends a cluster in the order in which `down` does."""
    assert [STAGES[role] for role in STOP_ORDER] == sorted(STAGES[role] for role in STOP_ORDER)
    patiences = [compute_patience_s(role, CONFIG) for role in STOP_ORDER]
    assert patiences == sorted(patiences)
    assert patiences[0] == CONFIG.launcher.orphan_drain_s
    assert compute_hard_limit_s(CONFIG) > patiences[-1]


def waited_s(role, present):
    """Virtual seconds until `role` may end, and the patience that is left to it."""
    world = World(CONFIG.bus, seed=1, config_digest=SNAPSHOT.digest)
    bus = world.client("operator")

    async def wait():
        began = bus.clock.monotonic()
        left = await wait_until_not_needed(
            role, lambda: present(bus.clock.monotonic() - began), clock=bus.clock, sleep=bus.sleep, config=CONFIG
        )
        return bus.clock.monotonic() - began, left

    try:
        return world.run(wait())
    finally:
        world.close()


@pytest.mark.parametrize(("code", "stays_s"), [("expired", 1.0), ("no_route", 0.0)])
def test_a_broker_that_is_late_does_not_end_it_and_one_that_is_gone_does(code, stays_s):
    """On a busy machine an executor that took silence for a no would leave its supervisor's turn without one."""

    async def present(elapsed):
        if elapsed < 1.0:
            raise BusError(code, "no answer")
        return ["gateway"]

    elapsed, _ = waited_s("ho1", present)
    assert stays_s <= elapsed <= stays_s + 2 * ORPHAN_POLL_MS / 1000


def test_it_ends_as_soon_as_nobody_needs_it():
    """The executor outlives the supervisor by one look, and has the rest of its patience to drain."""

    async def present(elapsed):
        return ["ho2"] if elapsed < 1.0 else ["gateway"]

    elapsed, left = waited_s("ho1", present)
    assert 1.0 <= elapsed <= 1.0 + 2 * ORPHAN_POLL_MS / 1000
    assert left == pytest.approx(compute_patience_s("ho1", CONFIG) - elapsed)


def test_it_ends_although_it_is_needed_when_its_patience_is_over():
    """A supervisor that never ends cannot keep the others for ever."""

    async def present(_elapsed):
        return ["ho2"]

    elapsed, left = waited_s("ho1", present)
    assert elapsed == pytest.approx(compute_patience_s("ho1", CONFIG), abs=ORPHAN_POLL_MS / 1000)
    assert left == 0.0
