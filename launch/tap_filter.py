"""Which tapped frames are wanted: `type=wo.* sender=ho1/1* verdict!=delivered`. All conditions must hold.

`turn=TEXT` finds a session's id, a run's (`<session>-<n>`) or an order's in any of the ids that a frame carries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bus.broker.tap_record import TapRecord
from launch import exit_codes
from launch.errors import CommandError

KEYS = ("type", "kind", "verdict", "sender", "destination", "worker", "key", "trace", "turn")
_CONDITION = re.compile(r"([a-z]+)(!?=)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """One `key=value`, or `key!=value`; a value that ends in `*` is a prefix."""

    key: str
    value: str
    is_wanted: bool

    def holds(self, record: TapRecord) -> bool:
        """Whether the frame fits."""
        if self.key == "turn":
            ids = (record.key, record.trace, record.message_id, record.correlation_id, record.causation_id)
            return any(self.value in carried for carried in ids) == self.is_wanted
        actual: str = getattr(record, self.key)
        prefix = self.value.removesuffix("*")
        fits = actual.startswith(prefix) if prefix != self.value else actual == self.value
        return fits == self.is_wanted


@dataclass(frozen=True, slots=True)
class TapFilter:
    """All conditions, and whether routine is shown."""

    conditions: tuple[Condition, ...]
    with_routine: bool

    def accepts(self, record: TapRecord) -> bool:
        """Whether the frame is shown."""
        if not self.with_routine and is_routine(record):
            return False
        return all(condition.holds(record) for condition in self.conditions)


def is_routine(record: TapRecord) -> bool:
    """Beats, and the launcher's regular look at the peers: they come whether anything happens or not."""
    if record.kind == "beat":
        return True
    asks = record.type == "broker.read_peers" and record.sender.startswith("launcher/")
    return asks or (record.type == "broker.peers" and record.destination.startswith("launcher/"))


def parse_filter(texts: Sequence[str], *, with_routine: bool) -> TapFilter:
    """The filter behind the arguments. Raises CommandError (usage) naming the keys."""
    conditions: list[Condition] = []
    for text in texts:
        found = _CONDITION.fullmatch(text)
        if found is None or found[1] not in KEYS:
            raise CommandError(
                f"not a filter: {text!r}; write KEY=VALUE or KEY!=VALUE with KEY one of {', '.join(KEYS)}",
                hint="hobus tap 'type=wo.*' sender=ho2/1*",
                exit_code=exit_codes.USAGE,
            )
        conditions.append(Condition(found[1], found[3], found[2] == "="))
    return TapFilter(tuple(conditions), with_routine)
