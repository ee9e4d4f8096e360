"""The keys of enrolled workers, as an attacker has them who took over workers' hosts."""

from __future__ import annotations

import asyncio

from bench.cluster import Cluster
from bench.far_worker import token_of
from hobus.bus.clock import SystemClock
from hobus.bus.join_token import decode
from hobus.bus.zeromq import curve
from hobus.bus.zeromq.curve_link import CurveEnds
from hobus.launch.worker.join import join


def enrolled(up: Cluster, count: int = 1) -> list[dict[str, str]]:
    """Endpoint, keys and name of each, in text."""
    token = decode(token_of(up, "--uses", str(count)))
    found: list[dict[str, str]] = []
    key = curve.encode_key(token.broker_key)
    for _ in range(count):
        pair = curve.draw_pair()
        ends = CurveEnds(token.address, key, curve.derive_pair(curve.encode_key(token.secret)))
        worker = asyncio.run(join(ends, pair, up.place.snapshot.config, clock=SystemClock(), host="attacker"))
        found.append({
            "endpoint": f"tcp://{token.address}",
            "server": key.decode(),
            "public": pair.public.decode(),
            "secret": pair.secret.decode(),
            "name": worker.name,
        })  # fmt: skip
    return found
