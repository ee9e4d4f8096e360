"""What the words of a prompt ask for: one JSON object with which keys and values, a reduced answer, or talk. Pure.

Nothing here knows a contract: a key that a prompt does not name is not filled, and a word that it does not offer is
not used. So a prompt that asks wrongly is answered wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

_OBJECT = "one JSON object"
_REDUCED = "reduced mode"
_KEY = re.compile(r'^- "([a-z_]+)"', re.MULTILINE)
_QUOTED = re.compile(r'"([a-z_]+)"')
_VOCABULARY = re.compile(r"^[ \t]+([a-z_]+): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the object, as the prompt tells of it."""

    text: str
    words: frozenset[str]  # those that it quotes
    vocabulary: Mapping[str, tuple[str, ...]]  # closed lists by what they are for

    def offers(self, word: str) -> bool:
        """Whether the prompt offers this value."""
        return word in self.words

    def known(self, kind: str, label: str) -> bool:
        """Whether the prompt's closed list of this kind has the label."""
        return label in self.vocabulary.get(kind, ())


def wants_object(system: str) -> bool:
    """Whether the whole answer is to be one JSON object."""
    return _OBJECT in system


def is_reduced(system: str) -> bool:
    """Whether the answer is to be one without memory, history and tools."""
    return _REDUCED in system


@lru_cache(maxsize=16)
def keys_in(system: str) -> Mapping[str, Key]:
    """The keys that the object is to have: a list of `- "key": …`, each up to the next one or an empty line."""
    pieces = _KEY.split(system)
    keys: dict[str, Key] = {}
    for name, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        text = piece.partition("\n\n")[0]
        vocabulary = {kind: tuple(word.strip() for word in row.split(",")) for kind, row in _VOCABULARY.findall(text)}
        keys[name] = Key(text, frozenset(_QUOTED.findall(text)), vocabulary)
    return keys
