"""`hobus logs`: what the processes of a cluster logged, also when none runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import click

from hobus.bus.clock import SystemClock
from hobus.launch.cli.commands.options import DURATION, with_home
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import UsageFault, format_next_command
from hobus.launch.console.output import format_clock_time, note, say, say_zone, style
from hobus.launch.logs.files import LogFiles
from hobus.launch.logs.lines import LogLine, as_json, make_actor_test, make_turn_test, render_line

_LOOK_INTERVAL_S = 0.1
_LINES = 100


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
    """Show the logs of a home: of all processes, of one (ho1/2) or of a role (ho1)."""
    if not home.logs.is_dir():
        raise UsageFault(f"there are no logs in {home.root}", hint=format_next_command("up", home.root))
    files = LogFiles(home.logs)
    fits = _make_choice(actors, turn, since_s)
    everything = sorted([*files.older(), *files.more()], key=lambda line: line.at)
    found = [line for line in everything if fits(line)]
    if lines is not None or since_s is None:
        found = found[len(found) - min(len(found), _LINES if lines is None else lines) :]
    if not as_json_:
        say_zone(SystemClock().now())
    _print(found, as_json_=as_json_)
    if not found and not follow:
        _say_nothing_found(everything, actors)
    while follow:
        time.sleep(_LOOK_INTERVAL_S)  # noqa: TID251 - waits for files to grow, without a loop or a bus
        _print((line for line in files.more() if fits(line)), as_json_=as_json_)
    return exit_codes.OK


def _say_nothing_found(lines: Sequence[LogLine], actors: tuple[str, ...]) -> None:
    """Says that there is nothing. Raises UsageFault where these processes never logged, with those that did."""
    if actors and not any(map(make_actor_test(actors), lines)):
        known = ", ".join(dict.fromkeys(sorted(line.actor for line in lines)))
        asked = ", ".join(actor or "''" for actor in actors)
        raise UsageFault(f"no line of {asked}; there are logs of {known or 'nobody'}")
    note("no line matches")


def _make_choice(actors: tuple[str, ...], turn: str | None, since_s: float | None) -> Callable[[LogLine], bool]:
    tests = [make_actor_test(actors)]
    if turn is not None:
        if not turn.strip():
            raise UsageFault("--turn: names no turn; write one such as SES-1a2b3c4d-2")
        try:
            tests.append(make_turn_test(turn))
        except ValueError as error:
            raise UsageFault(f"--turn {turn[:80]}: {error}") from None
    if since_s is not None:
        begin = SystemClock().now() - since_s
        tests.append(lambda line: line.at >= begin)
    return lambda line: all(test(line) for test in tests)


def _print(lines: Iterable[LogLine], *, as_json_: bool) -> None:
    for line in lines:
        say(as_json(line) if as_json_ else render_line(line, format_clock_time, _paint))


def _paint(text: str, colour: str) -> str:
    return style(text, colour or None)
