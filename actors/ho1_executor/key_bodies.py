"""What stands in base64 or hex in a text: bodies of private keys, by their first bytes, and further texts. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

_WORD = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_HEX = re.compile(r"[0-9A-Fa-f]{40,}")
_ESCAPE = re.compile(r"(?<!\\)\\+(?:u00([0-7][0-9A-Fa-f])|([nrt\"'/]))")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}

_LENGTH = rb"(?:[\x00-\x7f]|\x81.|\x82..)"
_PKCS = rb"\x06[\x09\x0a]\x2a\x86\x48\x86\xf7\x0d\x01"
_HEAD = re.compile(
    rb"\x30" + _LENGTH + rb"""(?:
    \x02\x01[\x00\x01](?:
        \x02(?:[\x21-\x7f]|\x81.|\x82..)\x00    # PKCS#1 and DSA: an odd modulus, or a prime, of some size
        | \x04[\x10-\x50]                       # SEC 1
        | \x30""" + _LENGTH + rb"""\x06         # PKCS#8: an algorithm, which begins with its number
    )
    | \x30""" + _LENGTH + _PKCS + rb"""(?:\x05|\x0c\x01)           # PKCS#8, encrypted by PKCS#5 or PKCS#12
    | \x02\x01\x03\x30""" + _LENGTH + _PKCS + rb"""\x07            # PKCS#12
    )
    | openssh-key-v1\x00
    | Ed(?:ScB2|\x00\x00B2|BK)                                     # minisign, signify
    """,
    re.VERBOSE | re.DOTALL,
)  # fmt: skip
"""Certificates, requests, signatures and public keys begin otherwise."""
_HEAD_CHARS = 64
_BODY_CHARS = 40
"""The least that a body of a private key has; behind less there is no key yet."""
_NESTED = 2
"""So deep texts in base64 are looked into: a secret of Kubernetes that holds an encoded file, and one more."""
_FEW = 8
"""A text of fewer signs than an eighth that are no UTF-8 is one; of random bytes it is about half."""
_KINDS = 12


def is_mixed(word: str) -> bool:
    """Whether it looks drawn at random: small and capital letters, and many different signs; `xxxx` is none."""
    return len(set(word)) >= _KINDS and word.upper() != word and word.lower() != word


def unescaped(text: str) -> str:
    """The text with the escapes of JSON strings undone, however often they were escaped."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), text)


def has_private_body(text: str) -> bool:
    """Whether a word of it, in base64 (also base64url) or hex, begins as a private key does."""
    return any(_is_private(found[0].lstrip("-_+/")) for found in _WORD.finditer(text))


def _is_private(word: str) -> bool:
    if len(word) < _BODY_CHARS:
        return False
    digits = word[2:] if word.startswith(("0x", "0X")) else word
    if _HEX.fullmatch(digits) and _HEAD.match(bytes.fromhex(digits[: len(digits) // 2 * 2][:_HEAD_CHARS])):
        return True
    return _HEAD.match(_decoded(word[:_HEAD_CHARS])) is not None


def encoded_texts(text: str, depth: int = _NESTED) -> Iterator[str]:
    """Every text that stands in it in base64, in one line or several, and those in these."""
    if not depth:
        return
    for run in _runs(text):
        found = _decoded(run.lstrip("-")).decode(errors="replace")
        if found.count("\ufffd") * _FEW < len(found):
            yield unescaped(found)
            yield from encoded_texts(found, depth - 1)


def _runs(text: str) -> Iterator[str]:
    """Words of base64, those together between which there is nothing but white space."""
    run, end = list[str](), 0
    for found in _WORD.finditer(text):
        if run and not text[end : found.start()].isspace():
            yield "".join(run)
            run = []
        run.append(found[0])
        end = found.end()
    if run:
        yield "".join(run)


def _decoded(word: str) -> bytes:
    return base64.b64decode(word[: len(word) // 4 * 4], altchars=b"-_")
