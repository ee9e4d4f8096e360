"""Who looks at the console: one-time links, the cookies that they are changed for, and what each person may.

Nothing of it outlives the console's process: who comes back after a restart needs another link.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from hobus.bus.port import Clock
from hobus.launch.cli.web import limits
from hobus.launch.cluster.console_file import ConsoleLink, draw_word, hash_word
from hobus.launch.limits import LINK_S


@dataclass(slots=True)
class Person:
    """One signed-in browser."""

    name: str
    role: str
    csrf: str
    until: float
    """Seconds of the monotonic clock."""
    said: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What its next page tells: kind (`done`, `refused`) and sentence."""
    looked_at: dict[str, None] = field(default_factory=dict[str, None])
    """The looks at texts that the record has, the last ones."""

    @property
    def operates(self) -> bool:
        return self.role == "operator"

    def has_sent(self, token: str) -> bool:
        """Return whether a form that brings this token is one of this browser's pages."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())


class People:
    """Links that were given out, and browsers that came with one."""

    def __init__(self, clock: Clock, redeemed: Callable[[str], ConsoleLink | None] = lambda _: None) -> None:
        """Begin. `redeemed`: whom a word signs in, of which others than this process made the link."""
        self._clock = clock
        self._redeemed = redeemed
        self._links: dict[str, tuple[ConsoleLink, float]] = {}
        self._signed_in: dict[str, Person] = {}

    def invite(self, name: str, role: str) -> str:
        """Return the word of a link that signs this person in, once and soon."""
        word = draw_word(self._clock)
        self._links[hash_word(word)] = (ConsoleLink(name, role), self._clock.monotonic() + LINK_S)
        return word

    def sign_in(self, word: str) -> str | None:
        """Return the cookie for which the word is changed; None: invalid, used before, or too old."""
        who, until = self._links.pop(hash_word(word), (None, 0.0))
        who = who if until > self._clock.monotonic() else self._redeemed(word)
        if who is None:
            return None
        cookie = draw_word(self._clock)
        if len(self._signed_in) >= limits.SIGNED_IN_MAX:
            del self._signed_in[next(iter(self._signed_in))]
        until = self._clock.monotonic() + limits.SIGNED_IN_S
        self._signed_in[hash_word(cookie)] = Person(who.name, who.role, draw_word(self._clock), until)
        return cookie

    def of(self, cookie: str) -> Person | None:
        person = self._signed_in.get(hash_word(cookie))
        return person if person is not None and person.until > self._clock.monotonic() else None

    def sign_out(self, cookie: str) -> None:
        self._signed_in.pop(hash_word(cookie), None)
