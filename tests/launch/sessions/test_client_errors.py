"""Whatever a program does with a client, it hears of it by one family of errors."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

import hobus
from hobus import AsyncClient, AsyncClusterClient, Client, HobusError, HttpError, RequestError
from hobus.bus.clock import SystemClock
from hobus.bus.errors import BusError, SessionFault
from hobus.bus.messages.session import TurnResult
from hobus.config.snapshot import load_snapshot
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import make_home
from hobus.launch.console.errors import UnreachableFault
from hobus.launch.sessions.client_errors import as_hobus_errors, require_answer

SNAPSHOT = load_snapshot()


class Nonsense:
    """What no method takes."""


class Away:
    instance = "door/1@a"
    clock = SystemClock()

    def new_id(self) -> str:
        return "i-1"

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def request(self, *_given: Any, **_named: Any) -> Any:
        raise BusError("no_route", "nobody is there")


def over_http(answer: Any = None) -> AsyncClient:
    """A client whose door answers everything so."""
    made = answer or (lambda _request: httpx2.Response(200, json={"what": "is this?"}))
    return AsyncClient("http://127.0.0.1:1", "key", timeout_s=0.05, transport=httpx2.MockTransport(made))


def over_bus() -> AsyncClusterClient:
    place = Place(home=make_home(Path("/nowhere")), sockets=Path("/nowhere"), snapshot=SNAPSHOT)
    return AsyncClusterClient(place, Away(), AsyncExitStack(), timeout_s=0.05)  # type: ignore[arg-type]


METHODS = sorted(
    (make.__name__, name)
    for make, cls in ((over_http, AsyncClient), (over_bus, AsyncClusterClient))
    for name, method in inspect.getmembers(cls, inspect.isfunction)
    if not name.startswith("_") and name != "close"
)
WRONG = (Nonsense(), 5, "", "../../healthz", "\ud800", float("nan"), {"x": Nonsense()})


async def outcome(client: Any, name: str, given: Any, *, optional: bool) -> BaseException | None:
    method = getattr(client, name)
    named = {
        one.name: given
        for one in inspect.signature(method).parameters.values()
        if one.kind is not one.VAR_KEYWORD and (optional or one.default is one.empty)
    }
    try:
        async with asyncio.timeout(20):
            called = method(**named)
            if inspect.isasyncgen(called):
                await anext(called)
            else:
                await called
    except Exception as error:  # noqa: BLE001 - whatever comes out
        return error
    return None


@pytest.mark.parametrize(("make", "name"), METHODS)
async def test_no_argument_brings_out_another_error(make: str, name: str) -> None:
    """Wrong types, bad ids, what cannot be sent, answers that are none, nobody there: each is a HobusError."""
    for wrong in WRONG:
        for optional in (False, True):
            error = await outcome(globals()[make](), name, wrong, optional=optional)
            assert error is None or isinstance(error, HobusError), (wrong, repr(error))
            assert error is None or (error.code and error.message)


@pytest.mark.parametrize(
    "given",
    [
        {"text": 5}, {"text": "hello", "input_id": "a b"},
        {"text": "hello", "messages": [{"role": "user", "content": "x"}]}, {"messages": [{"role": "nobody"}]},
        {"text": "hello", "model": 7}, {"text": "hello", "output_schema": list[int]},
        {"text": "hello", "output_schema": {"type": {1}}}, {"text": "hello", "session_id": "../../healthz"},
    ],
)  # fmt: skip
async def test_both_clients_answer_one_mistake_alike(given: dict[str, Any]) -> None:
    """One class, code and sentence, before anything is sent, and no text of the language's own."""
    errors = []
    for client in (over_http(), over_bus()):
        for asked in (client.ask(**given), anext(client.stream(**given))):
            with pytest.raises(RequestError) as refused:
                await asked
            errors.append((refused.value.code, refused.value.message))
    assert len(set(errors)) == 1 and errors[0][0] == "invalid_input" and "arguments that" not in errors[0][1]
    assert "output_schema" not in given or errors[0][1].startswith("output_schema: ")


def test_a_turn_that_ended_in_an_error_is_raised_as_over_http() -> None:
    """Its code, its sentence, when to ask again, and that it is a verdict; a degraded answer is one."""
    made = partial(TurnResult, session_id="11111111-1111-4111-8111-111111111111", run_id=None, input_id="i")
    degraded = made(outcome="degraded", response="hm")
    assert require_answer(degraded) is degraded
    with pytest.raises(hobus.ClusterError, match="busy: wait") as told:
        require_answer(made(outcome="error", response="wait", code="busy", retry_after_ms=1500))
    assert told.value.is_verdict and told.value.retry_after_s == 1.5 and not told.value.is_retryable


@pytest.mark.parametrize(("make", "name"), METHODS)
async def test_a_closed_client_says_so(make: str, name: str) -> None:
    """Whatever is asked of it; closing it once more is nothing."""
    client = globals()[make]()
    await client.close()
    await client.close()
    error = await outcome(client, name, "11111111-1111-4111-8111-111111111111", optional=False)
    assert isinstance(error, RequestError) and error.code == "closed"


def test_what_is_no_coroutine_is_not_waited_for() -> None:
    """Also a session's id, which the name may be taken to want."""
    with Client("http://127.0.0.1:1", "k") as client:
        for given in ("1f75a111", 5, None):
            with pytest.raises(RequestError, match="expected a coroutine"):
                client.wait_for(given)  # pyright: ignore[reportArgumentType]


def test_a_closed_client_without_a_loop_says_so() -> None:
    client = Client("http://127.0.0.1:1", "key", timeout_s=0.1)
    client.close()
    for call in (client.start, lambda: client.ask("hello"), lambda: list(client.stream("hello"))):
        with pytest.raises(RequestError, match="closed"):
            call()


@pytest.mark.parametrize(
    "made",
    [
        lambda: Client("ftp://x", "key"), lambda: Client("http://x:port", "key"), lambda: Client(5, "key"),
        lambda: Client("http://x", "a\nb"), lambda: Client("http://x", "schlüssel"), lambda: Client("http://x", "key", timeout_s=0),
        lambda: Client("http://x", "key", timeout_s="soon"), lambda: hobus.ClusterClient(5), lambda: hobus.ClusterClient("\0"),
        lambda: hobus.ClusterClient(".", timeout_s=-1), lambda: Client("http://x", "key", user="schlüssel"),
        lambda: hobus.Cluster(agents=["clerk"]),
    ],
)  # fmt: skip
def test_a_client_that_cannot_be_made_says_why(made: Any) -> None:
    with pytest.raises(RequestError) as refused:
        made()
    assert refused.value.message


@pytest.mark.parametrize("line", ["data: {", "event: result\ndata: 5", "event: error\ndata: {}", "id: x\ndata: {}"])
async def test_a_stream_that_is_none_is_an_error_of_the_door(line: str) -> None:
    client = over_http(
        lambda _request: httpx2.Response(200, text=f"{line}\n\n", headers={"content-type": "text/event-stream"})
    )
    session = "11111111-1111-4111-8111-111111111111"
    for following in (client.events(session), client.stream("hello", session_id=session)):
        with pytest.raises(HttpError) as refused:
            async for _ in following:
                pass
        assert refused.value.code in ("malformed", "closed")


def test_faults_keep_what_they_say() -> None:
    """Code, hint, and whether the same may be asked again."""
    for fault, code, retryable in (
        (BusError("busy", "wait", retry_after_ms=1500), "busy", True),
        (SessionFault("session_closed", "it is over"), "session_closed", False),
        (UnreachableFault("no cluster runs in x", hint="hobus up", code="unreachable"), "unreachable", False),
        (PermissionError(13, "no"), "unavailable", False),
    ):
        with pytest.raises(hobus.ClusterError) as told, as_hobus_errors():
            raise fault
        assert (told.value.code, told.value.is_retryable) == (code, retryable)
        assert told.value.retry_after_s == (1.5 if code == "busy" else None)
        assert told.value.__cause__ is fault and bool(told.value.hint) == (code == "unreachable")


class Ticks(SystemClock):
    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


@pytest.mark.parametrize("was_there", [False, True])
def test_an_address_where_nothing_ever_answered_is_given_up_soon(was_there, monkeypatch):
    """A wrong port is told within seconds; a door that was there is waited for as long as the caller has time."""

    async def at_once(_seconds: float) -> None:
        return None

    monkeypatch.setattr("hobus.launch.sessions.http_client.asyncio.sleep", at_once)
    tried: list[httpx2.Request] = []

    def door(request: httpx2.Request) -> httpx2.Response:
        tried.append(request)
        if was_there and len(tried) == 1:
            return httpx2.Response(200, json={"models": []})
        raise httpx2.ConnectError("refused")

    async def work() -> None:
        transport = httpx2.MockTransport(door)
        client = AsyncClient("http://127.0.0.1:1", "k", timeout_s=600, transport=transport, clock=Ticks())
        if was_there:
            with pytest.raises(HobusError):
                await client.start()
        with pytest.raises(HttpError, match="hobus up --http" if not was_there else "the door does not answer"):
            await client.start()

        first.append(len(tried))
        with pytest.raises(HttpError):
            await client.start()

    first: list[int] = []
    asyncio.run(work())
    assert (first[0] < 20) is not was_there
    assert len(tried) - first[0] > 2  # another call tries as long
