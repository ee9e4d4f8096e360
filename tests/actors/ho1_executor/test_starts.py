"""Who may run a tool call."""

from __future__ import annotations

import pytest

from bench.builders import WO, tool_order
from hobus.actors.ho1_executor.receipts import Stamp, decide_step, is_claimed, start_entry, start_keys
from hobus.actors.ho1_executor.tools.registry import BUILTIN
from hobus.bus.messages.ids import start_key
from hobus.bus.messages.ledger import Ack
from hobus.bus.record.catalog import read_body
from hobus.bus.record.payloads.orders import ToolStarted
from tests.actors.ho1_executor.test_receipts import stored

HERE = Stamp(instance="ho1/1@a", now=1.0, monotonic=1.0)


def test_a_call_that_must_not_run_twice_has_one_key_for_ever() -> None:
    """An idempotent one has a key per try, else it could never run again."""
    assert start_key("W") == "start:W"
    assert start_key("W", 3) == "start:W/3"
    assert start_keys("W", 0, 3, idempotent=False) == ["start:W"]
    assert start_keys("W", 1, 3, idempotent=False) == []
    assert start_keys("W", 2, 2, idempotent=True) == ["start:W/3", "start:W/4"]


def test_a_start_says_which_tool_and_try_and_not_its_arguments() -> None:
    order = tool_order("show_config", {"path": "secret"})
    entry = start_entry(order, BUILTIN["show_config"], HERE, number=2)
    assert (entry.submission_id, entry.once) == (f"TOOL_STARTED:{WO}/ho1/1@a", f"start:{WO}/2")
    assert entry.reason == "builtin"
    assert entry.parents == [f"WO_DISPATCHED:{WO}"]
    assert read_body(entry) == ToolStarted("show_config", idempotent=True, number=2)
    assert b"secret" not in entry.bodies[0]


def test_the_last_start_decides() -> None:
    """Nobody: begin; this incarnation: ours; somebody else, even an earlier life of this place: ask the broker."""
    order = tool_order()
    mine = stored(start_entry(order, BUILTIN["list_packages"], HERE, number=1))
    other = mine._replace(origin="ho1/1@earlier")
    assert decide_step([], "ho1/1@a") == "begin"
    assert decide_step([other, mine], "ho1/1@a") == "ours"
    assert decide_step([mine, other], "ho1/1@a") == "ask"


@pytest.mark.parametrize(
    ("outcome", "origin", "claimed"),
    [
        ("committed", "ho1/1@a", True),
        ("known", "ho1/1@a", True),
        ("lost", "ho1/1@a", True),
        ("lost", "ho1/2@b", False),
        ("lost", "ho1/1@earlier", False),
        ("refused", "ho1/1@a", False),
    ],
)
def test_only_the_first_may_act(outcome: str, origin: str, claimed: bool) -> None:
    """Or the incarnation whose earlier write was first and whose ack was lost."""
    ack = Ack(outcome=outcome, sequence=1, submission_id="s", origin=origin)  # type: ignore[arg-type]
    assert is_claimed(ack, "ho1/1@a") is claimed
