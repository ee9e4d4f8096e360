"""What stands in the body of an answer: events of a stream, a whole answer, or an error in any form. Pure.

Servers answer a request for a stream by a whole answer, by an error that is one, and by errors that are no events
(`error: {…}`, plain text); the SDKs read past most of these. Here each is read as what it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hobus.gateway_service.limits import ANSWER_MAX_BYTES
from hobus.gateway_service.providers.http.faults import AnswerTooLarge
from hobus.gateway_service.providers.http.reader import ErrorSaid
from hobus.gateway_service.providers.http.wire import BadAnswer


@dataclass
class ReadBody:
    """A body as far as it has come.

    `feed` and `close` yield each event's JSON value, or text; `close` then the value of what was no event, or its text
    behind events. They raise ErrorSaid for what is called an error, and for a text in the place of an answer; BadAnswer
    for what begins as JSON and is none; AnswerTooLarge.
    """

    is_whole: bool = False
    """It is one value that is no event, or said that it is at its end; whatever follows that is passed over."""
    _has_events: bool = False
    _line: list[bytes] = field(default_factory=list[bytes])
    _name: bytes = b""
    _data: list[bytes] = field(default_factory=list[bytes])
    _beside: list[bytes] = field(default_factory=list[bytes])
    """Lines that belong to no event."""

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield what the next piece, cut anywhere, completes."""
        for line in self._split_lines(piece):
            if not self.is_whole:
                yield from self._read(line)

    def close(self) -> Iterator[Any]:
        """Yield what is left: no further piece comes."""
        if self._line:
            yield from self.feed(b"\n")
        if not self.is_whole and _is_whole(b"\n".join(self._data)):
            yield from self._read(b"")
        rest = b"\n".join(self._beside)
        if self.is_whole or not rest.strip():
            return
        if len(rest) > ANSWER_MAX_BYTES:
            raise AnswerTooLarge(f"it is longer than {ANSWER_MAX_BYTES} bytes")
        value = _read_value(rest)
        if not self._has_events:
            if isinstance(value, str):
                raise ErrorSaid(value)
            self.is_whole = True
        yield value

    def _split_lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield lines without their ends, which are those of events: no other character ends a line of a JSON text."""
        for part in piece.splitlines(keepends=True):
            if not self._line and part.endswith(b"\n"):
                yield part.rstrip(b"\r\n")
                continue
            if self._line and self._line[-1].endswith(b"\r"):
                yield b"".join(self._line)[:-1]
                self._line = []
                if part == b"\n":
                    continue
            self._line.append(part)
            if part.endswith(b"\n"):
                yield b"".join(self._line).rstrip(b"\r\n")
                self._line = []

    def _read(self, line: bytes) -> Iterator[Any]:
        word, _colon, value = line.partition(b":")
        match word:
            case b"error":
                raise ErrorSaid(_read_value(value))
            case b"event":
                self._name = value.strip()
            case b"data":
                self._data.append(value.removeprefix(b" "))
            case b"" | b"id" | b"retry" if line:  # a comment, and what concerns a client that comes back
                pass
            case b"":
                name, text = self._name, b"\n".join(self._data)
                self._name, self._data = b"", []
                yield from self._make_event(name, text)
            case _:
                self._beside.append(line)

    def _make_event(self, name: bytes, text: bytes) -> Iterator[Any]:
        if name == b"error":
            raise ErrorSaid(_read_value(text))
        if text.startswith(b"[DONE]"):
            self.is_whole = True
        elif text.strip() and name != b"ping":
            self._has_events = True
            yield _read_value(text)


def _is_whole(text: bytes) -> bool:
    """Return whether what no empty line follows is an event all the same, and not the half of one."""
    with suppress(ValueError, RecursionError):
        json.loads(text)
        return True
    return text.startswith(b"[DONE]")


def _read_value(text: bytes) -> Any:
    """Return the JSON value; what does not begin as an object or a list is a text."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(text)
    # `json` reads what is nearly JSON, too: infinities, halves of a character.
    said = text.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    try:
        return json.loads(said)
    except (ValueError, RecursionError) as fault:
        if said.startswith(("{", "[")):
            raise BadAnswer(f"what it holds is no JSON that can be read ({type(fault).__name__})") from None
        return said
