"""Where pages read from: the cluster that runs in a home, by one connection of an operator, else the home's files.

Nothing is kept of what was read beyond a second, in which other browsers that ask the same are answered by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from hobus.bus.clock import SystemClock
from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import HITS_MAX
from hobus.bus.messages.base import Message
from hobus.bus.messages.control import Peers
from hobus.bus.messages.ledger import Entry, Hits, Search
from hobus.bus.paging import read_peers
from hobus.bus.port import Bus
from hobus.bus.record.payloads.governance import BodiesRead
from hobus.launch.cli.commands.ledger_search import find_in
from hobus.launch.cli.tap.look import OPENED, record_look
from hobus.launch.cli.web import limits
from hobus.launch.cluster.client import connect_bus, place_of
from hobus.launch.cluster.endpoints import Place
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.record import demand_record
from hobus.launch.cluster.run_file import RunFile, find_running
from hobus.launch.console.errors import CommandError, UnreachableFault, format_next_here
from hobus.launch.sessions.journal import FromLedger, Journals
from hobus.launch.sessions.journal_files import FromDirectory
from hobus.ledger_service.reader import find_head, read_entries

AT_REST = "at_rest"
"""Code of the fault of who asks a cluster although the home alone is to be read."""
T = TypeVar("T")
R = TypeVar("R", bound=Message)


class HomeSource:
    """The reads of one home; `at_rest`: of its files alone, whatever runs there; `capture`: of a tap."""

    def __init__(self, home: Home, *, at_rest: bool, capture: Path | None = None) -> None:
        self.home = home
        self.at_rest = at_rest
        self.capture = capture
        self.clock = SystemClock()
        self._held = AsyncExitStack()
        self._connecting = asyncio.Lock()
        self._bus: tuple[tuple[int, float], Bus] | None = None
        self._place: tuple[str, Place] | None = None
        self._shared: dict[str, tuple[float, asyncio.Task[Any]]] = {}

    def run(self, *services: str) -> RunFile:
        """Return the cluster that runs. Raises CommandError where there is none, or it is not to be asked.

        Also where the launcher says that no process of one of these services runs: nobody waits for its answer.
        """
        found = find_running(self.home)
        if self.at_rest:
            said = f"a cluster runs in {self.home.root}; this console was started with --read-only or --capture"
            raise UnreachableFault(said, hint=f"{format_next_here('console')} shows that cluster", code=AT_REST)
        for role in services:
            _demand_process(found, role)
        return found

    @property
    def runs(self) -> bool:
        """Whether a cluster runs that may be asked."""
        with suppress(CommandError):
            return bool(self.run())
        return False

    def place(self) -> Place:
        """Return the place with the configuration that the cluster goes by now. Raises CommandError."""
        run = self.run()
        if self._place is None or self._place[0] != f"{run.started_at} {run.config_digest}":
            self._place = (f"{run.started_at} {run.config_digest}", place_of(self.home, run))
        return self._place[1]

    async def connection(self, *services: str) -> tuple[Place, Bus]:
        """Return the bus as an operator sees it, one connection for all pages. Raises RuntimeFault, CommandError.

        At once where one of these services does not run, or no broker that leads to it: the ledger has its own lane.
        """
        run, place = self.run(*services, *({"broker"} if set(services) - {"ledger"} else ())), self.place()
        of_run = (run.launcher_pid, run.started_at)
        async with self._connecting:
            if self._bus is None or self._bus[0] != of_run:
                self.run("broker")
                await self._disconnect()
                self._bus = (of_run, await self._held.enter_async_context(connect_bus(place, "operator")))
            return place, self._bus[1]

    async def asked(self, service: str, question: Message, expect: type[R]) -> R:
        """Return the answer of a service. Raises RuntimeFault, CommandError."""
        place, bus = await self.connection(service)
        return await bus.request(service, question, expect=expect, timeout_s=place.client_timeout_s)

    async def record_look(self, person: str, command: str) -> None:
        """Record this person's look at what a command shows, where a cluster runs that can write it.

        Raises UnreachableFault: it cannot be written, and nothing is to be shown.
        """
        try:
            self.run()
        except CommandError:
            return
        try:
            _, bus = await self.connection("ledger")
            await record_look(bus, OPENED, BodiesRead(self.clock.new_id(), (command,), None, person), self.clock.now())
        except (RuntimeFault, CommandError) as fault:
            why = "texts of people and models are shown only when that is recorded, and the record cannot be written"
            said, hint = (fault.code, "") if isinstance(fault, RuntimeFault) else (fault.message, fault.hint)
            raise UnreachableFault(f"{why}: {said}", hint=hint) from None

    async def read_files(self, ask: Callable[[FromDirectory], Coroutine[Any, Any, T]]) -> T:
        """Return what the record's files say, beside a ledger that is not burdened. Raises CommandError."""
        demand_record(self.home)
        return await run_in_threadpool(lambda: asyncio.run(ask(FromDirectory(self.home.ledger))))

    async def journals(self, *services: str) -> Journals:
        """Return journals of the running ledger where these run, too, else of the files.

        Raises CommandError where there is no record.
        """
        try:
            place, bus = await self.connection("ledger", *services)
            return FromLedger(bus, timeout_s=place.client_timeout_s)
        except (RuntimeFault, CommandError):
            demand_record(self.home)
            return FromDirectory(self.home.ledger)

    async def search(self, words: str) -> Hits:
        """Return texts with these words. Raises CommandError where there is no record."""
        question = Search(words=words[: limits.WORDS_CHARS], limit=HITS_MAX)
        return await find_in(self.home, await self.journals(), question)

    async def peers(self) -> Peers | None:
        """Return what the broker says; None: it does not answer."""
        try:
            place, bus = await self.connection("broker")
            return await read_peers(bus, timeout_s=place.snapshot.config.bus.peer_timeout_ms / 1000)
        except (RuntimeFault, CommandError):
            return None

    async def head(self) -> int:
        """Return the sequence of the last entry of the record; -1: there is none."""
        demand_record(self.home)
        return await run_in_threadpool(find_head, self.home.ledger)

    async def newest(
        self, *, before: int | None, accepts: Callable[[Entry], bool], limit: int, with_bodies: bool
    ) -> tuple[list[Entry], int | None]:
        """Return at most `limit` entries below `before`, newest first, and where to go on; None: there are none.

        Looks at no more than a page may cost, so there may be fewer.
        """
        demand_record(self.home)

        def read() -> tuple[list[Entry], int | None]:
            found = list[Entry]()
            entries = read_entries(self.home.ledger, before=before, newest_first=True, with_bodies=with_bodies)
            for looked_at, entry in enumerate(entries, 1):
                found += [entry] if accepts(entry) else []
                if len(found) >= limit or looked_at >= limits.ENTRIES_LOOKED_AT:
                    return found, entry.sequence
            return found, None

        return await run_in_threadpool(read)

    async def shared(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        """Return what `make` brings, made once for all who ask for this key while it is made, or within a second."""
        now = self.clock.monotonic()
        until, task = self._shared.get(key, (0.0, None))
        if task is None or (task.done() and until <= now):
            task = asyncio.ensure_future(make())
            self._shared.pop(key, None)
            self._shared[key] = (now + limits.SHARED_S, task)
            if len(self._shared) > limits.SHARED_MAX:
                del self._shared[next(iter(self._shared))]
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Read anew from now on, as something was done."""
        self._shared.clear()

    async def close(self) -> None:
        async with self._connecting:
            await self._disconnect()

    async def _disconnect(self) -> None:
        self._bus = None
        await self._held.aclose()
        self._held = AsyncExitStack()


def _demand_process(run: RunFile, role: str) -> None:
    """Raise UnreachableFault where the launcher has processes of this role and none of them runs."""
    rows = [row for row in run.children if row.role == role]
    if rows and all(row.state in ("stopped", "failed", "backoff") for row in rows):
        why = ", ".join(f"{row.actor} is {row.state}" for row in rows)
        raise UnreachableFault(f"{role} does not run: {why}", hint=format_next_here(f"restart {rows[0].actor}"))
