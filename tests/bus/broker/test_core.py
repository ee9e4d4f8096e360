"""The core as a whole: what holds after any sequence of events, and that bytes harm nobody but their sender."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.broker.events import FrameReceived
from hobus.bus.codec import pack_header
from hobus.bus.envelope import Kind, make_header
from tests.bus.broker.rig import Rig

CLIENTS = ("ho2/1", "ho2/2")
WORKERS = ("ho1/1", "ho1/2", "ho1/3")


class World:
    """Clients and workers doing anything in any order; what they did and got is kept."""

    def __init__(self) -> None:
        self.rig = Rig(attempts_max=3, service_grace_ms=300)
        self.epochs = dict.fromkeys(CLIENTS + WORKERS, 0)
        self.connections = {}
        self.asked = {}  # request id -> client name
        self.destinations = {}
        self.answers = {}  # request id -> number of answers
        self.abandoned = set()  # asked by an incarnation that is gone
        self.held = {name: [] for name in WORKERS}  # request ids delivered and not answered
        for name in CLIENTS:
            self.join(name)

    def join(self, name):
        self.leave_quietly(name)
        self.epochs[name] += 1
        instance = f"{name}@{self.epochs[name]}"
        connection = instance.encode()
        offers = ["ho1"] if name in WORKERS else []
        self.rig.hello(instance, connection, offers=offers, slots=2)
        self.connections[name] = connection
        if name in WORKERS:
            self.rig.ready(connection)

    def leave_quietly(self, name):
        """The test's own book: what this incarnation held or asked is not its any more."""
        if name in WORKERS:
            self.held[name] = []
        else:
            self.abandoned |= {key for key, who in self.asked.items() if who == name and not self.answers.get(key)}
        self.connections.pop(name, None)

    def collect(self):
        for name in WORKERS:
            for got in self.rig.got(self.connections.get(name, b"")):
                if got.header.kind == Kind.REQUEST:
                    self.held[name].append(got.header.message_id)
        for name in CLIENTS:
            for message_id, _code in self.rig.answers(self.connections.get(name, b"")):
                self.answers[message_id] = self.answers.get(message_id, 0) + 1

    def do(self, step):
        what, who, number = step
        client, worker = CLIENTS[who % 2], WORKERS[who % 3]
        client_connection, worker_connection = self.connections.get(client), self.connections.get(worker)
        if what == "ask" and client_connection:
            message_id = f"WO-{len(self.asked)}"
            self.asked[message_id] = client
            to = f"{worker}@{self.epochs[worker]}" if number == 0 else "ho1"
            self.destinations[message_id] = to
            self.rig.order(
                client_connection, message_id, to=to, key="k" if number == 1 else "", deadline_ms=200 + 400 * number
            )
        elif what == "ask_again" and client_connection:
            for message_id, who_asked in list(self.asked.items())[-number - 1 :]:
                if not self.answers.get(message_id) and (who_asked == client or message_id in self.abandoned):
                    self.asked[message_id] = client
                    self.abandoned.discard(message_id)
                    self.rig.order(client_connection, message_id, to=self.destinations[message_id], deadline_ms=500)
        elif what == "cancel" and client_connection and self.asked:
            self.rig.cancel(client_connection, list(self.asked)[number % len(self.asked)])
        elif what == "reply" and worker_connection and self.held[worker]:
            self.rig.reply(worker_connection, self.held[worker].pop(number % len(self.held[worker])))
        elif what == "reply_twice" and worker_connection and self.held[worker]:
            message_id = self.held[worker].pop(0)
            self.rig.reply(worker_connection, message_id)
            self.rig.reply(worker_connection, message_id)
        elif what == "forge" and worker_connection and self.asked:
            self.rig.reply(worker_connection, f"WO-{number + 1000}")
        elif what == "join":
            self.join(worker)
        elif what == "lose" and worker_connection:
            self.rig.lost(worker_connection)
            self.leave_quietly(worker)
        elif what == "bye" and worker_connection:
            self.rig.say_bye(worker_connection)
            self.leave_quietly(worker)
        elif what == "drain" and worker_connection:
            self.rig.ready(worker_connection, "draining" if number % 2 else "ready")
        elif what == "credit" and worker_connection:
            self.rig.credit(worker_connection, number % 3)
        elif what == "lose_client" and client_connection:
            self.rig.lost(client_connection)
            self.leave_quietly(client)
            self.join(client)
        elif what == "wait":
            self.rig.silent |= {peer for peer in self.rig.peers if peer not in self.connections.values()}
            self.rig.advance(0.05 + number * 0.2)
        self.collect()
        self.check()

    def check(self):
        """What must hold after every event."""
        state = self.rig.core._state
        service = state.services["ho1"]
        in_flight = 0
        for peer in state.names.values():
            in_flight += len(peer.in_flight)
            late = sum(one.holds_slot for one in peer.late.values())
            assert peer.used == sum(p.slotted for p in peer.in_flight.values()) + late
            assert peer.immediate == sum(not p.slotted for p in peer.in_flight.values())
            assert all(p.worker is peer for p in peer.in_flight.values())
            assert all(p.state in {"in_flight", "stopping"} and p.place is None for p in peer.in_flight.values())
        assert in_flight == state.in_flight
        pending = [p for asked in state.asked.values() for p in asked.values()]
        assert all((p.worker is not None) == (p.state in {"in_flight", "stopping"}) for p in pending)
        assert all((p.place is not None) == (p.state == "waiting") for p in pending)
        assert not any(p.state in ("done", "placing") for p in pending)
        waiting = sum(p.place is not None for p in pending if p.service is service)
        assert waiting == service.waiting.count
        assert all(count == 1 for count in self.answers.values())


STEPS = st.tuples(
    st.sampled_from(
        ["ask"] * 6
        + ["reply"] * 4
        + ["join"] * 2
        + ["wait"] * 2
        + ["ask_again", "cancel", "reply_twice", "forge", "lose", "bye", "drain", "credit", "lose_client"]
    ),
    st.integers(0, 5),
    st.integers(0, 4),
)


@pytest.mark.slow
@given(steps=st.lists(STEPS, max_size=40))
def test_every_request_is_answered_exactly_once_whatever_happens(steps):
    """Any order of asking, answering, cancelling, losing, joining, waiting: one answer each, and nothing is left over."""
    world = World()
    for step in steps:
        world.do(step)
    world.rig.silent |= {peer for peer in world.rig.peers if peer not in world.connections.values()}
    world.rig.advance(5.0)
    world.collect()
    world.check()
    for message_id in world.asked:
        expected = {0, 1} if message_id in world.abandoned else {1}
        assert world.answers.get(message_id, 0) in expected, message_id
    state = world.rig.core._state
    assert not any(state.asked[role] for role in ("ho1", "ho2"))
    assert state.in_flight == 0
    assert all(service.waiting.count == 0 for service in state.services.values() if service.name != "ledger")


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(max_size=30), st.binary(max_size=30), st.floats(),
    st.sampled_from(["ho1", "ho1/1@a", "ledger", "broker", "ho2/1@a", "WO-1", "bus.hello", "wo.execute", "ledger.write"]),
)  # fmt: skip
TRUE_HEADERS = st.builds(
    lambda kind, message_id, correlation_id, type_name, destination, key, deadline_ms, attempt: list(
        make_header(
            Kind.REQUEST, message_id, correlation_id=correlation_id, type=type_name, destination=destination, key=key,
            deadline_ms=deadline_ms, attempt=attempt,
        )._replace(kind=kind)
    ),
    kind=st.integers(-1, 30),
    message_id=st.one_of(st.text(max_size=20), st.just("WO-1")),
    correlation_id=st.sampled_from(["", "WO-1", "WO-2", "x"]),
    type_name=st.sampled_from(["wo.execute", "ledger.write", "bus.probe", "broker.read_peers", "wo.receipt", "bus.beat", "x"]),
    destination=st.sampled_from(["ho1", "ho1/1@a", "ho1/9@z", "ledger", "broker", "broker/1@e1", "", "/", "@", "x"]),
    key=st.sampled_from(["", "k"]),
    deadline_ms=st.one_of(st.integers(-5, 10_000), st.just(2**64 - 1)),
    attempt=st.one_of(st.integers(-1, 5), st.just(2**64 - 1)),
)  # fmt: skip
MUTATED = st.builds(
    lambda fields, changes: msgpack.packb([changes.get(at, value) for at, value in enumerate(fields)]),
    TRUE_HEADERS,
    st.dictionaries(st.integers(0, 13), VALUES, max_size=3),
)
HEADERS = st.one_of(st.binary(max_size=60), MUTATED, st.builds(msgpack.packb, TRUE_HEADERS), st.just(b"\x90" * 5000))
BODIES = st.one_of(
    st.binary(max_size=60), st.builds(msgpack.packb, st.dictionaries(st.text(max_size=8), VALUES, max_size=3))
)


@given(frames=st.lists(st.tuples(st.sampled_from(["stranger", "client", "worker"]), HEADERS, BODIES), max_size=12))
def test_no_bytes_of_a_peer_raise_or_harm_others(frames):
    """Strangers and authenticated peers send anything: the core goes on, and a pair that behaves is served as ever."""
    rig = Rig()
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=1)
    evil = {
        "stranger": b"?", "client": rig.client("ho1/66@x"), "worker": rig.worker("gateway/66@x", slots=3),
    }  # fmt: skip
    rig.order(ho2, "WO-1")
    for who, head, body in frames:
        rig.step(FrameReceived(evil[who], head, body))
        rig.garbage(evil[who])
    assert {"ho2/1@a", "ho1/1@a"} <= set(rig.core.peers)
    rig.advance(0.3)
    rig.reply(ho1, "WO-1", b"receipt")
    assert [got.body for got in rig.got(ho2)] == [b"receipt"]
    rig.order(ho2, "WO-2")
    assert "WO-2" in rig.requests(ho1)


def test_a_frame_that_no_broker_takes_is_malformed():
    rig = Rig()
    peer = rig.client("ho2/1@a")
    rig.frame(peer, make_header(Kind.WELCOME, "m"))
    rig.step(FrameReceived(peer, pack_header(make_header(Kind.POST, "m")._replace(kind=99)), b""))
    assert rig.core.counts["malformed"] == 2


def test_the_tap_numbers_every_frame_without_a_gap():
    rig = Rig()
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a")
    rig.order(ho2, "WO-1")
    rig.unreachable.add(ho1)
    rig.order(ho2, "WO-2")
    rig.garbage(ho2)
    rig.advance(4)
    numbers = [tap.sequence for tap in rig.taps]
    assert numbers == list(range(1, rig.core._state.sequence + 1))
    assert {"queued", "delivered", "lost", "malformed", "control", "failed"} <= set(rig.verdicts())


def test_the_wall_clock_of_the_tap_follows_the_loops():
    """`set_wall` corrects drift; the monotonic time of deadlines is untouched."""
    rig = Rig()
    rig.client("ho2/1@a")
    assert rig.taps[-1].at == 1_700_000_000.0
    rig.core.set_wall(rig.now, 1_700_000_500.0)
    rig.garbage(b"ho2/1@a")
    assert rig.taps[-1].at == 1_700_000_500.0


def test_the_catalog_says_what_is_sensitive_and_no_sender_can_deny_it():
    rig = Rig()
    ho2, ho1 = rig.client("ho2/1@a"), rig.worker("ho1/1@a", slots=1)
    for number in range(2):
        rig.order(ho2, f"WO-{number}", sensitive=False)
    rig.reply(ho1, "WO-0")
    rig.ask(ho2, "denied", "gateway", "gateway.prompt", body=b"prompt text", sensitive=False)
    shown = [tap for tap in rig.taps if tap.body and tap.verdict != "control"]
    assert {tap.verdict for tap in shown} == {"delivered", "queued", "denied"}
    assert all(tap.header.sensitive for tap in shown)
