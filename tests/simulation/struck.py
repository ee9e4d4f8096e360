"""A simulated cluster that is struck at a moment, and knows whether a turn was on its way then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hobus.bus.messages.session import TurnResult
from hobus.launch.lab import simulated


@dataclass(slots=True)
class StruckMoment:
    """One planned kill or freeze."""

    hit_a_turn: bool = False  # whether a turn was on its way when it struck


class SimulatedCluster(simulated.SimulatedCluster):
    """With a hand that kills and freezes."""

    is_asking = False

    def ask(self, text: str, **wanted: Any) -> TurnResult:
        """One turn, as the cluster asks it; meanwhile one is on its way."""
        self.is_asking = True
        try:
            return super().ask(text, **wanted)
        finally:
            self.is_asking = False

    def strike(self, role: str, *, after_s: float, back_after_s: float) -> StruckMoment:
        """In `after_s` virtual seconds the oldest process of this role is killed; a new one follows."""

        def kill(victim: str) -> None:
            self.kill_now(victim)
            self.world.loop.call_later(back_after_s, self.start, role)

        return self._later(role, after_s, kill)

    def freeze(self, role: str, *, after_s: float, for_s: float) -> StruckMoment:
        """In `after_s` virtual seconds the oldest process of this role stands still for `for_s`."""
        return self._later(role, after_s, lambda victim: self.freeze_now(victim, for_s))

    def _later(self, role: str, after_s: float, hit: Callable[[str], None]) -> StruckMoment:
        moment = StruckMoment()

        def struck() -> None:
            victim = self.oldest(role)
            if victim is not None:  # else an earlier strike's successor is not there yet
                moment.hit_a_turn = self.is_asking
                hit(victim)

        self.world.loop.call_later(after_s, struck)
        return moment
