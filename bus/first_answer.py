"""Several who ask the same at once hear the same: the first answer that one of them was given. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class FirstAnswer(Generic[T]):
    """The first answer that one of several askers was given; nothing until then."""

    def __init__(self, is_final: Callable[[T], bool]) -> None:
        self._is_final = is_final
        self.askers = 0
        self.value: T | None = None

    def given(self, answer: T) -> T:
        """Return the first final answer: `answer`, unless one came before; one that is not final stands for itself."""
        if not self._is_final(answer):
            return answer
        if self.value is None:
            self.value = answer
        return self.value


class FirstAnswers(Generic[T]):
    """One first answer per question that somebody waits for; forgotten when nobody does any more."""

    def __init__(self, is_final: Callable[[T], bool]) -> None:
        self._is_final = is_final
        self._open: dict[Hashable, FirstAnswer[T]] = {}

    @contextmanager
    def asked(self, question: Hashable) -> Generator[FirstAnswer[T]]:
        """Share the first answer for as long as one of those who ask the question waits."""
        shared = self._open.setdefault(question, FirstAnswer(self._is_final))
        shared.askers += 1
        try:
            yield shared
        finally:
            shared.askers -= 1
            if not shared.askers:
                del self._open[question]
