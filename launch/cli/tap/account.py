"""Where every tapped frame of the time went: shown, filtered out, lost, or a beat that the ring does not keep. Pure.

For each life of the broker: shown + filtered out + lost + beats = last - first + 1; in a capture also plus what was
left out when it was made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hobus.bus.broker.tap_wire import TapBatch
from hobus.launch.console.output import counted, thousands


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

    @property
    def is_exact(self) -> bool:
        """Whether nothing is missing and nothing counted twice."""
        counted = self.shown + self.filtered + self.lost + self.beats + self.left_out
        return counted == self.last - self.first + 1


@dataclass(slots=True)
class Account:
    """All lives that were seen, in order."""

    epochs: list[EpochAccount] = field(default_factory=list[EpochAccount])

    def begin(self, batch: TapBatch) -> None:
        """What the batch says before its records is counted; for every record follows `one`."""
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
        """One more record of the last batch."""
        current = self.epochs[-1]
        current.last += 1
        if shown:
            current.shown += 1
        else:
            current.filtered += 1

    def unshown(self, count: int) -> None:
        """So many of the last batch's frames were wanted, and could not be written: lost on the last step."""
        if count:
            self.epochs[-1].shown -= count
            self.epochs[-1].lost += count

    @property
    def shown(self) -> int:
        """In all lives."""
        return sum(one.shown for one in self.epochs)

    @property
    def filtered(self) -> int:
        """In all lives."""
        return sum(one.filtered for one in self.epochs)

    @property
    def lost(self) -> int:
        """In all lives."""
        return sum(one.lost for one in self.epochs)

    def lines(self) -> list[str]:
        """The account as people read it: one line, and one per life if there were several."""
        total = f"{_frames(self.shown)} shown, {thousands(self.filtered)} filtered out, {thousands(self.lost)} lost"
        if not self.epochs:
            return [total]
        if len(self.epochs) == 1:
            return [f"{total} ({_span(self.epochs[0])})"]
        lines = [f"{total}; the broker restarted {_times(len(self.epochs) - 1)}"]
        return lines + [
            f"  {_span(one)}: {one.shown} shown, {one.filtered} filtered out, {one.lost} lost" for one in self.epochs
        ]

    def document(self) -> list[dict[str, int | str]]:
        """The same for programs, one object per life."""
        return [
            {
                "epoch": one.epoch,
                "first": one.first,
                "last": one.last,
                "shown": one.shown,
                "filtered": one.filtered,
                "lost": one.lost,
                "beats": one.beats,
                "left_out": one.left_out,
            }
            for one in self.epochs
        ]


def _span(one: EpochAccount) -> str:
    numbers = f"#{one.first} to #{one.last}" if one.last >= one.first else "no frame"
    beats = f", {one.beats} of them beats that the ring does not keep" if one.beats else ""
    left_out = f", {one.left_out} of them left out when it was captured" if one.left_out else ""
    return f"{numbers} of broker {one.epoch}{beats}{left_out}"


def _frames(count: int) -> str:
    return counted(count, "frame")


def _times(count: int) -> str:
    return "once" if count == 1 else counted(count, "time")
