"""The faults of a simulated run: each a named option with a unit, given by a person or drawn from the seed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hobus.bus.sim.clock import Draw
from hobus.launch.console.errors import CommandError, UsageFault, format_next_here
from hobus.launch.filters.quantities import parse_duration

Unit = Literal["share", "time", "count"]
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h|%)?")
_SHARE_ON = 0.35
"""How many of the faults a run with `all` has, on average: few at once find what many at once drown."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that can go wrong. Values are shares in [0, 1], seconds, or counts."""

    name: str
    unit: Unit
    says: str
    bare: float  # its value when it is named without one
    most: float
    drawn: tuple[float, ...]  # what `all` draws from; empty: only by name


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("loss", "share", "of frames at which their connection breaks: all that is on its way is lost, and the "
              "connection is made anew after a pause, as with ZeroMQ", 0.01, 0.5, (0.002, 0.01, 0.03)),
        Fault("frame-loss", "share", "of messages that vanish one by one from a living connection, which no stream "
              "does: not part of all", 0.01, 0.5, ()),
        Fault("duplicate", "share", "of messages that arrive twice", 0.05, 1.0, (0.02, 0.1, 0.5)),
        Fault("delay", "time", "that frames take longer, on average", 0.002, 10.0, (0.0005, 0.003, 0.02)),
        Fault("reorder", "share", "of frames held back so that those of other connections overtake them", 0.1, 1.0,
              (0.05, 0.3)),
        Fault("slow-link", "time", "that every frame of one connection takes longer", 0.05, 10.0, (0.01, 0.05, 0.2)),
        Fault("partition", "count", "of times that a process and the broker, or a lane, do not hear each other, in one "
              "direction or both, shorter or longer than the heartbeats wait", 1, 20, (1, 2)),
        Fault("crash", "count", "of processes killed by SIGKILL at a drawn time or behind a drawn await, and restarted",
              1, 20, (1, 2, 3)),
        Fault("torn-disk", "count", "of crashes that also cut the power of that process's disk: what was not synced is "
              "lost or torn", 1, 20, (1, 2)),
        Fault("freeze", "count", "of processes that stand still for a while (SIGSTOP, SIGCONT)", 1, 20, (1, 2)),
        Fault("disk-full", "count", "of times that the ledger's disk has no room for a while", 1, 20, (1,)),
        Fault("sync-error", "count", "of times that a device refuses to sync once", 1, 20, (1,)),
        Fault("provider-error", "share", "of model calls that fail, for now or for good", 0.1, 1.0, (0.05, 0.3)),
        Fault("slow-provider", "time", "that a tenth of the model calls take longer", 1.0, 600.0, (0.5, 3.0)),
        Fault("clock-jump", "time", "by which the machine's wall clock is set forward and back, at most", 3600.0,
              86400.0, (1.0, 60.0, 7200.0)),
    )
}  # fmt: skip
"""By name."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What was asked for: everything (each seed draws), or these values."""

    is_all: bool
    values: Mapping[str, float]

    def of(self, draw: Draw) -> dict[str, float]:
        """Return the values of one run; a run with `all` has at least one fault."""
        if not self.is_all:
            return dict(self.values)
        able = [fault for fault in FAULTS.values() if fault.drawn]
        chosen = [fault for fault in able if draw.random() < _SHARE_ON] or [draw.choice(able)]
        return {fault.name: draw.choice(fault.drawn) for fault in chosen}

    def __str__(self) -> str:
        """Return the text that `--faults` takes."""
        if self.is_all:
            return "all"
        return ",".join(f"{name}={format_fault(name, value)}" for name, value in self.values.items()) or "none"


def parse(text: str) -> Faults:
    """Parse `all`, `none`, or names with or without a value. Raises CommandError (usage) naming what is wrong."""
    if text in ("all", "none", ""):
        return Faults(is_all=text == "all", values={})
    values: dict[str, float] = {}
    for part in text.split(","):
        name, has_value, given = part.strip().partition("=")
        fault = FAULTS.get(name)
        if fault is None:
            raise _make_usage_fault(f"there is no fault {name!r}")
        if name in values:
            raise _make_usage_fault(f"{name} is given twice")
        values[name] = _parse_value(fault, given) if has_value else fault.bare
    return Faults(is_all=False, values=values)


def _parse_value(fault: Fault, text: str) -> float:
    if fault.unit == "time":
        return _check_bounds(fault, text, _parse_time(fault, text))
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise _make_usage_fault(f"{fault.name}={text} is not a {fault.unit}")
    number, unit = float(match.group(1)), match.group(2)
    if fault.unit == "share" and unit == "%":
        number /= 100
    elif unit is not None:
        raise _make_usage_fault(f"{fault.name} is a {fault.unit}, without {unit}")
    if fault.unit == "count" and number != int(number):
        raise _make_usage_fault(f"{fault.name}={text} is not a whole number")
    return _check_bounds(fault, text, number)


def _parse_time(fault: Fault, text: str) -> float:
    """Return a duration, never without a unit: most are of milliseconds."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise _make_usage_fault(f"{fault.name}={text}: {error}") from None
    if text[-1:].isdigit():
        raise _make_usage_fault(f"{fault.name}={text} needs a unit: us, ms, s, m or h")
    return seconds


def _check_bounds(fault: Fault, text: str, number: float) -> float:
    if number > fault.most:
        raise _make_usage_fault(f"{fault.name}={text} is too much; at most {format_fault(fault.name, fault.most)}")
    return number


def format_fault(name: str, value: float) -> str:
    """Return a value with its unit, as `parse` reads it."""
    unit = FAULTS[name].unit
    if unit == "time":
        return f"{value:g}s" if value >= 1 else f"{value * 1000:g}ms"
    return f"{value:g}"


def _make_usage_fault(what: str) -> CommandError:
    return UsageFault(
        f"{what}; the faults are {', '.join(FAULTS)}",
        hint=format_next_here("simulate --faults loss=0.02,crash=2,delay=3ms"),
    )
