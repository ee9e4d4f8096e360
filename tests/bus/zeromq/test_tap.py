"""The tap's publisher: what it costs while nobody listens, and who gets bodies."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest
import zmq

from hobus.bus import limits
from hobus.bus.broker.tap_record import Tap
from hobus.bus.broker.tap_wire import BODIES, LIVE, TapAssembler, ring_topic
from hobus.bus.envelope import Kind, header
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

    monkeypatch.setattr("hobus.bus.broker.tap_wire.record_of", never)
    monkeypatch.setattr("hobus.bus.broker.ring.record_of", never)
    for first in range(1, 300, 3):
        publisher.publish(taps(first))
    assert (publisher.sent, publisher.encoded) == ([], 0)
    assert len(publisher._ring) == 300


def test_each_kind_of_reader_costs_one_encoding_and_bodies_go_where_they_are_asked_for(publisher):
    """Ten readers of headers are one encoding; that the last one has left ends it."""
    for _ in range(10):
        publisher._subscription(1, LIVE, is_said=True)
    publisher.publish(taps(1))
    assert (publisher.encoded, [topic for topic, _ in publisher.sent]) == (1, [LIVE])
    assert SECRET not in publisher.sent[0][1]
    publisher._subscription(1, BODIES, is_said=True)
    publisher.sent.clear()
    publisher.publish(taps(4))
    assert sorted((topic, SECRET in payload) for topic, payload in publisher.sent) == [(BODIES, True), (LIVE, False)]
    publisher._subscription(0, LIVE, is_said=True)  # somebody's word, who may never have listened
    publisher.sent.clear()
    publisher.publish(taps(7))
    assert len(publisher.sent) == 2
    publisher._subscription(0, LIVE, is_said=False)
    publisher._subscription(0, BODIES, is_said=False)
    publisher.sent.clear()
    publisher.publish(taps(10))
    assert publisher.sent == []


@pytest.mark.parametrize("with_bodies", [False, True])
def test_the_ring_answers_on_the_topic_that_asked_piece_by_piece(publisher, with_bodies):
    """With bodies only where the topic says so; then it is done."""
    publisher.publish(taps(1, 100))
    topic = ring_topic("n", 60.0, with_bodies=with_bodies)
    publisher._subscription(1, topic, is_said=True)
    while publisher.next_answer_at is not None:
        publisher.answer_some()
    assert [sent for sent, _ in publisher.sent] == [topic, topic]
    assert [SECRET in payload for _, payload in publisher.sent] == [with_bodies, with_bodies]


def test_what_is_tapped_between_a_question_and_its_answer_is_shown_once(publisher):
    """The loop hears a question, publishes what it has forwarded, and answers then: the answer reaches to the question."""
    publisher.publish(taps(1))
    publisher._subscription(1, LIVE, is_said=True)
    publisher._subscription(1, ring_topic("n", 60.0), is_said=True)
    publisher.publish(taps(4))
    while publisher.next_answer_at is not None:
        publisher.answer_some()
    assembler = TapAssembler(wants_ring=True)
    batches = [batch for _, payload in publisher.sent for batch in assembler.feed(payload)]
    assert [record.sequence for batch in batches for record in batch.records] == [1, 2, 3, 4, 5, 6]
    assert sum(batch.beats + batch.lost for batch in batches) == 0


@pytest.mark.parametrize("is_said", [True, False])
def test_a_reader_that_left_is_answered_no_more(publisher, is_said):
    """The rest of its answer is dropped, whether it said so or is gone."""
    publisher.publish(taps(1, 300))
    topic = ring_topic("n", 60.0)
    publisher._subscription(1, topic, is_said=True)
    publisher.answer_some()
    publisher._subscription(0, topic, is_said=is_said)
    publisher.answer_some()
    assert (len(publisher.sent), publisher.next_answer_at) == (1, None)


def test_readers_that_come_together_are_greeted_together(publisher):
    """One empty batch of their kind, however many they are."""
    waiting = [b"\x01" + LIVE] * 30 + [b"\x01" + BODIES] * 3

    def receive(*_arguments, **_options):
        if not waiting:
            raise zmq.Again
        return zmq.Frame(waiting.pop())

    publisher.socket = SimpleNamespace(recv=receive, close=publisher.socket.close)
    publisher.hear()
    assert sorted(topic for topic, _ in publisher.sent) == [BODIES, LIVE]


def test_nonsense_of_a_connection_that_is_gone_already_is_nobodys(publisher):
    """ZeroMQ cannot say any more by which descriptor it came."""
    waiting = [b"nonsense"] * 3

    class Orphan:
        bytes = b"nonsense"

        def get(self, _option):
            raise zmq.ZMQError(zmq.EINVAL)

    def receive(*_arguments, **_options):
        if not waiting:
            raise zmq.Again
        waiting.pop()
        return Orphan()

    publisher.socket = SimpleNamespace(recv=receive, close=publisher.socket.close)
    publisher.hear()
    assert not waiting and not publisher.sent


def test_a_replay_takes_its_share_of_the_brokers_time_and_says_when_it_goes_on(publisher, monkeypatch):
    """Each piece takes ten milliseconds here; after those of the last second there is a pause (`limits.TAP_REPLAY_MS`)."""
    publisher.publish(taps(1, 64 * 30))
    publisher._subscription(1, ring_topic("n", 60.0), is_said=True)

    def slow(topic, payload):
        publisher.sent.append((topic, payload))
        publisher._clock.at += 0.01

    monkeypatch.setattr(publisher, "_send", slow)
    for _ in range(100):
        publisher.answer_some()
    at_once = limits.TAP_REPLAY_MS // 10
    assert at_once <= len(publisher.sent) <= at_once + 2
    publisher._clock.at = publisher.next_answer_at
    publisher.answer_some()
    publisher.answer_some()
    assert len(publisher.sent) <= at_once + 3
    assert publisher.next_answer_at - publisher._clock.at == pytest.approx(
        0.01 / (limits.TAP_REPLAY_MS / 1000), rel=0.2
    )


GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" * 32
READY = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB"


@pytest.mark.process
def test_nobody_but_the_last_reader_ends_what_is_sent_to_readers(tmp_path):
    """Over real sockets: not one of two that leaves, nor a stranger that unsubscribes from what it never had."""
    tmp_path.chmod(0o700)
    settings = settings_with()
    zeromq, clock = ZeroMQ(settings), HandClock()
    made = TapPublisher(zeromq, f"ipc://{tmp_path}/t", epoch="e", clock=clock)
    readers, stranger = [zeromq.feed(zmq.SUB) for _ in range(2)], socket.socket(socket.AF_UNIX)

    def settle(*listened):
        for _ in range(30):
            made.hear()
            time.sleep(0.01)
        assert made._listened == set(listened)

    try:
        for reader, topic in zip(readers, (LIVE, BODIES), strict=True):
            reader.setsockopt(zmq.SUBSCRIBE, LIVE)
            reader.setsockopt(zmq.SUBSCRIBE, topic)
            reader.connect(f"ipc://{tmp_path}/t")
            clock.at += 1.0
            settle(LIVE, topic)
        clock.at += 1.0
        stranger.connect(f"{tmp_path}/t")
        stranger.sendall(GREETING + READY)
        settle(LIVE, BODIES)
        stranger.sendall(b"\0\x02\0" + LIVE + b"\0\x02\0" + BODIES)
        settle(LIVE, BODIES)
        stranger.close()
        readers[0].close(linger=0)
        settle(LIVE, BODIES)
        readers[1].close(linger=0)
        settle()
    finally:
        stranger.close()
        for reader in readers:
            reader.close(linger=0)
        made.close()
        zeromq.close()
