"""Which frames of a batch are wanted, and what is known about them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.broker.tap_wire import TapBatch
from hobus.bus.messages.ids import TurnRef
from hobus.launch.cli.tap.account import Account
from hobus.launch.cli.tap.replies import Replies
from hobus.launch.cli.tap.turns import TurnBook
from hobus.launch.filters.meaning import Filter
from hobus.launch.filters.tap_fields import Frame, is_routine


class Chosen(NamedTuple):
    """A frame that is wanted."""

    record: TapRecord
    turn: TurnRef
    latency_ms: float | None  # since the request that it answers, where that is wanted


class Choice(NamedTuple):
    """What of a batch is wanted; `batch` ends with the last frame that was asked for."""

    batch: TapBatch
    chosen: list[Chosen]
    is_last: bool


@dataclass(slots=True)
class Chooser:
    """Chooses until there were enough, and keeps the account."""

    wanted: Filter[Frame]
    book: TurnBook
    now: Callable[[], float]
    with_routine: bool
    replies: Replies | None = None  # None: answers are not looked for
    count: int | None = None
    account: Account = field(default_factory=Account)
    sessions: set[str] = field(default_factory=set[str])
    """Sessions of what was chosen: a prefix may have more than one."""

    def choose(self, batch: TapBatch) -> Choice:
        """The frames of this batch that are wanted."""
        self.book.learn(batch.records)
        now, chosen, taken = self.now(), list[Chosen](), list[bool]()
        for record in batch.records:
            found = self._looked_at(record, now)
            taken.append(found is not None)
            if found is None:
                continue
            chosen.append(found)
            self.sessions.add(found.turn.session_id)
            if self.count is not None and self.account.shown + len(chosen) >= self.count:
                break
        is_last = self.count is not None and self.account.shown + len(chosen) >= self.count
        cut = _cut(batch, len(taken)) if len(taken) < len(batch.records) else batch
        self.account.begin(cut)
        for is_shown in taken:
            self.account.one(shown=is_shown)
        return Choice(cut, chosen, is_last)

    def _looked_at(self, record: TapRecord, now: float) -> Chosen | None:
        turn = self.book.turn_of(record)
        latency_ms = self.replies.latency_ms(record) if self.replies is not None else None
        if latency_ms is not None:
            return Chosen(record, turn, latency_ms)
        if (is_routine(record) and not self.with_routine) or not self.wanted.accepts(Frame(record, turn, now)):
            return None
        if self.replies is not None:
            self.replies.shown(record)
        return Chosen(record, turn, None)


def _cut(batch: TapBatch, count: int) -> TapBatch:
    """The batch up to its first so many records, with what was lost or not kept among them."""
    records = batch.records[:count]
    following = records[-1].sequence + 1
    missing = following - batch.first - count
    lost = min(batch.lost, missing)
    return batch._replace(records=records, next=following, lost=lost, beats=missing - lost)
