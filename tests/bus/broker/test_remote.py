"""Workers on other hosts, at the broker's core: a connection is who its key is, and strangers are named, not obeyed."""

from __future__ import annotations

import pytest

from hobus.bus.broker.enrolment import RefusedKeys
from hobus.bus.broker.events import FrameReceived, Origin, UnknownKey
from hobus.bus.codec import decode, encode, pack_header
from hobus.bus.envelope import HEADER_VERSION, Kind, make_header
from hobus.bus.messages.control import (
    Bye,
    CreateToken,
    Drain,
    Hello,
    Join,
    Joined,
    Peers,
    ReadPeers,
    Ready,
    Refused,
    RevokeKey,
    RotateKey,
    TokenCreated,
    Welcome,
)
from hobus.bus.messages.ledger import Write
from hobus.bus.record.catalog import read_body
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.key_book import KeyFiles
from tests.bus.broker.rig import BIG, Rig

DIGEST = "sha256:" + "a" * 64


class Elsewhere:
    """A core that listens, and what connections with keys say to it."""

    def __init__(self, folder):
        self.keys = KeyFiles(folder, version="1", config_digest=DIGEST)
        self.keys.listens = "127.0.0.1:5570"
        self.rig = Rig(keys=self.keys, config_digest=DIGEST)

    def say(self, key, kind, message, connection=b""):
        """A control frame over a connection with this key; the answer."""
        name = connection or key.encode()
        frame = FrameReceived(
            name, pack_header(make_header(kind, "", type=message.TYPE)), encode(message, BIG), Origin(key, "10.0.0.9")
        )
        self.rig.step(frame)
        got = self.rig.got(name)
        return got[-1] if got else None

    def token(self, operator, **fields):
        """The key of a new token, asked of the broker as the operator asks."""
        public = curve.draw_pair().public.decode()
        wanted = CreateToken(public_key=public, role="ho1", ttl_s=60, uses=1, **fields)
        answer = self.rig.call(operator, f"operator/1@a:{public}", wanted)
        return public, answer

    def enrolled(self, operator, **fields):
        """A worker's key and its name."""
        public, _ = self.token(operator, **fields)
        mine = curve.draw_pair().public.decode()
        joined = self.say(
            public, Kind.JOIN, Join(public_key=mine, role="ho1", version="1", protocol=HEADER_VERSION, host="box")
        )
        return mine, decode(Joined, joined.body, BIG).name


def hello(instance, **fields):
    """A hello as a worker elsewhere says it."""
    role = instance.partition("/")[0]
    return Hello.model_validate(
        {"instance": instance, "token": "", "role": role, "slots": 2, "version": "1", "protocol": HEADER_VERSION, "host": "box",
         "config_digest": DIGEST, "offers": [role], "tools": ["list_tools"]} | fields
    )  # fmt: skip


@pytest.fixture
def there(tmp_path):
    return Elsewhere(tmp_path)


@pytest.fixture
def operator(there):
    return there.rig.client("operator/1@a")


def test_a_worker_joins_with_a_token_and_is_welcome_with_its_own_key(there, operator):
    key, name = there.enrolled(operator)
    answer = there.say(key, Kind.HELLO, hello(f"{name}@e1"))
    assert decode(Welcome, answer.body, BIG).config_digest == DIGEST
    there.say(key, Kind.READY, Ready(state="ready"))
    peers = decode(Peers, there.rig.call(operator, "q", ReadPeers()).body, BIG)
    (row,) = [row for row in peers.peers if row.instance == f"{name}@e1"]
    assert (row.host, row.address, row.slots, row.tools, row.version) == ("box", "10.0.0.9", 2, ["list_tools"], "1")
    assert peers.listens == "127.0.0.1:5570"
    ho2 = there.rig.client("ho2/1@a")
    there.rig.order(ho2, "WO-1")
    assert there.rig.requests(key.encode()) == ["WO-1"]


def test_a_key_that_is_taken_back_is_cut_off_and_its_orders_go_to_others(there, operator):
    """At once, and for good: the same worker's next hello is refused."""
    key, name = there.enrolled(operator)
    there.say(key, Kind.HELLO, hello(f"{name}@e1"))
    there.say(key, Kind.READY, Ready(state="ready"))
    ho2 = there.rig.client("ho2/1@a")
    there.rig.order(ho2, "WO-1")
    assert there.rig.requests(key.encode()) == ["WO-1"]
    other = there.rig.worker("ho1/2@a")
    there.rig.call(operator, "r", RevokeKey(name=name))
    assert there.rig.cut_keys == [key]
    assert there.rig.requests(other) == ["WO-1"]
    answer = there.say(key, Kind.HELLO, hello(f"{name}@e2"))
    assert decode(Refused, answer.body, BIG).code == "not_enrolled"


def test_an_ephemeral_key_is_revoked_once_its_worker_was_gone_for_its_time(there, operator):
    """Not before; one that was never there counts as gone since it joined, one of another token stays."""
    key, name = there.enrolled(operator, gone_s=60)
    kept, kept_name = there.enrolled(operator)
    there.say(key, Kind.HELLO, hello(f"{name}@e1"))
    there.rig.advance(59)
    assert decode(Welcome, there.say(key, Kind.HELLO, hello(f"{name}@e2")).body, BIG)
    there.say(key, Kind.BYE, Bye())
    there.rig.advance(59)
    assert there.rig.cut_keys == []
    there.rig.advance(5)
    assert there.rig.cut_keys == [key]
    assert decode(Refused, there.say(key, Kind.HELLO, hello(f"{name}@e3")).body, BIG).code == "not_enrolled"
    assert decode(Welcome, there.say(kept, Kind.HELLO, hello(f"{kept_name}@e1")).body, BIG)


def test_a_worker_elsewhere_that_is_drained_is_told_to_end_until_it_has(there, operator):
    """Once more when it comes back from a cut connection; a process of this machine is ended by its launcher."""
    key, name = there.enrolled(operator)
    there.say(key, Kind.HELLO, hello(f"{name}@e1"))
    there.say(key, Kind.READY, Ready(state="ready"))
    local = there.rig.worker("ho1/1@a")
    for instance in (f"{name}@e1", "ho1/1@a"):
        there.rig.call(operator, instance, Drain(instance=instance))
    assert [got.header.type for got in there.rig.got(key.encode())] == [Drain.TYPE]
    assert there.rig.got(local) == []
    assert there.say(key, Kind.HELLO, hello(f"{name}@e1"), connection=b"again").header.type == Drain.TYPE
    assert there.say(key, Kind.READY, Ready(state="ready"), connection=b"again") is None
    there.rig.order(there.rig.client("ho2/1@a"), "WO-1")
    assert there.rig.requests(b"again") == []


def test_a_worker_asks_for_models_under_calls_of_its_own_orders_alone(there, operator):
    """Not for another's order, nor for one to come, nor under a counted id; nor does it reserve those ids with a probe."""
    key, name = there.enrolled(operator)
    there.say(key, Kind.HELLO, hello(f"{name}@e1", in_progress=["WO-9"]))
    there.say(key, Kind.READY, Ready(state="ready"))
    gateway, ledger = there.rig.worker("gateway/1@a"), there.rig.worker("ledger/1@a")
    there.rig.order(there.rig.client("ho2/1@a"), "WO-1")
    assert there.rig.requests(key.encode()) == ["WO-1"]
    mine = key.encode()
    for message_id in ("WO-2#1", "WO-9#1", "#1", "WO-1", f"{name}@e1:5"):
        there.rig.ask(mine, message_id, "gateway", "gateway.prompt")
    there.rig.ask(mine, "WO-3#1", f"{name}@e1", "bus.probe")
    assert {code for _, code in there.rig.answers(mine)} == {"denied"}
    there.rig.ask(mine, "WO-1#1", "gateway", "gateway.prompt")
    there.rig.ask(mine, f"{name}@e1:6", "ledger", "ledger.write")
    assert (there.rig.requests(gateway), there.rig.requests(ledger)) == (["WO-1#1"], [f"{name}@e1:6"])


def test_a_claimed_name_counts_for_nothing(there, operator):
    """Another worker's name, a local actor's name, a token of the state directory: the key decides."""
    key, name = there.enrolled(operator)
    other, other_name = there.enrolled(operator)
    for instance, by in [(f"{name}@x", other), ("ho1/1@a", key), ("ho2/1@a", key), ("operator/1@b", key)]:
        answer = there.say(by, Kind.HELLO, hello(instance), instance.encode())
        assert answer.header.type == Refused.TYPE
    assert there.rig.core.peers == ["operator/1@a"]
    assert there.say(other, Kind.HELLO, hello(f"{other_name}@e1")).header.type == Welcome.TYPE


def test_a_token_s_key_may_join_and_do_nothing_else(there, operator):
    public, _ = there.token(operator)
    refused = decode(Refused, there.say(public, Kind.HELLO, hello("ho1/remote-1@e")).body, BIG)
    assert refused.code == "not_enrolled"
    assert there.say(public, Kind.REQUEST, ReadPeers()).header.type == "bus.rehello"


def test_nobody_joins_over_a_local_socket_or_at_a_broker_that_listens_nowhere(there):
    join = Join(public_key="x" * 40, role="ho1", version="1", protocol=HEADER_VERSION, host="")
    for rig in (there.rig, Rig()):
        rig.control(b"local", Kind.JOIN, join)
        assert rig.refusal(b"local").code == "bad_token"
        said = pack_header(make_header(Kind.HELLO, "", type=Hello.TYPE))
        rig.step(FrameReceived(b"far", said, encode(hello("ho1/1@a"), BIG), Origin("k" * 40, "")))
        assert rig.refusal(b"far").code == "not_enrolled"


def test_a_cluster_that_does_not_listen_gives_no_tokens_and_says_what_to_do():
    rig = Rig()
    operator = rig.client("operator/1@a")
    answer = rig.call(operator, "q", CreateToken(public_key="x" * 40, role="ho1", ttl_s=1, uses=1))
    assert answer.failure.code == "rejected"
    assert "hobus up --listen" in answer.failure.detail


def test_only_the_operator_makes_tokens(there):
    """A worker that could would let others in."""
    ho1 = there.rig.client("ho1/1@a")
    answer = there.rig.call(ho1, "q", CreateToken(public_key="x" * 40, role="ho1", ttl_s=1, uses=1))
    assert answer.failure.code == "denied"


def test_what_happens_to_keys_reaches_the_ledger_without_the_secret(there, operator):
    ledger = there.rig.worker("ledger/1@a")
    _, answer = there.token(operator)
    assert decode(TokenCreated, answer.body, BIG).broker_key == there.keys.pair.public.decode()
    there.enrolled(operator)
    there.rig.step(UnknownKey("key:0123456789abcdef", "10.0.0.66"))
    there.rig.advance(1.0)
    (got,) = [got for got in there.rig.got(ledger) if got.header.type == Write.TYPE]
    entries = decode(Write, got.body, BIG).entries
    assert [entry.event_type for entry in entries] == [
        "TOKEN_CREATED", "TOKEN_CREATED", "KEY_ENROLLED", "KEY_REFUSED",
    ]  # fmt: skip
    assert {entry.stream for entry in entries} == {"governance"}
    assert (entries[3].reason, read_body(entries[3]).key) == ("unknown_key", "key:0123456789abcdef")


def test_a_refused_key_is_shown_and_counted(there, operator):
    for _ in range(3):
        there.rig.step(UnknownKey("key:01", "10.0.0.66"))
    peers = decode(Peers, there.rig.call(operator, "q", ReadPeers()).body, BIG)
    (row,) = peers.refused_keys
    assert (row.key, row.address, row.count) == ("key:01", "10.0.0.66", 3)
    assert there.rig.core.counts["keys_refused"] == 3
    assert there.rig.verdicts().count("denied") == 1


def test_a_flood_of_keys_is_named_a_few_times_per_window():
    """As many names as allowed, then "others" once; a new window begins anew; memory is bounded."""
    refused = RefusedKeys(named_max=2, window_s=60)
    assert [refused.add(key, "", 0.0) for key in ("a", "a", "b", "c", "d", "a")] == [
        "a",
        None,
        "b",
        "others",
        None,
        None,
    ]
    assert refused.add("e", "", 60.0) == "e"
    assert [row.key for row in refused.rows(61.0)] == ["a", "e"]


def test_a_worker_that_reconnects_keeps_its_name_and_its_key(there, operator):
    """The same incarnation on a new connection replaces the old one; a new incarnation fences it."""
    key, name = there.enrolled(operator)
    for connection, instance in [(b"c1", f"{name}@e1"), (b"c2", f"{name}@e1"), (b"c3", f"{name}@e2")]:
        answer = there.say(key, Kind.HELLO, hello(instance), connection)
        assert answer.header.type == Welcome.TYPE
    assert there.rig.core.peers == ["operator/1@a", f"{name}@e2"]
    assert there.say(key, Kind.HELLO, hello(f"{name}@e1"), b"c4").header.type == Refused.TYPE


def test_a_worker_that_is_rotated_ends_its_orders_and_comes_back_with_its_next_key(there, operator):
    """It is told so, and gets no further order before; then the key before is refused, and it is as any other."""
    key, name = there.enrolled(operator)
    there.say(key, Kind.HELLO, hello(f"{name}@e1"))
    there.say(key, Kind.READY, Ready(state="ready"))
    ho2 = there.rig.client("ho2/1@a")
    there.rig.order(ho2, "WO-1")
    assert there.rig.requests(key.encode()) == ["WO-1"]
    there.rig.call(operator, "r", RotateKey(name=name, grace_s=60))
    there.rig.order(ho2, "WO-2")
    assert [got.header.type for got in there.rig.got(key.encode())] == [RotateKey.TYPE]
    there.rig.reply(key.encode(), "WO-1")
    there.say(key, Kind.BYE, Bye())
    then = curve.draw_pair().public.decode()
    wanted = Join(public_key=then, role="ho1", version="1", protocol=HEADER_VERSION, host="box")
    joined = there.say(key, Kind.JOIN, wanted, b"enrols")
    assert (joined.header.type, decode(Joined, joined.body, BIG).name) == (Joined.TYPE, name)
    assert decode(Refused, there.say(key, Kind.HELLO, hello(f"{name}@e2")).body, BIG).code == "not_enrolled"
    assert there.say(then, Kind.HELLO, hello(f"{name}@e2")).header.type == Welcome.TYPE
    assert there.say(then, Kind.READY, Ready(state="ready")).header.message_id == "WO-2"
    there.rig.advance(99)
    assert there.rig.cut_keys == []


def test_a_key_that_was_not_rotated_in_time_is_cut_off(there, operator):
    """Its worker has to join anew."""
    key, name = there.enrolled(operator)
    there.rig.call(operator, "r", RotateKey(name=name, grace_s=60))
    there.rig.advance(59)
    assert there.rig.cut_keys == []
    there.rig.advance(5)
    assert there.rig.cut_keys == [key]
    assert decode(Refused, there.say(key, Kind.HELLO, hello(f"{name}@e2")).body, BIG).code == "not_enrolled"


def test_a_worker_is_asked_for_another_key_until_it_has_come_with_it(there, operator):
    """One that was away is, when it says hello; one that learns what there is is not; nobody else is asked."""
    key, name = there.enrolled(operator)
    other, other_name = there.enrolled(operator)
    there.rig.call(operator, "r", RotateKey(name=name, grace_s=600))
    assert there.say(other, Kind.HELLO, hello(f"{other_name}@e1")).header.type == Welcome.TYPE
    assert there.say(key, Kind.HELLO, hello(f"{name}@e0", offers=[], tools=[]), b"learns").header.type == Welcome.TYPE
    assert there.say(key, Kind.HELLO, hello(f"{name}@e1")).header.type == RotateKey.TYPE
    wanted = Join(public_key=other, role="ho1", version="1", protocol=HEADER_VERSION, host="box")
    for of, public, code in ((key, other, "malformed"), (other, curve.draw_pair().public.decode(), "bad_token")):
        answer = there.say(of, Kind.JOIN, wanted.model_copy(update={"public_key": public}), code.encode())
        assert decode(Refused, answer.body, BIG).code == code
    failed = there.rig.call(operator, "x", RotateKey(name="ho1/remote-99", grace_s=1))
    assert failed.failure.code == "not_found"
