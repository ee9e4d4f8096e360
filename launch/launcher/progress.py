"""What a launcher tells whoever started it: that it runs, that all are ready, or why not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from hobus.bus.messages.base import Record
from hobus.launch.cluster.run_file import RunFile
from hobus.launch.console import exit_codes
from hobus.launch.console.errors import CommandError, next_command


class Started(Record):
    """Every process was started; none is ready yet."""

    event: Literal["started"] = "started"
    pid: int


class Ready(Record):
    """Every process is ready."""

    event: Literal["ready"] = "ready"
    run: RunFile
    elapsed_ms: int


class NotReady(Record):
    """Some are not, and `launcher.ready_timeout_ms` is over or one has failed for good."""

    event: Literal["not_ready"] = "not_ready"
    run: RunFile
    elapsed_ms: int
    tails: dict[str, list[str]] = Field(description="this run's last log lines of each process that failed or is late")
    damaged: str = Field(default="", description="file, byte and what is wrong there, when that is why")


class Refused(Record):
    """Nothing was started."""

    event: Literal["refused"] = "refused"
    message: str
    hint: str
    exit_code: int

    def as_error(self) -> CommandError:
        """The same for the command line."""
        return CommandError(self.message, hint=self.hint, exit_code=self.exit_code)


Progress = Annotated[Started | Ready | NotReady | Refused, Field(discriminator="event")]

_PROGRESS: TypeAdapter[Started | Ready | NotReady | Refused] = TypeAdapter(Progress)


def read_progress(line: bytes) -> Started | Ready | NotReady | Refused:
    """The word behind one line of JSON."""
    return _PROGRESS.validate_json(line)


def already_up(home: Path, pid: int) -> CommandError:
    """A second `up` in one home."""
    who = f"pid {pid}" if pid else "another launcher"
    return CommandError(
        f"a cluster already runs in {home} ({who})",
        hint=f"{next_command('ps', home)}   or   {next_command('down', home)}   or   another --home",
        exit_code=exit_codes.REFUSED,
    )
