"""The broker's loop around its sockets: what goes wrong with watching ends no broker."""

from __future__ import annotations

import pytest

from hobus.bus.broker.tap_record import Tap
from hobus.bus.clock import SystemClock
from hobus.bus.envelope import Kind, make_header
from hobus.bus.zeromq.broker_loop import BrokerLoop
from tests.bus.broker.rig import settings_with


@pytest.mark.parametrize("method", ["hear", "publish", "answer_some"])
def test_a_defect_of_the_tap_costs_its_readers_frames_and_the_broker_nothing(tmp_path, monkeypatch, method):
    tmp_path.chmod(0o700)
    loop = BrokerLoop(
        settings=settings_with(), endpoint=f"ipc://{tmp_path}/b", tap_endpoint=f"ipc://{tmp_path}/t", epoch="e",
        authenticate=lambda _hello: None, clock=SystemClock(), stops={},
    )  # fmt: skip
    counted, published = [], []
    try:
        monkeypatch.setattr(loop._core, "count", counted.append)
        with monkeypatch.context() as broken:

            def fail(*_arguments):
                raise RuntimeError("a defect")

            broken.setattr(loop._tap, method, fail)
            loop._taps = [Tap(1, 1.0, "delivered", make_header(Kind.REQUEST, "m"), "", "", b"", "")]
            loop._serve_tap(has_spoken=True)
        monkeypatch.setattr(loop._tap, "publish", published.append)
        loop._serve_tap(has_spoken=True)
    finally:
        loop.close()
    assert counted == [{"tap_failed": 1}]
    assert (published, loop._taps) == ([], [])
