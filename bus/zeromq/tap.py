"""The tap's sockets: XPUB beside the broker, SUB at a reader. What is said on them: `bus/broker/tap_wire.py`.

Only the owner of the state directory reaches the socket (ipc in a directory of mode 0700), and for now that owner,
the local operator, is the one reader with the right to see sensitive bodies. `hobus tap` records its look; another
program of that user need not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator

import zmq

from hobus.bus import limits
from hobus.bus.broker.ring import Ring
from hobus.bus.broker.tap_record import Tap
from hobus.bus.broker.tap_wire import (
    BODIES,
    LIVE,
    TapAssembler,
    TapBatch,
    make_ring_topic,
    pack_live_batch,
    read_ring_topic,
)
from hobus.bus.clock import SystemClock
from hobus.bus.port import Clock
from hobus.bus.zeromq.context import ZeroMQ, restrict_ipc
from hobus.bus.zeromq.drained import DrainedSocket

_SUBSCRIBE, _UNSUBSCRIBE = 1, 0
_TOPIC_MAX_BYTES = 256


class TapPublisher:
    """Send batches after forwarding; encode nothing while nobody listens."""

    def __init__(self, zeromq: ZeroMQ, endpoint: str, *, epoch: str, clock: Clock) -> None:
        self._epoch = epoch
        self._clock = clock
        self._batch_max = limits.BATCH_MAX
        self._ring = Ring(frames_max=limits.TAP_RING, bytes_max=limits.TAP_RING_MAX_BYTES)
        self._answers: dict[bytes, Iterator[bytes]] = {}  # on their way, by the topic that asks
        self._listened: set[bytes] = set()
        self._newly: set[bytes] = set()
        self._next_sequence = 1
        self.has_sent = False  # since it last heard: a send may swallow the edge of its descriptor
        self.socket = zeromq.feed(zmq.XPUB)
        self.socket.setsockopt(zmq.SNDHWM, limits.TAP_HWM)
        self.socket.setsockopt(zmq.MAXMSGSIZE, _TOPIC_MAX_BYTES)
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # every subscription is told, and when a topic has none left
        self.socket.bind(endpoint)
        restrict_ipc(endpoint)

    @property
    def is_answering(self) -> bool:
        """Return whether an answer of the ring is on its way."""
        return bool(self._answers)

    def publish(self, taps: list[Tap]) -> None:
        """Send these frames, in order, to live readers and into the ring."""
        self._next_sequence = taps[-1].sequence + 1
        self._ring.add(taps)
        if self._listened:
            for topic in sorted(self._listened):
                self._send_live(topic, taps)

    def hear(self) -> None:
        """Take in readers that came and went, a batch at a time; drop nonsense."""
        self.has_sent = self._take_in()
        newly, self._newly = self._newly, set()
        for topic in newly:  # once, however many there are
            self._send_live(topic, [])

    def _take_in(self) -> bool:
        """Take in a batch; return whether there may be more, which is asked again before the loop waits."""
        for _ in range(self._batch_max):
            try:
                data = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return False
            if data:
                self._note_subscription(data[0], data[1:])
        return True

    def answer_some(self) -> None:
        """Send one more piece of a ring's answer, if there is one: first to who asked first."""
        for topic in list(self._answers):
            piece = next(self._answers[topic], None)
            if piece is not None:
                self._send(topic, piece)
                return
            del self._answers[topic]

    def _note_subscription(self, verb: int, topic: bytes) -> None:
        """Note that a reader has come, or that the last one of a topic has left."""
        if verb == _UNSUBSCRIBE:
            self._listened.discard(topic)
            self._answers.pop(topic, None)
        elif verb == _SUBSCRIBE and topic in (LIVE, BODIES):
            self._listened.add(topic)
            self._newly.add(topic)
        elif verb == _SUBSCRIBE and (question := read_ring_topic(topic)) and len(self._answers) < limits.TAP_HWM:
            since = self._clock.now() - question.since_s
            self._answers[topic] = self._ring.answer(
                self._epoch, since=since, next_sequence=self._next_sequence, with_bodies=question.with_bodies
            )

    def _send_live(self, topic: bytes, taps: list[Tap]) -> None:
        self._send(topic, pack_live_batch(self._epoch, taps, self._next_sequence, with_bodies=topic == BODIES))

    def _send(self, topic: bytes, payload: bytes) -> None:
        self.has_sent = True
        try:
            self.socket.send_multipart([topic, payload], zmq.NOBLOCK)
        except zmq.Again:
            return  # every reader is behind; each sees the gap in the sequence

    def close(self) -> None:
        self.socket.close(linger=0)


class TapReader:
    """Read the tap from a running event loop: `async for batch in reader.batches()`."""

    def __init__(
        self,
        zeromq: ZeroMQ,
        endpoint: str,
        *,
        since_s: float | None = None,
        with_bodies: bool = False,
    ) -> None:
        self._assembler = TapAssembler(wants_ring=since_s is not None)
        self._batches: deque[TapBatch] = deque()
        self._arrived = asyncio.Event()
        self._is_closed = False
        self.garbage = 0
        socket = zeromq.feed(zmq.SUB)
        socket.setsockopt(zmq.MAXMSGSIZE, -1)  # a batch may hold many bodies; its sender is the broker
        socket.setsockopt(zmq.SUBSCRIBE, BODIES if with_bodies else LIVE)
        self._socket_of_zmq = socket
        self._with_bodies = with_bodies
        self._head_topics: list[bytes] = []
        self.is_at_head = False
        """Everything that was tapped when `ask_head` was called was read, or is counted as lost."""
        self._ring_topic = b""
        if since_s is not None:
            self._ring_topic = make_ring_topic(SystemClock().new_id(), since_s, with_bodies=with_bodies)
            socket.setsockopt(zmq.SUBSCRIBE, self._ring_topic)
        socket.connect(endpoint)
        self._socket = DrainedSocket(socket, self._received)
        self._heard = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        """Return whether the broker has answered, also in full what its ring was asked for."""
        return self._heard.is_set() and self._assembler.is_ring_done

    def ask_head(self) -> None:
        """Ask how far the broker is; the answer comes behind everything that was sent before it."""
        if not self._is_closed:
            self._head_topics.append(make_ring_topic(SystemClock().new_id(), 0.0, with_bodies=self._with_bodies))
            self._socket_of_zmq.setsockopt(zmq.SUBSCRIBE, self._head_topics[-1])

    async def is_heard(self) -> None:
        """Wait until the broker has answered: from now on everything reaches this reader or is counted as lost."""
        await self._heard.wait()

    async def batches(self) -> AsyncIterator[TapBatch]:
        """Yield batches as they come, until `close`."""
        while True:
            while self._batches:
                yield self._batches.popleft()
            if self._is_closed:
                return
            self._arrived.clear()
            await self._arrived.wait()

    def close(self) -> None:
        """Stop reading; `batches` ends after what has arrived."""
        self._is_closed = True
        self._socket.close()
        self._arrived.set()

    def _received(self, frames: list[bytes]) -> None:
        is_head = frames[0] in self._head_topics
        try:
            self._batches.extend((self._assembler.head if is_head else self._assembler.feed)(frames[-1]))
        except ValueError:
            self.garbage += 1
            return
        if self._ring_topic and self._assembler.is_ring_done:
            self._socket_of_zmq.setsockopt(zmq.UNSUBSCRIBE, self._ring_topic)
            self._ring_topic = b""
        self._heard.set()
        self.is_at_head = self.is_at_head or is_head
        if self._batches:
            self._arrived.set()
