"""`hobus logs`: what the processes of a cluster logged, also when none runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import click

from hobus.bus.clock import SystemClock
from hobus.bus.messages.ids import shown_session, turn_in
from hobus.launch.cli.commands.options import DURATION, with_home
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault, next_command
from hobus.launch.console.output import clock_time, note, say, say_zone, styled, zone
from hobus.launch.logs.files import LogFiles
from hobus.launch.logs.lines import LogLine, as_json, of_actor, of_turn, shown

_LOOK_INTERVAL_S = 0.1
_LINES = 100
_TURNS_NAMED = 5


@click.command()
@click.argument("actors", metavar="[ACTOR]...", nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines, through restarts and rotation.")
@click.option("--turn", metavar="TURN", help="Only lines that name this turn, e.g. SES-1a2b3c4d-2.")
@click.option("--since", "since_s", type=DURATION, help="Only lines of the last DURATION, e.g. 10m.")
@click.option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help=f"The last N lines (default {_LINES}).")
@click.option("--json", "as_json_", is_flag=True, help="The lines as they were logged, one JSON object each.")
@with_home
def logs(  # noqa: PLR0913 - one per option
    *,
    home: Home,
    actors: tuple[str, ...],
    follow: bool,
    turn: str | None,
    since_s: float | None,
    lines: int | None,
    as_json_: bool,
) -> int:
    """Show the logs of a home: of everybody, of one process (ho1/2) or of a role (ho1). With --since: all of them."""
    if not home.logs.is_dir():
        raise UsageFault(f"there are no logs in {home.root}", hint=next_command("up", home.root))
    files = LogFiles(home.logs)
    fits = _choice(actors, turn, since_s)
    everything = sorted([*files.older(), *files.more()], key=lambda line: line.at)
    found = [line for line in everything if fits(line)]
    if lines is not None or since_s is None:
        found = found[len(found) - min(len(found), _LINES if lines is None else lines) :]
    if not as_json_:
        say_zone(SystemClock().now())
    _print(found, as_json_=as_json_)
    if not found and not follow:
        _nothing_found(home, everything, actors, turn, since_s)
    while follow:
        time.sleep(_LOOK_INTERVAL_S)  # noqa: TID251 - waits for files to grow, without a loop or a bus
        _print((line for line in files.more() if fits(line)), as_json_=as_json_)
    return exit_codes.OK


def _nothing_found(
    home: Home, lines: Sequence[LogLine], actors: tuple[str, ...], turn: str | None, since_s: float | None
) -> None:
    """Says that there is nothing that new. Raises UsageFault where there is none at all, with what there is."""
    if turn is not None and not any(map(_choice((), turn, None), lines)):
        there = ", ".join(_turns_in(lines))
        named = f"; the last turns in them are {there}" if there else ""
        raise UsageFault(f"no line of these logs names turn {turn}{named}", hint=next_command("logs", home.root))
    of_them = [line for line in lines if _choice(actors, turn, None)(line)]
    if actors and not of_them:
        known = ", ".join(dict.fromkeys(sorted(line.actor for line in lines)))
        asked = ", ".join(actor or "''" for actor in actors)
        raise UsageFault(f"no line of {asked}; there are logs of {known or 'nobody'}")
    if since_s is not None and of_them:
        last = of_them[-1]
        note(f"no line is that new; the last one is of {last.actor}, at {clock_time(last.at)} {zone(last.at)}")


def _choice(actors: tuple[str, ...], turn: str | None, since_s: float | None) -> Callable[[LogLine], bool]:
    tests = [of_actor(actors)]
    if turn is not None:
        if not turn.strip():
            raise UsageFault("--turn: names no turn; write one such as SES-1a2b3c4d-2")
        try:
            tests.append(of_turn(turn))
        except ValueError as error:
            raise UsageFault(f"--turn {turn[:80]}: {error}") from None
    if since_s is not None:
        begin = SystemClock().now() - since_s
        tests.append(lambda line: line.at >= begin)
    return lambda line: all(test(line) for test in tests)


def _turns_in(lines: Iterable[LogLine]) -> list[str]:
    """The last turns that these lines name, as people see them."""
    found: dict[str, None] = {}
    for line in lines:
        turn = turn_in([value for value in line.record.values() if isinstance(value, str)])
        if turn.session_id and turn.run_seq:
            found.pop(name := f"{shown_session(turn.session_id)}-{turn.run_seq}", None)
            found[name] = None
    return list(found)[-_TURNS_NAMED:]


def _print(lines: Iterable[LogLine], *, as_json_: bool) -> None:
    for line in lines:
        say(as_json(line) if as_json_ else shown(line, clock_time, _paint))


def _paint(text: str, colour: str) -> str:
    return styled(text, colour or None)
