"""One line of a log: read, chosen, and shown to people. Pure; the files are `files.py`'s."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct, field

from hobus.bus.messages.ids import find_turn, parse_iso
from hobus.launch.console.output import join_styled, make_printable
from hobus.launch.filters.syntax import Value
from hobus.launch.filters.turns import make_turn_matcher

LEVEL_COLOURS = {"debug": "bright_black", "info": "cyan", "warning": "yellow", "error": "red", "critical": "red"}

_ACTOR_COLOURS = (
    "green", "blue", "magenta", "cyan", "yellow",
    "bright_green", "bright_blue", "bright_magenta", "bright_cyan", "bright_yellow",
)  # fmt: skip
"""No red: that is an error's."""
_ROLES = ("launcher", "zygote", "broker", "ledger", "gateway", "ho3", "ho1", "ho2", "host", "http")

_OWN = ("at", "level", "event", "actor", "instance", "pid", "exception", "printed")
"""Fields that stand at their own place in a line for people, or are left out there."""


class LogLine(Struct, frozen=True):
    """What a process logged; a line that is no record (a traceback) has its text and the time of the record before."""

    actor: str
    at: float
    text: str
    """The line of the file."""
    record: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def level(self) -> str:
        """Return `info`, `warning`, `error`; empty for a line that is no record."""
        return str(self.record.get("level", ""))


def read_line(text: str, *, actor: str, earlier_at: float) -> LogLine:
    """Return the line of this actor's file; whatever is not a whole record is kept as text."""
    try:
        parsed: Any = json.loads(text)
    except (ValueError, RecursionError):
        return LogLine(actor, earlier_at, text)
    if not isinstance(parsed, dict):
        return LogLine(actor, earlier_at, text)
    record = cast("dict[str, Any]", parsed)
    try:
        at = parse_iso(str(record["at"]))
    except (KeyError, ValueError):
        at = earlier_at
    return LogLine(str(record.get("actor") or actor), at, text, record)


def make_turn_test(turn: str) -> Callable[[LogLine], bool]:
    """Return whether a line names this turn by run, input, or a part of any id. Raises ValueError as filters do."""
    if not turn:  # in a filter that means what belongs to no turn
        raise ValueError("it is empty; expected a turn such as SES-1a2b3c4d-2")
    fits = make_turn_matcher(Value(turn))

    def matches(line: LogLine) -> bool:
        ids = [value for value in line.record.values() if isinstance(value, str)]
        return fits(find_turn(ids), ids)

    return matches


def make_actor_test(given: Sequence[str]) -> Callable[[LogLine], bool]:
    """Return whether a line is of one of these: `ho1/2`, a role `ho1`, or everybody if none is given."""
    wanted = set(given)
    return lambda line: not wanted or line.actor in wanted or line.actor.partition("/")[0] in wanted


def as_json(line: LogLine) -> str:
    return line.text if line.record else json.dumps({"actor": line.actor, "text": line.text})


def render_line(line: LogLine, clock: Callable[[float], str], paint: Callable[[str, str], str]) -> str:
    """Return a line for people: time, actor, event, and the rest. `paint` colours a text by a colour's name."""
    name = paint(make_printable(line.actor).ljust(9), choose_actor_colour(line.actor))
    if not line.record:
        return join_styled(f"{clock(line.at)}  ", name, f"  {line.text}")
    level = "" if line.level == "info" else f"{line.level} "
    event = paint(level + _format_value(line.record.get("event", "")), LEVEL_COLOURS.get(line.level, ""))
    fields = {key: value for key, value in line.record.items() if key not in _OWN and value != ""}
    rest = "".join(f"  {make_printable(key)}={_format_value(value)}" for key, value in fields.items())
    texts = (str(line.record.get(name) or "") for name in ("printed", "exception"))
    below = "".join(f"\n    {one}" for text in texts for one in text.splitlines())
    return join_styled(f"{clock(line.at)}  ", name, "  ", event, rest, below)


def choose_actor_colour(actor: str) -> str:
    """Return a colour, always the same for a name, another one for most of those that run beside it."""
    role, _, number = actor.partition("/")
    place = _ROLES.index(role) if role in _ROLES else len(role)
    return _ACTOR_COLOURS[(place + 3 * (int(number) - 1 if number.isdecimal() else 0)) % len(_ACTOR_COLOURS)]


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)
