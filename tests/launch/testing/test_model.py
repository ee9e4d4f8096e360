"""A scripted model: what comes over the wire for each kind of answer, and what is said where a script does not fit."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hobus.launch.testing.cassette import Cassette, Tape, TapedCall
from hobus.launch.testing.model import Reply, Request, ScriptedCall, ScriptedModel, ShownMessage, call

ASKED = Request((ShownMessage("system", "be brief"), ShownMessage("user", "how?")), ("weather",))
CALLED = ShownMessage("assistant", "", (call("weather", city="Rome"), call("weather", city="Oslo")))


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ("sunny", Reply("sunny")),
        ({"city": "Rome"}, Reply('{"city": "Rome"}')),
        (call("weather", city="Rome"), Reply(calls=[ScriptedCall("weather", {"city": "Rome"})])),
        ([ScriptedCall("a"), ScriptedCall("b")], Reply(calls=[ScriptedCall("a"), ScriptedCall("b")])),
        (RuntimeError("overloaded"), Reply(fault="overloaded")),
        (lambda request: request.text.upper(), Reply("HOW?")),
        (
            lambda request: request.nothing,
            Reply(fault="<lambda> of the script raised AttributeError: 'Request' object has no attribute 'nothing'"),
        ),
        (7, Reply(fault="a script holds texts, objects, calls and functions, not a int")),
        ([], Reply(fault="a script holds texts, objects, calls and functions, not a list")),
    ],
)
def test_each_kind_of_answer(answer, reply):
    """Once, in order; what came is remembered."""
    model = ScriptedModel([answer])
    assert "1 of 1 answers of the script were not asked for" in model.fault()
    said = model.reply(ASKED)
    assert replace(said, fault=said.fault.partition(", /")[0]) == reply
    assert (model.requests, model.fault()) == ([ASKED], "")
    assert "has 1 answers, and was asked once more: 'how?'" in model.reply(ASKED).fault


def test_a_request_says_what_was_said_last_and_what_tools_brought_since():
    """Of an earlier turn nothing; over the wire and back it is the same."""
    shown = [
        ShownMessage("tool", "old"),
        *ASKED.messages,
        CALLED,
        ShownMessage("tool", "sunny"),
        ShownMessage("tool", "rain"),
    ]
    asked = Request(tuple(shown), ("weather",))
    assert (asked.text, asked.results) == ("how?", ["sunny", "rain"])
    assert msgspec.json.decode(msgspec.json.encode(asked), type=Request) == asked


def taped(path: Path, *requests: Request) -> Cassette:
    """A cassette of these, each answered by its number."""
    calls = [TapedCall(one, Reply(str(number))) for number, one in enumerate(requests, 1)]
    path.write_bytes(msgspec.json.encode(Tape(1, calls)))
    return Cassette(path)


def test_a_cassette_answers_what_was_asked_then_and_shows_what_differs(tmp_path):
    """Line by line, the first one; also one more, and one less."""
    second = Request(
        (*ASKED.messages, CALLED, ShownMessage("tool", '"sunny"'), ShownMessage("tool", "it failed")), ("weather",)
    )
    played = taped(tmp_path / "a.json", ASKED, second)
    assert played.reply(ASKED).text == "1" and re.search(
        r"^1 of 2 answers of /.*/a\.json were not asked for", played.fault()
    )
    assert played.reply(second).text == "2" and played.fault() == ""
    assert "has 2 answers, and was asked once more" in played.reply(ASKED).fault and played.fault()
    other = taped(tmp_path / "b.json", ASKED)
    said = other.reply(Request((ASKED.messages[0], ShownMessage("user", "why?")), ("weather",))).fault
    assert "request 1 differs" in said and "-user: how?\n+user: why?" in said and "--hobus-record" in said
    assert other.reply(ASKED).fault == other.fault() == said


def test_tools_bring_again_what_they_brought_if_that_is_a_value(tmp_path):
    """Each result once, in the request that shows it first; a failure is not brought again."""
    second = Request((*ASKED.messages, CALLED, ShownMessage("tool", '"sunny"'), ShownMessage("tool", "it failed")), ())
    third = Request((*second.messages, ShownMessage("assistant", "ok"), ShownMessage("user", "again")), ())
    played = taped(tmp_path / "a.json", ASKED, second, third)
    assert played.tool_answers() == {'weather {"city": "Rome"}': ["sunny"]}


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"version": 0, "calls": []}', '{"version": 1, "calls": [{"askd": {}}]}', '{"version": 1, "calls": 5}'],
)
def test_what_is_no_cassette_is_told_with_its_mend(tmp_path, text):
    """By its path."""
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match="is no cassette of this version: pytest --hobus-record"):
        Cassette(tmp_path / "a.json")
