"""A server's result in words."""

from __future__ import annotations

import base64

import pytest

from hobus.actors.ho1_executor.mcp_servers.listing import told

DATA = base64.b64encode(b"x" * 100).decode()


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "text", "text": "ä\nb"}, "ä\nb"),
        ({"type": "image", "mimeType": "image/png", "data": DATA}, "[image image/png, 100 bytes, not shown]"),
        ({"type": "audio", "mimeType": "audio/wav", "data": DATA}, "[audio audio/wav, 100 bytes, not shown]"),
        ({"type": "image"}, "[image , 0 bytes, not shown]"),
        (
            {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "T"}},
            "[resource a:b text/plain]\nT",
        ),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": DATA}}, "[resource a:b, 100 bytes, not shown]"),
        ({"type": "resource"}, "[an embedded resource without content]"),
        ({"type": "resource_link", "uri": "a:b", "name": "N"}, "[link to the resource N: a:b]"),
        ({"type": "hologram"}, "[content of the unknown kind 'hologram', not shown]"),
        ({}, "[content of the unknown kind 'None', not shown]"),
    ],
)
def test_each_kind_of_content_is_shown_or_described(block, words):
    """Nothing is left out unsaid."""
    assert told([block], None) == words


def test_structured_content_stands_in_where_no_text_does():
    """Servers give both; the text is for the model."""
    assert told([], {"b": 1, "a": "ä"}) == '{"a": "ä", "b": 1}'
    assert told([{"type": "text", "text": "T"}], {"b": 1}) == "T"
    assert told([], None) == ""
