"""What runs teach: their signals, logged with HO3 when they are over.

The answer and its lesson are recorded at the same time: RunCompleted is on its way to the ledger while the signals are
on theirs to HO3. So the candidates that come back stand in CONSOLIDATION_DUE, not in RunCompleted's bytes. It stands
before any reply names them, once for each input, and whoever answers the input again reads it: every answer names the
same. Where it does not stand no answer names any; the gates stay crossed, and the next turn that logs such a
signal names it again.
"""

from __future__ import annotations

import asyncio

from hobus.actors.ho2_supervisor.learning.memory import Learned, Memory, beside
from hobus.actors.ho2_supervisor.learning.signals import signals_of
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.session.record import EndedRun
from hobus.bus.messages.ids import candidates_key
from hobus.bus.messages.ledger import WriteEntry
from hobus.bus.record.payloads.orders import SignalsNamed


class Learning:
    """Logs what runs teach. The long-lived owner of the tasks that do so when nobody waits for the result."""

    def __init__(self, resources: Resources, memory: Memory) -> None:
        self.memory = memory
        self._snapshot = resources.snapshot
        self._own_entries = resources.own_entries
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def durably_and_learned(self, session: OwnedSession, *, trace: str) -> Learned:
        """The run that was just ended is durable, and, at the same time, its signals were logged.

        The candidates are those that the record has. Raises JournalLost when nobody can say which these are.
        """
        ended = session.record.last_run
        _, learned = await beside(session.barrier(), self._log(session, ended, trace))
        if learned.code:
            self._warn(session, ended, learned, trace)
        if ended is None or not learned.candidates:
            return learned
        if await session.stands(self._due(session, ended, learned, trace)):
            return learned
        return Learned(tuple(await session.candidates(ended.input_id)))

    def log_later(self, session: OwnedSession, *, trace: str = "") -> None:
        """The newest run's signals are on their way; those that were logged before count once all the same."""
        if session.record.last_run is None:
            return
        task = asyncio.get_running_loop().create_task(self._log_and_warn(session, session.record.last_run, trace))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def drain(self) -> None:
        """Nothing is on its way any more; each of them is bounded by `ho3.log_timeout_ms`."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _log_and_warn(self, session: OwnedSession, ended: EndedRun, trace: str) -> None:
        learned = await self._log(session, ended, trace)
        if learned.code:
            self._warn(session, ended, learned, trace)

    async def _log(self, session: OwnedSession, ended: EndedRun | None, trace: str) -> Learned:
        agent = self._snapshot.agents.get(session.record.state.agent_id or "")
        if ended is None or agent is None:
            return Learned()
        signals = signals_of(
            ended, session.session_id, tools=agent.tools, vocabulary=self._snapshot.config.classify_labels
        )
        return await self.memory.log(agent.agent_id, signals, trace=trace)

    def _due(self, session: OwnedSession, ended: EndedRun, learned: Learned, trace: str) -> WriteEntry:
        """What the input's answer names beyond RunCompleted's bytes; the first one written is the one that counts."""
        return self._own_entries.ho2m(
            "CONSOLIDATION_DUE",
            SignalsNamed(tuple(learned.candidates)),
            provenance=session.provenance(ended.run_seq), parents=[ended.ended_by], at_us=session.at_us(),
            trace=trace, once=candidates_key(session.session_id, ended.input_id),
        )  # fmt: skip

    def _warn(self, session: OwnedSession, ended: EndedRun | None, learned: Learned, trace: str) -> None:
        """MEMORY_WARNING: the signals of which nobody knows whether they count."""
        if ended is None:
            return
        session.note(
            self._own_entries.ho2m(
                "MEMORY_WARNING",
                SignalsNamed(tuple(learned.unknown)),
                provenance=session.provenance(ended.run_seq), parents=[ended.ended_by], at_us=session.at_us(),
                reason=learned.code, trace=trace,
            )
        )  # fmt: skip
