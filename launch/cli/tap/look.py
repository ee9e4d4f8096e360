"""A look at bodies of sensitive types stands in the record: before the first one is shown, and when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hobus.bus.errors import RuntimeFault
from hobus.bus.limits import LEDGER_REQUEST_TIMEOUT_MS
from hobus.bus.messages.ledger import Write, WriteEntry, Written
from hobus.bus.port import Bus, Clock
from hobus.bus.record.payload import pack_payload
from hobus.bus.record.payloads.governance import BodiesClosed, BodiesRead
from hobus.launch.cli.tap.choice import Choice
from hobus.launch.cluster.client import connect_bus
from hobus.launch.cluster.endpoints import Place
from hobus.launch.console.errors import CommandError, UnreachableFault, format_next_here

OPENED, CLOSED = "TAP_BODIES_READ", "TAP_BODIES_CLOSED"


@dataclass(slots=True)
class Look:
    """One run of `hobus tap --bodies`; filter and numbers are in the entries' bodies, which can be erased."""

    place: Place
    clock: Clock
    filters: Sequence[str]
    since_s: float | None
    look_id: str
    bodies: int = 0  # of sensitive types, shown or captured
    _opened_at: float | None = None

    async def before(self, choice: Choice) -> None:
        """Record the look if one of these frames shows a body of a sensitive type.

        Raises CommandError (unreachable): without the record nothing is shown.
        """
        seen = sum(one.record.sensitive and one.record.body is not None for one in choice.chosen)
        if seen and self._opened_at is None:
            facts = BodiesRead(self.look_id, tuple(self.filters), self.since_s)
            try:
                await self._write(OPENED, facts)
            except RuntimeFault as fault:
                raise UnreachableFault(
                    "bodies of sensitive types are shown only when that is recorded, and the record cannot be "
                    f"written: {fault.code}",
                    hint=f"without --bodies: {format_next_here('tap')}",
                ) from None
            self._opened_at = self.clock.monotonic()
        self.bodies += seen

    async def close(self) -> str:
        """Record the end and length of the look; return why not, if that fails."""
        if self._opened_at is None:
            return ""
        elapsed_ms = round((self.clock.monotonic() - self._opened_at) * 1000)
        self._opened_at = None
        try:
            await self._write(CLOSED, BodiesClosed(self.look_id, self.bodies, elapsed_ms))
        except (RuntimeFault, CommandError) as fault:
            return f"the end of this look could not be recorded: {fault}"
        return ""

    async def _write(self, event_type: str, facts: BodiesRead | BodiesClosed) -> None:
        async with connect_bus(self.place, "operator") as bus:
            await record_look(bus, event_type, facts, self.clock.now())


async def record_look(bus: Bus, event_type: str, facts: BodiesRead | BodiesClosed, now: float) -> None:
    """Record the beginning or the end of a look. Raises RuntimeFault."""
    entry = WriteEntry(
        submission_id=f"{event_type}:{facts.look}",
        stream="governance",
        event_type=event_type,
        parents=[] if event_type == OPENED else [f"{OPENED}:{facts.look}"],
        at_us=round(now * 1_000_000),
        bodies=[pack_payload(facts)],
    )
    timeout_s = LEDGER_REQUEST_TIMEOUT_MS / 1000
    written = await bus.request("ledger", Write(entries=[entry]), expect=Written, timeout_s=timeout_s)
    if not written.acks[0].is_first:
        raise RuntimeFault(written.acks[0].code or "conflict", f"{entry.submission_id}: {written.acks[0].outcome}")
