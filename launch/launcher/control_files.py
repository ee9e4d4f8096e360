"""Commands to the launcher that need no broker: a file in the private run directory, a signal, and a file as answer.

A broker that was drained, failed or stands still can pass on nothing, least of all the command that would start it
again. The run directory is for its owner alone, and so is the right to signal the launcher: whoever may do both may
command.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from pydantic import Field, ValidationError

from hobus.bus.errors import BusError
from hobus.bus.messages.base import Message, Record
from hobus.bus.messages.launcher import DrainMember, Members, Restart, Scale
from hobus.bus.port import Clock
from hobus.launch.cluster import identity
from hobus.launch.cluster.home import Home
from hobus.launch.cluster.run_file import RunFile, write_whole
from hobus.launch.launcher.actor import told
from hobus.launch.launcher.members import Crew

SIGNAL = signal.SIGUSR1

_MAX_BYTES = 4096
"""A command holds names only; the format's own bound, not a setting."""
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_TYPES: dict[str, type[Message]] = {one.TYPE: one for one in (Scale, Restart, DrainMember)}

_log = structlog.get_logger()


class Request(Record):
    """What stands in `command-<id>`."""

    type: str = Field(description="as on the bus, e.g. `launcher.restart`")
    body: dict[str, Any] = Field(description="that message's fields")


class Answer(Record):
    """What stands in `answer-<id>`."""

    members: Members | None = Field(default=None, description="the places concerned, when it was accepted")
    code: str = Field(default="", description="why it was refused, as on the bus")
    detail: str = ""


# --- the launcher's side ----------------------------------------------------------------------------------------


def take_all(home: Home, crew: Crew) -> None:
    """Every command that lies there is carried out once and answered; a file that cannot be read is gone."""
    for path in sorted(home.run.glob("command-*")):
        if path.suffix:
            continue  # being written
        try:
            answer = _answer(_taken(path), crew)
            write_whole(path.with_name(path.name.replace("command-", "answer-", 1)), answer.model_dump_json())
        except OSError as error:
            _log.warning("written_command_not_answered", file=path.name, reason=error.strerror)


def _taken(path: Path) -> bytes:
    """What stood in the file, which is gone. Never waits, as a pipe without a writer would have it. Raises OSError."""
    try:
        descriptor = os.open(path, _OPEN)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "no regular file", str(path))
            return os.read(descriptor, _MAX_BYTES + 1)
        finally:
            os.close(descriptor)  # not a file object's: making one of a directory fails and leaves it open
    finally:
        path.unlink()


def _answer(text: bytes, crew: Crew) -> Answer:
    if len(text) > _MAX_BYTES:
        return Answer(code="rejected", detail=f"a command has at most {_MAX_BYTES} bytes")
    try:
        request = Request.model_validate_json(text)
        wanted = _TYPES[request.type].model_validate(request.body)
        return Answer(members=_carried_out(wanted, crew))
    except (ValidationError, KeyError):
        return Answer(code="rejected", detail="this is no command of this version")
    except BusError as fault:
        return Answer(code=fault.code, detail=fault.detail)


def _carried_out(wanted: Message, crew: Crew) -> Members:
    match wanted:
        case Scale():
            return told(crew.scale(wanted.role, wanted.count))
        case Restart():
            return told([crew.restart(wanted.actor, kill=wanted.kill)])
        case DrainMember():
            return told([crew.rest(wanted.actor)])
        case _:
            raise BusError("rejected", "this is no command to the launcher")


# --- the command's side -----------------------------------------------------------------------------------------


def ask(  # noqa: PLR0913 - whom, what, and how long
    home: Home, run: RunFile, message: Message, *, clock: Clock, timeout_s: float, poll_s: float
) -> None:
    """The launcher has taken it. Raises BusError as it refuses or does not answer, and OSError."""
    name = clock.new_id()
    asked, answered = home.run / f"command-{name}", home.run / f"answer-{name}"
    request = Request(type=message.TYPE, body=message.model_dump(mode="json"))
    try:
        write_whole(asked, request.model_dump_json())
        if not identity.end(run.launcher_pid, run.launcher_mark, SIGNAL):
            raise BusError("unavailable", f"the launcher (pid {run.launcher_pid}) has ended")
        answer = _await(answered, clock, clock.monotonic() + timeout_s, poll_s)
    finally:
        for path in (asked, answered):
            with suppress(OSError):
                path.unlink(missing_ok=True)
    if answer is None:
        raise BusError("timeout", f"the launcher (pid {run.launcher_pid}) did not answer within {timeout_s:g} s")
    if answer.code:
        raise BusError(answer.code, answer.detail)


def _await(path: Path, clock: Clock, deadline: float, poll_s: float) -> Answer | None:
    while True:
        with suppress(FileNotFoundError):
            return Answer.model_validate_json(path.read_bytes())
        if clock.monotonic() > deadline:
            return None
        time.sleep(poll_s)  # noqa: TID251 - waits for another process, without a loop or a bus
