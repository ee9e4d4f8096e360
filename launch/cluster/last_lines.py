"""The last lines of one incarnation's log, as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from hobus.launch.cluster.home import Home
from hobus.launch.logs.lines import LogLine, clock_time, read_line, shown
from hobus.launch.logs.tail import tail


def of_incarnation(home: Home, actor: str, instance: str, lines: int) -> list[str]:
    """What this incarnation logged last."""
    read = read_lines(tail(home.log(actor), lines), actor)
    return [for_people(line) for line in since_another(read, instance)]


def read_lines(texts: Sequence[str], actor: str) -> list[LogLine]:
    """These lines of one file; the rest of a line whose begin is cut off is left out."""
    found: list[LogLine] = []
    for text in texts:
        found.append(read_line(text, actor=actor, earlier_at=found[-1].at if found else 0.0))
    if found and not found[0].record and found[0].text.endswith("}"):
        del found[0]
    return found


def since_another(lines: Sequence[LogLine], instance: str) -> list[LogLine]:
    """From this incarnation's first record on; without one, what follows the last record of another."""
    named = [line.record.get("instance") for line in lines]
    if instance in named:
        return list(lines[named.index(instance) :])
    others = [number for number, name in enumerate(named) if name]
    return list(lines[others[-1] + 1 :] if others else lines)


def for_people(line: LogLine) -> str:
    """As `hobus logs` prints it, without colours."""
    return shown(line, clock_time, lambda text, _colour: text)
