"""The tap's publisher: what it costs while nobody listens, and who gets bodies."""

from __future__ import annotations

import pytest

from bus.broker.tap_record import Tap
from bus.broker.tap_wire import BODIES, LIVE, ring_topic
from bus.envelope import Kind, header
from bus.zeromq import tap as tap_module
from bus.zeromq.context import ZeroMQ
from bus.zeromq.tap import TapPublisher
from tests.bus.broker.rig import settings_with

SECRET = b"what a user said"


class HandClock:
    """Time by hand."""

    def now(self) -> float:
        return 1_000.0


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A bound publisher; `sent` is what would leave its socket, `encoded` how many batches were encoded."""
    tmp_path.chmod(0o700)
    settings = settings_with()
    zeromq = ZeroMQ(settings)
    made = TapPublisher(zeromq, settings, f"ipc://{tmp_path}/t", epoch="e", clock=HandClock())
    made.sent, made.encoded = [], 0
    encode = tap_module.live_batch

    def counted(*arguments, **options):
        made.encoded += 1
        return encode(*arguments, **options)

    monkeypatch.setattr(tap_module, "live_batch", counted)
    monkeypatch.setattr(made, "_send", lambda topic, payload: made.sent.append((topic, payload)))
    yield made
    made.close()
    zeromq.close()


def taps(first: int, count: int = 3) -> list[Tap]:
    """Consecutive frames with a body."""
    return [
        Tap(first + n, 999.0, "delivered", header(Kind.REQUEST, f"m{n}", type="wo.execute"), "ho2/1@a", "", SECRET, "")
        for n in range(count)
    ]


def test_while_nobody_listens_nothing_is_encoded_hashed_or_sent(publisher, monkeypatch):
    """The frames go into the ring as they are: not one record is made of them."""

    def never(*_arguments, **_options):
        raise AssertionError("a record was made for nobody")

    monkeypatch.setattr("bus.broker.tap_wire.record_of", never)
    for first in range(1, 300, 3):
        publisher.publish(taps(first))
    assert (publisher.sent, publisher.encoded) == ([], 0)
    assert len(publisher._ring) == 300


def test_each_kind_of_reader_costs_one_encoding_and_bodies_go_where_they_are_asked_for(publisher):
    """Ten readers of headers are one encoding; the last one that leaves ends it."""
    for _ in range(10):
        publisher._subscription(1, LIVE)
    publisher.sent.clear()
    publisher.encoded = 0
    publisher.publish(taps(1))
    assert (publisher.encoded, [topic for topic, _ in publisher.sent]) == (1, [LIVE])
    assert SECRET not in publisher.sent[0][1]
    publisher._subscription(1, BODIES)
    publisher.sent.clear()
    publisher.publish(taps(4))
    assert [(topic, SECRET in payload) for topic, payload in publisher.sent] == [(LIVE, False), (BODIES, True)]
    for _ in range(10):
        publisher._subscription(0, LIVE)
    publisher._subscription(0, BODIES)
    publisher._subscription(0, BODIES)  # a reader that was counted twice does not make the number negative
    publisher.sent.clear()
    publisher.publish(taps(7))
    assert publisher.sent == []


@pytest.mark.parametrize("with_bodies", [False, True])
def test_the_ring_answers_on_the_topic_that_asked_piece_by_piece(publisher, with_bodies):
    """With bodies only where the topic says so; then it is done."""
    publisher.publish(taps(1, 100))
    topic = ring_topic("n", 60.0, with_bodies=with_bodies)
    publisher._subscription(1, topic)
    while publisher.is_answering:
        publisher.answer_some()
    assert [sent for sent, _ in publisher.sent] == [topic, topic]
    assert [SECRET in payload for _, payload in publisher.sent] == [with_bodies, with_bodies]
