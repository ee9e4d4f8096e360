"""An MCP server as a process: its standard input and output as streams of messages, in bounds.

Not the SDK's own transport, which starts the server in a process group of its own, where no kill of ours reaches it,
and reads lines of any length. What a server prints beside its messages is passed over and counted; the last it writes
to standard error is kept until it is connected, to say why it could not be.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from msgspec import Struct, field

from hobus.actors.ho1_executor.limits import ERRORS_MAX_BYTES, KILL_GRACE_MS, MCP_LINE_END_BYTES, MCP_TOO_LARGE
from hobus.actors.ho1_executor.mcp_servers.listing import NO_RESULT
from hobus.bus.json_text import mend_json

OUR_ID = re.compile(rb'"id"\s*:\s*"(call-\d+)"')
Streams = tuple[Any, Any]
"""From the server, to the server; the SDK keeps the names of their types to itself."""


class Traffic(Struct):
    """What is known of the server's process beside its messages."""

    why_ended: str = ""
    passed_over: int = 0
    refused: dict[str, int] = field(default_factory=dict[str, int])
    """Statuses from 400 on of answers over HTTP, by the id of the request."""
    not_taken: set[str] = field(default_factory=set[str])
    """Ids of requests over HTTP that were not taken: the server has forgotten the session."""
    errors: bytearray = field(default_factory=bytearray)
    errors_read: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last_error_line(self) -> str:
        lines = self.errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


@asynccontextmanager
async def open_stdio(
    command: Sequence[str], env: Mapping[str, str], traffic: Traffic, message_max_bytes: int
) -> AsyncGenerator[Streams, None]:
    """Yield the two streams of a started server, which then has `KILL_GRACE_MS` to end by itself. Raises OSError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        limit=message_max_bytes,
    )
    to_session, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, to_session, traffic)
        tasks.start_soon(_write, process, from_session)
        tasks.start_soon(_keep_errors, process, traffic)
        try:
            yield read_stream, write_stream
        finally:
            if process.stdin is not None:
                process.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(KILL_GRACE_MS / 1000):
                    await process.wait()
            tasks.cancel_scope.cancel()


async def _read(
    process: asyncio.subprocess.Process,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    traffic: Traffic,
) -> None:
    """Read line by line until the server closes its output or says too much at once; then end the session's stream."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    async with to_session:
        while not traffic.ended.is_set():
            line = await _read_line(process.stdout)
            if line is None:
                traffic.why_ended = "it sent too large a message"
                traffic.ended.set()
                return
            if not line:
                traffic.why_ended = await _end_of(process, traffic)
                traffic.ended.set()
                return
            try:
                messages = parse_messages(line)
            except ValueError:
                traffic.passed_over += bool(line.strip())
                continue
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                for message in messages:
                    await to_session.send(SessionMessage(message))


async def _read_line(output: asyncio.StreamReader) -> bytes | None:
    """Return the next line; for one that is too long a refusal of the call that it answers, or None if it names none.

    Ids of this client stand at an end of such a line: no server writes them behind half of its result.
    """
    head, last, is_over = b"", b"", False
    while not is_over:
        try:
            piece, is_over = await output.readuntil(), True
        except asyncio.LimitOverrunError as much:
            piece = await output.readexactly(much.consumed)
        except asyncio.IncompleteReadError as ended:
            piece, is_over = ended.partial, True
        if is_over and not head:
            return piece
        head, last = head or piece[:MCP_LINE_END_BYTES], (last + piece)[-MCP_LINE_END_BYTES:]
    found = OUR_ID.search(head) or OUR_ID.search(last)
    if found is None:
        return None
    said = "its answer is too large; whatever it did is done"
    error = {"code": MCP_TOO_LARGE, "message": said}
    return json.dumps({"jsonrpc": "2.0", "id": found[1].decode(), "error": error}).encode()


def parse_messages(line: bytes) -> list[Any]:
    """Return the message of a line, or those of a batch; halves of a character become U+FFFD. Raises ValueError.

    A message that names a call of this client and is no answer refuses that call: else the call would be waited for.
    """
    read = mcp_types.jsonrpc_message_adapter
    try:
        return [read.validate_json(line, by_name=False)]
    except ValueError:
        told = json.loads(mend_json(line))
    return [read.validate_python(_answer(one), by_name=False) for one in (told if isinstance(told, list) else [told])]


def _answer(told: Any) -> Any:
    if not isinstance(told, dict) or "method" in told or told.get("id") is None:
        return told
    answer = {"jsonrpc": "2.0", "id": told["id"]}
    if isinstance(told.get("result"), dict):
        return answer | {"result": told["result"]}
    error = told["error"] if isinstance(told.get("error"), dict) else {}
    code, said = error.get("code"), error.get("message") or f"it {NO_RESULT}: {json.dumps(error or told.get('result'))}"
    return answer | {"error": {"code": code if type(code) is int else mcp_types.INTERNAL_ERROR, "message": str(said)}}


async def _end_of(process: asyncio.subprocess.Process, traffic: Traffic) -> str:
    """Return how a server ended that closed its output; its last words are read first."""
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_GRACE_MS / 1000):
            await traffic.errors_read.wait()
            code = await process.wait()
            return f"it ended ({f'signal {-code}' if code < 0 else f'exit {code}'})"
    return "it closed its standard output"


async def _write(process: asyncio.subprocess.Process, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None  # noqa: S101 - it was asked for
    async with from_session:
        async for message in from_session:
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            with suppress(ConnectionError):
                await process.stdin.drain()


async def _keep_errors(process: asyncio.subprocess.Process, traffic: Traffic) -> None:
    assert process.stderr is not None  # noqa: S101 - it was asked for
    while piece := await process.stderr.read(ERRORS_MAX_BYTES):
        traffic.errors += piece
        del traffic.errors[:-ERRORS_MAX_BYTES]
    traffic.errors_read.set()
