"""A client for programs without an event loop does what the one with a loop does."""

import inspect

import pytest
from typing_extensions import TypedDict

from hobus.launch.sessions.session_client import AsyncSessions, Piece, Sessions


class Scripted(AsyncSessions):
    def __init__(self):
        self.asked = []

    async def _disconnect(self):
        self.asked.append("close")

    async def start(self, *, agent_id=None):
        return f"session of {agent_id}"

    async def sessions(self, *, is_all=False, limit=None):
        return [is_all, limit]

    async def session(self, session_id):
        raise LookupError(session_id)

    async def end(self, session_id):
        self.asked.append(("end", session_id))

    async def command(self, session_id, kind, **fields):
        self.asked.append((kind, fields))
        return f"{kind} for {session_id}"

    async def _answer(self, question):
        return question

    async def _pieces(self, question):
        try:
            for word in question.text.split():
                yield Piece(kind="delta", text=word)
        finally:
            self.asked.append("no more pieces")


async def made():
    return Scripted()


class Forecast(TypedDict):
    degrees: int


def test_each_method_is_the_asynchronous_one_waited_for():
    """With its arguments, its value and its errors; every method of the one is there in the other."""
    with Sessions(made) as client:
        assert client.start(agent_id="A") == "session of A"
        question = client.ask(
            "hello", session_id="S", input_id="i", output_schema={}, template="ATT-A-001", model="p/m"
        )
        assert question == ("hello", "S", "i", {}, "ATT-A-001", None, "p/m")
        said = client.ask(messages=[{"role": "user", "content": "hello"}]).said
        assert [(one.role, one.content) for one in said] == [("user", "hello")]
        for wrong in ({"role": "robot", "content": "x"}, {"role": "user"}):
            with pytest.raises(ValueError, match=r"messages: 0\."):
                client.ask(messages=[wrong]).said  # noqa: B018 - it is read
        assert client.sessions(limit=3) == [False, 3]
        assert client.steer("S", "more") == "Steer for S"
        assert client.deny("S", "001", reason="no") == "Deny for S"
        client.end("S")
        with pytest.raises(LookupError, match="nobody"):
            client.session("nobody")
    wanted = {name for name, _ in inspect.getmembers(AsyncSessions, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in wanted if not callable(getattr(Sessions, name, None))} == set()
    told = [("Steer", {"text": "more"}), ("Deny", {"call_id": "001", "reason": "no"}), ("end", "S"), "close"]
    assert client.client.asked == told


def test_a_stream_that_is_left_is_closed():
    """Its pieces come one by one; whoever stops reading ends it at the other side."""
    with Sessions(made) as client:
        assert [piece.text for piece in client.stream("one two three")] == ["one", "two", "three"]
        pieces = client.stream("one two three")
        assert next(pieces).text == "one"
        pieces.close()
        assert client.client.asked == ["no more pieces"] * 2
