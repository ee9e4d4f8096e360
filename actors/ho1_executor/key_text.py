"""Tells a file that is a key, or holds a private one, from a text about keys, whatever its name and place. Pure."""

from __future__ import annotations

import base64
import re

from hobus.config.secret_refs import looks_secret

_KEY = re.compile(
    r"""
    (?![0-9a-f]{40}$) [0-9A-Za-z.\-:+=^!/*?&<>()[\]{}@%$\#]{40}    # a CURVE key in Z85; 40 hex digits are a commit
    | [0-9a-f-]{72}                                                # what HTTP doors sign with: two ids
    | [0-9A-Fa-f]{64}                                              # 32 bytes alone: whose digest it is would be said
    """,
    re.VERBOSE,
)
_PRIVATE_KEY = re.compile(
    r"""
    -----\ ?BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?\ ?-----    # PEM, OpenSSH, OpenPGP
    | ----\ BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY\ ----                  # RFC 4716's relatives
    | ^Private-Lines:\ *[0-9]                                    # PuTTY
    | AGE-SECRET-KEY-(?:[A-Z]+-)?1[0-9A-Z]{40}
    | (?<![0-9A-Za-z])hobus-[0-9a-f]{64}(?![0-9A-Za-z])          # a bearer key of the HTTP door
    | (?<![0-9A-Za-z])hobus1[a-z0-9]{100}                        # a join token
    """,
    re.VERBOSE | re.MULTILINE,
)
_JWK = re.compile(r'"kty"\s*:\s*"')
_JWK_SECRET = re.compile(r'"[dk]"\s*:\s*"[A-Za-z0-9_-]{16}')
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{40,}[=\s]*")
_DER_PRIVATE = re.compile(rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01[\x00\x01][\x02\x04\x30]", re.DOTALL)
"""A sequence that begins with its version: PKCS#1, PKCS#8 and SEC 1. Certificates and public keys begin otherwise."""
_DER_CHARS = 24


def is_key(text: str) -> bool:
    """Whether the text is one word that is a key or token of a known kind, or holds a private key or one of hobus."""
    words = text.split(maxsplit=1)
    is_word = len(words) == 1
    return (
        _PRIVATE_KEY.search(text) is not None
        or (_JWK.search(text) is not None and _JWK_SECRET.search(text) is not None)
        or _is_der(text)
        or (is_word and (_KEY.fullmatch(words[0]) is not None or looks_secret(words[0])))
    )


def _is_der(text: str) -> bool:
    """Whether it is the body of a PEM file of a private key, and nothing else."""
    if _BASE64.fullmatch(text) is None:
        return False
    return _DER_PRIVATE.match(base64.b64decode("".join(text.split())[:_DER_CHARS])) is not None
