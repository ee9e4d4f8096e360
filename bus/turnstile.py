"""Coroutines that may go on so many at a time, in turns between principals: `bus/fair.py`'s gate, awaited."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hobus.bus.fair import FairGate, weight_of


@dataclass(slots=True, eq=False)
class Ticket:
    """One who wants a place; it has to leave again, whether it had one or not."""

    turnstile: Turnstile
    principal: str
    _has_turn: asyncio.Event = field(default_factory=asyncio.Event)
    _is_asked: bool = False
    _is_over: bool = False

    async def turn(self) -> None:
        """Returns once it has a place, which it keeps until it leaves; at once if it has left."""
        if self._is_over:
            return
        if not self._is_asked:
            self.begins_at_once()
        await self._has_turn.wait()

    def begins_at_once(self) -> bool:
        """Whether it has its place now; if not, it is in line for it, and `turn` waits."""
        assert not self._is_asked  # noqa: S101 - it asks once
        self._is_asked = True
        self.turnstile.ask(self)
        return self._has_turn.is_set()

    def go_on(self) -> None:
        """Its turn has come."""
        self._has_turn.set()

    def leave(self) -> None:
        """Its place is free; once only, further calls do nothing."""
        if self._is_over:
            return
        self._is_over = True
        if self._is_asked:
            self.turnstile.leave(self)
        self._has_turn.set()


class Turnstile:
    """At most `all_max` at once, at most `each_max` of one principal."""

    def __init__(self, *, each_max: int, all_max: int) -> None:
        self._gate: FairGate[Ticket] = FairGate(each_max=each_max, all_max=all_max, weight=weight_of)

    def ask(self, ticket: Ticket) -> None:
        """It goes on when its turn comes."""
        if self._gate.enter(ticket.principal, ticket):
            ticket.go_on()

    def leave(self, ticket: Ticket) -> None:
        """It asked, and is over, whether its turn had come or not."""
        for other in self._gate.leave(ticket.principal, ticket):
            other.go_on()

    def __len__(self) -> int:
        """How many are at work."""
        return len(self._gate)

    def ticket(self, principal: str) -> Ticket:
        """For one who will ask for its turn."""
        return Ticket(self, principal)
