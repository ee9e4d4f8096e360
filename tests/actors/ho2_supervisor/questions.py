"""What the ledger was asked: every request with its answer, in order, whoever sent it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import pytest

from hobus.bus.messages.base import Message
from hobus.bus.messages.ledger import Entries, Found, Write
from hobus.ledger_service.service import LedgerService

HANDLERS = ("on_write", "on_lookup", "on_read", "on_query", "on_get_body", "on_tail")


@dataclass
class Questions:
    """(role, request, answer), since the last `clear`."""

    asked: list[tuple[str, Message, Message]] = field(default_factory=list)

    def of(self, role: str) -> list[tuple[Message, Message]]:
        return [(request, answer) for sender, request, answer in self.asked if sender == role]

    def counts(self, role: str) -> dict[str, int]:
        """Requests by type."""
        return dict(Counter(request.TYPE for request, _ in self.of(role)))

    def entries_read(self, role: str) -> int:
        """Entries that came back in pages or look-ups."""
        return sum(
            len(answer.entries) for _, answer in self.of(role) if isinstance(answer, Entries | Found)
        )  # fmt: skip

    def entries_written(self, role: str) -> int:
        return sum(len(request.entries) for request, _ in self.of(role) if isinstance(request, Write))

    def bytes_written(self, role: str) -> int:
        """Of all bodies."""
        return sum(
            len(body)
            for request, _ in self.of(role)
            if isinstance(request, Write)
            for entry in request.entries
            for body in entry.bodies
        )

    def clear(self) -> None:
        self.asked.clear()


def listening(monkeypatch: pytest.MonkeyPatch) -> Questions:
    """For every ledger started from here on."""
    questions = Questions()

    def told(handler: Any) -> Any:
        @wraps(handler)
        async def with_note(self: LedgerService, message: Any, call: Any) -> Any:
            answer = await handler(self, message, call)
            questions.asked.append((call.role, message, answer))
            return answer

        return with_note

    for name in HANDLERS:
        monkeypatch.setattr(LedgerService, name, told(getattr(LedgerService, name)))
    return questions
