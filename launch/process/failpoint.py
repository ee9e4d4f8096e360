"""Crash drills: this process ends or freezes at an exact frame, once. The operator's tool behind the kill tests.

`HOBUS_DRILL=<actor>:<signal>:<moment>:<type>:<n>`, e.g. `ho2/1:KILL:before-send:ledger.write:3`: at the third Write
that the first process of ho2/1 is about to send, it gets SIGKILL. `ledger.write~PROMPT_SENT` counts those Writes alone
whose body holds that word. Moments: before-send, after-send, on-receive; signals: KILL, STOP. A role in the place of an
actor (`ho2`) means whichever of its processes is there first. A restarted process does not do it again: the point
leaves a mark in the state directory first, with the pid of whom it hits.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hobus.bus.codec import unpack_header
from hobus.bus.link import LaneEnd, LaneTransport, Link, OnFrames
from hobus.launch.console.errors import UsageFault

VARIABLE = "HOBUS_DRILL"
_MOMENTS = ("before-send", "after-send", "on-receive")
_SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


class DrillPoint(Struct, frozen=True):
    """Where a process is hit: at the `number`-th frame of this type, counted over all its connections.

    `type`: a message type, or `<type>~<word>` for those with that word in their body.
    """

    actor: str
    signal: signal.Signals
    moment: str
    type: str
    number: int

    def is_at(self, moment: str, type_name: str, body: bytes) -> bool:
        wanted, _, word = self.type.partition("~")
        return (moment, type_name) == (self.moment, wanted) and word.encode() in body

    def __str__(self) -> str:
        """Return the text of `HOBUS_DRILL` that describes this point."""
        name = self.signal.name.removeprefix("SIG")
        return f"{self.actor}:{name}:{self.moment}:{self.type}:{self.number}"

    def concerns(self, actor: str) -> bool:
        return self.actor in (actor, actor.partition("/")[0])

    def mark_in(self, run_directory: Path) -> Path:
        """Return the file that is there once somebody was hit."""
        return run_directory / f"drill.{self.actor.replace('/', '-')}"


def parse_drill(text: str) -> DrillPoint:
    """Return the point that `HOBUS_DRILL` describes. Raises CommandError naming the form."""
    parts = text.split(":")
    try:
        actor, name, moment, type_name, number = parts
        point = DrillPoint(actor, _SIGNALS[name], moment, type_name, int(number))
    except (ValueError, KeyError):
        point = None
    if point is None or point.moment not in _MOMENTS or point.number < 1:
        raise UsageFault(f"{VARIABLE}={text!r} is not <actor>:<KILL|STOP>:<{'|'.join(_MOMENTS)}>:<message type>:<n>")
    return point


class Drill:
    """Count frames of one process and strike once."""

    def __init__(self, point: DrillPoint, mark: Path) -> None:
        self._point = point
        self._mark = mark
        self._seen = 0

    def passed(self, moment: str, header: bytes, body: bytes) -> None:
        """Count a frame at this moment; at the drill's own, hit the process."""
        if not self._point.is_at(moment, unpack_header(header).type, body):
            return
        self._seen += 1
        if self._seen == self._point.number and self._leave_mark():
            os.kill(os.getpid(), self._point.signal)

    def _leave_mark(self) -> bool:
        try:
            mark = os.open(self._mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return False
        os.write(mark, str(os.getpid()).encode("ascii"))
        os.close(mark)
        return True


class DrilledLink:
    """A link whose frames pass a drill."""

    def __init__(self, link: Link, drill: Drill) -> None:
        self._link = link
        self._drill = drill

    def attach(self, on_frames: OnFrames) -> None:
        def receive(header: bytes, body: bytes) -> None:
            self._drill.passed("on-receive", header, body)
            on_frames(header, body)

        self._link.attach(receive)

    def send(self, header: bytes, body: bytes) -> None:
        """Send between the drill's two moments."""
        self._drill.passed("before-send", header, body)
        self._link.send(header, body)
        self._drill.passed("after-send", header, body)

    def discard(self) -> None:
        self._link.discard()

    def close(self) -> None:
        self._link.close()


class DrilledLane:
    """A lane between its server and its transport, whose frames pass a drill."""

    def __init__(self, server: LaneEnd, drill: Drill) -> None:
        self._server = server
        self._drill = drill

    def bind(self, transport: LaneTransport) -> None:
        self._transport = transport
        self._server.bind(self)

    def receive(self, routing: bytes, frames: Sequence[bytes]) -> None:
        if len(frames) > 1:
            self._drill.passed("on-receive", frames[0], frames[1])
        self._server.receive(routing, frames)

    def send(self, routing: bytes, header: bytes, body: bytes) -> bool:
        """Handed on between the drill's two moments."""
        self._drill.passed("before-send", header, body)
        is_sent = self._transport.send(routing, header, body)
        self._drill.passed("after-send", header, body)
        return is_sent

    def unsent(self) -> Mapping[bytes, int]:
        return self._transport.unsent()

    def close(self) -> None:
        self._transport.close()


def drill_of(actor: str, run_directory: Path, environ: Mapping[str, str]) -> Drill | None:
    """Make the drill that the environment asks for at this actor, for its links and its lane. Raises CommandError."""
    text = environ.get(VARIABLE, "")
    point = parse_drill(text) if text else None
    if point is None or not point.concerns(actor):
        return None
    return Drill(point, point.mark_in(run_directory))
