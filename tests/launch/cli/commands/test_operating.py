"""Who is left when one process drains."""

from __future__ import annotations

import pytest

from hobus.bus.messages.control import PeerRow
from hobus.launch.cli.commands.operating import is_offered, select_workers


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


def test_workers_of_other_hosts_are_chosen_by_pattern_and_the_idlest_first() -> None:
    """Never a process of this machine; one that drains already is none of the idlest."""
    rows = [
        _peer("ho1", "ready").model_copy(
            update={"instance": f"ho1/{name}@e", "address": address, "in_flight": at_work, "state": state}
        )
        for name, address, at_work, state in [
            ("1", "", 0, "ready"), ("remote-1", "10.0.0.9", 3, "ready"), ("remote-2", "10.0.0.9", 0, "draining"),
            ("remote-3", "10.0.0.9", 1, "degraded"), ("remote-12", "10.0.0.9", 2, "ready"),
        ]
    ]  # fmt: skip
    assert select_workers(rows, "ho1/remote-1", None) == ["ho1/remote-1@e"]
    assert select_workers(rows, "ho1/*-?", None) == ["ho1/remote-1@e", "ho1/remote-2@e", "ho1/remote-3@e"]
    assert select_workers(rows, "ho1/*", 2) == ["ho1/remote-3@e", "ho1/remote-12@e"]
