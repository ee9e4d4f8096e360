"""What an answer over HTTP means for the session and the call."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp.shared.exceptions import MCPError

from hobus.actors.ho1_executor.mcp_servers.session import has_forgotten, is_of_no_session
from hobus.actors.ho1_executor.mcp_servers.stdio import parse_messages


@pytest.mark.parametrize(
    ("code", "named", "message", "is_lost"),
    [
        (-32600, "call-1", "Bad Request", True),
        (-32000, None, "Bad Request: No valid session ID provided", True),
        (-32000, None, "Bad Request: Server not initialized", True),
        (-32000, "call-1", "No valid session ID", True),
        (-32001, "server-error", "restarted", True),
        (-32602, "call-1", "Session not found", True),
        (-32000, "call-1", "the disk is full", False),
        (-32000, "call-1", "session 7 of the shell crashed", False),
        (-32602, None, "a is not a number", False),
        (-32700, None, "Parse error", False),
    ],
)
def test_a_400_is_of_a_lost_session_where_nothing_can_have_run(
    code: int, named: Any, message: str, is_lost: bool
) -> None:
    """By its code, by not naming the request, or by its words; a tool's own failure is not repeated."""
    body = {"jsonrpc": "2.0", "id": named, "error": {"code": code, "message": message}}
    assert has_forgotten(json.dumps(body).encode(), "call-1") is is_lost


@pytest.mark.parametrize(("said", "is_lost"), [("Invalid session ID", True), ("no", False), ("[]", False), ("", False)])
def test_a_400_in_plain_text_counts_by_its_words(said: str, is_lost: bool) -> None:
    assert has_forgotten(said.encode(), "call-1") is is_lost


@pytest.mark.parametrize(
    ("code", "message", "is_lost"),
    [
        (-32001, "Session not found", True),
        (-32600, "Invalid session", True),
        (-32001, "Request timed out", False),
        (-32603, "Session not found", False),
    ],
)
def test_an_error_that_comes_as_an_answer_is_of_a_lost_session_by_code_and_words(
    code: int, message: str, is_lost: bool
) -> None:
    """With status 200; the code alone says other things too, and a tool may have sessions of its own."""
    assert is_of_no_session(MCPError(code, message)) is is_lost


@pytest.mark.parametrize(
    "cut", [rb"\ud83d", b"\xf0\x9f", rb"\ud83d and " + b"\xe2\x82"], ids=["escaped", "bytes", "both"]
)
def test_half_a_character_however_it_was_cut_spoils_itself_alone(cut: bytes) -> None:
    text = b'{"jsonrpc":"2.0","id":"call-1","result":{"content":[{"type":"text","text":"7 ' + cut + b'"}]}}'
    [message] = parse_messages(text)
    [block] = message.result["content"]
    assert block["text"].startswith("7 \ufffd")


@pytest.mark.parametrize("line", [b"no JSON", b"\xff", b"[" * 100_000, b"{}", b"[1, 2]"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_messages(line)


RESULT = b'{"content": [{"type": "text", "text": "7"}]}'


@pytest.mark.parametrize(
    "line", [b'[{"jsonrpc": "2.0", "id": "call-1", "result": %b}]', b'{"id": "call-1", "result": %b}']
)
def test_a_batch_and_an_answer_without_its_version_are_answers(line: bytes) -> None:
    """The result is there."""
    [message] = parse_messages(line % RESULT)
    assert (message.id, message.result["content"][0]["text"]) == ("call-1", "7")


@pytest.mark.parametrize(
    ("rest", "code", "said"),
    [
        ('"result": null', -32603, "it answered with something that is not a result: null"),
        ('"result": [1]', -32603, "it answered with something that is not a result: [1]"),
        ('"error": {"code": -32000}', -32000, 'it answered with something that is not a result: {"code": -32000}'),
        ('"error": {"code": "E7", "message": "no luck"}', -32603, "no luck"),
        ('"result": null, "error": {"code": -32000, "message": "no luck"}', -32000, "no luck"),
    ],
)
def test_an_answer_that_is_none_is_a_refusal_of_its_call(rest: str, code: int, said: str) -> None:
    """It costs that call alone, and at once: nobody waits for another answer."""
    [message] = parse_messages(f'{{"jsonrpc": "2.0", "id": "call-1", {rest}}}'.encode())
    assert (message.id, message.error.code, message.error.message) == ("call-1", code, said)
