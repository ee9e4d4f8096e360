"""A body of an answer, cut anywhere, with any ends of lines."""

import pytest

from hobus.gateway_service.providers.http.events import ReadBody

EVENTS = 'id: 1\n: ping\n\ndata: {"a": "x\u2028y"}\n\nevent: ping\ndata: z\n\nevent: b\ndata: {"b":\ndata: 2}\n\n'


def read(pieces):
    """Its values, and whether it is whole."""
    body = ReadBody()
    values = [value for piece in pieces for value in body.feed(piece)]
    return [*values, *body.close()], body.is_whole


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "values", "is_whole"),
    [
        (EVENTS, [{"a": "x\u2028y"}, {"b": 2}], False),
        (EVENTS + "data: [DONE]\n\nerror: late\ndata: 1\n\n", [{"a": "x\u2028y"}, {"b": 2}], True),
        (EVENTS + "data: [DONE]", [{"a": "x\u2028y"}, {"b": 2}], True),
        (EVENTS + 'data: {"c": 3}', [{"a": "x\u2028y"}, {"b": 2}, {"c": 3}], False),
        (EVENTS + 'data: {"c', [{"a": "x\u2028y"}, {"b": 2}], False),
        (EVENTS + "bye", [{"a": "x\u2028y"}, {"b": 2}, "bye"], False),
        ('{\n "a": [\n  1\n ]\n}\n', [{"a": [1]}], True),
        ("", [], False),
    ],
)
def test_a_body_says_the_same_however_it_is_cut(end, size, text, values, is_whole):
    """The half of an event is none; nothing counts behind the end."""
    data = text.replace("\n", end).encode()
    assert read(data[at : at + size] for at in range(0, len(data), size)) == (values, is_whole)
