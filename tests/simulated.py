"""A simulated cluster that is asked, struck at a moment, and read: what tests do with one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hobus.bus.messages.base import Message
from hobus.bus.messages.ledger import Entry
from hobus.bus.messages.session import ProcessTurn, TurnResult
from hobus.launch.lab import simulated
from hobus.launch.sessions.turns import process_turn
from hobus.ledger_service.reader import read_entries


@dataclass(slots=True)
class StruckMoment:
    hit_a_turn: bool = False  # whether a turn was on its way when it struck


class SimulatedCluster(simulated.SimulatedCluster):
    is_asking = False

    def ask(
        self, text: str, *, input_id: str, session_id: str | None = None, timeout_s: float = 60.0,
        on_stream: Callable[[Message], None] | None = None,
    ) -> TurnResult:  # fmt: skip
        """One turn through the host, in virtual time: streamed to `on_stream`, or asked again as `hobus ask` does."""
        turn = ProcessTurn(session_id=session_id, input_id=input_id, text=text, stream=on_stream is not None)
        if on_stream is None:
            asking = process_turn(self.door, turn, timeout_s=timeout_s)
        else:
            asking = self.door.request("host", turn, expect=TurnResult, timeout_s=timeout_s, on_stream=on_stream)
        self.is_asking = True
        try:
            return self.world.run(asking)
        finally:
            self.is_asking = False

    def entries(self) -> list[Entry]:
        """Everything on the ledger's medium, with bodies; between turns also what nobody waits for."""
        if not self.world.loop.is_running():
            self.world.run(asyncio.sleep(3 * self.snapshot.config.ledger.lazy_commit_ms / 1000))
        with tempfile.TemporaryDirectory() as directory:
            simulated.write_out(self.world.media["ledger"], Path(directory))
            return list(read_entries(Path(directory), with_bodies=True))

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
