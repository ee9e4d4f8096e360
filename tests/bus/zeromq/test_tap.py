"""The tap's publisher: what it costs while nobody listens, and who gets bodies."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import zmq

from hobus.bus import limits
from hobus.bus.broker.tap_record import Tap
from hobus.bus.broker.tap_wire import BODIES, LIVE, TapAssembler, make_ring_topic
from hobus.bus.envelope import Kind, make_header
from hobus.bus.zeromq import tap as tap_module
from hobus.bus.zeromq.context import ZeroMQ
from hobus.bus.zeromq.tap import TapPublisher
from tests.bus.broker.rig import settings_with

SECRET = b"what a user said"


class HandClock:
    """Time by hand."""

    def __init__(self) -> None:
        self.at = 50.0

    def now(self) -> float:
        return 1_000.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A bound publisher; `sent` is what would leave its socket, `encoded` how many batches were encoded."""
    tmp_path.chmod(0o700)
    settings = settings_with()
    zeromq = ZeroMQ(settings)
    made = TapPublisher(zeromq, f"ipc://{tmp_path}/t", epoch="e", clock=HandClock())
    made.sent, made.encoded = [], 0
    encode = tap_module.pack_live_batch

    def counted(*arguments, **options):
        made.encoded += 1
        return encode(*arguments, **options)

    monkeypatch.setattr(tap_module, "pack_live_batch", counted)
    monkeypatch.setattr(made, "_send", lambda topic, payload: made.sent.append((topic, payload)))
    yield made
    made.close()
    zeromq.close()


def taps(first: int, count: int = 3) -> list[Tap]:
    return [
        Tap(
            first + n,
            999.0,
            "delivered",
            make_header(Kind.REQUEST, f"m{n}", type="wo.execute"),
            "ho2/1@a",
            "",
            SECRET,
            "",
        )
        for n in range(count)
    ]


def test_while_nobody_listens_nothing_is_encoded_hashed_or_sent(publisher, monkeypatch):
    """The frames go into the ring as they are: not one record is made of them."""

    def never(*_arguments, **_options):
        raise AssertionError("a record was made for nobody")

    monkeypatch.setattr("hobus.bus.broker.tap_wire.record_of", never)
    for first in range(1, 300, 3):
        publisher.publish(taps(first))
    assert (publisher.sent, publisher.encoded) == ([], 0)
    assert len(publisher._ring) == 300


def test_each_kind_of_reader_costs_one_encoding_and_bodies_go_where_they_are_asked_for(publisher):
    """Ten readers of headers are one encoding; that the last one has left ends it."""
    for _ in range(10):
        publisher._note_subscription(1, LIVE)
    publisher.publish(taps(1))
    assert (publisher.encoded, [topic for topic, _ in publisher.sent]) == (1, [LIVE])
    assert SECRET not in publisher.sent[0][1]
    publisher._note_subscription(1, BODIES)
    publisher.sent.clear()
    publisher.publish(taps(4))
    assert sorted((topic, SECRET in payload) for topic, payload in publisher.sent) == [(BODIES, True), (LIVE, False)]
    publisher._note_subscription(0, LIVE)
    publisher._note_subscription(0, BODIES)
    publisher.sent.clear()
    publisher.publish(taps(10))
    assert publisher.sent == []


@pytest.mark.parametrize("with_bodies", [False, True])
def test_the_ring_answers_on_the_topic_that_asked_piece_by_piece(publisher, with_bodies):
    publisher.publish(taps(1, 100))
    topic = make_ring_topic("n", 60.0, with_bodies=with_bodies)
    publisher._note_subscription(1, topic)
    while publisher.is_answering:
        publisher.answer_some()
    assert [sent for sent, _ in publisher.sent] == [topic, topic]
    assert [SECRET in payload for _, payload in publisher.sent] == [with_bodies, with_bodies]


def test_what_is_tapped_between_a_question_and_its_answer_is_shown_once(publisher):
    """The loop hears a question, publishes what it has forwarded, and answers then: the answer reaches to the question."""
    publisher.publish(taps(1))
    publisher._note_subscription(1, LIVE)
    publisher._note_subscription(1, make_ring_topic("n", 60.0))
    publisher.publish(taps(4))
    while publisher.is_answering:
        publisher.answer_some()
    assembler = TapAssembler(wants_ring=True)
    batches = [batch for _, payload in publisher.sent for batch in assembler.feed(payload)]
    assert [record.sequence for batch in batches for record in batch.records] == [1, 2, 3, 4, 5, 6]
    assert sum(batch.beats + batch.lost for batch in batches) == 0


def test_who_asked_first_is_answered_first_and_not_more_than_so_many_are(publisher, monkeypatch):
    """Those who ask and leave, again and again, take nothing from it; beyond the bound a question has no answer."""
    monkeypatch.setattr(limits, "TAP_HWM", 2)
    publisher.publish(taps(1, 100))
    first, second, third = (make_ring_topic(name, 60.0) for name in ("1", "2", "3"))
    for topic in (first, second, third):
        publisher._note_subscription(1, topic)
    while publisher.is_answering:
        publisher.answer_some()
    assert [topic for topic, _ in publisher.sent] == [first, first, second, second]


def test_a_reader_that_left_is_answered_no_more(publisher):
    publisher.publish(taps(1, 300))
    topic = make_ring_topic("n", 60.0)
    publisher._note_subscription(1, topic)
    publisher.answer_some()
    publisher._note_subscription(0, topic)
    publisher.answer_some()
    assert (len(publisher.sent), publisher.is_answering) == (1, False)


def test_readers_that_come_together_are_greeted_together(publisher):
    waiting = [b"\x01" + LIVE] * 30 + [b"\x01" + BODIES] * 3

    def receive(*_arguments, **_options):
        if not waiting:
            raise zmq.Again
        return waiting.pop()

    publisher.socket = SimpleNamespace(recv=receive, close=publisher.socket.close)
    publisher.hear()
    assert sorted(topic for topic, _ in publisher.sent) == [BODIES, LIVE]
