"""Who looks at the console: one-time links, the cookies that they are changed for, and what each person may.

Nothing of it outlives the console's process: who comes back after a restart needs another link.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from hobus.bus.port import Clock
from hobus.launch.cli.web import limits

Role = Literal["viewer", "operator"]


@dataclass(slots=True)
class Person:
    """One signed-in browser."""

    name: str
    role: Role
    csrf: str
    until: float
    """Seconds of the monotonic clock."""
    said: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What its next page tells: kind (`done`, `refused`) and sentence."""

    @property
    def operates(self) -> bool:
        """Whether it may do anything but look."""
        return self.role == "operator"

    def has_sent(self, token: str) -> bool:
        """Whether a form that brings this token is one of this browser's pages."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())


class People:
    """Links that were given out, and browsers that came with one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[str, tuple[str, Role, float]] = {}
        self._signed_in: dict[str, Person] = {}

    def invite(self, name: str, role: Role) -> str:
        """The word of a link that signs this person in, once and soon."""
        word = self._drawn()
        self._links[_hash(word)] = (name, role, self._clock.monotonic() + limits.LINK_S)
        return word

    def sign_in(self, word: str) -> str | None:
        """The cookie that the word is changed for; None: it is none, was used before, or is too old."""
        name, role, until = self._links.pop(_hash(word), ("", "viewer", 0.0))
        if until <= self._clock.monotonic():
            return None
        cookie = self._drawn()
        if len(self._signed_in) >= limits.SIGNED_IN_MAX:
            del self._signed_in[next(iter(self._signed_in))]
        person = Person(name, role, self._drawn(), self._clock.monotonic() + limits.SIGNED_IN_S)
        self._signed_in[_hash(cookie)] = person
        return cookie

    def of(self, cookie: str) -> Person | None:
        """Whose browser shows this cookie."""
        person = self._signed_in.get(_hash(cookie))
        return person if person is not None and person.until > self._clock.monotonic() else None

    def sign_out(self, cookie: str) -> None:
        """The cookie is worth nothing any more."""
        self._signed_in.pop(_hash(cookie), None)

    def _drawn(self) -> str:
        return (self._clock.new_id() + self._clock.new_id()).replace("-", "")


def _hash(word: str) -> str:
    return sha256(word.encode("utf-8", "replace")).hexdigest()
