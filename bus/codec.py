"""Headers and bodies to bytes and back, with the size limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import ValidationError
from msgspec.msgpack import Decoder, Encoder

from hobus.bus.envelope import HEADER_VERSION, Header
from hobus.bus.errors import BusError, MessageTooLarge
from hobus.bus.messages.base import Message, describe_fault

M = TypeVar("M", bound=Message)

_HEADER = Decoder(Header)
HEADER_MAX_BYTES = 4096
"""A header holds ids and names only; the format's own bound, not a setting."""
pack_header: Callable[[Header], bytes] = Encoder().encode
"""The wire bytes of a header."""


def unpack_header(data: bytes) -> Header:
    """Return the header behind the bytes. Raises BusError(malformed) for anything that is not one."""
    if len(data) > HEADER_MAX_BYTES:
        raise BusError("malformed", f"a header of {len(data)} bytes; at most {HEADER_MAX_BYTES}")
    try:
        header = _HEADER.decode(data)  # exact types: True is no int here
    except ValueError as error:
        raise BusError("malformed", f"not a header: {error}") from None
    if header.version != HEADER_VERSION:
        raise BusError("malformed", f"the header is not a version {HEADER_VERSION} header")
    return header


def encode(message: Message, max_bytes: int) -> bytes:
    """Return the body bytes of a message.

    Raises MessageTooLarge above `max_bytes` (limits.BODY_MAX_BYTES), BusError(malformed) for a number that no message
    can carry.
    """
    try:
        data = message.to_bytes()
    except OverflowError:
        raise BusError("malformed", f"a number in a {message.TYPE} message needs more than 64 bits") from None
    except UnicodeEncodeError:
        raise BusError("malformed", f"a text in a {message.TYPE} message holds half a character") from None
    if len(data) > max_bytes:
        raise MessageTooLarge(
            "too_large",
            f"a {message.TYPE} message of {len(data)} bytes; the limit is {max_bytes}",
        )
    return data


def decode(cls: type[M], data: bytes, max_bytes: int) -> M:
    """Return the message behind the bytes, strictly validated. Raises BusError(malformed), naming fields only."""
    if len(data) > max_bytes:
        raise MessageTooLarge("too_large", f"a body of {len(data)} bytes; the limit is {max_bytes}")
    try:
        message = cls.from_bytes(data)
    except ValidationError as error:
        raise BusError("malformed", f"not a {cls.TYPE}: {describe_fault(error)}") from None
    except (ValueError, RecursionError) as error:
        raise BusError("malformed", f"not a {cls.TYPE}: {str(error)[:200]}") from None
    return message
