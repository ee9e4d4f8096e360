"""A connection from elsewhere that only sends garbage, or never says who it is, is cut off; nobody else notices."""

from __future__ import annotations

import pytest

from hobus.bus import limits
from hobus.bus.broker.events import LOCAL, FrameReceived, Origin
from hobus.bus.codec import pack_header
from hobus.bus.envelope import Kind, make_header
from tests.bus.broker.rig import Rig


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test can reach."""
    monkeypatch.setattr(limits, "MALFORMED_MAX", 4)


ELSEWHERE = Origin("k" * 40, "10.0.0.7")


def test_a_garbage_sender_from_elsewhere_is_cut_off_at_the_last_frame_that_is_borne() -> None:
    rig = Rig()
    client = rig.client("ho2/1@a")
    for _ in range(3):
        rig.garbage(b"bad", ELSEWHERE)
    assert rig.cut_off == []
    rig.garbage(b"bad", ELSEWHERE)
    assert [(cut.connection, cut.peer) for cut in rig.cut_off] == [(b"bad", "")]
    assert "malformed frames" in rig.cut_off[0].why
    assert rig.core.counts["cut_off"] == 1
    assert rig.core.peers == ["ho2/1@a"]
    rig.order(client, "WO-1")


def test_garbage_on_this_machine_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNBOUND_MAX_BYTES", 100)
    rig = Rig()
    worker, client = rig.worker("ho1/1@a"), rig.client("ho2/1@a")
    for _ in range(50):
        rig.garbage(b"bad")
        rig.garbage(worker)
    rig.frame(worker, make_header(Kind.READY, "", type="bus.ready"), b"no body")
    assert rig.cut_off == []
    assert rig.core.counts["malformed"] == 101
    assert rig.got(b"bad") == []
    rig.order(client, "WO-1")
    assert rig.got(worker)[-1].header.message_id == "WO-1"


@pytest.mark.parametrize(("origin", "is_cut"), [(ELSEWHERE, True), (LOCAL, False)], ids=["elsewhere", "here"])
def test_a_connection_without_a_hello_is_heard_for_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch, origin: Origin, is_cut: bool
) -> None:
    monkeypatch.setattr(limits, "UNBOUND_MAX_BYTES", 10000)
    rig = Rig()
    client = rig.client("ho2/1@a")
    for number in range(5):
        head = make_header(Kind.REQUEST, f"m{number}", type="ledger.stats", destination="ledger")
        rig.step(FrameReceived(b"nobody", pack_header(head), b"x" * 3000, origin))
        rig.ask(client, f"n{number}", "ledger", "ledger.stats", body=b"x" * 3000)
    assert {cut.connection for cut in rig.cut_off} == ({b"nobody"} if is_cut else set())
    assert len(rig.got(b"nobody")) == 1
