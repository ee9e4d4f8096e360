"""Tells a file that is a key, or holds a private one, from a text about keys, whatever its name and place. Pure.

One table of rules, most of which look at what a text holds, not at what stands around it: the heads of bodies
(`key_bodies.py`), fields that are named for a private key, forms of single programs. Anybody writes the texts, so every
rule takes linear time: each repeat is bounded, or ends where the next try begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from hobus.actors.ho1_executor import key_bodies
from hobus.actors.ho1_executor.key_bodies import is_mixed
from hobus.config.secret_refs import looks_secret

_ELSEWHERE = "keep the key in a file of its own, and take it out here"
_SAY_WHAT = "if it is none, write what it is in front of it (`sha256: …`)"
_FEW_WORDS = 4
"""So many keys or tokens, each a word, are still a file of nothing else."""


class KeyRule(NamedTuple):
    """One way to know a key."""

    says: str
    """What the file is or holds, as a sentence after `it`."""
    mend: str
    """What to do where the file is to be read."""
    finds: Callable[[str], bool]
    """Whether a text is or holds one; its escapes of JSON are undone."""


def key_rule(text: str) -> KeyRule | None:
    """The rule by which a text is nothing but keys or tokens, or holds a private key or one of hobus; or None.

    A text in base64 is looked at, too, also where it stands in another one.
    """
    plain = key_bodies.unescaped(text)
    words = plain.split(maxsplit=_FEW_WORDS)
    alone = [_first(_ALONE, word) for word in words] if len(words) <= _FEW_WORDS else []
    if alone and None not in alone:
        return alone[0]
    for found in (plain, *key_bodies.encoded_texts(plain)):
        if rule := _first(_WITHIN, found):
            return rule
    return None


def _first(rules: tuple[KeyRule, ...], text: str) -> KeyRule | None:
    return next((rule for rule in rules if rule.finds(text)), None)


_BEGIN = re.compile(r"BEGIN\s[A-Z0-9 ]{0,32}PRIVATE\s{1,4}KEY(?:\sBLOCK)?", re.IGNORECASE)
_BODY_LINE = re.compile(r"[A-Za-z0-9+/=]{40,}")
_LINE_CHARS = frozenset([64, 70, 76])
"""Of a whole line of a body, as OpenSSL and PGP, OpenSSH and MIME break it."""
_UNBROKEN_CHARS = 129
"""No digest alone in a line and no name in a program has so many."""
_HEADER = re.compile(r"[A-Za-z][A-Za-z-]{1,30}:(?: .*)?")
_AROUND_LINES = " \t\r\"'`,+>#*|-"
_HEADERS_CHARS = 1_000
"""The body begins within so much: behind headers such as Proc-Type and Comment."""


def _has_armored(text: str) -> bool:
    """Whether base64 follows a first line at once, or behind headers; a text that names such a line has none there."""
    return any(_is_body(text[found.end() : found.end() + _HEADERS_CHARS]) for found in _BEGIN.finditer(text))


def _is_body(behind: str) -> bool:
    before_end, end, _ = behind.partition("-END ")
    of_same_line, *lines = [line.strip(_AROUND_LINES) for line in before_end.split("BEGIN ", 1)[0].split("\n")]
    if _is_base64(of_same_line):
        return True
    body = [line for line in lines if line and not _HEADER.fullmatch(line)]
    is_first = bool(body) and _is_base64(body[0]) and not of_same_line
    is_whole = is_first and (len(body[0]) in _LINE_CHARS or len(body[0]) >= _UNBROKEN_CHARS)
    return is_whole or (is_first and bool(end) and all(line.startswith("=") for line in body[1:]))


def _is_base64(line: str) -> bool:
    return _BODY_LINE.fullmatch(line) is not None and is_mixed(line)


_FIELD = re.compile(
    r"""
    (?: (?:private|secret|preshared)[-_. ]?key | (?<![A-Za-z])secret ) ["']? \s{0,8} [:=] \s{0,8} ["']?
    ( [^\s"',;]{40,128} ) (?![^\s"',;])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BYTES_32 = re.compile(r"(?:0x)?[0-9A-Fa-f]{64}|[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
_BYTES_64 = re.compile(r"[0-9A-Fa-f]{128}|[A-Za-z0-9+/]{85}[AQgw]==")
_Z85 = re.compile(r"[0-9A-Za-z.\-:+=^!/*?&<>()[\]{}@%$#]{40}")
_OF_NO_PATH = frozenset("+=^!*?&<>()[]{}%$#")
_MANY_SIGNS = 26
"""So many different signs hardly any path of forty has; of keys few have less."""
_EXPONENT = re.compile(
    r"private_?exponent[\"']?\s{0,8}[:=]\s{0,40}[\"']?(?:[A-Za-z0-9+/]{40}|(?:[0-9a-f]{2}:){8})", re.IGNORECASE
)


def _is_curve_key(word: str) -> bool:
    """32 bytes in Z85; an address, a path, a mail address or a commit of that length has fewer kinds of signs."""
    if _Z85.fullmatch(word) is None or "://" in word or not is_mixed(word):
        return False
    return not _OF_NO_PATH.isdisjoint(word) or len(set(word)) >= _MANY_SIGNS


def _is_32_bytes(word: str) -> bool:
    return _BYTES_32.fullmatch(word) is not None and len(set(word)) > 1


def _has_field(text: str) -> bool:
    """A name that says so, with a value that is one by its form: WireGuard, DNSSEC, certificates of CURVE."""
    values = (found[1] for found in _FIELD.finditer(text))
    return _EXPONENT.search(text) is not None or any(
        _is_32_bytes(value) or _is_curve_key(value) or _BYTES_64.fullmatch(value) is not None for value in values
    )


_JWK = re.compile(r"(?<!\w)kty[\"']?\s{0,8}:")
_JWK_SECRET = re.compile(r"(?<!\w)[dk][\"']?\s{0,8}:\s{0,8}[\"']?([A-Za-z0-9_-]{22,})")


def _has_jwk(text: str) -> bool:
    return _JWK.search(text) is not None and any(is_mixed(found[1]) for found in _JWK_SECRET.finditer(text))


_GNUPG = re.compile(r"\((?:protected-)?private-key\s{0,8}\([a-z]{3,8}\b")
_GNUPG_VALUE = re.compile(r"#[0-9A-Fa-f\s]{16}")


def _has_gnupg(text: str) -> bool:
    return _GNUPG.search(text) is not None and _GNUPG_VALUE.search(text) is not None


_XML = re.compile(r"<(?:D|P|Q|InverseQ)>\s{0,80}[A-Za-z0-9+/]{40}")


def _has_xml(text: str) -> bool:
    return "RSAKeyValue" in text and _XML.search(text) is not None


def _searched(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.search(text) is not None


def _matched(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


_WITHIN = (
    KeyRule("holds the body of a private key", _ELSEWHERE, key_bodies.has_private_body),
    KeyRule("holds a private key between BEGIN and END", _ELSEWHERE, _has_armored),
    KeyRule("holds a value under the name of a private or secret key", _ELSEWHERE, _has_field),
    KeyRule("holds a private JSON Web Key", _ELSEWHERE, _has_jwk),
    KeyRule("holds a private key of GnuPG", _ELSEWHERE, _has_gnupg),
    KeyRule("holds a private RSAKeyValue", _ELSEWHERE, _has_xml),
    KeyRule(
        "holds a private key of PuTTY",
        _ELSEWHERE,
        _searched(r"^Private-Lines: {0,8}[0-9]{1,6}\r?\n[A-Za-z0-9+/=]{4}", re.MULTILINE),
    ),
    KeyRule(
        "holds a private key of age",
        _ELSEWHERE,
        _searched(r"AGE-SECRET-KEY-(?:[A-Z]{1,16}-)?1[0-9A-Z]{40}", re.IGNORECASE),
    ),
    KeyRule(
        "holds a bearer key of hobus",
        _ELSEWHERE,
        _searched(r"(?<![0-9A-Za-z])hobus-[0-9a-f]{64}(?![0-9A-Za-z])", re.IGNORECASE),
    ),
    KeyRule("holds a join token of hobus", _ELSEWHERE, _searched(r"(?<![0-9A-Za-z])hobus1[a-z0-9]{100}")),
)
_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ALONE = (
    KeyRule("is a key of CURVE and nothing else", _SAY_WHAT, _is_curve_key),
    KeyRule("is 32 bytes, as keys are, and nothing else", _SAY_WHAT, _is_32_bytes),
    KeyRule("is what HTTP doors sign with", _SAY_WHAT, _matched(_ID * 2)),
    KeyRule("is a key or a token of a well-known service", _SAY_WHAT, looks_secret),
)
