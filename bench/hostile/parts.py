"""One message in parts that never ends, at a cluster's local sockets: `python -m bench.hostile.parts [--server broker]`.

libzmq hands messages over whole and counts whole ones, so nobody sees this one. Its own clients keep an unfinished message
to themselves, so ZMTP is spoken by hand here: a greeting, READY, then parts of 1 MB with the MORE bit for so long. Printed:
what was sent, the server's memory (RSS) before, at its highest, and two seconds after the sender has hung up.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

import psutil

from bench.cluster import cluster
from bench.report import arguments, markdown

_PART = b"\x03" + (1_000_000).to_bytes(8, "big") + b"x" * 1_000_000  # a long frame, and more to come
_GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" * 32
_READY = b"\x05READY\x0bSocket-Type" + (6).to_bytes(4, "big") + b"DEALER"
_AFTER_S = 2.0


def flood(path: Path, server: psutil.Process, seconds: float, pause_s: float) -> list[object]:
    """MB sent, and MB of the server before, at most, and afterwards."""
    before = highest = server.memory_info().rss
    sent, end = 0, time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        peer.sendall(_GREETING + b"\x04" + bytes([len(_READY)]) + _READY)
        while time.monotonic() < end:
            try:
                peer.sendall(_PART)
            except OSError:  # cut off
                break
            sent += len(_PART)
            highest = max(highest, server.memory_info().rss)
            time.sleep(pause_s)
    time.sleep(_AFTER_S)
    return [size >> 20 for size in (sent, before, highest, server.memory_info().rss)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--pause-ms", type=float, default=2.0, help="after each part")
    parser.add_argument("--server", choices=("broker", "ledger", "gateway"), default="broker")
    given = parser.parse_args()
    with cluster({}) as found:
        server = next(process for actor, process in found.processes.items() if actor.partition("/")[0] == given.server)
        path = found.place.sockets / f"{given.server}.sock"
        row = [given.server, *flood(path, server, given.seconds, given.pause_ms / 1000)]
    print(markdown(("server", "sent, MB", "RSS before, MB", "highest", "after"), [row]))


if __name__ == "__main__":
    main()
