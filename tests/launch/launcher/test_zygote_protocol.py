"""What launcher and zygote say to each other."""

import pytest

from hobus.launch.launcher.zygote_protocol import Fork, Forked, read_fork, read_forked


def test_a_word_is_read_as_it_was_said():
    """Order and answer survive their bytes."""
    order = Fork(7, ["ho1", "--home", "/a b/ü"])
    assert read_fork(order.to_bytes()) == order
    for answer in (Forked(7, 4242), Forked(8, 0, "Resource temporarily unavailable")):
        assert read_forked(answer.to_bytes()) == answer


@pytest.mark.parametrize(
    "word",
    [
        b"",
        b"{",
        b"[]",
        b'{"number": 1}',
        b'{"number": 1, "argv": "ho1"}',
        b'{"number": 1, "argv": [1]}',
        b'{"number": true, "argv": []}',
        b'{"number": 1, "argv": [], "more": 1}',
        b"\xff\xfe",
    ],
)
def test_anything_else_is_refused(word):
    """Neither side acts on a word that is not exactly of the other's form."""
    with pytest.raises(ValueError):  # noqa: PT011 - any of its kinds
        read_fork(word)
    with pytest.raises(ValueError):  # noqa: PT011 - any of its kinds
        read_forked(word)
