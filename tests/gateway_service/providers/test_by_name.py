"""A message that names a tool gets that tool, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from hobus.gateway_service.providers.offline.answer import find_named_calls

OFFERED = {
    "time__get_current_time": {"properties": {"timezone": {"type": "string"}}, "required": ["timezone"]},
    "list_tools": {},
    "send": {"properties": {"to": {"type": "string"}, "text": {"type": "string"}}, "required": ["to", "text"]},
    "search": {"properties": {"limit": {"type": "integer"}, "words": {"type": "string"}}},
}


def test_one_line_is_one_call_with_its_arguments():
    """The id as it stands, the arguments as JSON, none as an empty object."""
    named = find_named_calls('use time__get_current_time {"timezone": "Europe/Berlin"}\nuse list_tools', OFFERED)
    assert named is not None
    assert [(call.name, call.arguments) for call in named[1]] == [
        ("time__get_current_time", {"timezone": "Europe/Berlin"}),
        ("list_tools", {}),
    ]


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("Use time__get_current_time for Europe/Berlin", "time__get_current_time", {"timezone": "Europe/Berlin"}),
        ("use search for old letters", "search", {"words": "old letters"}),
    ],
)
def test_a_tool_that_takes_one_text_is_used_for_it(text, tool, arguments):
    """The one that it needs, else its first."""
    named = find_named_calls(text, OFFERED)
    assert named is not None
    assert [(call.name, call.arguments) for call in named[1]] == [(tool, arguments)]


@pytest.mark.parametrize(
    "text", ["use short words", "use words", "please use list_tools", "", "use list_tools\nthanks"]
)
def test_any_other_message_is_read_as_before(text):
    """Only lines of the form, and only of something that can be a tool."""
    assert find_named_calls(text, OFFERED) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("use files__delete", "I was not given a tool files__delete. I was given list_tools, search, send, time__get"),
        ("use list_tools {nonsense}", "no JSON object"),
        ("use send for Paris", "no JSON object"),
        ("use list_tools for Paris", "no JSON object"),
        ("use list_tools {" + '"a":{' * 5000 + "}", "no JSON object"),
    ],
)
def test_what_cannot_be_done_is_said(text, part):
    """No call is made up."""
    named = find_named_calls(text, OFFERED)
    assert named is not None
    said, calls = named
    assert calls == ()
    assert part in said
