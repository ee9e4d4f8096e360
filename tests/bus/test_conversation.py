"""What a peer says about its connections; most of it is proved through the peer (test_peer.py)."""

from __future__ import annotations

from typing import Any, cast

from hobus.bus.conversation import Conversation
from tests.conformance.clusters import bus_settings


def test_the_first_look_of_a_new_process_is_no_standstill() -> None:
    """A clock that counts from the start of the machine tells nothing before the conversation is open."""
    nobody = cast("Any", None)
    conversation = Conversation(
        nobody, instance="ho1/1@a", settings=bus_settings(), clock=nobody, connections={}, next_id=lambda: "1"
    )
    conversation.notice_standstill(18588.0)
    assert conversation.counters["standstills"] == 0
