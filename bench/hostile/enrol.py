"""The keys of enrolled workers, as an attacker has them who took over workers' hosts."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from bench.cluster import Cluster
from hobus.bus.clock import SystemClock
from hobus.bus.join_token import decode
from hobus.bus.zeromq import curve
from hobus.launch.worker.join import join


def enrolled(up: Cluster, count: int = 1) -> list[dict[str, str]]:
    """Endpoint, keys and name of each, in text."""
    words = ["--home", str(up.home.root), "token", "create", "--json", "--uses", str(count)]
    command = [sys.executable, "-m", "hobus", *words]
    token = decode(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["token"])
    found: list[dict[str, str]] = []
    for _ in range(count):
        pair = curve.new_pair()
        worker = asyncio.run(join(token, pair, up.place.snapshot.config, clock=SystemClock(), host="attacker"))
        found.append({
            "endpoint": f"tcp://{token.address}",
            "server": curve.text(token.broker_key).decode(),
            "public": pair.public.decode(),
            "secret": pair.secret.decode(),
            "name": worker.name,
        })  # fmt: skip
    return found
