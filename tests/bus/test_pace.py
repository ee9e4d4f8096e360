"""Answers to strangers are paced."""

from __future__ import annotations

import pytest

from hobus.bus import limits
from hobus.bus.conduct import Pace
from tests.bus.broker.rig import settings_with


def test_one_answer_per_connection_and_beat(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MAILBOX_MAX", 10)
    pace = Pace(settings_with(beat_interval_ms=200))
    assert [pace.allows(b"a", at) for at in (0.0, 0.1, 0.199, 0.2, 0.3)] == [True, False, False, True, False]
    assert pace.allows(b"b", 0.1)


def test_it_remembers_a_bounded_number_of_connections(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MAILBOX_MAX", 2)
    pace = Pace(settings_with(beat_interval_ms=10_000))
    assert [pace.allows(name, 0.0) for name in (b"a", b"b", b"c")] == [True] * 3
    assert pace.allows(b"a", 1.0)
    assert not pace.allows(b"c", 1.0)
