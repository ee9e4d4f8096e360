"""The budget of one assembly: tokens, questions and wall time, asked before each of them is used. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Limit = Literal["tokens", "queries", "time"]
LIMITS = frozenset[str]({"tokens", "queries", "time"})


class LimitReached(Exception):
    """Say that a limit was met and the intended use did not happen."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit: Limit = limit


@dataclass(slots=True)
class Account:
    """Hold what an assembly may still use, in characters, so that the text as a whole keeps the token estimate."""

    tokens_max: int
    queries_max: int
    timeout_s: float
    chars_per_token: int
    now: Callable[[], float]
    """Seconds that never go back."""
    chars: int = 0
    queries: int = 0
    chars_max: int = field(init=False)
    began_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_at = self.now()
        self.chars_max = (self.tokens_max + 1) * self.chars_per_token - 1

    @property
    def tokens(self) -> int:
        return self.chars // self.chars_per_token

    @property
    def chars_left(self) -> int:
        """Return how many characters still fit the budget by the estimate."""
        return max(0, self.chars_max - self.chars)

    @property
    def tokens_left(self) -> int:
        """Return how many whole tokens still fit."""
        return self.chars_left // self.chars_per_token

    @property
    def queries_left(self) -> int:
        """Return how many questions may still be asked."""
        return max(0, self.queries_max - self.queries)

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the time is over; never negative."""
        return max(0.0, self.timeout_s - (self.now() - self.began_at))

    @property
    def elapsed_ms(self) -> int:
        return max(0, round((self.now() - self.began_at) * 1000))

    def charge(self, chars: int) -> None:
        """Charge this many characters. Raises LimitReached if they do not fit, or time is over."""
        if self.chars + chars > self.chars_max:
            raise LimitReached("tokens")
        self.check_time()
        self.chars += chars

    def query(self) -> None:
        """Charge one question. Raises LimitReached if there is none left, or time is over."""
        self.check_time()
        if self.queries >= self.queries_max:
            raise LimitReached("queries")
        self.queries += 1

    def check_time(self) -> None:
        """Raise LimitReached once time is over."""
        if self.now() - self.began_at >= self.timeout_s:
            raise LimitReached("time")
