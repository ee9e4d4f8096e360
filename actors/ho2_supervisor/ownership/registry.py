"""What this instance holds: the sessions that it owns, as they are loaded, and the tasks of their active runs.

How a session comes into the one map says `take_over.py`, how a run into the other `runs.py`; they leave them here.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.configurations import Configurations
from hobus.actors.ho2_supervisor.ownership.owner import (
    AppendRefused,
    EntryRefused,
    JournalLost,
    OwnedSession,
    SessionMoved,
)
from hobus.actors.ho2_supervisor.ownership.unowned import Unowned
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.actors.ho2_supervisor.run_task import RunTask
from hobus.bus.errors import RuntimeFault


class Registry:
    """Hold sessions (bounded, the longest idle goes first) and runs, which may outlive their session's place."""

    def __init__(
        self, configurations: Configurations, unowned: Unowned, *, sessions_max: int, snapshot_entries: int
    ) -> None:
        """Begin empty. `snapshot_entries`: after so many entries an idle session's state is recorded anew."""
        self._configurations = configurations
        self.unowned = unowned
        self._sessions_max = sessions_max
        self._snapshot_entries = snapshot_entries
        self._loadings: OrderedDict[str, asyncio.Future[OwnedSession]] = OrderedDict()
        self.runs: dict[str, RunTask] = {}
        self.follow_ups: dict[str, asyncio.Task[None]] = {}  # the tasks that begin the next run
        self.snapshots_written = 0
        self.snapshots_ignored = 0  # damaged, erased, or of a version not known here

    @property
    def _resources(self) -> Resources:
        return self._configurations.current

    def __len__(self) -> int:
        """Return how many sessions are held, or being loaded."""
        return len(self._loadings)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def held(self, session_id: str) -> OwnedSession | None:
        """Return the session if it is in memory and trusted."""
        session = self._load(session_id)
        return None if session is None or session.is_lost else session

    def used(self, session_id: str) -> OwnedSession | None:
        """Return the session if it is in memory and trusted, and count it as used.

        An idle one that was read under another configuration than the current one must be read again.
        """
        session = self.held(session_id)
        if session is None:
            return None
        is_at_rest = session_id not in self.runs and session_id not in self.follow_ups
        if is_at_rest and not session.is_under(self._resources):
            del self._loadings[session_id]
            return None
        self._loadings.move_to_end(session_id)
        return session

    def find_loading(self, session_id: str) -> asyncio.Future[OwnedSession] | None:
        loading = self._loadings.get(session_id)
        return None if loading is None or loading.done() else loading

    def add(self, session_id: str, loading: asyncio.Task[OwnedSession]) -> None:
        """Add a session that is being loaded; let idle ones go beyond the bound."""
        self._loadings[session_id] = loading
        if len(self._loadings) <= self._sessions_max:
            return
        for idle_id, idle in list(self._loadings.items()):
            if len(self._loadings) <= self._sessions_max:
                return
            if idle.done() and not self.is_running(idle_id):
                del self._loadings[idle_id]
                self.let_go(idle_id)  # a run of it that stands still is picked up by whoever is asked next

    def keep(self, loading: asyncio.Task[OwnedSession]) -> None:
        """Replace a loading task by what it loaded, so that the request it was loaded for is released."""
        session = loading.result()
        if self._loadings.get(session.session_id) is loading:
            kept = self._loadings[session.session_id] = asyncio.get_running_loop().create_future()
            kept.set_result(session)

    def drop(self, session: OwnedSession) -> None:
        """Forget the session, so that the next request reads it again; if something is open in it, ask for it."""
        if self._load(session.session_id) is session:
            del self._loadings[session.session_id]
            self.unowned.give_up(session)

    async def is_durable(self, session: OwnedSession) -> bool:
        """Return whether what was appended stands; False: the stream moved on, the session is to be read again.

        Raises EntryRefused, which reading again would not fix, or JournalLost.
        """
        try:
            await session.barrier()
        except AppendRefused:
            self.drop(session)
            return False
        except (EntryRefused, JournalLost):
            self.drop(session)
            raise
        return True

    def new(self, session_id: str) -> OwnedSession:
        """Return a session of which nothing is known yet, held by nobody."""
        return OwnedSession(session_id, self._resources, on_lost=self.unowned.give_up)

    async def read(self, session: OwnedSession) -> None:
        await session.read(page=limits.JOURNAL_PAGE)
        if session.loaded is not None:
            self.snapshots_ignored += session.loaded.ignored

    async def read_again(self, session: OwnedSession) -> None:
        """Read the session from its journal again after a refused append. Raises SessionMoved if another owns it."""
        tenure = session.tenure
        await self.read(session)
        state = session.record.state
        if (state.tenure, state.owner) != (tenure, self._resources.bus.instance):  # two at once claim one tenure
            self.drop(session)
            raise SessionMoved(session.session_id, f"is {state.owner}'s (tenure {state.tenure}; ours was {tenure})")

    async def record_state(self, session: OwnedSession) -> None:
        """Record an idle session's state anew if enough has come since; called when its reply is out."""
        if self._load(session.session_id) is session:
            self.snapshots_written += session.record_state(every=self._snapshot_entries)

    def _load(self, session_id: str) -> OwnedSession | None:
        loading = self._loadings.get(session_id)
        if loading is None or not loading.done() or loading.cancelled() or loading.exception() is not None:
            return None
        return loading.result()

    # --- runs ---------------------------------------------------------------------------------------------------------

    def is_running(self, session_id: str) -> bool:
        """Return whether a run of this session is at work here, or about to begin."""
        run = self.runs.get(session_id)
        return session_id in self.follow_ups or (run is not None and run.standstill is None)

    def remove(self, run: RunTask) -> None:
        """Remove the run, unless another task of it has taken its place."""
        if self.runs.get(run.session.session_id) is run:
            del self.runs[run.session.session_id]

    def stop(self, run: RunTask, fault: RuntimeFault) -> None:
        """Stop driving the run, since somebody else does or did; tell whoever waits why."""
        self.remove(run)
        run.stop(fault)

    def let_go(self, session_id: str) -> None:
        """Stop driving a run that stands still; the record keeps it as it is."""
        run = self.runs.get(session_id)
        if run is not None and run.standstill is not None:
            self.drop(run.session)
            self.stop(run, SessionMoved(session_id, "is given up here"))
