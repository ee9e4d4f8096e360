"""Coroutines that may go on a few at a time, in turns between principals: `bus/fair.py`'s gate, awaited."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bus.fair import FairGate, weight_of
from bus.settings import BusSettings


@dataclass(slots=True, eq=False)
class Ticket:
    """One who wants to go on; it has to leave again, whether its turn came or not."""

    turnstile: Turnstile
    principal: str
    _has_turn: asyncio.Event = field(default_factory=asyncio.Event)
    _is_asked: bool = False
    _is_over: bool = False

    async def turn(self) -> None:
        """Returns once it may go on; at once if it may already, or has left."""
        if not self._is_asked and not self._is_over:
            self._is_asked = True
            if self.turnstile.gate.enter(self.principal, self):
                self._has_turn.set()
        await self._has_turn.wait()

    def leave(self) -> None:
        """Its place is free; once only, further calls do nothing."""
        if self._is_over:
            return
        self._is_over = True
        self._has_turn.set()
        if self._is_asked:
            for other in self.turnstile.gate.leave(self.principal, self):
                other._has_turn.set()  # noqa: SLF001 - a ticket's own kind


class Turnstile:
    """At most `all_max` at once, at most `each_max` of one principal."""

    def __init__(self, *, each_max: int, all_max: int, settings: BusSettings) -> None:
        self.gate: FairGate[Ticket] = FairGate(
            each_max=each_max, all_max=all_max, weight=lambda principal: weight_of(principal, settings)
        )

    def ticket(self, principal: str) -> Ticket:
        """For one who will ask for its turn."""
        return Ticket(self, principal)
