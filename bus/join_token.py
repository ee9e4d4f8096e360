"""The one word that a worker on another host joins with: where the broker is, who it is, and a one-time key.

    hobus1 <base32 of: MessagePack [address, broker's public key, one-time secret key], CRC-32>

Lower-case letters and digits alone, so that a double click takes all of it. The CRC covers every burst of up to 32
bits, so each single wrong character is noticed, also in the last one, where base32 has spare bits.
"""

from __future__ import annotations

import base64
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from hobus.bus.messages.base import pack, unpack

KEY_BYTES = 32
_PREFIX = "hobus"
_VERSION = "1"
_CRC_BYTES = 4
_LONGEST = 2048
_WORD = re.compile(r"[a-z0-9]+")
_ADDRESS = re.compile(r"\S{1,255}:[0-9]{1,5}")


class NotAToken(ValueError):
    """Say in which way a pasted word is no join token, without repeating it."""


@dataclass(frozen=True, slots=True)
class JoinToken:
    """`address` is `HOST:PORT`; keys are 32 raw bytes."""

    address: str
    broker_key: bytes
    secret: bytes = field(repr=False)

    def encode(self) -> str:
        payload = pack([self.address, self.broker_key, self.secret])
        return _PREFIX + _VERSION + _encode_text(payload + _compute_crc(payload))


def decode(word: str) -> JoinToken:
    """Return the token behind the word; space around it is no fault. Raises NotAToken."""
    word = word.strip()
    if not word.startswith(_PREFIX):
        raise NotAToken(f"a join token begins with `{_PREFIX}{_VERSION}`: copy the whole word")
    version, rest = word[len(_PREFIX) : len(_PREFIX) + 1], word[len(_PREFIX) + 1 :]
    if version != _VERSION:
        raise NotAToken(f"it is of version {version!r:.3}; this hobus reads version {_VERSION}: use one version")
    if len(rest) > _LONGEST or _WORD.fullmatch(rest) is None:
        raise NotAToken("it holds characters that no token has: it was changed or cut in copying")
    try:
        data = base64.b32decode(rest.upper() + "=" * (-len(rest) % 8))
    except ValueError:
        raise NotAToken("it holds characters that no token has: it was changed or cut in copying") from None
    payload, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    if crc != _compute_crc(payload) or _encode_text(data) != rest:
        raise NotAToken("its checksum does not fit: a character was changed or is missing")
    return _read_payload(payload)


def _read_payload(payload: bytes) -> JoinToken:
    try:
        fields: Any = unpack(payload)
        address, broker_key, secret = fields
    except (ValueError, TypeError):
        raise NotAToken("its checksum fits, its content is not a token's") from None
    is_whole = isinstance(address, str) and _ADDRESS.fullmatch(address) is not None
    if not is_whole or any(not isinstance(key, bytes) or len(key) != KEY_BYTES for key in (broker_key, secret)):
        raise NotAToken("its checksum fits, its content is not a token's")
    return JoinToken(address, broker_key, secret)


def _compute_crc(payload: bytes) -> bytes:
    return zlib.crc32(_VERSION.encode() + payload).to_bytes(_CRC_BYTES, "big")


def _encode_text(data: bytes) -> str:
    return base64.b32encode(data).decode("ascii").rstrip("=").lower()
