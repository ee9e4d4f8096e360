"""Sessions without an owner: found in the record, and asked for, so that what is open in them is driven to its end.

Whoever waits for an answer asks again, and so brings a session to its next owner. Nobody does for a run whose client
took its request back, or for a follow-up; and the broker, which would give a dead supervisor's work to another, may die
with it. The record says who took a session over last, the broker which of those live: a session of one that does not,
and in which something is open, is asked for. That is a request under the session's key, so it comes to the very
supervisor to which everybody else's come. It is looked for whenever a supervisor starts and whenever one is missing; so
are the sessions that a living one dropped, or of which it does not know whether its entries stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import structlog
from msgspec import Struct

from hobus.actors.ho2_supervisor import limits
from hobus.actors.ho2_supervisor.ownership.owner import OwnedSession
from hobus.actors.ho2_supervisor.resources import Resources
from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import INDEX_INTERVAL_MS, LEDGER_REQUEST_TIMEOUT_MS
from hobus.bus.messages.ids import (
    RunId,
    derive_beside_order_id,
    derive_entry_id,
    derive_requested_id,
    follow_up_input,
    is_beside,
    is_follow_up,
)
from hobus.bus.messages.ledger import Entry, LedgerStats, Provenance, Query, Read, name_session_stream
from hobus.bus.messages.session import SessionReady, StartSession
from hobus.bus.paging import read_peers
from hobus.bus.record.payload import read_payload
from hobus.bus.record.payloads.orders import OwnersSettled
from hobus.bus.record.session_facts import RUN_ENDS, OrderDispatched, OrderEnded, RunCompleted

SETTLED = "OWNERS_SETTLED"
_FIXED_OUTSIDE = frozenset({"disk_full"})
"""Codes that no other try fixes, but somebody at the machine will: such a session is asked for again."""
_log = structlog.get_logger("ho2_supervisor")


class Tenure(Struct, frozen=True):
    """Who took a session over, and in which tenure."""

    owner: str
    tenure: int


def is_owned(newest_first: Sequence[Entry], taken: set[Tenure]) -> bool:
    """Return whether the session is still held under one of these tenures: nobody took it over since.

    By owner and tenure: of two who take it over at once both claim the same number.
    """
    newest = next((Tenure(entry.origin, entry.tenure) for entry in newest_first if entry.tenure is not None), None)
    return newest in taken


def may_be_open(newest_first: Sequence[Entry]) -> bool:
    """Return whether a run, an order behind its answer, or a follow-up may be open, by the entries' heads alone.

    False: the session is idle, unless something is open that came before these entries.
    """
    if any(entry.event_type == "HostCommandReceived" for entry in newest_first):
        return True
    answered: set[str] = set()
    ended: set[str] = set()
    end = ""
    for entry in newest_first:
        about = entry.submission_id.partition(":")[2]
        if entry.event_type == OrderEnded.entry_name:
            ended.add(about)
        elif entry.event_type == OrderDispatched.entry_name and is_beside(about) and about not in ended:
            if end == RunCompleted.entry_name:  # of any other end nothing is left to be done
                return True
        elif entry.event_type == "TurnDegraded":
            answered.add(about)
        elif entry.event_type in RUN_ENDS:
            end = end or entry.event_type
        elif entry.event_type == "RunAttached" and not end:
            return True  # perhaps to a run that had failed, behind its end
        elif entry.event_type == "RunRequested":  # behind one follow-up others may wait
            return is_follow_up(about.partition("/")[2]) or not (end or about in answered)
    return bool(newest_first) and newest_first[-1].prev != "" and not end


class Unowned:
    """Ask, in one task, for sessions without an owner; whoever owns them then answers, perhaps this supervisor."""

    def __init__(self, resources: Resources) -> None:
        self._bus = resources.bus
        self._client = resources.client
        self._config = resources.config
        self._resources = resources
        self._given_up: dict[str, set[Tenure]] = {}  # session -> our tenures of it; the last one may not stand
        self._task: asyncio.Task[None] | None = None
        self._connected: frozenset[str] | None = None  # at the last look; None: the broker did not say
        self.found = 0

    def watch(self) -> None:
        """Watch from now on, until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def give_up(self, session: OwnedSession) -> None:
        """Look for the session's next owner: this supervisor has it no more, or not as the record has it."""
        if session.tenure:
            self._given_up.setdefault(session.session_id, set()).add(Tenure(self._bus.instance, session.tenure))

    def is_connected(self, instance: str) -> bool:
        """Return whether the broker held this instance at the last look; True without a look or a name."""
        return self._connected is None or not instance or instance in self._connected

    async def _watch(self) -> None:
        known: frozenset[str] | None = None  # of whom nothing is left behind, or who live
        while True:
            try:
                living = await self._read_living()
                if known is None or known - living:
                    known = await self._settle()
                else:
                    known = living
                await self._ask_for_given_up()
            except RuntimeFault as fault:
                _log.debug("owners_unknown", code=fault.code)  # the broker or the ledger is away: at the next look
            silence_s = self._config.sessions.lease_heartbeat_timeout_s
            await self._bus.sleep(min(limits.OWNERS_INTERVAL_MS / 1000, silence_s / 4))

    async def _read_living(self) -> frozenset[str]:
        """Return the supervisors that are connected. Raises BusError while the broker does not say."""
        try:
            rows = (await read_peers(self._bus, timeout_s=self._config.bus.peer_timeout_ms / 1000)).peers
        except RuntimeFault:
            self._connected = None
            raise
        peers = [row for row in rows if row.state != "lost"]
        self._connected = frozenset(peer.instance for peer in peers)
        return frozenset(peer.instance for peer in peers if peer.role == "ho2")

    async def _settle(self) -> frozenset[str]:
        """Ask for every session of supervisors that are gone; return those that live.

        Raises RuntimeFault if any failed.
        """
        stats = await self._wait_indexed()
        await self._bus.sleep(self._config.bus.reannounce_grace_ms / 1000)  # the broker may have just begun itself
        living = await self._read_living()
        since, earlier = await self._find_settled_before()
        taken: dict[str, Tenure] = {}
        seen = await self._read_taken(taken, {}, after=since)
        for owner in sorted(set(earlier) - living):
            await self._read_taken(taken, {"origin": owner}, after=-1)
        left = {session_id: {one} for session_id, one in taken.items() if one.owner not in living}
        await self._ask_for(left)
        if seen >= limits.JOURNAL_PAGE:  # the next one need not read all that again
            self._note_settled(stats.head, living)
        return living

    async def _wait_indexed(self) -> LedgerStats:
        """Return the ledger's figures, once its index shows everything acknowledged until then."""
        first = stats = await self._client.stats()
        while stats.head - stats.index_behind < first.head:
            await self._bus.sleep(INDEX_INTERVAL_MS / 1000)
            stats = await self._client.stats()
        return first

    async def _find_settled_before(self) -> tuple[int, Iterable[str]]:
        """Return the newest OWNERS_SETTLED: the sequence before which all is settled, and who lived then."""
        where = {"stream": "ho2m", "event_type": SETTLED}
        page = await self._client.page(Query(where=where, limit=1, newest_first=True, with_bodies=True))
        said = read_payload(OwnersSettled, page.entries[0]) if page.entries else None
        return (-1, ()) if said is None else said

    def _note_settled(self, through: int, living: Iterable[str]) -> None:
        payload = OwnersSettled(through, tuple(sorted(living)))
        entry = self._resources.entry(SETTLED, payload, provenance=Provenance(tier="ho2"), parents=[])
        self._client.submit([entry])

    async def _read_taken(self, taken: dict[str, Tenure], where: dict[str, str], *, after: int) -> int:
        """Read the newest take-over of each session in these pages; return how many there were."""
        count, more = 0, True
        while more:
            limit = limits.JOURNAL_PAGE
            page = await self._client.page(Query(where={"event_type": "TookOver", **where}, after=after, limit=limit))
            for entry in page.entries:
                session_id, tenure = entry.provenance.session_id, entry.tenure or 0
                if session_id not in taken or taken[session_id].tenure < tenure:
                    taken[session_id] = Tenure(entry.origin, tenure)
                after = entry.sequence
            count, more = count + len(page.entries), page.more
        return count

    async def _ask_for(self, left: Mapping[str, set[Tenure]]) -> None:
        """Ask for each of these sessions that may have something open; raise the last fault after all were asked."""
        failed: RuntimeFault | None = None
        for session_id, taken in left.items():
            try:
                await self._ask(session_id, taken)
            except RuntimeFault as fault:
                _log.warning("session_not_taken_over", session_id=session_id, code=fault.code)
                failed = fault if fault.retryable or fault.code in _FIXED_OUTSIDE else failed
        if failed is not None:
            raise failed

    async def _ask_for_given_up(self) -> None:
        for session_id in list(self._given_up):
            taken = self._given_up.pop(session_id)
            try:
                await self._ask_for({session_id: taken})
            except RuntimeFault:  # at the next look, the others now
                self._given_up.setdefault(session_id, set()).update(taken)

    async def _ask(self, session_id: str, taken: set[Tenure]) -> None:
        """Have whoever answers for the session own it and drive what is open."""
        stream, limit = name_session_stream(session_id), limits.OWNERS_ENTRIES
        newest = await self._client.page(Read(stream=stream, limit=limit, newest_first=True))
        if not is_owned(newest.entries, taken):
            return
        if not may_be_open(newest.entries) and not (newest.more and await self._has_more(session_id, newest.entries)):
            return
        self.found += 1
        timeout_s = LEDGER_REQUEST_TIMEOUT_MS / 1000
        await self._bus.request(
            "ho2", StartSession(session_id=session_id), expect=SessionReady, timeout_s=timeout_s, key=session_id
        )

    async def _has_more(self, session_id: str, newest_first: Sequence[Entry]) -> bool:
        """Return whether something is open that these entries do not show."""
        end = next((entry for entry in newest_first if entry.event_type in RUN_ENDS), None)
        if end is not None and end.event_type == RunCompleted.entry_name:
            wo_id = derive_beside_order_id(RunId(session_id=session_id, run_seq=end.provenance.run_seq))
            kinds = (OrderDispatched.entry_name, OrderEnded.entry_name)
            sent, ended = await self._client.lookup([derive_entry_id(kind, wo_id) for kind in kinds])
            if sent is not None and ended is None:
                return True
        return await self._may_wait(session_id)

    async def _may_wait(self, session_id: str) -> bool:
        """Return whether a message may wait from before these entries, among inputs that came in between.

        Messages begin in the order in which they came: behind the newest one that began, none waits. A command that is
        no message is taken for one that waits, since its head does not tell.
        """
        where = {"stream": name_session_stream(session_id), "event_type": "HostCommandReceived"}
        page = await self._client.page(Query(where=where, limit=1, newest_first=True))
        if not page.entries:
            return False
        command_id = page.entries[0].submission_id.rpartition("/")[2]
        [begun] = await self._client.lookup([derive_requested_id(session_id, follow_up_input(command_id))])
        return begun is None
