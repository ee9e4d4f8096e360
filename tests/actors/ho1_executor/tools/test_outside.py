"""What a tool may ask of services."""

from __future__ import annotations

from typing import Any

import pytest

from hobus.actors.ho1_executor.tools.definition import ToolFault
from hobus.actors.ho1_executor.tools.outside import READS, make_request_way
from hobus.bus.catalog import ROWS, find_row
from tests.actors.ho1_executor.rig import ScriptedGateway, cluster


@pytest.mark.parametrize("route", sorted(READS))
def test_every_listed_question_is_one_that_an_executor_may_ask(route: tuple[str, str]) -> None:
    row = find_row(*route)
    assert row is not None
    assert "ho1" in row.senders
    assert row.reply is not None


def test_nothing_that_changes_anything_is_listed() -> None:
    writing = {"ledger.write", "gateway.prompt", "wo.execute", "broker.drain"}
    assert writing <= {row.cls.TYPE for row in ROWS}
    assert not writing & {name for _, name in READS}


@pytest.mark.parametrize(
    ("service", "type_name", "body", "said"),
    [
        ("ledger", "ledger.write", {"entries": []}, "may not send ledger.write"),
        ("gateway", "gateway.prompt", {}, "may not send gateway.prompt"),
        ("ledger", "gateway.read_budget", {}, "may not send"),
        ("nowhere", "x" * 1000, {}, "may not send"),
        ("gateway", "gateway.read_budget", {"session_id": 1}, "not a gateway.read_budget"),
        ("gateway", "gateway.read_budget", {"surplus": "x"}, "not a gateway.read_budget"),
        ("broker", "broker.read_peer", {"instance": "ho1/9@x"}, "the broker did not answer: not_found"),
    ],
)
def test_what_is_not_allowed_or_fails_is_a_short_fault(service: str, type_name: str, body: Any, said: str) -> None:
    with cluster(ScriptedGateway()) as made:
        made.world.run(made.world.settled())
        with pytest.raises(ToolFault) as caught:
            made.world.run(
                make_request_way(made.executors[0], timeout_s=1.0, about={}, read_file=None)(service, type_name, body)
            )
        answer = str(caught.value)
        assert said in answer
        assert len(answer) < 200
