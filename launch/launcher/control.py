"""Commands to the launcher of a running cluster: one line of JSON to a Unix socket beside the others, one line back.

They need no broker: one that was drained, failed or stands still can pass on nothing, least of all the command that
would start it again. The sockets' directory is for its owner alone (mode 0700): whoever reaches it may command.
"""

from __future__ import annotations

import asyncio
import pwd
import socket
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from msgspec import DecodeError, Meta, field
from msgspec.json import Decoder

from hobus.bus.errors import BusError
from hobus.bus.messages.base import Record
from hobus.bus.messages.ids import PersonName

SOCKET = "control.sock"

NOT_THIS_SOFTWARE = "the software on disk is another than this launcher runs"
"""Why it refuses what it would have to load for."""

ELSEWHERE = "ho1/remote-"
"""How the names of workers on other hosts begin."""

_LINE_MAX_BYTES = 4096
"""A command holds names only; the format's own bound, not a setting."""


class ScaleCommand(Record, tag_field="command", tag="scale"):
    """Have so many processes of a role: start missing ones, let the highest numbers finish their work and end."""

    command: ClassVar[Literal["scale"]] = "scale"
    role: Annotated[str, Meta(max_length=16)]
    count: Annotated[int, Meta(ge=1)]
    person: PersonName = ""


class LeaveCommand(Record, tag_field="command", tag="leave"):
    """Have this process finish its work, or kill it; then it starts anew, or stays away until told to start.

    One that failed or was drained is where it was to be at once. A worker elsewhere, as an instance, only stays away.
    """

    command: ClassVar[Literal["leave"]] = "leave"
    actor: Annotated[str, Meta(max_length=80)]
    then: Literal["start", "stay"]
    kill: bool = False
    person: PersonName = ""


class ReloadCommand(Record, tag_field="command", tag="reload"):
    """Have the cluster go over to the configuration in the run directory under this digest (`Home.offered`)."""

    command: ClassVar[Literal["reload"]] = "reload"
    digest: Annotated[str, Meta(max_length=80)]
    origin: Annotated[str, Meta(max_length=3000, description="which admin_config.json it rests on")]
    restarts: Annotated[
        list[Literal["ho1"]], Meta(max_length=1, description="roles started anew, whatever it changes")
    ] = field(default_factory=list[Literal["ho1"]])


Command = ScaleCommand | LeaveCommand | ReloadCommand
_COMMANDS = Decoder(Command)


class CommandAnswer(Record):
    """Accepted, or refused: code (as on the bus) and reason. What follows is seen in the run file."""

    code: str = ""
    detail: str = ""


class CommandSender(NamedTuple):
    """Who wrote a command, as the kernel says."""

    pid: int
    user: str


_UNKNOWN = CommandSender(0, "")


def _find_sender(connection: Any) -> CommandSender:
    """Return the sender: Linux tells it; elsewhere it is unknown."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return _UNKNOWN
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    try:
        return CommandSender(pid, pwd.getpwuid(uid).pw_name)
    except KeyError:
        return CommandSender(pid, str(uid))


async def serve(
    sockets: Path, take: Callable[[Command, CommandSender], None], *, timeout_s: float
) -> asyncio.AbstractServer:
    """Take one command per connection within `timeout_s`; `take` raises BusError to refuse it. Raises OSError."""

    async def on_connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                sender = _find_sender(writer.get_extra_info("socket"))
                writer.write(await _answer(reader, lambda command: take(command, sender)))
                await writer.drain()

    return await asyncio.start_unix_server(on_connected, sockets / SOCKET, limit=_LINE_MAX_BYTES)


async def _answer(reader: asyncio.StreamReader, take: Callable[[Command], None]) -> bytes:
    answer = CommandAnswer()
    try:
        take(_COMMANDS.decode(await reader.readline()))
    except BusError as fault:
        answer = CommandAnswer(code=fault.code, detail=fault.detail)
    except (DecodeError, UnicodeDecodeError):
        answer = CommandAnswer(code="rejected", detail="this is not a command of this version")
    except ValueError:
        answer = CommandAnswer(code="rejected", detail=f"a command has at most {_LINE_MAX_BYTES} bytes")
    return answer.model_dump_json().encode() + b"\n"


def send(sockets: Path, command: Command, *, timeout_s: float) -> None:
    """Have the launcher take a command. Raises BusError as it refuses or is silent, OSError without a launcher."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(sockets / SOCKET))
            connection.sendall(command.model_dump_json().encode() + b"\n")
            line = connection.makefile("rb").readline(_LINE_MAX_BYTES)
        except (TimeoutError, BlockingIOError):
            raise BusError("timeout", f"the launcher did not answer within {timeout_s:g} s") from None
    if not line.endswith(b"\n"):
        raise BusError("unavailable", "the launcher has ended")
    answer = CommandAnswer.model_validate_json(line)
    if answer.code:
        raise BusError(answer.code, answer.detail)
