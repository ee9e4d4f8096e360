"""The key of an enrolled worker, as an attacker has it who took over a worker's host."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from bench.cluster import Cluster
from bus.clock import SystemClock
from bus.join_token import decode
from bus.zeromq import curve
from launch.worker_join import join


def enrolled(up: Cluster) -> dict[str, str]:
    """Endpoint and keys, in text."""
    command = [sys.executable, "-m", "launch.cli", "--home", str(up.home), "token", "create", "--json"]
    token = decode(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["token"])
    pair = curve.new_pair()
    asyncio.run(join(token, pair, up.place.snapshot.config, clock=SystemClock(), host="attacker"))
    return {
        "endpoint": f"tcp://{token.address}",
        "server": curve.text(token.broker_key).decode(),
        "public": pair.public.decode(),
        "secret": pair.secret.decode(),
    }
