"""Which tapped frames are shown."""

import pytest

from bus.broker.tap_record import TapRecord
from launch import exit_codes
from launch.errors import CommandError
from launch.tap_filter import KEYS, parse_filter


def frame(**fields):
    """A tapped frame with these fields."""
    values = {
        "epoch": "e", "sequence": 1, "at": 0.0, "verdict": "delivered", "code": "", "kind": "request", "type": "wo.execute",
        "message_id": "WO-s-7.1", "correlation_id": "", "causation_id": "", "sender": "ho2/1@a", "destination": "ho1",
        "worker": "ho1/1@b", "key": "k", "trace": "t-1", "deadline_ms": 1, "attempt": 1, "size": 3, "body_hash": "",
        "sensitive": True, "body": b"",
    }  # fmt: skip
    return TapRecord(**(values | fields))


@pytest.mark.parametrize(
    ("texts", "is_shown"),
    [
        ([], True),
        (["type=wo.execute"], True),
        (["type=wo"], False),
        (["type=wo.*"], True),
        (["type!=wo.*"], False),
        (["sender=ho2/*", "worker=ho1/1@b"], True),
        (["sender=ho2/*", "worker=ho1/2@b"], False),
        (["verdict!=delivered"], False),
        (["turn=t-1"], True),
        (["turn=s-7"], True),
        (["turn=s-8"], False),
        (["turn!=s-7"], False),
        (["key=*"], True),
        (["destination="], False),
    ],
)
def test_all_conditions_must_hold(texts, is_shown):
    """Equality, exclusion and prefixes, joined by and."""
    assert parse_filter(texts, with_routine=False).accepts(frame()) == is_shown


@pytest.mark.parametrize(
    ("fields", "is_routine"),
    [
        ({"kind": "beat", "type": "bus.beat"}, True),
        ({"type": "broker.read_peers", "sender": "launcher/7@a"}, True),
        ({"kind": "reply", "type": "broker.peers", "sender": "broker/1@a", "destination": "launcher/7@a"}, True),
        ({"type": "broker.read_peers", "sender": "operator/7@a"}, False),
        ({"type": "broker.instance_lost", "kind": "post", "sender": "launcher/7@a"}, False),
    ],
)
def test_routine_is_shown_on_demand_only(fields, is_routine):
    """What comes whether anything happens or not is left out, unless it is asked for."""
    assert parse_filter([], with_routine=False).accepts(frame(**fields)) != is_routine
    assert parse_filter([], with_routine=True).accepts(frame(**fields))


@pytest.mark.parametrize("text", ["", "type", "colour=red", "type>1", "=x", "Type=x"])
def test_what_is_no_condition_names_the_keys(text):
    """The error lists what can be asked for."""
    with pytest.raises(CommandError, match="verdict") as caught:
        parse_filter([text], with_routine=False)
    assert caught.value.exit_code == exit_codes.USAGE


def test_every_key_is_a_field_of_a_frame():
    """No key of the language fails on a real frame."""
    for key in KEYS:
        parse_filter([f"{key}=x"], with_routine=False).accepts(frame())
