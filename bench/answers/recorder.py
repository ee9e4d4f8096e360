"""Stands between hobus and a model server: passes requests on, and keeps what was asked and what it cost."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Recorder:
    """Where it listens, and of each request its body and the usage that the server told."""

    address: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def wait_until_idle(self) -> None:
        """Return once every request has ended; a client may have left before."""
        while len(self.usages) < len(self.requests):
            time.sleep(0.01)


@contextmanager
def recording(server: str) -> Iterator[Recorder]:
    kept = Recorder()
    to = server.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if not body:
                return  # whoever asked has gone
            kept.requests.append(json.loads(body))
            said = b""
            with closing(HTTPConnection(to, timeout=600)) as upstream, suppress(ConnectionError):
                upstream.request("POST", self.path, body, {"content-type": "application/json"})
                with upstream.getresponse() as answer:  # who wanted the first words alone may be gone
                    self.send_response(answer.status)
                    self.send_header("content-type", answer.headers["content-type"])
                    self.send_header("connection", "close")
                    self.end_headers()
                    while piece := answer.read1(65536):
                        said += piece
                        self.wfile.write(piece)
                        self.wfile.flush()
            self.close_connection = True
            kept.usages.append(usage_in(said))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its base names it
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.address = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def usage_in(said: bytes) -> dict[str, Any]:
    """Return the usage of an answer, whole or as a stream; empty where there is none."""
    parts = [line.removeprefix(b"data: ") for line in said.splitlines() if b'"usage"' in line]
    for part in reversed(parts or [said]):
        with suppress(ValueError):
            if usage := json.loads(part).get("usage"):
                return dict(usage)
    return {}
