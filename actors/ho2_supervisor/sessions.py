"""The sessions that this instance holds: found in memory, or read from their journals and taken over.

The registry is the long-lived owner of the loading tasks: several requests for one session wait for one loading, and a
requester that goes away does not end it. Source: spec page "Session contracts", Where it lives.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping

from actors.ho2_supervisor.history import HistoryLimits
from actors.ho2_supervisor.owner import AppendRefused, OwnedSession
from bus.errors import SessionFault
from bus.ledger_client import LedgerClient
from bus.port import Bus
from config.schema import AdminConfig


class Sessions:
    """Session id -> the loading that gives or gave the session; bounded, the longest idle one goes first."""

    def __init__(  # noqa: PLR0913 - what loading needs, and whom it tells
        self,
        *,
        bus: Bus,
        client: LedgerClient,
        config: AdminConfig,
        limits: HistoryLimits,
        packages: Mapping[str, str],
        taken_over: Callable[[OwnedSession], None],
        at_hand: Callable[[OwnedSession], None],
        is_running: Callable[[str], bool],
        let_go: Callable[[str], None],
        given_up: Callable[[OwnedSession], None],
    ) -> None:
        self._bus = bus
        self._client = client
        self._config = config
        self._limits = limits
        self._packages = packages  # agent id -> the package that owns it
        self._taken_over = taken_over
        self._at_hand = at_hand
        self._is_running = is_running
        self._let_go = let_go
        self._given_up = given_up
        self._loadings: OrderedDict[str, asyncio.Task[OwnedSession]] = OrderedDict()
        self.snapshots_written = 0
        self.snapshots_ignored = 0  # damaged, erased, or of a version not known here

    def __len__(self) -> int:
        return len(self._loadings)

    def held(self, session_id: str) -> OwnedSession | None:
        """The session if it is in memory and trusted."""
        session = self._loaded(session_id)
        return None if session is None or session.is_lost else session

    async def owned(self, session_id: str) -> OwnedSession:
        """The session, read and taken over unless it is held already. One that never started is not taken over.

        Nothing is awaited after the session is at hand, so that the caller's next step is synchronous with it.
        """
        while True:
            session = self.held(session_id)
            if session is not None:
                self._loadings.move_to_end(session_id)
                return session
            loading = self._loadings.get(session_id)
            if loading is None or loading.done():
                loading = self._load_anew(session_id)
            await asyncio.shield(loading)

    async def peek(self, session_id: str) -> OwnedSession:
        """The session as its journal says, without taking it over."""
        session = self._new(session_id)
        await self._read(session)
        return session

    async def reread(self, session: OwnedSession) -> None:
        """The same session from its journal again, after a refused append. Raises LedgerError if it has a new owner."""
        tenure = session.tenure
        await self._read(session)
        state = session.record.state
        if (state.tenure, state.owner) != (tenure, self._bus.instance):  # two who took it over at once claim one tenure
            self.drop(session)
            raise SessionFault(
                "moved",
                f"session {session.session_id} is {state.owner}'s (tenure {state.tenure}; ours was {tenure})",
                retryable=True,
            )

    def drop(self, session: OwnedSession) -> None:
        """Forget the session; the next request reads it again. Where something is open in it, there will be one."""
        if self._loaded(session.session_id) is session:
            del self._loadings[session.session_id]
            self._given_up(session)

    async def record_state(self, session: OwnedSession) -> None:
        """The session's state is recorded anew, if it rests and enough has come since. For when its reply is out."""
        if self._loaded(session.session_id) is session:
            self.snapshots_written += session.record_state(every=self._config.sessions.snapshot_entries)

    async def _read(self, session: OwnedSession) -> None:
        await session.read(page=self._config.sessions.journal_page)
        if session.loaded is not None:
            self.snapshots_ignored += session.loaded.ignored

    def _loaded(self, session_id: str) -> OwnedSession | None:
        loading = self._loadings.get(session_id)
        if loading is None or not loading.done() or loading.cancelled() or loading.exception() is not None:
            return None
        return loading.result()

    def _load_anew(self, session_id: str) -> asyncio.Task[OwnedSession]:
        loading = asyncio.get_running_loop().create_task(self._load(session_id))
        loading.add_done_callback(self._ended)
        self._loadings[session_id] = loading
        self._let_idle_go()
        return loading

    async def _load(self, session_id: str) -> OwnedSession:
        session = self._new(session_id)
        for _ in range(self._config.ho2.takeover_attempts_max):
            await self._read(session)
            if not session.record.state.is_started:
                return session
            session.take_over()
            try:
                await session.barrier()
            except AppendRefused:
                continue
            self._taken_over(session)
            return session
        raise SessionFault(
            "moved",
            f"session {session_id}: its head moved during each of {self._config.ho2.takeover_attempts_max} readings "
            "(ho2.takeover_attempts_max)",
            retryable=True,
        )

    def _new(self, session_id: str) -> OwnedSession:
        return OwnedSession(
            session_id=session_id,
            bus=self._bus,
            client=self._client,
            limits=self._limits,
            packages=self._packages,
            on_lost=self._given_up,
        )

    def _ended(self, loading: asyncio.Task[OwnedSession]) -> None:
        """Whoever waited for it may have gone: what is to be done in the session is seen to all the same.

        Nobody may be left to hear of a loading that failed either; asyncio need not complain.
        """
        if not loading.cancelled() and loading.exception() is None:
            self._at_hand(loading.result())

    def _let_idle_go(self) -> None:
        for session_id, loading in list(self._loadings.items()):
            if len(self._loadings) <= self._config.ho2.sessions_max:
                return
            if loading.done() and not self._is_running(session_id):
                del self._loadings[session_id]
                self._let_go(session_id)  # a run of it that stands still is picked up by whoever is asked next
