"""What a fault is told as."""

import asyncio
import json

import pytest
import structlog

from hobus.bus.errors import BusError, SessionFault
from hobus.bus.messages.ids import derive_session_id
from hobus.bus.messages.session import TurnResult
from hobus.bus.messages.work_order import Cost
from hobus.launch.http.openai_answers import make_own_fields, make_usage
from hobus.launch.http.problems import convert_code, convert_fault, convert_result
from tests.launch.http.door import SimulatedDoor


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (BusError("cancelled", "http/1 stopped before it was answered"), 503, "door_closing"),
        (BusError("busy", "x", retry_after_ms=1200), 429, "busy"),
        (SessionFault("run_active", "x"), 409, "run_active"),
        (BusError("internal", "x"), 500, "internal"),
        (SessionFault("unreadable", "x"), 503, "unreadable"),
    ],
)
def test_a_fault_has_its_status(fault, status, code):
    """A door that ends may be asked the same again elsewhere: that is no verdict on the turn."""
    problem = convert_fault(fault)
    assert (problem.status, problem.code) == (status, code)
    assert problem.headers == {"busy": {"retry-after": "2"}, "door_closing": {"retry-after": "1"}}.get(code, {})


def test_a_cancelled_turn_is_a_verdict():
    """Its client is not to ask again."""
    session = derive_session_id("door", "in-1")
    told = {"response": "cancelled", "outcome": "error", "session_id": session, "run_id": None, "input_id": "in-1"}
    problem = convert_result(TurnResult(code="cancelled", **told))
    assert problem is not None and problem.status == 409
    assert convert_result(TurnResult(code="degraded", **told | {"outcome": "degraded"})) is None


SAID = {"messages": [{"role": "user", "content": "hello"}]}
BEYOND = 10**23
WRONG = [
    ("chat/completions", SAID | {"max_tokens": BEYOND}, "max_tokens"),
    ("chat/completions", SAID | {"max_completion_tokens": 2**63}, "max_completion_tokens"),
    ("chat/completions", SAID | {"max_tokens": 0}, "max_tokens"),
    ("chat/completions", SAID | {"modalities": 5}, "modalities"),
    ("chat/completions", SAID | {"response_format": "text"}, "response_format"),
    ("chat/completions", SAID | {"tools": [{"type": "function", "function": "weather"}]}, "tools.0"),
    ("chat/completions", SAID | {"tools": [{"type": "function", "function": {"name": "a", "parameters": {"maximum": BEYOND}}}]},
     None),
    ("responses", {"input": "hello", "max_output_tokens": BEYOND}, "max_output_tokens"),
    ("responses", {"input": "hello", "text": "oops"}, "text"),
    ("responses", {"input": "hello", "text": [1]}, "text"),
    ("responses", {"input": "hello", "text": {"format": "json"}}, "text.format"),
    ("sessions/ID/turns", {"text": "hello", "run_overrides": {"max_tokens": BEYOND}}, "run_overrides.max_tokens"),
    ("sessions/ID/turns", {"text": "hello", "run_overrides": {"max_tokens": 0}}, "run_overrides.max_tokens"),
    ("sessions", {"session_config": {"max_tokens": BEYOND}}, "session_config.max_tokens"),
    ("sessions/ID/commands", {"command": {"kind": "Pause"}, "run_seq": BEYOND}, "run_seq"),
    ("sessions/ID/commands", {"command": {"kind": "Pause"}, "expected_session_epoch": BEYOND}, "expected_session_epoch"),
]  # fmt: skip


def test_an_answer_that_cannot_be_read_now_is_asked_for_again():
    """Its input is answered, and only the record is away: no fault of the client's."""
    session = derive_session_id("door", "in-1")
    ended = TurnResult(session_id=session, run_id=None, input_id="i", outcome="error", response="x", code="unreadable")
    problem = convert_result(ended)
    assert problem is not None and (problem.status, problem.headers) == (503, {"retry-after": "1"})
    problem = convert_result(ended.model_copy(update={"code": "CIRCUIT_OPEN", "retry_after_ms": 7_200}))
    assert problem is not None and (problem.status, problem.headers) == (503, {"retry-after": "8"})


def test_what_a_client_got_wrong_is_told_as_its_own_with_the_field(door):
    """Numbers beyond 64 bits, words where something else belongs: 400, never a defect of ours."""

    async def work():
        async with door.http() as http:
            session = (await http.post("/v1/sessions", json={})).json()["session_id"]
            return [
                await http.post(
                    f"/v1/{path.replace('ID', session)}",
                    json={"model": "ADMIN", **body} if "s/ID" not in path and path != "sessions" else body,
                )
                for path, body, _ in WRONG
            ]

    found = door.run(work())
    assert [(one.status_code, one.json()["error"]["param"]) for one in found] == [(400, param) for *_, param in WRONG]


def test_a_model_or_provider_that_is_not_there_is_no_fault_of_the_door(door):
    """Not found, so that nobody asks for it again and again."""

    async def work():
        async with door.http() as http:
            session = (await http.post("/v1/sessions", json={})).json()["session_id"]
            return [
                await http.post(f"/v1/sessions/{session}/turns", json={"text": "hello", "run_overrides": overrides})
                for overrides in ({"provider": "nope"}, {"model": "nope"}, {"provider_profile_id": "nope"})
            ]

    found = door.run(work())
    codes = ["PROVIDER_NOT_FOUND", "MODEL_NOT_FOUND", "PROVIDER_NOT_FOUND"]
    assert [(one.status_code, one.json()["error"]["code"]) for one in found] == [(404, code) for code in codes]


def test_who_leaves_amid_his_body_is_no_defect():
    """The door answers nobody, and says nothing of it."""
    with SimulatedDoor() as door, structlog.testing.capture_logs() as logs:
        status = door.run(left(door, "/v1/sessions", b"{", is_whole=False))
    assert [log for log in logs if log["event"] == "request_failed"] == []
    assert status == 499


def test_who_leaves_before_the_first_piece_of_his_stream_has_his_run_cancelled():
    """Nothing was sent to him yet, and nobody could ask for the answer again."""
    body = json.dumps({"model": "ADMIN", "stream": True, **SAID}).encode()
    with SimulatedDoor() as door:
        status = door.run(left(door, "/v1/chat/completions", body))
        door.run(asyncio.sleep(5))
        ends = {entry.event_type for entry in door.cluster.entries()} & {"RunCompleted", "RunCancelled"}
        assert door.doors[0].turns_under_way == 0
    assert status == 499 and ends == {"RunCancelled"}


async def left(door, path, body, *, is_whole=True):
    """The status of a request whose client goes after this much of its body; he stays a moment when it is whole."""
    messages, sent = [{"type": "http.request", "body": body, "more_body": not is_whole}], []

    async def receive():
        if messages:
            return messages.pop(0)
        if is_whole:
            while not any(entry.event_type == "RunRequested" for entry in door.cluster.entries()):
                await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer k-alice"), (b"content-length", b"200"),
                    (b"content-type", b"application/json")],
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1", "root_path": "",
    }  # fmt: skip
    await door.apps[0](scope, receive, send)
    return sent[0]["status"]


def test_a_turn_says_over_http_whose_answer_it_lacks():
    """Degraded, beside its answer; an error, in its body; a plain answer has no such field."""
    words = "provider mine answered 500: it failed"
    session = derive_session_id("door", "in-1")
    told = {"response": words, "outcome": "error", "session_id": session, "run_id": None, "input_id": "in-1"}
    problem = convert_result(TurnResult(code="PROVIDER_ERROR", **told))
    assert problem is not None
    error = problem.body()["error"]
    assert (error["code"], error["message"]) == ("PROVIDER_ERROR", words)
    assert (
        make_own_fields(TurnResult(code="degraded", reason=words, **told | {"outcome": "degraded"}))["reason"] == words
    )
    assert "reason" not in make_own_fields(TurnResult(**told | {"outcome": "success"}))


@pytest.mark.parametrize(
    ("code", "status", "type_"),
    [
        ("PROVIDER_RATE_LIMITED", 429, "rate_limit_error"), ("PROVIDER_ERROR", 502, "server_error"),
        ("PROVIDER_REFUSED", 502, "server_error"), ("PROVIDER_TIMEOUT", 504, "server_error"),
        ("CIRCUIT_OPEN", 503, "server_error"), ("UNKNOWN_OUTCOME", 502, "server_error"),
    ],
)  # fmt: skip
def test_whose_fault_it_was_shows_by_the_status(code, status, type_):
    """And a client is told not to ask anew by itself what was tried as often as the configuration says."""
    result = TurnResult(
        session_id=derive_session_id("door", "in-1"),
        run_id=None,
        input_id="i",
        outcome="error",
        response="x",
        code=code,
    )
    problem = convert_result(result)
    assert problem is not None and (problem.status, problem.body()["error"]["type"]) == (status, type_)
    expected = {"retry-after": "1"} if status == 503 else {"x-should-retry": "false"}
    assert problem.headers == expected


@pytest.mark.parametrize(
    ("code", "headers"),
    [
        ("RATE_LIMITED", {"retry-after": "60"}),
        ("PROVIDER_RATE_LIMITED", {"x-should-retry": "false", "retry-after": "60"}),
    ],
)
def test_who_is_refused_for_a_rate_is_told_when_there_is_room(code, headers):
    """By a limit of the gateway's own nothing was asked for yet: its client may come back by itself."""
    problem = convert_code(code, "x", retry_after_ms=59_800)
    assert (problem.status, problem.headers) == (429, headers)


def test_usage_tells_what_was_cached_and_thought():
    """In both dialects' words."""
    cost = Cost(input_tokens=100, output_tokens=30, total_tokens=130, cached_tokens=20, reasoning_tokens=7)
    result = TurnResult(
        session_id=derive_session_id("door", "in-1"),
        run_id=None,
        input_id="i",
        outcome="success",
        response="x",
        cost=cost,
    )
    usage = make_usage(result)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 20}
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 7}
