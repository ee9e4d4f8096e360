"""Who may say what on a service's own socket."""

from __future__ import annotations

import pytest

from hobus.bus import limits
from hobus.bus.codec import decode, encode, pack_header, unpack_header
from hobus.bus.envelope import HEADER_VERSION, Header, Kind, make_header
from hobus.bus.lane_server import LaneServer
from hobus.bus.limits import BODY_MAX_BYTES
from hobus.bus.messages.control import Beat, Bye, Credit, Hello, Refused, Welcome
from hobus.bus.messages.failure import Failure
from hobus.bus.messages.gateway import DegradedPrompt, Prompt
from hobus.bus.messages.ledger import Body, GetBody
from hobus.bus.settings import BusSettings
from hobus.bus.window import KeptReply
from tests.conformance.clusters import bus_settings

GOOD = "good"
SETTINGS = bus_settings()
WELCOME, REFUSED, REHELLO = "bus.welcome", "bus.refused", "bus.rehello"


class HandClock:
    """Time as the test sets it."""

    time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def new_id(self) -> str:
        return "id"

    def random(self) -> float:
        return 0.5


class Wire:
    """A transport that keeps what was sent; unreachable routing ids fail as they do on a ROUTER."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Header, bytes]] = []
        self.unreachable: list[bytes] = []
        self.left: dict[bytes, int] = {}

    def send(self, routing: bytes, head: bytes, body: bytes) -> bool:
        if routing in self.unreachable:
            return False
        self.sent.append((routing, unpack_header(head), body))
        return True

    def unsent(self) -> dict[bytes, int]:
        return self.left

    def close(self) -> None: ...

    def types_to(self, routing: bytes) -> list[str]:
        return [head.type for to, head, _ in self.sent if to == routing]


class Rig:
    """A lane of the ledger (or another service) with everything observable."""

    def __init__(self, instance: str = "ledger/1@L1", settings: BusSettings = SETTINGS) -> None:
        self.clock, self.wire = HandClock(), Wire()
        self.tapped: list[str] = []
        self.server = LaneServer(
            instance,
            settings,
            self.clock,
            lambda hello: None if hello.token == GOOD else Refused(code="bad_token", detail="no"),
            on_frame=lambda verdict, _head, _body: self.tapped.append(verdict),
        )
        self.server.bind(self.wire)
        self.delivered: list[tuple[Header, bytes]] = []
        self.routes = []
        self.server.attach(self._deliver)

    def _deliver(self, head, body, route) -> None:
        self.delivered.append((head, body))
        self.routes.append(route)

    def hello(
        self,
        routing: bytes,
        instance: str,
        *,
        token: str = GOOD,
        role: str | None = None,
        protocol: int = HEADER_VERSION,
    ) -> None:
        said = Hello(
            instance=instance,
            token=token,
            role=role or instance.partition("/")[0],
            slots=0,
            version="t",
            protocol=protocol,
        )
        self.frame(routing, Kind.HELLO, encode(said, 10_000))

    def frame(self, routing: bytes, kind: Kind, body: bytes = b"", **fields) -> None:
        message_id = fields.pop("message_id", "m1")
        self.server.receive(routing, [pack_header(make_header(kind, message_id, **fields)), body])

    def ask(self, routing: bytes, message=None, **fields) -> None:
        message = message or GetBody(ref="r")
        fields = {"type": message.TYPE, "destination": "ledger", "deadline_ms": 1000, **fields}
        self.frame(routing, Kind.REQUEST, encode(message, 10 * BODY_MAX_BYTES), **fields)


@pytest.fixture
def rig() -> Rig:
    """A ledger lane."""
    return Rig()


def test_a_good_token_is_welcome_under_the_servers_epoch(rig: Rig) -> None:
    """The epoch is the incarnation in the instance's name."""
    rig.hello(b"c1", "ho2/1@a")
    (_, head, body) = rig.wire.sent[0]
    assert (head.kind, head.type) == (Kind.WELCOME, WELCOME)
    assert decode(Welcome, body, 1000).epoch == "L1"
    assert rig.server.connected() == ["ho2/1@a"]


@pytest.mark.parametrize(
    ("instance", "options"),
    [
        ("ho2/1@a", {"token": "stolen"}),
        ("ho2/1@a", {"role": "operator"}),
        ("ho2/1@a", {"protocol": HEADER_VERSION + 1}),
        ("nonsense", {"role": "ho2"}),
    ],
)
def test_a_bad_hello_is_refused_and_binds_nothing(rig: Rig, instance: str, options) -> None:
    """Wrong token, claimed role, other protocol, impossible name."""
    rig.hello(b"c1", instance, **options)
    assert rig.wire.types_to(b"c1") == [REFUSED]
    rig.ask(b"c1")
    assert rig.delivered == []


def test_a_new_connection_is_asked_for_a_hello(rig: Rig) -> None:
    """Its first, empty message is the transport's own; on a bound connection it would be malformed."""
    rig.server.receive(b"c1", [b""])
    assert rig.wire.types_to(b"c1") == [REHELLO]
    assert rig.server.counters["malformed"] == 0
    rig.hello(b"c1", "ho2/1@a")
    rig.server.receive(b"c1", [b""])
    assert rig.server.counters["malformed"] == 1


def test_an_unbound_connection_is_asked_for_a_hello_and_its_frame_dropped(rig: Rig) -> None:
    """Once per beat, however much it sends: a stranger that never reads must not fill this process with answers."""
    rig.ask(b"c1")
    rig.frame(b"c1", Kind.BEAT, encode(Beat(), 100))
    rig.frame(b"c2", Kind.BEAT, encode(Beat(), 100))
    assert (rig.wire.types_to(b"c1"), rig.wire.types_to(b"c2")) == ([REHELLO], [REHELLO])
    assert rig.delivered == []


def test_the_sender_is_stamped_whatever_it_claims(rig: Rig) -> None:
    """A claimed sender counts for nothing."""
    rig.hello(b"c1", "ho1/1@a")
    rig.ask(b"c1", sender="operator/1@root")
    assert rig.delivered[0][0].sender == "ho1/1@a"


@pytest.mark.parametrize(
    ("service", "principal"), [("ledger/1@L1", "ho1/1"), ("gateway/1@G1", "client/7")], ids=["ledger", "gateway"]
)
def test_whoever_asks_beside_the_broker_says_for_whom(service: str, principal: str) -> None:
    """An executor's prompts are its order's principal's; what it writes is its own."""
    rig = Rig(service)
    rig.hello(b"c1", "ho1/1@a")
    asked = {"type": Prompt.TYPE} if principal == "client/7" else {}
    rig.ask(b"c1", principal="client/7", **asked)
    rig.ask(b"c1", message_id="m2", **asked)
    assert [head.principal for head, _ in rig.delivered] == [principal, "ho1/1"]


def test_a_lane_that_rests_says_so_and_answers_what_it_is_asked_all_the_same() -> None:
    """To those who are there and to those who come; the ledger has nobody who could stand in for it."""
    rig = Rig("gateway/1@G1")
    rig.hello(b"c1", "ho1/1@a")
    rig.server.rest()
    rig.server.rest()
    rig.hello(b"c2", "ho1/2@a")
    assert rig.wire.types_to(b"c1") == rig.wire.types_to(b"c2") == [WELCOME, Credit.TYPE]
    rig.ask(b"c1", type=Prompt.TYPE)
    assert len(rig.delivered) == 1
    ledger = Rig()
    ledger.hello(b"c1", "ho1/1@a")
    ledger.server.rest()
    assert ledger.wire.types_to(b"c1") == [WELCOME]


def test_an_answer_to_nobody_is_tapped_as_late() -> None:
    """Who asked is gone: each frame that was made is accounted for."""
    rig = Rig("gateway/1@G1")
    rig.hello(b"c1", "ho1/1@a")
    rig.ask(b"c1", type=Prompt.TYPE)
    rig.frame(b"c1", Kind.BYE, encode(Bye(), 100))
    rig.routes[0].answer(rig.delivered[0][0], KeptReply(Kind.REPLY, "x", 1, b""))
    assert rig.tapped == ["delivered", "late"]
    assert rig.server.counters["unreachable"] == 1


@pytest.mark.parametrize(
    ("instance", "service", "type_name"),
    [
        ("ho2/1@a", "gateway/1@g", Prompt.TYPE),  # an executor's alone
        ("ho1/1@a", "gateway/1@g", DegradedPrompt.TYPE),  # the session host's alone
        ("ho2/1@a", "ledger/1@L1", "nonsense.type"),
    ],
)
def test_what_the_lane_does_not_take_is_denied(instance: str, service: str, type_name: str) -> None:
    """The catalog's senders, and of its types only the service's."""
    rig = Rig(service)
    rig.hello(b"c1", instance)
    rig.ask(b"c1", type=type_name, destination=service)
    (_, head, body) = rig.wire.sent[-1]
    assert (head.kind, head.correlation_id) == (Kind.FAILURE, "m1")
    assert decode(Failure, body, 1000).code == "denied"
    assert rig.delivered == []
    assert rig.tapped == ["denied", "delivered"]


def test_a_body_over_the_limit_is_answered_too_large(rig: Rig) -> None:
    """The limit is named."""
    rig.hello(b"c1", "ho2/1@a")
    rig.ask(b"c1", GetBody(ref="r" * BODY_MAX_BYTES))
    failure = decode(Failure, rig.wire.sent[-1][2], 1000)
    assert (failure.code, rig.delivered) == ("too_large", [])
    assert str(BODY_MAX_BYTES) in failure.detail


@pytest.mark.parametrize(
    "frames", [[], [b"x"], [b"x", b"y", b"z"], [b"\xc1", b""], [bytes(5000), b""], [b"\x93\x01\x02\x03", b""]]
)
def test_garbage_is_counted_and_harms_nobody(rig: Rig, frames: list[bytes]) -> None:
    """From a bound connection as well: it stays bound, and the next request passes."""
    rig.hello(b"c1", "ho2/1@a")
    rig.server.receive(b"c1", frames)
    assert rig.server.counters["malformed"] == 1
    rig.ask(b"c1")
    assert len(rig.delivered) == 1


def test_every_beat_is_answered(rig: Rig) -> None:
    """That is how the peer knows that this side lives."""
    rig.hello(b"c1", "ho2/1@a")
    rig.frame(b"c1", Kind.BEAT, encode(Beat(), 100))
    assert rig.wire.types_to(b"c1") == [WELCOME, Beat.TYPE]


def test_a_reconnected_instance_has_one_connection_the_newest(rig: Rig) -> None:
    """Its answers go there; the older connection is a stranger from then on."""
    rig.hello(b"c1", "ho2/1@a")
    rig.ask(b"c1")
    rig.hello(b"c2", "ho2/1@a")
    answer = KeptReply(Kind.REPLY, Body.TYPE, 1, b"bytes")
    rig.routes[0].answer(rig.delivered[0][0], answer)
    assert rig.wire.types_to(b"c2") == [WELCOME, Body.TYPE]
    rig.ask(b"c1")
    assert rig.wire.types_to(b"c1") == [WELCOME, REHELLO]


def test_another_incarnation_of_a_name_ends_the_one_before(rig: Rig) -> None:
    """Which has lost its token: it is asked for a hello, and nothing that it sends is taken any more."""
    for routing, instance in ((b"c1", "gateway/1@a"), (b"c2", "gateway/10@a"), (b"c3", "gateway/1@b")):
        rig.hello(routing, instance)
    assert rig.server.connected() == ["gateway/10@a", "gateway/1@b"]
    rig.ask(b"c1")
    assert rig.delivered == [] and rig.wire.types_to(b"c1") == [WELCOME, REHELLO]


def test_an_answer_to_nobody_is_counted(rig: Rig) -> None:
    """Vanished, said goodbye, or silent too long: the window keeps it for who asks again."""
    rig.hello(b"c1", "ho2/1@a")
    rig.ask(b"c1")
    answer = KeptReply(Kind.REPLY, Body.TYPE, 1, b"bytes")
    rig.wire.unreachable.append(b"c1")
    rig.routes[0].answer(rig.delivered[0][0], answer)
    rig.routes[0].answer(rig.delivered[0][0], answer)
    assert rig.server.counters["unreachable"] == 2
    assert rig.server.connected() == []


def test_silence_longer_than_the_time_out_unbinds(rig: Rig) -> None:
    """Exactly the time-out is borne."""
    rig.hello(b"c1", "ho2/1@a")
    limit = SETTINGS.peer_timeout_ms / 1000
    rig.server.sweep(limit)
    assert rig.server.connected() == ["ho2/1@a"]
    rig.server.sweep(limit + 0.001)
    assert rig.server.connected() == []


def test_goodbye_and_a_standstill_unbind(rig: Rig) -> None:
    """After a standstill everybody has to say hello and ask again."""
    rig.hello(b"c1", "ho2/1@a")
    rig.hello(b"c2", "ho1/1@a")
    rig.frame(b"c1", Kind.BYE, encode(Bye(), 100))
    assert rig.server.connected() == ["ho1/1@a"]
    rig.server.unbind_all()
    rig.ask(b"c2")
    assert rig.wire.types_to(b"c2") == [WELCOME, REHELLO]


def test_a_defect_costs_the_frames_sender_its_connection_and_nobody_else(rig: Rig) -> None:
    """The broken handler is logged and counted, its request fails as internal; who was lost is welcome again."""
    rig.hello(b"c1", "ho2/1@a")
    rig.hello(b"c2", "ho2/2@a")

    def broken(*_: object) -> None:
        raise RuntimeError("s3cret")

    gone: list[str] = []
    rig.server.attach(broken, lambda instance, _lane: gone.append(instance))
    rig.ask(b"c1")
    (_, head, body) = rig.wire.sent[-1]
    failure = decode(Failure, body, 1000)
    assert (head.correlation_id, failure.code, failure.retryable) == ("m1", "internal", False)
    assert "s3cret" not in failure.detail
    assert (rig.server.counters["internal_errors"], rig.server.connected(), gone) == (1, ["ho2/2@a"], ["ho2/1@a"])
    rig.server.attach(rig._deliver)
    rig.hello(b"c1", "ho2/1@a")
    rig.ask(b"c1")
    rig.ask(b"c2")
    assert [head.sender for head, _ in rig.delivered] == ["ho2/1@a", "ho2/2@a"]


def test_a_defect_in_what_loses_a_client_is_survived_too(rig: Rig) -> None:
    """Also what forgets it may be broken; it is forgotten."""
    rig.hello(b"c1", "ho2/1@a")

    def broken(*_: object) -> None:
        raise RuntimeError("s3cret")

    rig.server.attach(broken, broken)
    rig.ask(b"c1")
    assert rig.server.connected() == []


def test_who_has_not_taken_its_answers_is_behind_over_all_its_connections(rig: Rig) -> None:
    """To the byte; beyond what all may have together whoever has any to take, and nobody else."""
    each, together = limits.UNSENT_MAX_BYTES, limits.ALL_UNSENT_MAX_BYTES
    for routing, instance in ((b"c1", "door/7@a"), (b"c2", "operator/7.1@b"), (b"c3", "door/8@c"), (b"c4", "ho2/1@d")):
        rig.hello(routing, instance)
    assert not rig.server.is_behind("client/7")
    rig.wire.left = {b"c1": each - 1, b"c2": 1, b"c3": 1}
    assert not rig.server.is_behind("client/7")
    rig.wire.left[b"c2"] = 2
    assert rig.server.is_behind("client/7") and not rig.server.is_behind("client/8")
    rig.wire.left = {b"c1": 1, b"gone": together}
    assert rig.server.is_behind("client/7") and not rig.server.is_behind("client/8")
    assert not rig.server.is_behind("ho2/1")


def test_nobody_asks_under_an_id_that_another_counted(rig: Rig) -> None:
    """The executor's own next id, taken by another one of its role: refused, and delivered to nobody."""
    rig.hello(b"c1", "ho1/1@a")
    rig.hello(b"c2", "ho1/2@a")
    for routing, message_id in ((b"c2", "ho1/1@a:7"), (b"c1", "ho1/1@a:7")):
        head = make_header(Kind.REQUEST, message_id, type=GetBody.TYPE, destination="ledger", deadline_ms=1000)
        rig.server.receive(routing, [pack_header(head), encode(GetBody(ref="r"), 10_000)])
    assert [head.sender for head, _ in rig.delivered] == ["ho1/1@a"]
    (_, told, body) = rig.wire.sent[-1]
    assert (told.kind, told.correlation_id, decode(Failure, body, 1000).code) == (Kind.FAILURE, "ho1/1@a:7", "denied")


@pytest.mark.parametrize("field", ["message_id", "key", "trace"])
def test_a_header_that_is_too_long_to_be_answered_is_refused_with_what_is_not(field: str) -> None:
    """As at the broker: its answer, and what the tap is told of that, would be longer than any header may be."""
    rig = Rig("gateway/1@G1")
    rig.hello(b"h", "host/1@a")
    prompt = {"type": DegradedPrompt.TYPE, "destination": "gateway", "deadline_ms": 1000}
    rig.frame(b"h", Kind.REQUEST, b"", **prompt | {field: "x" * 2000})
    _, head, body = rig.wire.sent[-1]
    assert decode(Failure, body, 10_000).code == "malformed"
    assert len(head.correlation_id) <= 400 and len(head.trace) <= 400
    assert not rig.delivered and rig.server.counters["denied"] == 1 and rig.server.counters["internal_errors"] == 0
