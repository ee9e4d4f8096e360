"""What a peer says of itself when it connects (`bus/messages/control.py`)."""

from __future__ import annotations

import pytest
from msgspec import ValidationError

from hobus.bus.envelope import HEADER_VERSION
from hobus.bus.messages.control import Hello, Join

HELLO = {"instance": "ho1/1@e", "token": "", "role": "ho1", "slots": 1, "version": "1", "protocol": HEADER_VERSION}
JOIN = {"public_key": "k" * 40, "role": "ho1", "version": "1", "protocol": HEADER_VERSION, "host": "box"}
EVIL = "\x1b[31mEVIL\nho1/99 ready"


@pytest.mark.parametrize("name", ["instance", "version", "host", "tools", "offers"])
@pytest.mark.parametrize("evil", [EVIL, "x" * 300, "box\n", "\x9b2J"])
def test_a_hello_holds_printable_words_of_bounded_length(name: str, evil: str) -> None:
    Hello.model_validate(HELLO | {"host": "box one", "tools": ["list_packages"], "offers": ["ho1"]})
    with pytest.raises(ValidationError):
        Hello.model_validate(HELLO | {name: [evil] if name in ("tools", "offers") else evil})


@pytest.mark.parametrize("name", ["version", "host"])
@pytest.mark.parametrize("evil", [EVIL, "x" * 300, "box\n", "\x9b2J"])
def test_a_join_holds_printable_words_of_bounded_length(name: str, evil: str) -> None:
    Join.model_validate(JOIN)
    with pytest.raises(ValidationError):
        Join.model_validate(JOIN | {name: evil})
