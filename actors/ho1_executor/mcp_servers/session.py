"""MCP itself, in the process of one server: handshake, listings, calls, cancels. The one place that knows the SDK.

The handshake of the protocol up to version 2025-11-25 is spoken, which servers of every age understand. Requests go
through the SDK's dispatcher as they are, since a listing with one bad tool is still a listing. What a server asks of
its client (sampling, elicitation, roots) is declined by the session: no such ability is declared.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import httpx2
import mcp_types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from hobus.actors.ho1_executor.limits import DEFINITION_MAX_BYTES, MCP_INSTRUCTIONS_BYTES, MCP_PING_S, MCP_TOO_LARGE
from hobus.actors.ho1_executor.mcp_servers.listing import NO_RESULT, NOT_TAKEN, make_printable, render_content
from hobus.actors.ho1_executor.mcp_servers.secrets import NoSecret, make_environment, resolve_references, without
from hobus.actors.ho1_executor.mcp_servers.stdio import Streams, Traffic, open_stdio
from hobus.actors.ho1_executor.tools.definition import SERVER_SAYS, KeptFiles, ToolResult, cut, make_not_done
from hobus.actors.ho1_executor.tools.host_process import Frames, HostGone
from hobus.actors.ho1_executor.tools.protocol import list_result_fields, pack_frame
from hobus.config.limits import FILES_MAX_BYTES

CLIENT = mcp_types.Implementation(name="hobus", version="1")
IDEMPOTENCY_KEY = "hobus/idempotency_key"
"""Key of a call's `_meta` under which a server finds what is the same for every try of one call."""

_HTTP_LOST = frozenset({mcp_types.CONNECTION_CLOSED, mcp_types.INTERNAL_ERROR, mcp_types.PARSE_ERROR})
"""Errors over HTTP after which nobody knows what became of a call: the SDK says these of a connection that broke. A
server may say them itself, and then the doubt is needless; the other mistake would be worse."""

_NOT_OF_A_SESSION = frozenset({mcp_types.PARSE_ERROR, mcp_types.METHOD_NOT_FOUND, mcp_types.INVALID_PARAMS})
_SESSION_NOT_FOUND = -32001
"""The official TypeScript SDK's code for it; some of its servers answer that with status 200."""
_NO_SESSION = re.compile(
    rb"session[ _-]?id|(?:no|invalid|unknown|expired|missing|bad)(?: valid| active)? session"
    rb"|session (?:was |is |has )?(?:not|expired|terminated|unknown|invalid|closed|lost|gone)|not initiali[sz]ed",
    re.IGNORECASE,
)


async def serve(worker: Frames, settings: Mapping[str, Any]) -> None:
    """Stay connected until the worker or the server is gone; tell a server that cannot be connected as `failed`."""
    traffic, secret = Traffic(), list[str]()
    has_listed = False
    try:
        async with _open_streams(settings, traffic, secret) as (read, write):
            dispatcher = JSONRPCDispatcher(read, write)
            link = _Link(worker, dispatcher, settings, traffic)
            async with ClientSession(dispatcher=dispatcher, message_handler=link.heard, client_info=CLIENT) as session:
                await session.initialize()
                link.begin(session)
                await link.tell_listing()
                has_listed = True
                await link.work()
    except NoSecret as error:
        await worker.send("failed", detail=str(error))
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the SDK raises what its libraries raise
        if not has_listed:
            await worker.send("failed", detail=without(_explain_failure(error, traffic), secret))


@asynccontextmanager
async def _open_streams(
    settings: Mapping[str, Any], traffic: Traffic, secret: list[str]
) -> AsyncGenerator[Streams, None]:
    server: Mapping[str, Any] = settings["server"]
    is_stdio = server["transport"] == "stdio"
    values, found = resolve_references(server["env"] if is_stdio else server["headers"], settings["given"])
    secret += found
    if is_stdio:
        most = settings["message_max_bytes"]
        async with open_stdio(server["command"], make_environment(values), traffic, most) as streams:
            yield streams
    else:

        async def note(response: httpx2.Response) -> None:
            """Note the status, which the SDK tells only where the server says nothing itself."""
            status = response.status_code
            if response.request.method != "POST" or status < HTTPStatus.BAD_REQUEST:
                return
            asked = json.loads(response.request.content).get("id")
            traffic.refused[str(asked)] = status
            is_bad = status == HTTPStatus.BAD_REQUEST
            if status == HTTPStatus.NOT_FOUND or (is_bad and has_forgotten(await response.aread(), asked)):
                traffic.not_taken.add(str(asked))

        async with (
            httpx2.AsyncClient(headers=values, timeout=None, event_hooks={"response": [note]}) as client,
            streamable_http_client(
                server["url"], http_client=client, max_sse_event_size=settings["message_max_bytes"]
            ) as streams,
        ):
            yield streams


def has_forgotten(said: bytes, asked: object) -> bool:
    """Return whether a body under 400 means that the session is unknown; many servers answer so in place of 404.

    A refusal that does not name its request was of none that had been read. Of one that does, a tool may have run,
    unless the code or the words say otherwise.
    """
    try:
        answer = json.loads(said)
        code, named = answer["error"]["code"], answer.get("id")
        is_refused = code == mcp_types.INVALID_REQUEST or (named != asked and code not in _NOT_OF_A_SESSION)
    except (ValueError, LookupError, TypeError, AttributeError):
        is_refused = False
    return is_refused or _NO_SESSION.search(said) is not None


def is_of_no_session(error: MCPError) -> bool:
    """Return whether an error answer means, by code and words, that the server does not know the session."""
    is_before = error.code in (_SESSION_NOT_FOUND, mcp_types.INVALID_REQUEST)
    return is_before and _NO_SESSION.search(error.message.encode("utf-8", "replace")) is not None


def _explain_failure(error: BaseException, traffic: Traffic) -> str:
    """Return in one line why a server could not be connected."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"the command {error.filename or ''} is not there"
    if isinstance(error, PermissionError):
        return f"the command {error.filename or ''} may not be run"
    refused = next((f"it answered {status}" for status in traffic.refused.values()), "")
    parts = [traffic.why_ended or refused or f"it did not take the handshake ({type(error).__name__}: {error})"]
    if traffic.passed_over:
        parts.append(f"{traffic.passed_over} lines on its standard output were no MCP messages")
    if traffic.last_error_line:
        parts.append(f"its last word: {traffic.last_error_line}")
    return make_printable("; ".join(parts))


class _Link:
    """Connect the worker's frames on one side to the server's dispatcher on the other."""

    def __init__(
        self, worker: Frames, dispatcher: JSONRPCDispatcher[Any], settings: Mapping[str, Any], traffic: Traffic
    ) -> None:
        self._worker = worker
        self._dispatcher = dispatcher
        self._settings = settings
        self._traffic = traffic
        self._is_http = settings["server"]["transport"] == "http"
        self._headers: CallOptions = {}
        self._who = self._about = ""
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._relist = asyncio.Event()

    def begin(self, session: ClientSession) -> None:
        self._headers = {"headers": {MCP_PROTOCOL_VERSION_HEADER: session.protocol_version or ""}}
        self._who = f"{info.name} {info.version}" if (info := session.server_info) is not None else ""
        about, _is_cut = cut((session.instructions or "").strip(), MCP_INSTRUCTIONS_BYTES)
        self._about = SERVER_SAYS + about if about else ""

    async def heard(self, message: IncomingMessage) -> None:
        """Take note of a message from the server: only that its tools have changed matters."""
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._relist.set()

    async def work(self) -> None:
        """Carry out the worker's frames until the worker, or the server, is gone."""
        async with asyncio.TaskGroup() as tasks:
            mine = [
                tasks.create_task(self._carry_out(tasks)),
                tasks.create_task(self._list_again()),
                tasks.create_task(self._notice_end()),
            ]
            await self._over
            for task in mine:
                task.cancel()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    async def tell_listing(self) -> None:
        """Tell the worker the server's tools as they are now. Raises MCPError."""
        tools: list[Any] = []
        cursor: str | None = None
        for _ in range(self._settings["listed_max"]):  # a listing of more pages than tools never ends
            page = await self._request("tools/list", {"cursor": cursor} if cursor else {})
            listed = page.get("tools")
            tools += listed if isinstance(listed, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or len(tools) > self._settings["listed_max"] * 2:
                break
        rows = list_rows(tools, DEFINITION_MAX_BYTES, self._settings["message_max_bytes"] // 2, self._about)
        await self._worker.send("listed", server=make_printable(self._who), tools=rows)

    async def _list_again(self) -> None:
        while True:
            await self._relist.wait()
            self._relist.clear()
            try:
                await self.tell_listing()
            except MCPError:
                self._end()

    async def _notice_end(self) -> None:
        """End with the server's process: the worker starts another. Of a server over HTTP only a call can tell."""
        await self._traffic.ended.wait()
        self._end()

    async def _carry_out(self, tasks: asyncio.TaskGroup) -> None:
        with suppress(HostGone):
            while True:
                frame = await self._worker.receive()
                if frame["op"] == "call":
                    tasks.create_task(self._call(frame))
                elif frame["op"] == "cancel":
                    await self._dispatcher.notify(
                        "notifications/cancelled",
                        {"requestId": _make_request_id(frame["n"]), "reason": "the call is not wanted any more"},
                        self._headers,
                    )
        self._end()

    async def _call(self, frame: Mapping[str, Any]) -> None:
        params = {
            "name": frame["tool"],
            "arguments": frame["arguments"],
            "_meta": {IDEMPOTENCY_KEY: frame["idempotency_key"]},
        }
        is_lost = is_forgotten = False
        try:
            result = self._make_result(await self._request("tools/call", params, number=frame["n"]))
        except MCPError as error:
            if self._traffic.ended.is_set():
                return  # this process ends; its worker knows what that means for a call
            request_id, said = _make_request_id(frame["n"]), make_printable(error.message)
            status = self._traffic.refused.pop(request_id, 0)
            is_lost = self._is_http and error.code in _HTTP_LOST
            is_forgotten = request_id in self._traffic.not_taken or (self._is_http and is_of_no_session(error))
            if is_forgotten:
                result = make_not_done(NOT_TAKEN, f"the MCP server has forgotten its session: {said}")
            elif is_lost:
                how = f"answered {status}" if status else f"did not answer: {said}"
                is_refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
                result = make_not_done("tool_failed" if is_refused else "unknown_outcome", f"the MCP server {how}")
            else:
                who = "the MCP server" if error.code == MCP_TOO_LARGE else "the MCP server refused"
                result = make_not_done("tool_failed", f"{who}: {said}")
        await self._worker.send("result", **list_result_fields(frame["n"], result))
        if is_forgotten or (is_lost and not await self._answers()):
            self._end()  # a new connection finds it, or says why not

    async def _answers(self) -> bool:
        """Return whether the server still answers in this session: other calls may be in flight there."""
        try:
            async with asyncio.timeout(MCP_PING_S):
                await self._request("ping", {})
        except TimeoutError:
            return False
        except MCPError as error:
            return error.code == mcp_types.METHOD_NOT_FOUND and not self._traffic.not_taken
        return True

    def _make_result(self, answer: Mapping[str, Any]) -> ToolResult:
        content, is_error = answer.get("content") or [], answer.get("isError", False)
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            return make_not_done("tool_failed", f"the MCP server {NO_RESULT}")
        files = KeptFiles(0 if is_error else FILES_MAX_BYTES)
        text, truncated = cut(
            render_content(content, answer.get("structuredContent"), files), self._settings["output_max_bytes"]
        )
        code = "tool_failed" if is_error else ""
        return ToolResult(ok=not is_error, code=code, text=text, truncated=truncated, files=files.kept)

    async def _request(self, method: str, params: Mapping[str, Any], *, number: int | None = None) -> dict[str, Any]:
        """Make a request. `number`: of the worker's call, who is told when the server says that it goes on with it."""
        options: CallOptions = {**self._headers, "cancel_on_abandon": False}  # cancels are sent by name, and waited for
        if number is not None:

            async def go_on(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - by these names
                await self._worker.send("progress", n=number)

            options["request_id"], options["on_progress"] = _make_request_id(number), go_on
        return await self._dispatcher.send_raw_request(method, params, options)


def _make_request_id(number: int) -> str:
    return f"call-{number}"


def list_rows(tools: Sequence[Any], definition_max_bytes: int, all_max_bytes: int, about: str = "") -> list[Any]:
    """Return the listing as the worker is told of it: only what can be sent, and not more than it takes at once."""
    rows: list[dict[str, Any]] = []
    left = all_max_bytes
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            continue  # it has not even a name
        name = tool["name"][:200].encode("utf-8", "replace").decode()
        schema = tool.get("inputSchema")
        if isinstance(schema, dict):  # servers in Go say null where there is nothing
            schema = {word: value for word, value in schema.items() if value is not None}
        row = {"name": name, "description": _describe_tool(tool) + about, "schema": schema}
        size = _measure_row(row)
        if size is None:
            row = {"name": name, "description": "", "schema": None}
        elif size > 2 * definition_max_bytes or size > left:
            row = {"name": name, "description": "", "schema": None, "is_too_large": True}
        else:
            left -= size
        rows.append(row)
    return rows


def _measure_row(row: Mapping[str, Any]) -> int | None:
    """Return the bytes of a row on its way; None if it cannot be sent (a number or a text that is none elsewhere)."""
    try:
        return len(pack_frame("row", row=row))
    except (ValueError, OverflowError, RecursionError):
        return None


def _describe_tool(tool: Mapping[str, Any]) -> str:
    words = [tool.get("description"), tool.get("title"), tool["name"]]
    return next(word for word in words if isinstance(word, str) and word.strip())
