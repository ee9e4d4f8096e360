"""Which tapped frames are meant."""

from __future__ import annotations

import re

import pytest

from hobus.launch.cli.tap.choice import TurnBook
from hobus.launch.filters.syntax import FilterError
from hobus.launch.filters.tap_fields import FIELDS, Frame, is_routine, tap_filter
from tests.launch.filters.frames import SESSION, frame


def accepts(*texts: str, now: float = 160.0, **fields) -> bool:
    record = frame(**fields)
    return tap_filter(texts)(Frame(record, TurnBook(None).make_turn(record), now))


@pytest.mark.parametrize(
    ("texts", "is_meant"),
    [
        ([], True),
        (["type=wo.execute"], True),
        (["type=wo.*"], True),
        (["type!=wo.*"], False),
        (["kind=request"], True),
        (["kind=wo.*"], True),
        (["kind=reply"], False),
        (["sender=ho2/*", "worker=ho1/1@b"], True),
        (["sender=ho2"], True),
        (["sender=ho2/1"], True),
        (["sender=ho2/2"], False),
        (["sender=ho2/*", "worker=ho1/2@b"], False),
        (["actor=ho1/1"], True),
        (["actor=ho2"], True),
        (["actor=gateway"], False),
        (["!actor=ho3"], True),
        (["actor!=ho2"], False),
        (["verdict!=delivered"], False),
        (["lane=direct"], False),
        (["lane=broker"], True),
        (["session=SES-1a2b3c4d"], True),
        (["turn=SES-1a2b3c4d-2"], True),
        (["turn=SES-1a2b3c4d-3"], False),
        (["run!=SES-1a2b3c4d-3"], True),
        (["turn=in-7"], True),
        (["turn=WO-1a2b"], True),
        (["key="], True),
        (["destination="], False),
        (["size>10k"], True),
        (["size>12k"], False),
        (["age>50s & age<2m"], True),
        (["age<1m"], False),
        (["deadline<=30s"], True),
        (["attempt>1"], False),
        (["sequence=1"], True),
        (["turn=SES-1a2b3c4d-2 & kind=wo.* & !actor=ho3 & size>10k"], True),
    ],
)
def test_a_frame_is_meant(texts, is_meant):
    assert accepts(*texts) == is_meant


def test_old_words_keep_their_meaning():
    """KEY=VALUE, KEY!=VALUE, a star at the end, an id anywhere in `turn`."""
    assert accepts("key=k", "trace=t-1", "turn=t-1", key="k", trace="t-1")
    assert accepts("key=*", "turn=s-7", message_id="WO-s-7.1")
    assert not accepts("turn!=s-7", message_id="WO-s-7.1")
    assert accepts("worker=", worker="")


OTHERS = {
    "type": "wo.receipt", "kind": "reply", "verdict": "late", "lane": "direct", "actor": "ho3", "sender": "ho3",
    "destination": "ho3", "worker": "ho3",
}  # fmt: skip
"""Of fields with known values one that no frame here has."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind=", "there is no kind ''"),
        ("kind=requests", "request"),
        ("type=wo", "there is no type 'wo'"),
        ("type=wo.exec", "wo.execute"),
        ("type=nope", "there is no type 'nope'; there are broker.*, "),
        ("type=turn", "host.process_turn"),
        ("kind=nope", "there are beat, broker.*, bus.*, bye, "),
        ("verdict=deliverd", "delivered"),
        ("verdict=", "there are cancelled, control"),
        ("lane=fast", "there are broker, direct"),
        ("actor=ho9/1", "there is no role 'ho9'"),
        ("sender!=nobody", "there is no role 'nobody'"),
        ("turn=SES-1", "SES-1a2b3c4d-2"),
        ("turn=x", "at least three characters"),
    ],
)
def test_what_no_frame_can_have_is_refused_with_what_is_like_it(text, said):
    """So that nobody waits for it; the place is pointed at."""
    with pytest.raises(FilterError, match=re.escape(said)) as caught:
        tap_filter((text,))
    assert caught.value.at > 0


@pytest.mark.parametrize("name", ["bus.bye", "bus.ready", "bus.failure", "wo.receipt"])
def test_every_type_that_the_tap_shows_can_be_asked_for(name):
    """Also what a connection itself says, which nobody routes."""
    assert accepts(f"type={name}", type=name) and accepts(f"kind={name}", type=name)


def test_every_field_answers_for_every_frame():
    bare = {"message_id": "", "causation_id": "", "sender": "", "destination": "", "worker": "", "deadline_ms": 0}
    for name, field in FIELDS.items():
        value = "1" if "Number" in type(field).__name__ else OTHERS.get(name, SESSION)
        assert accepts(f"{name}!={value}", sequence=2, size=2, attempt=2, at=10.0, now=20.0, **bare), name
        assert not accepts(f"{name}={value}", sequence=2, size=2, attempt=2, at=10.0, now=20.0, **bare), name


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "beat", "type": "bus.beat"}, True),
        ({"type": "broker.read_peers", "sender": "launcher/7@a"}, True),
        ({"kind": "reply", "type": "broker.peers", "sender": "broker/1@a", "destination": "launcher/7@a"}, True),
        ({"type": "broker.read_peers", "sender": "operator/7@a"}, False),
        ({"type": "broker.instance_lost", "kind": "post", "sender": "launcher/7@a"}, False),
    ],
)
def test_routine_is_what_comes_whether_anything_happens_or_not(fields, expected):
    """Beats and the launcher's own look, nothing else."""
    assert is_routine(frame(**fields)) == expected
