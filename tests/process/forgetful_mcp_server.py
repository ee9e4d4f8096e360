"""An MCP server over HTTP that forgets its sessions after every second call of `add`, as restarts do.

Of its other tools `slow` takes half a second, and each `refused_N` is answered with that status.

`python` this, DIRECTORY, STATUS, SAID: what a forgotten session is answered, as JSON; an object without `id` gets the
request's. Its port stands in DIRECTORY/port; each call that it takes adds a line to DIRECTORY/calls.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(sys.argv[1])
STATUS, SAID = int(sys.argv[2]), json.loads(sys.argv[3])
sessions: set[str] = set()
made: list[str] = []
calls: list[str] = []
OBJECT = {"type": "object", "properties": {}}


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_arguments: Any) -> None:
        """Nobody reads it."""

    def answer(self, status: int, value: Any = None, session: str = "") -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.answer(405)

    def do_DELETE(self) -> None:
        self.answer(200)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, number = asked.get("method"), asked.get("id")
        if method == "initialize":
            made.append(f"s{len(made)}")
            sessions.add(made[-1])
            info = {"name": "forgetful", "version": "1"}
            said = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            return self.answer(200, {"jsonrpc": "2.0", "id": number, "result": said}, made[-1])
        if self.headers.get("Mcp-Session-Id") not in sessions:
            return self.answer(STATUS, {"jsonrpc": "2.0", "id": number} | SAID if isinstance(SAID, dict) else SAID)
        if number is None:
            return self.answer(202)
        names = ("add", "slow", "refused_429", "refused_502")
        result: dict[str, Any] = {"tools": [{"name": n, "description": n, "inputSchema": OBJECT} for n in names]}
        name = (asked.get("params") or {}).get("name", "")
        if name.startswith("refused_"):
            return self.answer(int(name[-3:]))
        if name == "slow":
            time.sleep(0.5)
            result = {"content": [{"type": "text", "text": f"slow in {len(made)}"}]}
        elif method == "tools/call":
            calls.append("add")
            with (HERE / "calls").open("a") as file:
                file.write("add\n")
            result = {"content": [{"type": "text", "text": f"call {len(calls)}"}]}
            if len(calls) % 2 == 0:
                sessions.clear()
        return self.answer(200, {"jsonrpc": "2.0", "id": number, "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
(HERE / "port.new").write_text(str(server.server_port))
(HERE / "port.new").rename(HERE / "port")
server.serve_forever()
