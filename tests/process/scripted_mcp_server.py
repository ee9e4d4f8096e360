"""An MCP server by hand, without the SDK: it does what its tools are called. `python scripted_mcp_server.py DIR [HOW]`.

Each call of `effect` adds a line to DIR/effects; `pid` of the newest server stands in DIR/pid. HOW: `garbage` (prints
nonsense between its messages), `silent` (never answers), `wild` (lists what is no tool beside what is one), `many` (200
tools), `late4` (answers its handshake after four seconds), `held` (not as long as there is DIR/hold), `stateful` (has
`count`, which says its process and how often it was called there), `odd` (has tools that answer oddly, or go on for long).
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(sys.argv[1])
HOW = sys.argv[2] if len(sys.argv) > 2 else ""
DAEMON = """
import subprocess
nothing = subprocess.DEVNULL
print(subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing).pid)
"""
OBJECT = {"type": "object", "properties": {}}
_writing = threading.Lock()
_cancelled: dict[Any, threading.Event] = {}
_counted: list[str] = []


def say(message: dict[str, Any]) -> None:
    with _writing:
        if HOW == "garbage":
            sys.stdout.write('not json at all\n{"jsonrpc": "1.0"}\n[1, 2]\n\n')
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tools() -> list[Any]:
    names = [
        "effect",
        "slow",
        "deaf",
        "polite",
        "die",
        "huge",
        "nonsense",
        "sample",
        "key",
        "daemon",
        "picture",
        "poster",
    ]
    if HOW == "stateful":
        names.append("count")
    if HOW == "odd":
        names += ["half", "steady", "endless", "huge_id_last"]
    listed: list[Any] = [{"name": name, "description": f"Does {name}.", "inputSchema": OBJECT} for name in names]
    if HOW == "odd":
        nothing = {"type": "object", "properties": None, "required": None}
        listed += [{"name": name, "inputSchema": nothing} for name in ("null_content", "null_result")]
    if HOW == "many":
        listed += [{"name": f"tool {n}", "description": "x" * 500, "inputSchema": OBJECT} for n in range(200)]
    if HOW == "wild":
        listed += [
            {"name": "no_schema"},
            {"name": "text_schema", "inputSchema": "nonsense"},
            {"name": "bad_schema", "inputSchema": {"type": "object", "properties": {"a": {"type": "strange"}}}},
            {"name": "outside", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1:1/schema"}},
            {"name": "x" * 80, "inputSchema": OBJECT},
            {"name": "big", "inputSchema": {**OBJECT, "description": "x" * 100_000}},
            {"description": "nameless"},
            "no tool",
            {"name": "slow", "inputSchema": OBJECT, "description": "twice"},
            {"name": "number", "inputSchema": {"type": "object", "maximum": 10**30}},
            {"name": "slow\u00e9", "inputSchema": OBJECT},
            {"name": "slow\u00e8", "inputSchema": OBJECT},
            {"name": "späce  x", "inputSchema": OBJECT},
        ]
    return listed


def call(request_id: Any, params: dict[str, Any]) -> None:
    name = params["name"]
    if name in ("effect", "slow", "deaf", "polite"):
        with (HERE / "effects").open("a") as file:
            file.write(f"{name} {params.get('_meta', {}).get('hobus/idempotency_key', '')}\n")
    if name == "daemon":
        started = subprocess.run([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, check=True)
        with (HERE / "effects").open("a") as file:
            file.write(f"daemon {started.stdout.decode().strip()}\n")
        time.sleep(60)
    if name == "die":
        os.kill(os.getpid(), 9)
    if name in ("slow", "deaf", "polite"):
        if _cancelled[request_id].wait(60) and name == "polite":
            say({"id": request_id, "error": {"code": -32000, "message": "cancelled"}})
            return
        if name == "deaf":
            time.sleep(60)
    if name in ("steady", "endless"):
        for step in range(12 if name == "steady" else 10_000):
            if _cancelled[request_id].wait(0.2):
                return
            token = params["_meta"]["progressToken"]
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
    if name == "half":
        text = "cut \ud83d, whole \ud83d\ude00"
        say({"id": request_id, "result": {"content": [{"type": "text", "text": text}]}})
        return
    if name.startswith("null"):
        say(
            {
                "id": request_id,
                "result": {"content": None, "structuredContent": {"a": 7}} if name == "null_content" else None,
            }
        )
        return
    if name == "huge_id_last":
        say({"result": {"content": [{"type": "text", "text": "x" * 1_000_000}]}, "id": request_id})
        return
    if name == "nonsense":
        say({"id": request_id, "result": {"content": "nothing of the kind"}})
        return
    if name == "sample":
        say({"id": "s1", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
        say({"id": "e1", "method": "elicitation/create", "params": {"message": "?", "requestedSchema": OBJECT}})
    if name == "count":
        _counted.append(name)
        say({"id": request_id, "result": {"content": [{"type": "text", "text": f"{len(_counted)} in {os.getpid()}"}]}})
        return
    if name in ("picture", "poster"):
        png = b"\x89PNG\r\n\x1a\n".ljust(100 if name == "picture" else 2000, b"x")
        image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(png).decode()}
        say({"id": request_id, "result": {"content": [{"type": "text", "text": "look"}, image]}})
        return
    text = "x" * 1_000_000 if name == "huge" else str(params.get("_meta")) if name == "key" else f"did {name}"
    say({"id": request_id, "result": {"content": [{"type": "text", "text": text}]}})


def main() -> None:
    """Serves until its input ends; not even then, when it is deaf."""
    (HERE / "pid").write_text(str(os.getpid()))
    for line in sys.stdin:
        message = json.loads(line)
        method, request_id = message.get("method"), message.get("id")
        if HOW == "silent":
            continue
        if method == "initialize":
            if HOW.startswith("late"):
                time.sleep(float(HOW[4:]))
            while HOW == "held" and (HERE / "hold").exists():
                time.sleep(0.01)
            info = {"name": "scripted", "version": "1\x1b[31m"}
            ability = {"tools": {"listChanged": True}}
            said = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": ability,
                "serverInfo": info,
                "instructions": "Say please." if HOW == "odd" else " ",
            }
            say({"id": request_id, "result": said})
        elif method == "tools/list":
            say({"id": request_id, "result": {"tools": tools()}})
        elif method == "tools/call":
            _cancelled[request_id] = threading.Event()
            threading.Thread(target=call, args=(request_id, message["params"]), daemon=True).start()
        elif method == "notifications/cancelled":
            with (HERE / "cancelled").open("a") as file:
                file.write(f"{message['params']['requestId']}\n")
            _cancelled[message["params"]["requestId"]].set()
        elif method is None and request_id is not None:
            with (HERE / "declined").open("a") as file:
                file.write(f"{request_id} {'error' in message}\n")


if __name__ == "__main__":
    main()
