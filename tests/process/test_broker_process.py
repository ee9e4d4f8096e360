"""What keeps a broker from starting."""

from __future__ import annotations

import pytest

from hobus.bus.clock import SystemClock
from hobus.bus.errors import ConfigError
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.tokens import TokenDirectory
from tests.bus.broker.rig import settings_with

pytestmark = pytest.mark.process


def test_a_broker_that_would_let_anybody_in_or_be_reached_from_outside_does_not_start(tmp_path):
    """The self-test, the socket's directory and the address are checked before anything is bound."""
    good = {
        "settings": settings_with(),
        "endpoint": f"ipc://{tmp_path}/b",
        "tap_endpoint": f"ipc://{tmp_path}/t",
        "epoch": "e",
        "tokens": TokenDirectory(tmp_path),
        "clock": SystemClock(),
        "stops": {},
        "on_ready": lambda: pytest.fail("it started"),
    }

    class Open(TokenDirectory):
        def authenticate(self, hello):
            return None

    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o755)
    for change, says in [
        ({"tokens": Open(tmp_path)}, "token"),
        ({"tap_endpoint": "tcp://127.0.0.1:5999"}, "tap"),
        ({"endpoint": "tcp://0.0.0.0:5999"}, "CURVE"),
        ({"tap_endpoint": f"ipc://{wide}/t"}, "0700"),
        ({"endpoint": f"ipc://{tmp_path}/nowhere/b"}, "0700"),
    ]:
        with pytest.raises(ConfigError, match=says):
            run_broker(**(good | change))
