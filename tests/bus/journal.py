"""A ledger for tests: a shared list that outlives incarnations, with the write rules that order depends on."""

from __future__ import annotations

import asyncio

from hobus.bus.dispatch import Actor, Call
from hobus.bus.errors import LedgerError
from hobus.bus.messages.ledger import Ack, Entries, Found, Lookup, Read, Write, WriteEntry, Written
from hobus.bus.port import Bus


def entry(submission_id: str, *, prev: str | None = None, size: int = 0) -> WriteEntry:
    """An entry of one stream; `prev` names its predecessor."""
    return WriteEntry(
        submission_id=submission_id, stream="governance", event_type="T", at_us=0, bodies=[bytes(size)], prev=prev
    )


class Store:
    """What survives a restart."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.arrived: list[str] = []
        self.frames: list[list[str]] = []
        self.busy_for: list[str] = []
        self.disk_is_full = False


class Journal(Actor):
    """Appends in the order of arrival, checks `prev`, knows duplicates; each write takes `delay_s`."""

    service = "ledger"

    def __init__(self, store: Store, *, delay_s: float = 0.0) -> None:
        self.store = store
        self.delay_s = delay_s

    async def start(self, bus: Bus) -> None:
        self.bus = bus

    async def on_write(self, message: Write, call: Call) -> Written:
        self.store.frames.append([one.submission_id for one in message.entries])
        acks = [self._append(one) for one in message.entries]
        if self.delay_s:
            await self.bus.sleep(self.delay_s)
        return Written(acks=acks)

    def _append(self, one: WriteEntry) -> Ack:
        ids, name = self.store.ids, one.submission_id
        self.store.arrived.append(name)
        if name in self.store.busy_for:
            self.store.busy_for.remove(name)
            raise LedgerError("busy", "try later", retryable=True)
        if self.store.disk_is_full:
            raise LedgerError("disk_full", "no space")
        if name in ids:
            return Ack(outcome="known", sequence=ids.index(name), submission_id=name)
        head = ids[-1] if ids else ""
        if one.prev is not None and one.prev != head:
            return Ack(outcome="refused", sequence=-1, submission_id=name, code="head_mismatch", head=head)
        ids.append(name)
        return Ack(outcome="committed", sequence=len(ids) - 1, submission_id=name)

    async def on_lookup(self, message: Lookup, call: Call) -> Found:
        return Found(entries=[None for _ in [*message.submission_ids, *message.once]])

    async def on_read(self, message: Read, call: Call) -> Entries:
        await asyncio.sleep(0)
        return Entries(entries=[], more=False, head=len(self.store.ids) - 1)
