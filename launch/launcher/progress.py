"""What a launcher tells whoever started it: how far it is, that all are ready, or why not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, field
from msgspec.json import Decoder

from hobus.bus.messages.base import Record
from hobus.launch.cluster.run_file import ChildRow, RunFile
from hobus.launch.console.errors import CommandError, RefusedFault, format_next_command
from hobus.launch.console.output import note


class StartBegun(Record, tag_field="event", tag="begun"):
    """Every process was started; none is ready yet."""

    pid: int
    config_origin: str
    config_digest: str
    actors: Annotated[list[str], Meta(description="who is started")]
    warnings: Annotated[list[str], Meta(description="what the gates say of it, which let it pass")] = field(
        default_factory=list
    )


class StateChanged(Record, tag_field="event", tag="changed"):
    """A process is in another state; told in the background until the start has settled, in the foreground always."""

    at: Annotated[float, Meta(description="seconds since 1970")]
    row: ChildRow


class StartUnderWay(Record, tag_field="event", tag="under_way"):
    """A process that starts says how far it is."""

    at: Annotated[float, Meta(description="seconds since 1970")]
    actor: str
    text: str


class ProgressWord(Record, tag_field="event", tag="said"):
    """Something else that whoever looks at a cluster in the foreground is told."""

    at: Annotated[float, Meta(description="seconds since 1970")]
    text: str


class StartSettled(Record, tag_field="event", tag="settled"):
    """Every process is ready; or some are not, and the time is over or one has failed for good: then it says why."""

    run: RunFile
    elapsed_ms: int
    tails: Annotated[
        dict[str, list[str]], Meta(description="this run's last log lines of each process that failed or is late")
    ] = field(default_factory=dict)
    damaged: Annotated[str, Meta(description="file, byte and what is wrong there, when that is why")] = ""

    @property
    def is_ready(self) -> bool:
        return not self.tails and not self.damaged


class StartRefused(Record, tag_field="event", tag="refused"):
    """Nothing was started."""

    message: str
    hint: str
    exit_code: int


Progress = StartBegun | StateChanged | StartUnderWay | ProgressWord | StartSettled | StartRefused

PROGRESS = Decoder(Progress)
"""Reads one line of JSON."""


def make_already_up(home: Path, pid: int) -> CommandError:
    who = f"pid {pid}" if pid else "another launcher"
    return RefusedFault(
        f"a cluster already runs in {home} ({who})",
        hint=f"{format_next_command('ps', home)}   or   {format_next_command('down', home)}   or   another --home",
    )


_SAY_EVERY_S = 5
"""What is read by no person who looks at it is told no more often."""


class WaitingLine:
    """Tell on standard error, now and then, how far whoever takes longer is."""

    def __init__(self) -> None:
        self._said_at = 0.0

    def show(self, word: StartUnderWay) -> None:
        if word.at - self._said_at >= _SAY_EVERY_S:
            self._said_at = word.at
            note(f"{word.actor} {word.text}")
