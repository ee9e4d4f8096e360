"""What an answer over HTTP means for the session and the call."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("mcp")

from hobus.actors.ho1_executor.mcp_servers.session import has_forgotten


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
    """Many servers write no JSON there."""
    assert has_forgotten(said.encode(), "call-1") is is_lost
