"""Coroutines that may go on a few at a time, in turns between principals: `bus/fair.py`'s gate, awaited.

With a rate, those of one client go on no faster beside each other while others are about (`bus/pacing.py`): those that
wait for a model are soon as many as the gate allows, those that need the processors stay few. It holds for each part of
their work that they ask a turn for, so it holds as soon as somebody else comes, for what had begun before as well.
Whoever does one after the other is never kept waiting by that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hobus.bus.fair import FairGate, Shares, is_client, weight_of
from hobus.bus.pacing import Others, PacedIntake, Rate
from hobus.bus.settings import BusSettings


@dataclass(slots=True, eq=False)
class Ticket:
    """One who wants to go on; it has to leave again, whether its turn came or not."""

    turnstile: Turnstile
    principal: str
    _has_turn: asyncio.Event = field(default_factory=asyncio.Event)
    _is_asked: bool = False
    _is_over: bool = False

    @property
    def key(self) -> str:
        """Its name among those that wait."""
        return str(id(self))

    async def turn(self) -> None:
        """Returns once it may go on with the next part of its work; at once if it has left.

        Its place is asked for once, and kept until it leaves.
        """
        if self._is_over:
            return
        if not self._is_asked:
            self._is_asked = True
            self.turnstile.ask(self)
        elif self._has_turn.is_set():
            self._has_turn.clear()
            self.turnstile.ask_again(self)
        await self._has_turn.wait()

    def go_on(self) -> None:
        """Its turn has come."""
        self._has_turn.set()

    def leave(self) -> None:
        """Its place is free; once only, further calls do nothing."""
        if self._is_over:
            return
        self.rest()
        self._is_over = True
        self._has_turn.set()

    def rest(self) -> None:
        """Its place is free until its next turn, for which it gets in line anew. Nobody may wait for one meanwhile."""
        if self._is_asked and not self._is_over:
            self.turnstile.leave(self)
            self._is_asked = False
            self._has_turn.clear()


class Turnstile:
    """At most `all_max` at once, at most `each_max` of one principal; a client's beside each other at `beside`."""

    def __init__(self, *, each_max: int, all_max: int, settings: BusSettings, beside: Rate | None = None) -> None:
        self._gate: FairGate[Ticket] = FairGate(
            each_max=each_max, all_max=all_max, weight=lambda principal: weight_of(principal, settings)
        )
        self._present = Shares()  # who has asked and not left
        self._going = Shares()  # who of them has gone on
        self._gone_on: set[Ticket] = set()
        self._others = Others(settings.contended_ms / 1000, self._present.has_others)
        self._pacing: PacedIntake[Ticket] | None = None
        if beside is not None:
            self._pacing = PacedIntake(beside, shares_max=settings.mailbox_max, is_contended=self._others.are_about)
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, ticket: Ticket) -> None:
        """It goes on when its turn comes."""
        self._present.take(ticket.principal, 0)
        self._others.heard(ticket.principal, _now())
        if self._gate.enter(ticket.principal, ticket):
            self._begin(ticket)

    def ask_again(self, ticket: Ticket) -> None:
        """A part of its work is done; it keeps its place, and goes on when its turn comes."""
        self._gone_on.remove(ticket)
        self._going.give_back(ticket.principal, 0)
        self._begin(ticket)

    def leave(self, ticket: Ticket) -> None:
        """It asked, and is over, whether its turn had come or not."""
        principal = ticket.principal
        self._present.give_back(principal, 0)
        let_in = self._gate.leave(principal, ticket)
        if ticket in self._gone_on:
            self._gone_on.remove(ticket)
            self._going.give_back(principal, 0)
            if self._pacing is not None and not self._going.of(principal).count:
                following = self._pacing.first_of(principal)
                if following is not None:
                    self._go_on(following)
        elif self._pacing is not None:
            self._pacing.leave(principal, ticket.key)
        for other in let_in:
            self._begin(other)

    def __len__(self) -> int:
        """How many are at work."""
        return len(self._gate)

    def _begin(self, ticket: Ticket) -> None:
        """There is room for it: it goes on, beside others of its principal at its rate."""
        pacing, principal = self._pacing, ticket.principal
        if pacing is not None and is_client(principal) and self._going.of(principal).count:
            now = _now()
            if not pacing.arrives(principal, principal, now):
                pacing.wait(principal, ticket.key, ticket)
                self._look_later(pacing)
                return
            pacing.charge(principal, principal, 1, now)
        self._go_on(ticket)

    def _go_on(self, ticket: Ticket) -> None:
        self._gone_on.add(ticket)
        self._going.take(ticket.principal, 0)
        ticket.go_on()

    def _look_later(self, pacing: PacedIntake[Ticket]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        at = pacing.next_at()
        self._timer = asyncio.get_running_loop().call_at(at, self._release, pacing) if at is not None else None

    def _release(self, pacing: PacedIntake[Ticket]) -> None:
        self._timer = None
        for ticket in pacing.take(now := _now()):
            pacing.charge(ticket.principal, ticket.principal, 1, now)
            self._go_on(ticket)
        self._look_later(pacing)

    def ticket(self, principal: str) -> Ticket:
        """For one who will ask for its turn."""
        return Ticket(self, principal)


def _now() -> float:
    """The running loop's time, by which the timer is set: virtual in the simulation."""
    return asyncio.get_running_loop().time()
