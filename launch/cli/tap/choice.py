"""Which frames of a batch are wanted, what is known about them, and where every tapped frame of the time went. Pure.

A frame was shown, filtered out, lost, or a beat that the ring does not keep. For each life of the broker: shown +
filtered out + lost + beats = last - first + 1; in a capture also plus what was left out when it was made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from hobus.bus.broker.tap_record import TapRecord
from hobus.bus.broker.tap_wire import TapBatch
from hobus.bus.messages.ids import TurnRef, find_turn
from hobus.launch.console.output import format_count, format_thousands
from hobus.launch.filters.meaning import Test
from hobus.launch.filters.tap_fields import Frame, is_routine, list_ids


@dataclass(slots=True)
class TurnBook:
    """Runs of inputs, as far as frames told; the oldest are forgotten beyond `inputs_max`.

    An input gets its run when HO2 takes it: the first order of the run names both, in its own id and in its cause.
    """

    inputs_max: int | None
    _runs: OrderedDict[tuple[str, str], int] = field(default_factory=OrderedDict[tuple[str, str], int])

    def learn(self, records: Iterable[TapRecord]) -> None:
        for record in records:
            turn = find_turn(list_ids(record))
            if turn.run_seq and turn.input_id:
                self._runs[turn.session_id, turn.input_id] = turn.run_seq
                if self.inputs_max is not None and len(self._runs) > self.inputs_max:
                    self._runs.popitem(last=False)

    def make_turn(self, record: TapRecord) -> TurnRef:
        turn = find_turn(list_ids(record))
        if turn.input_id and not turn.run_seq:
            return turn._replace(run_seq=self._runs.get((turn.session_id, turn.input_id), 0))
        return turn


_ASKS = ("request",)
_ENDS = ("reply", "failure")


@dataclass(slots=True)
class Replies:
    """Requests that were shown and are not answered yet; the oldest are forgotten beyond `requests_max`."""

    requests_max: int | None
    _asked_at: OrderedDict[str, float] = field(default_factory=OrderedDict[str, float])

    def shown(self, record: TapRecord) -> None:
        """Await the frame's answer if it is a request; a repeated one counts from its first frame."""
        if record.kind not in _ASKS:
            return
        self._asked_at.setdefault(record.message_id, record.at)
        if self.requests_max is not None and len(self._asked_at) > self.requests_max:
            self._asked_at.popitem(last=False)

    def latency_ms(self, record: TapRecord) -> float | None:
        """Return milliseconds since the request that this frame answers; None if it answers none that was shown."""
        asked_at = self._asked_at.get(record.correlation_id) if record.correlation_id else None
        if asked_at is None or record.kind not in (*_ENDS, "stream"):
            return None
        if record.kind in _ENDS:
            del self._asked_at[record.correlation_id]
        return round(max(0.0, record.at - asked_at) * 1000, 3)


@dataclass(slots=True)
class EpochAccount:
    """One life of the broker."""

    epoch: str
    first: int
    last: int  # first - 1: nothing yet
    shown: int = 0
    filtered: int = 0
    lost: int = 0
    beats: int = 0
    left_out: int = 0


@dataclass(slots=True)
class SeenLives:
    """All lives that were seen, in order."""

    epochs: list[EpochAccount] = field(default_factory=list[EpochAccount])

    def begin(self, batch: TapBatch) -> None:
        """Count what the batch says before its records; call `one` for every record after that."""
        if not self.epochs or self.epochs[-1].epoch != batch.epoch:
            self.epochs.append(EpochAccount(batch.epoch, batch.first, batch.first - 1))
        current = self.epochs[-1]
        current.lost += batch.lost
        current.beats += batch.beats
        in_capture = batch.next - batch.first - len(batch.records) - batch.lost - batch.beats
        left_out = in_capture + max(0, batch.first - 1 - current.last)
        current.left_out += left_out
        current.last += batch.lost + batch.beats + left_out

    def one(self, *, shown: bool) -> None:
        current = self.epochs[-1]
        current.last += 1
        if shown:
            current.shown += 1
        else:
            current.filtered += 1

    def count_unshown(self, count: int) -> None:
        """Count frames of the last batch that were wanted and could not be written: lost on the last step."""
        if count:
            self.epochs[-1].shown -= count
            self.epochs[-1].lost += count

    @property
    def shown(self) -> int:
        return sum(one.shown for one in self.epochs)

    @property
    def filtered(self) -> int:
        return sum(one.filtered for one in self.epochs)

    @property
    def lost(self) -> int:
        return sum(one.lost for one in self.epochs)

    def lines(self) -> list[str]:
        """Return the account as people read it: one line, and one per life if there were several."""
        without = f"{format_thousands(self.filtered)} filtered out, {format_thousands(self.lost)} lost"
        total = f"{format_count(self.shown, 'frame')} shown, {without}"
        if not self.epochs:
            return [total]
        if len(self.epochs) == 1:
            return [f"{total} ({_describe_span(self.epochs[0])})"]
        again = len(self.epochs) - 1
        lines = [f"{total}; the broker restarted {'once' if again == 1 else format_count(again, 'time')}"]
        return lines + [
            f"  {_describe_span(one)}: {one.shown} shown, {one.filtered} filtered out, {one.lost} lost"
            for one in self.epochs
        ]

    def document(self) -> list[dict[str, int | str]]:
        return [asdict(one) for one in self.epochs]


def _describe_span(one: EpochAccount) -> str:
    numbers = f"#{one.first} to #{one.last}" if one.last >= one.first else "no frame"
    beats = f", {one.beats} of them beats that the ring does not keep" if one.beats else ""
    left_out = f", {one.left_out} of them left out when it was captured" if one.left_out else ""
    return f"{numbers} of broker {one.epoch}{beats}{left_out}"


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
    """Choose until there were enough, and keep the account."""

    wanted: Test[Frame]
    book: TurnBook
    now: Callable[[], float]
    with_routine: bool
    replies: Replies | None = None  # None: answers are not looked for
    count: int | None = None
    account: SeenLives = field(default_factory=SeenLives)

    def choose(self, batch: TapBatch) -> Choice:
        self.book.learn(batch.records)
        now, chosen, taken = self.now(), list[Chosen](), list[bool]()
        for record in batch.records:
            found = self._look_at(record, now)
            taken.append(found is not None)
            if found is None:
                continue
            chosen.append(found)
            if self.count is not None and self.account.shown + len(chosen) >= self.count:
                break
        is_last = self.count is not None and self.account.shown + len(chosen) >= self.count
        cut = _cut(batch, len(taken)) if len(taken) < len(batch.records) else batch
        self.account.begin(cut)
        for is_shown in taken:
            self.account.one(shown=is_shown)
        return Choice(cut, chosen, is_last)

    def _look_at(self, record: TapRecord, now: float) -> Chosen | None:
        turn = self.book.make_turn(record)
        latency_ms = self.replies.latency_ms(record) if self.replies is not None else None
        if latency_ms is not None:
            return Chosen(record, turn, latency_ms)
        if (is_routine(record) and not self.with_routine) or not self.wanted(Frame(record, turn, now)):
            return None
        if self.replies is not None:
            self.replies.shown(record)
        return Chosen(record, turn, None)


def _cut(batch: TapBatch, count: int) -> TapBatch:
    """Return the batch up to its first so many records, with what was lost or not kept among them."""
    records = batch.records[:count]
    following = records[-1].sequence + 1
    missing = following - batch.first - count
    lost = min(batch.lost, missing)
    return batch._replace(records=records, next=following, lost=lost, beats=missing - lost)
