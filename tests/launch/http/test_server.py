"""The port of the HTTP door as strangers meet it: the real server and application, over sockets of loopback."""

import asyncio
import json
from contextlib import asynccontextmanager, nullcontext, suppress
from types import SimpleNamespace

import pytest
import pytest_asyncio
import structlog

from bench.builders import shipped_snapshot
from hobus.bus.clock import SystemClock
from hobus.launch.cluster.endpoints import split_address
from hobus.launch.http.app import make_app
from hobus.launch.http.context import Door
from hobus.launch.http.guard import Guard, names_of
from hobus.launch.http.keys import Ownership
from hobus.launch.http.limits import HEAD_MAX_BYTES, REFUSED_FOR_S
from hobus.launch.http.metrics import Metrics
from hobus.launch.http.problems import Problem
from hobus.launch.http.server import make_server
from hobus.launch.launcher.listening import bind_socket
from tests.launch.http.door import KEYS

SNAPSHOT = shipped_snapshot()
CONFIG = SNAPSHOT.config
KEY = "hobus-secret-of-alice"
HEAD = f"Host: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"


class Port:
    """A server at a port of its own."""

    def __init__(self, server, address):
        self.server = server
        self.address = split_address(address)
        self.writers = []

    @property
    def leaving(self):
        """Who was told no and has not closed."""
        return self.server.config.http_protocol_class.leaving

    @property
    def idle(self):
        """Who has no request under way."""
        return {one for one in self.server.config.http_protocol_class.idle if one.is_idle}

    async def open(self, data=b""):
        """A connection, on which this was sent."""
        reader, writer = await asyncio.open_connection(*self.address)
        self.writers.append(writer)
        writer.write(data if isinstance(data, bytes) else data.encode())
        return reader, writer

    async def close(self):
        """Every connection of its clients is gone."""
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)

    async def said(self, data, *, then=b""):
        """Status and code of the answer, and the whole of it; 0 where there was none."""
        reader, writer = await self.open(data)
        if then:
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(then)
        return await ended(reader, writer)

    async def lives(self):
        """It answers somebody else."""
        status, _, _ = await self.said(f"GET /healthz HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")
        return status == 200


async def ended(reader, writer):
    """What came until the end, as (status, code, bytes)."""
    try:
        async with asyncio.timeout(20):
            data = await reader.read()
    except ConnectionError:
        data = b""
    writer.close()
    if not data:
        return 0, "", data
    head, _, body = data.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    return status, json.loads(body)["error"]["code"] if status >= 400 else "", data


def door_of(config, *, body_timeout_ms):
    """A door without a cluster: what is asked here comes to none."""
    return Door(
        bus=SimpleNamespace(on_behalf_of=lambda _principal: nullcontext(), clock=SystemClock()), snapshot=SimpleNamespace(config=config, agents=SNAPSHOT.agents), ownership=Ownership(b"secret"),
        key_of={f"Bearer {KEY}": KEYS["Bearer k-alice"]}.get, hosts=names_of("127.0.0.1", []), metrics=Metrics(),
        journals=None, body_timeout_ms=body_timeout_ms,
    )  # fmt: skip


@asynccontextmanager
async def serving(tmp_path, app=None, *, head_timeout_ms=10_000, body_timeout_ms=60_000, **bounds):
    """The server, with these settings changed."""
    http = CONFIG.http.model_copy(update=bounds)
    door = door_of(CONFIG.model_copy(update={"http": http}), body_timeout_ms=body_timeout_ms)
    bound = bind_socket("127.0.0.1", 0)
    address = f"127.0.0.1:{bound.getsockname()[1]}"
    server = make_server(make_app(door) if app is None else Guard(app, door), http, head_timeout_ms=head_timeout_ms)
    task = asyncio.ensure_future(server.serve(sockets=[bound]))
    port = Port(server, address)
    try:
        yield port
    finally:
        await port.close()
        # What `shutdown` does, but for the fifth of a second that it waits for whoever is still there.
        tasks = [task, *server.server_state.tasks]
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listening in (*server.servers, bound):
            listening.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strangers_port(tmp_path_factory):
    """One for all who are answered and leave nothing behind."""
    async with serving(tmp_path_factory.mktemp("door"), head_timeout_ms=500) as port:
        yield port


OF_STRANGERS = pytest.mark.asyncio(loop_scope="module")


async def test_who_is_slow_is_told_so_and_keeps_out_nobody(tmp_path):
    """With a head or with a body, each in its time; all at once, since all of them wait."""
    async with serving(tmp_path, head_timeout_ms=300, body_timeout_ms=300) as port:
        await asyncio.gather(slow_heads(port), dripping_head(port), slow_body(port))
        assert await port.lives() and not port.leaving


async def slow_heads(port):
    """Slow loris: fifty heads that never end; who says nothing at all is closed without a word."""
    slow = [await port.open(b"GET / HT") for _ in range(50)]
    silent = await port.open()
    assert await port.lives()
    assert {(await ended(*one))[:2] for one in slow} == {(408, "too_slow")}
    assert (await ended(*silent))[2] == b""


async def dripping_head(port):
    """A byte now and then prolongs nothing."""
    reader, writer = await port.open(b"GET / HTTP/1.1\r\nX: ")
    end = asyncio.ensure_future(ended(reader, writer))
    for _ in range(100):
        writer.write(b"a")
        await asyncio.sleep(0.02)
        if end.done():
            break
    assert end.done() and (await end)[:2] == (408, "too_slow")


async def slow_body(port):
    """Its head was whole."""
    request = f"POST /v1/sessions HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{"
    assert (await port.said(request))[:2] == (408, "too_slow")


@OF_STRANGERS
async def test_the_answer_to_a_body_that_nobody_wants_is_heard(strangers_port):
    """Too large, without a key, to no route: whoever sends it whole gets the answer, not a reset."""
    size = CONFIG.http.body_max_bytes + 1_000_000
    for head, status in ((HEAD, 413), ("Host: 127.0.0.1\r\n", 401)):
        request = (
            f"POST /v1/sessions HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        )
        assert (await strangers_port.said(request.encode() + b"x" * size))[0] == status
    assert await strangers_port.lives()


async def is_refused(reader):
    """By an answer, or without a word."""
    with suppress(ConnectionError):
        data = await reader.read()
        return data == b"" or b"too_many_connections" in data
    return True


async def test_more_connections_than_allowed_are_refused_and_the_others_served(tmp_path, monkeypatch):
    """Of a hundred and fifty at once the first twenty are held, so many are told why, nobody more is kept in memory."""
    monkeypatch.setattr("hobus.launch.http.limits.REFUSALS_MAX", 30)
    monkeypatch.setattr("hobus.launch.http.context.KEY_SHARE", 1)
    begun = f"POST /v1/sessions HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{"
    async with serving(tmp_path, connections_max=20) as port:
        held = [await port.open(begun) for _ in range(20)]
        while port.idle or len(port.server.server_state.connections) < len(held):
            await asyncio.sleep(0.01)
        said = await asyncio.gather(*(port.said(f"GET /healthz HTTP/1.1\r\n{HEAD}\r\n") for _ in range(150)))
        assert {one[:2] for one in said} <= {(503, "too_many_connections"), (0, "")}
        assert sum(one[0] == 503 for one in said) >= 30
        assert b"retry-after: 1" in next(one[2] for one in said if one[0])
        crowd = [await port.open() for _ in range(60)]
        assert all(await asyncio.gather(*(is_refused(reader) for reader, _ in crowd)))
        assert len(port.leaving) <= 30 and len(port.server.server_state.connections) <= 50
        for _, writer in [*crowd, *held[1:]]:
            writer.close()
        held[0][1].write(b"}")
        status = await held[0][0].readline()
        assert status.startswith(b"HTTP/1.1 ") and b" 503 " not in status
        held[0][1].close()
        while port.server.server_state.connections:
            await asyncio.sleep(0.01)
        assert await port.lives()


async def test_a_crowd_that_asks_for_nothing_keeps_nobody_out(tmp_path):
    """Its oldest make room, whether they have said nothing or half a head; who asks at once is answered."""
    async with serving(tmp_path, connections_max=20) as port:
        crowd = [await port.open(b"" if number % 2 else b"GET / HT") for number in range(60)]
        said = [await port.said(f"GET /healthz HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n") for _ in range(30)]
        assert {status for status, _, _ in said} == {200}
        first = await asyncio.gather(*(ended(*one) for one in crowd[:40]))
        assert {one[:2] for one in first} == {(503, "too_many_connections")}
        assert len(port.idle) <= 20 and not (port.idle & port.leaving)


@pytest.mark.parametrize("asked", ["GET /healthz HTTP/1.1\r\n", "POST /v1/sessions HTTP/1.1\r\nContent-Length: 9\r\n"])
async def test_a_crowd_that_was_answered_and_stays_keeps_nobody_out(tmp_path, asked):
    """Whether it may ask again, or owes the rest of a body that nobody wants."""
    async with serving(tmp_path, connections_max=20) as port:
        for _ in range(2):
            crowd = [await port.open(f"{asked}{HEAD.replace(KEY, KEY[::-1])}\r\n") for _ in range(20)]
            assert all(await asyncio.gather(*(reader.readuntil(b"\r\n\r\n") for reader, _ in crowd)))
            said = [await port.said(f"GET /healthz HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n") for _ in range(10)]
            assert {status for status, _, _ in said} == {200}


@OF_STRANGERS
@pytest.mark.parametrize("then", [b"", b"b" * 60_000 + b"\r\n\r\n"])
async def test_a_giant_head_is_refused(strangers_port, then):
    """In one piece or in many, without an end or with one."""
    limit = HEAD_MAX_BYTES
    request = f"GET /healthz HTTP/1.1\r\n{HEAD}X: {'a' * (limit + 1)}"
    answer = await strangers_port.said(request if then else f"{request}\r\n\r\n", then=then)
    assert answer[:2] == (431, "head_too_large")
    many = "".join(f"X-{number}: {'a' * 90}\r\n" for number in range(limit // 90))
    assert (await strangers_port.said(f"GET /healthz HTTP/1.1\r\n{HEAD}{many}\r\n"))[:2] == (431, "head_too_large")
    assert await strangers_port.lives()


NO_REQUESTS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 2000,
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /\r\nHTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n folded\r\n: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer a\x00b\r\n\r\n",
    (
        b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    ),
]


@OF_STRANGERS
@pytest.mark.parametrize("data", NO_REQUESTS)
async def test_what_is_no_request_is_refused_in_the_shape_of_all_errors(strangers_port, data):
    """Another protocol, smuggling, half a line: one answer, and an end."""
    status, code, whole = await strangers_port.said(data)
    assert (status, code) in {(400, "malformed_request"), (501, "malformed_request")}
    assert whole.count(b"HTTP/1.1 ") == 1
    assert await strangers_port.lives()


PATHS = [
    ("GET", "/../../etc/passwd", 404), ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404), ("GET", "//v1/models", 404),
    ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", 404), ("GET", "/v1/sessions/..%5c..%5cx", 404),
    ("GET", "/v1/sessions/%00", 404), ("GET", "/v1/sessions/%ff%fe", 404), ("GET", "/healthz/../v1/models", 404),
    ("GET", "/v1/models;x=1", 404), ("GET", "/V1/MODELS", 404), ("GET", "http://evil.example/v1/models", 404),
    ("GET", "/v1/%6dodels/", 404), ("OPTIONS", "*", 404), ("CONNECT", "127.0.0.1:22", 404), ("TRACE", "/healthz", 405),
    ("PROPFIND", "/v1/sessions", 405), ("GET", "/" + "a" * 8000, 404), ("GET", "/v1/sessions/" + "%2e" * 3000, 404),
]  # fmt: skip


@OF_STRANGERS
@pytest.mark.parametrize(("method", "path", "status"), PATHS)
async def test_a_path_is_what_it_is_and_never_a_way_out(strangers_port, method, path, status):
    """Raw, as no client library would send it."""
    found, code, data = await strangers_port.said(f"{method} {path} HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")
    assert found == status and code.endswith({404: "not_found", 405: "method_not_allowed"}[status])
    assert b"root:" not in data and path.encode() not in data


STRANGERS = [
    ("Host: evil.example", 421, "host_not_allowed"),
    ("Host: 127.0.0.1.evil.example:8420", 421, "host_not_allowed"),
    ("Host: ", 421, "host_not_allowed"),
    ("Host: 127.0.0.1\r\nOrigin: https://evil.example", 403, "origin_not_allowed"),
    ("Host: 127.0.0.1\r\nOrigin: null", 403, "origin_not_allowed"),
    ("Host: 127.0.0.1\r\nOrigin: http://127.0.0.1", 403, "origin_not_allowed"),
]


@OF_STRANGERS
@pytest.mark.parametrize(("headers", "status", "code"), STRANGERS)
async def test_names_and_pages_of_others_are_refused(strangers_port, headers, status, code):
    """DNS rebinding comes under its own name, a page's script with its origin; a key helps neither."""
    for path in ("/healthz", "/v1/models", "/docs"):
        request = f"GET {path} HTTP/1.1\r\n{headers}\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n\r\n"
        assert (await strangers_port.said(request))[:2] == (status, code)


@OF_STRANGERS
async def test_garbage_behind_an_answer_ends_the_connection_alone(strangers_port):
    """The answer came before the body was whole: what follows cannot be answered a second time."""
    head = f"POST /no HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    status, code, data = await strangers_port.said(head, then=b"zz\r\nnonsense\r\n")
    assert (status, code) == (404, "not_found") and data.count(b"HTTP/1.1") == 1
    assert await strangers_port.lives()


async def test_who_reads_nothing_of_his_answer_is_cut_off(tmp_path, monkeypatch):
    """An answer that fills every buffer holds its connection for so long and no longer."""

    async def endless(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await asyncio.sleep(0)

    monkeypatch.setattr("hobus.launch.http.limits.WRITE_TIMEOUT_MS", 200)
    async with serving(tmp_path, endless) as port:
        _, writer = await port.open(f"GET / HTTP/1.1\r\n{HEAD}\r\n")
        async with asyncio.timeout(20):
            while not port.server.server_state.connections:
                await asyncio.sleep(0.01)
            while port.server.server_state.connections:
                await asyncio.sleep(0.05)
        writer.close()


async def test_a_defect_is_named_without_what_it_met(tmp_path):
    """500 and its place in the log; nothing of the request, its key, or the values that the fault speaks of."""

    async def broken(_scope, _receive, _send):
        raise ValueError(f"no such thing: {KEY}")

    with structlog.testing.capture_logs() as logged:
        async with serving(tmp_path, broken) as port:
            status, code, data = await port.said(f"GET /{KEY} HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n")
    assert (status, code) == (500, "internal") and KEY.encode() not in data
    (line,) = logged
    assert line["error"] == "ValueError" and "test_server.py" in line["at"] and KEY not in str(line)


async def test_what_was_just_refused_for_want_of_room_is_refused_unread_and_nobody_else(tmp_path, monkeypatch):
    """The same head with as long a body, for a moment; another head, length or person is read."""
    read, now_s = list[bytes](), 10.0
    monkeypatch.setattr(SystemClock, "monotonic", lambda _self: now_s)

    async def busy(_scope, receive, _send):
        read.append((await receive())["body"])
        raise Problem(429, "busy", "no room", headers={"retry-after": "1"})

    def asking(body, more=""):
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\nConnection: close\r\n{more}"
        )
        return f"{head}Content-Length: {len(body)}\r\n\r\n{body}"

    body = '{"role": "user", "content": "hello"}'
    async with serving(tmp_path, busy) as port:

        async def told(*asked):
            status, code, answer = await port.said(asking(*asked))
            assert (status, code) == (429, "busy") and b"\r\nretry-after: 1" in answer.lower()

        for _ in range(3):
            await told(body)
        assert len(read) == 1
        for other in ('{"user": "bob"}'.ljust(len(body)), '{"\\u0075ser": "bob"}'.ljust(len(body)), "{}"):
            await told(other)
            assert read[-1] == other.encode()
        await told(body, "X-Hobus-User: bob\r\n")
        assert len(read) == 5
        now_s += REFUSED_FOR_S
        await told(body)
        assert len(read) == 6
