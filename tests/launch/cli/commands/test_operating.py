"""Who is left when one process drains."""

from __future__ import annotations

import pytest

from hobus.bus.messages.control import PeerRow
from hobus.launch.cli.commands.operating import is_offered


def _peer(role: str, state: str) -> PeerRow:
    return PeerRow.model_validate(
        {"instance": f"{role}/remote-1@e", "role": role, "offers": [role], "state": state, "slots": 1, "in_flight": 0,
         "keys": 0, "last_beat_ms": 1, "connected_ms": 1}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("role", "state", "is_there"),
    [("ho1", "ready", True), ("ho1", "degraded", True), ("ho1", "lost", False), ("ho1", "draining", False),
     ("ho2", "ready", False)],
)  # fmt: skip
def test_a_worker_elsewhere_offers_the_role_too(role: str, state: str, is_there: bool) -> None:
    """The launcher has no row of it: the broker's word counts."""
    assert is_offered("ho1", [], [_peer(role, state)]) is is_there
    assert not is_offered("ho1", [], [])
