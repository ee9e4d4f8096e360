"""Who only sends garbage, or never says who it is, is cut off; nobody else notices."""

from __future__ import annotations

from hobus.bus.codec import decode
from hobus.bus.envelope import Kind, header
from hobus.bus.messages.control import Refused
from tests.bus.broker.rig import BIG, Rig


def test_a_garbage_sender_is_told_and_cut_off_at_the_last_frame_that_is_borne() -> None:
    """Once, with the reason; its counters say so; another connection is not touched."""
    rig = Rig(malformed_max=4)
    client = rig.client("ho2/1@a")
    for _ in range(3):
        rig.garbage(b"bad")
    assert rig.cut_off == []
    rig.garbage(b"bad")
    assert [(cut.connection, cut.peer) for cut in rig.cut_off] == [(b"bad", "")]
    (got,) = rig.got(b"bad")
    assert "bus.malformed_max" in decode(Refused, got.body, BIG).detail
    assert rig.core.counts["cut_off"] == 1
    assert rig.core.peers == ["ho2/1@a"]
    rig.order(client, "WO-1")


def test_a_bound_peer_that_sends_garbage_is_lost_and_its_work_goes_to_others() -> None:
    """It may come back as far as the transport lets it."""
    rig = Rig(malformed_max=2)
    first, client = rig.worker("ho1/1@a"), rig.client("ho2/1@a")
    rig.order(client, "WO-1")
    assert [got.header.message_id for got in rig.got(first)] == ["WO-1"]
    second = rig.worker("ho1/2@a")
    rig.garbage(first)
    rig.frame(first, header(Kind.READY, "", type="bus.ready"), b"no body")
    assert [(cut.connection, cut.peer) for cut in rig.cut_off] == [(first, "ho1/1@a")]
    assert [(got.header.message_id, got.header.attempt) for got in rig.got(second)] == [("WO-1", 2)]


def test_a_connection_without_a_hello_is_heard_for_so_many_bytes() -> None:
    """Well-formed frames as well; a bound one is heard for ever."""
    rig = Rig(unbound_max_bytes=10_000)
    client = rig.client("ho2/1@a")
    for number in range(5):
        rig.ask(b"nobody", f"m{number}", "ledger", "ledger.stats", body=b"x" * 3000)
        rig.ask(client, f"n{number}", "ledger", "ledger.stats", body=b"x" * 3000)
    assert [(cut.connection, cut.peer) for cut in rig.cut_off][:1] == [(b"nobody", "")]
    assert {cut.connection for cut in rig.cut_off} == {b"nobody"}
