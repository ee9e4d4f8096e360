"""A server's result in words."""

from __future__ import annotations

import base64

import pytest

from hobus.actors.ho1_executor.mcp_servers.listing import render_content
from hobus.actors.ho1_executor.tools.definition import KeptFiles

DATA = base64.b64encode(b"x" * 100).decode()


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "text", "text": "ä\nb"}, "ä\nb"),
        ({"type": "image", "mimeType": "image/png", "data": DATA}, "[image image-1.png, image/png, 100 bytes]"),
        ({"type": "audio", "mimeType": "audio/x-wav", "data": DATA}, "[audio audio-1.wav, audio/x-wav, 100 bytes]"),
        ({"type": "image"}, "[image image-1.bin, application/octet-stream, not kept: its data is not base64]"),
        (
            {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "T"}},
            "[resource a:b text/plain]\nT",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///b/c.pdf", "mimeType": "application/pdf", "blob": DATA}},
            "[resource c.pdf, application/pdf, 100 bytes]",
        ),
        (
            {"type": "resource", "resource": {"uri": "a:b", "mimeType": "image/png", "blob": "ä"}},
            "[resource a:b.png, image/png, not kept: its data is not base64]",
        ),
        ({"type": "resource"}, "[an embedded resource without content]"),
        ({"type": "resource_link", "uri": "a:b", "name": "N"}, "[link to the resource N: a:b]"),
        ({"type": "hologram"}, "[content of the unknown kind 'hologram', not shown]"),
        ({}, "[content of the unknown kind 'None', not shown]"),
    ],
)
def test_each_kind_of_content_is_shown_or_described(block, words):
    assert render_content([block], None, KeptFiles(100)) == words


def test_a_text_that_is_null_is_none():
    """And not the word."""
    assert (
        render_content([{"type": "text", "text": None}, {"type": "text", "text": "7"}], None, KeptFiles(100)) == "\n7"
    )


def test_structured_content_stands_in_where_no_text_does():
    assert render_content([], {"b": 1, "a": "ä"}, KeptFiles(100)) == '{"a": "ä", "b": 1}'
    assert render_content([{"type": "text", "text": "T"}], {"b": 1}, KeptFiles(100)) == "T"
    assert render_content([], None, KeptFiles(100)) == ""


def test_files_are_kept_within_their_bound_and_none_of_a_call_that_failed():
    image = {"type": "image", "mimeType": "image/png", "data": DATA}
    kept = KeptFiles(150)
    assert render_content([image, {"type": "text", "text": "T"}, image], None, kept).splitlines() == [
        "[image image-1.png, image/png, 100 bytes]",
        "T",
        "[image image-2.png, image/png, 100 bytes, not kept: at most 150 bytes of files are]",
    ]
    assert kept.kept == [("image-1.png", "image/png", b"x" * 100)]
    failed = KeptFiles(0)
    assert (
        render_content([image], None, failed) == "[image image-1.png, image/png, 100 bytes, not kept: the call failed]"
    )
    assert failed.kept == []
