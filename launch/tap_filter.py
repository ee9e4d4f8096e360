"""Which tapped frames are wanted: `type=wo.* sender=ho1/1* verdict!=delivered`. All conditions must hold."""

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
        field = "trace" if self.key == "turn" else self.key
        actual: str = getattr(record, field)
        prefix = self.value.removesuffix("*")
        fits = actual.startswith(prefix) if prefix != self.value else actual == self.value
        return fits == self.is_wanted


@dataclass(frozen=True, slots=True)
class TapFilter:
    """All conditions, and whether beats are shown."""

    conditions: tuple[Condition, ...]
    with_beats: bool

    def accepts(self, record: TapRecord) -> bool:
        """Whether the frame is shown."""
        if record.kind == "beat" and not self.with_beats:
            return False
        return all(condition.holds(record) for condition in self.conditions)


def parse_filter(texts: Sequence[str], *, with_beats: bool) -> TapFilter:
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
    return TapFilter(tuple(conditions), with_beats)
