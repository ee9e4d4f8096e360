"""`broker_alone.py HOME STOP_FD SETTINGS`: the real broker as a process of its own, ended by its stop pipe."""

from __future__ import annotations

import sys
from pathlib import Path

from hobus.bus.clock import SystemClock
from hobus.bus.settings import BusSettings
from hobus.bus.zeromq.broker_loop import run_broker
from hobus.bus.zeromq.tokens import TokenDirectory

home = Path(sys.argv[1])
run_broker(
    settings=BusSettings.model_validate_json(sys.argv[3]),
    endpoint=f"ipc://{home}/broker.sock",
    tap_endpoint=f"ipc://{home}/tap.sock",
    epoch="e1",
    tokens=TokenDirectory(home),
    clock=SystemClock(),
    stops={int(sys.argv[2]): lambda _peers: True},
    on_ready=lambda: print("ready", flush=True),  # noqa: T201 - the parent waits for it
)
print("ended", flush=True)  # noqa: T201 - an orderly end, not a kill
