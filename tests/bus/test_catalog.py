"""The catalog as a policy: what the specification allows and forbids, by name."""

from __future__ import annotations

import pytest

from hobus.bus.catalog import CLASSES, ROLES, ROWS, find_row, map_rows


@pytest.mark.parametrize(
    ("service", "type_name", "senders"),
    [
        ("ho1", "wo.execute", {"ho2"}),
        ("gateway", "gateway.prompt", {"ho1"}),
        ("gateway", "gateway.degraded_prompt", {"host"}),
        ("ho2", "ho2.turn", {"host", "ho2"}),
        ("host", "host.process_turn", {"door", "operator", "http"}),
        ("ledger", "ledger.write", set(ROLES)),
        ("broker", "broker.drain", {"operator", "launcher"}),
        ("broker", "broker.instance_lost", {"launcher"}),
        ("broker", "broker.service_given_up", {"launcher"}),
    ],
)
def test_who_may_send_what(service, type_name, senders):
    """The rows that the guarantees rest on: prompts come from HO1 and, degraded, from the host; orders from HO2."""
    assert find_row(service, type_name).senders == senders


def test_nobody_but_the_gateways_clients_reaches_the_gateway_and_ho1_never_reaches_memory():
    """No row lets a client talk to the gateway, or an executor to HO3."""
    assert not any(row.service == "gateway" and row.senders & {"door", "http", "launcher", "broker"} for row in ROWS)
    assert not any(row.service == "ho3" and "ho1" in row.senders for row in ROWS)


def test_what_is_in_no_row_has_no_row():
    """Unknown types and known types to the wrong service are nothing."""
    assert find_row("gateway", "wo.execute") is None
    assert find_row("ho1", "nonsense") is None
    assert find_row("", "") is None


def test_everything_but_commands_of_operation_and_posts_is_redeliverable():
    """All else is idempotent by an id, so the loss of a worker may move it."""
    assert {row.cls.TYPE for row in ROWS if not row.redeliver} == {
        "broker.drain",
        "broker.instance_lost",
        "broker.lane_frames",
        "broker.revoke_key",
        "broker.rotate_key",
        "broker.service_given_up",
        "broker.use_snapshot",
        "ho2.consolidate",
    }


def test_admission_and_commands_are_immediate_and_work_takes_slots():
    """A command never waits behind the run that it is about; an order and a prompt take credit."""
    assert {row.cls.TYPE for row in ROWS if row.mode == "slot"} == {"wo.execute", "gateway.prompt"}
    assert map_rows("ho2")["ho2.turn"].mode == "immediate"


def test_a_type_means_one_class_everywhere():
    """A type that goes to two services is the same class at both."""
    for row in ROWS:
        assert CLASSES[row.cls.TYPE] is row.cls
