"""A join token survives copying or says that it did not."""

from __future__ import annotations

import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hobus.bus.join_token import JoinToken, NotAToken, decode

KEY = st.binary(min_size=32, max_size=32)
HOST = st.text(string.ascii_lowercase + string.digits + ".-", min_size=1, max_size=60)
TOKENS = st.builds(
    JoinToken,
    address=st.builds(lambda host, port: f"{host}:{port}", HOST, st.integers(0, 65535)),
    broker_key=KEY,
    secret=KEY,
)
SHOWN = JoinToken("10.0.0.7:5570", bytes(range(32)), bytes(range(32, 64)))


@given(TOKENS)
def test_what_was_written_is_read_and_is_one_word(token: JoinToken) -> None:
    word = token.encode()
    assert decode(f"  {word}\n") == token
    assert word.isalnum()
    assert word == word.lower()


def test_every_single_wrong_character_is_noticed() -> None:
    word = SHOWN.encode()
    for position, right in enumerate(word):
        for other in string.ascii_letters + string.digits + "-_é":
            if other != right:
                with pytest.raises(NotAToken):
                    decode(word[:position] + other + word[position + 1 :])


@given(TOKENS, st.data())
def test_a_missing_a_doubled_or_an_exchanged_character_is_noticed(token: JoinToken, data: st.DataObject) -> None:
    word = token.encode()
    at = data.draw(st.integers(0, len(word) - 2))
    exchanged = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for wrong in (word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:], exchanged):
        if wrong != word:
            with pytest.raises(NotAToken):
                decode(wrong)


@given(st.text(max_size=300))
def test_any_text_is_a_token_or_said_to_be_none(text: str) -> None:
    with suppress(NotAToken):
        decode(text)


def test_a_fault_names_its_kind_and_never_repeats_the_secret() -> None:
    word = SHOWN.encode()
    changed = word[:40] + ("b" if word[40] == "a" else "a") + word[41:]
    for wrong, says in [("hobus2" + word[6:], "version"), ("token", "begins with"), (changed, "checksum")]:
        with pytest.raises(NotAToken, match=says) as caught:
            decode(wrong)
        assert word[6:40] not in str(caught.value)
    assert SHOWN.secret.hex() not in repr(SHOWN)
    assert repr(SHOWN.secret) not in repr(SHOWN)
