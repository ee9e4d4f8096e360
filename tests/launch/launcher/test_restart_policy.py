"""The restart policy: back-off, jitter, cap, reset after a healthy life, crash budget."""

import errno
import os

import pytest

from bench.builders import shipped_snapshot
from hobus.config.sections.processes import LauncherConfig
from hobus.launch.launcher.restart_policy import CrashHistory, compute_backoff_s, decide_after_crash

CONFIG: LauncherConfig = shipped_snapshot().config.launcher.model_copy(
    update={
        "restart_backoff_min_ms": 50,
        "restart_backoff_max_ms": 5000,
        "healthy_after_ms": 60_000,
        "crash_budget": 3,
        "crash_window_ms": 10_000,
    }
)


def test_back_off_doubles_and_is_capped():
    """Each crash in a row doubles the step until the cap."""
    steps = [compute_backoff_s(streak, draw=0.0, config=CONFIG) * 2 for streak in range(2, 13)]
    assert steps[:4] == [0.05, 0.1, 0.2, 0.4]
    assert steps[-1] == 5.0


def test_the_crash_budget_ends_in_giving_up():
    """The third crash within the window exhausts a budget of three."""
    history = CrashHistory()
    delays = []
    for now in (1.0, 2.0, 3.0):
        decision = decide_after_crash(history, started_at=now - 0.5, now=now, draw=0.0, config=CONFIG)
        history = decision.history
        delays.append(decision.delay_s)
    assert delays[0] is not None and delays[1] is not None
    assert delays[2] is None


@pytest.mark.parametrize(
    "reason",
    [
        "disk_full: 5 bytes are free",
        f"no token can be written for it: {os.strerror(errno.ENOSPC)}",
        f"OSError: [Errno 122] {os.strerror(errno.EDQUOT)}: 'x'",
        f"OSError: [Errno 27] {os.strerror(errno.EFBIG)}",
    ],
)
def test_what_ends_for_want_of_room_is_never_given_up_and_does_not_count(reason):
    """Neither by itself nor beside other crashes: of those the budget is what it was."""
    history = CrashHistory()
    for number in range(20):
        now = 1.0 + number / 100
        decision = decide_after_crash(history, started_at=now, now=now, draw=0.0, config=CONFIG, reason=reason)
        history = decision.history
        assert decision.delay_s is not None and history.crashes == ()
    delays = []
    for now in (2.0, 2.1, 2.2):
        decision = decide_after_crash(history, started_at=now, now=now, draw=0.0, config=CONFIG)
        history = decision.history
        delays.append(decision.delay_s)
    assert delays[1] is not None and delays[2] is None


def test_crashes_outside_the_window_are_forgotten():
    """A crash exactly one window ago no longer counts."""
    history = CrashHistory(crashes=(1.0, 2.0), streak=2)
    decision = decide_after_crash(history, started_at=11.9, now=12.0, draw=0.0, config=CONFIG)
    assert decision.history.crashes == (12.0,)
    assert decision.delay_s is not None


def test_a_healthy_life_starts_the_back_off_anew():
    """A process that lived exactly healthy_after_ms counts as healthy."""
    tired = CrashHistory(crashes=(), streak=6)
    healthy = decide_after_crash(tired, started_at=0.0, now=60.0, draw=0.0, config=CONFIG)
    assert (healthy.history.streak, healthy.delay_s) == (1, 0.0)
    short = decide_after_crash(tired, started_at=0.0, now=59.999, draw=0.0, config=CONFIG)
    assert short.history.streak == 7
