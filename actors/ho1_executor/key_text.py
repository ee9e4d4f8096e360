"""Tells a file that is nothing but a key from a text, whatever its name and place. Pure."""

from __future__ import annotations

import re

from hobus.config.secret_refs import looks_secret

_KEY = re.compile(
    r"""
    (?![0-9a-f]{40}$) [0-9A-Za-z.\-:+=^!/*?&<>()[\]{}@%$\#]{40}    # a CURVE key in Z85; 40 hex digits are a commit
    | [0-9a-f-]{72}                                                # what HTTP doors sign with: two ids
    | hobus-[0-9a-f]{64}                                           # a bearer key of the HTTP door
    | hobus1[a-z0-9]{100,}                                         # a join token
    """,
    re.VERBOSE,
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")


def is_key(text: str) -> bool:
    """Whether the text is one word that is a key or token of hobus or of a known service, or holds a private key."""
    words = text.split(maxsplit=1)
    is_word = len(words) == 1
    return _PRIVATE_KEY.search(text) is not None or (
        is_word and (_KEY.fullmatch(words[0]) is not None or looks_secret(words[0]))
    )
