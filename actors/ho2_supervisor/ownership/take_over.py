"""How a session comes into this instance's hands: read from its journal, fenced, and what was left undone in it done.

The long-lived owner of the loading tasks: several requests for one session wait for one loading, and a requester that
goes away does not end it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hobus.actors.ho2_supervisor import commanding
from hobus.actors.ho2_supervisor.learning.learning import Learning
from hobus.actors.ho2_supervisor.ownership.owner import AppendRefused, OwnedSession, SessionMoved
from hobus.actors.ho2_supervisor.ownership.registry import Registry
from hobus.actors.ho2_supervisor.runs import Runs


@dataclass(eq=False, repr=False)
class TakeOver:
    """Take sessions over and have their runs driven on."""

    attempts_max: int
    registry: Registry
    runs: Runs
    learning: Learning | None

    async def owned(self, session_id: str) -> OwnedSession:
        """Return the session, read and taken over unless it is held already; one that never started is not taken over.

        Nothing is awaited after the session is loaded, so that the caller's next step is synchronous with that.
        """
        while (session := self.registry.used(session_id)) is None:
            await asyncio.shield(self.registry.find_loading(session_id) or self._load_anew(session_id))
        return session

    async def peek(self, session_id: str) -> OwnedSession:
        """Return the session as its journal says, without taking it over."""
        session = self.registry.new(session_id)
        await self.registry.read(session)
        return session

    def _load_anew(self, session_id: str) -> asyncio.Task[OwnedSession]:
        loading = asyncio.get_running_loop().create_task(self._load(session_id))
        loading.add_done_callback(self._on_end)
        self.registry.add(session_id, loading)
        return loading

    async def _load(self, session_id: str) -> OwnedSession:
        session = self.registry.new(session_id)
        for _ in range(self.attempts_max):
            await self.registry.read(session)
            if not session.record.state.is_started or session.record.state.cell:
                return session
            session.take_over()
            try:
                await session.barrier()
            except AppendRefused:
                continue
            self._go_on(session)
            return session
        why = f"moved on during each of {self.attempts_max} readings"
        raise SessionMoved(session_id, why)

    def _go_on(self, session: OwnedSession) -> None:
        """Do what the earlier owner left undone: decide a command, drive a run on, log what the newest run taught."""
        commanding.decide(session)
        self.runs.resume(session)
        if self.learning is not None:
            self.learning.log_later(session)

    def _on_end(self, loading: asyncio.Task[OwnedSession]) -> None:
        """Finish what the loaded session needs even if whoever waited has gone, and take note of a failed loading."""
        if not loading.cancelled() and loading.exception() is None:
            self.registry.keep(loading)
            self.runs.follow(loading.result())
