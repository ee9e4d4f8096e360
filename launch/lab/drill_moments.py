"""When and whom a crash drill hits: four moments of a turn, each an exact frame at which the turn stands still. Pure.

A moment is never a pause that is long enough: the process that is about to take the next step freezes at its frame
(`process/failpoint.py`), so that nothing of the turn moves while somebody is killed; then it goes on, unless it was it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from hobus.launch.console.errors import UsageFault, format_next_here
from hobus.launch.process.failpoint import DrillPoint

AGENT = "ADMIN"
"""Who is asked, over the bus: it has the tool that the question needs, whoever answers in this home otherwise."""

QUESTION = "what did this session cost?"
"""Two model rounds around one tool that asks the gateway while it runs: its middle is a frame."""

ROLES = {
    "broker": "routes every message of the turn",
    "ledger": "holds the record that everything waits for",
    "gateway": "calls the model",
    "ho3": "memory; it is read and written beside the turn",
    "ho1": "executes the orders: model rounds and tools",
    "ho2": "owns the session and drives the turn",
    "host": "the client's edge: the one that was asked",
    "http": "the HTTP door: the turn is asked through it, and asked again when it is gone",
    "zygote": "forks the processes that the launcher starts",
    "launcher": "supervises; without it the others finish what is under way, and end",
}
"""Who can be hit, and what it is to the turn."""

_WHO = re.compile(r"([a-z0-9]+)(?:/([1-9][0-9]?))?")


@dataclass(frozen=True, slots=True)
class DrillMoment:
    """One word of `--during`."""

    word: str
    holder: str
    """The role whose process stands still."""
    frame: str
    """`<moment>:<type>:<n>` of the drill point."""
    says: str
    stands: str
    """What is durable by then."""

    def point(self) -> DrillPoint:
        at, type_name, number = self.frame.split(":")
        return DrillPoint(self.holder, signal.SIGSTOP, at, type_name, int(number))


MOMENTS = {
    moment.word: moment
    for moment in (
        DrillMoment(
            "turn", "ho2", "before-send:wo.execute:1",
            "the turn has begun and its first order has not left its supervisor",
            "RunRequested, the first WO_DISPATCHED",
        ),
        DrillMoment(
            "prompt", "gateway", "on-receive:ledger.written:1",
            "the first prompt is recorded and the model is being called",
            "PROMPT_SENT, without its end",
        ),
        DrillMoment(
            "tool", "ho1", "before-send:gateway.read_budget:1",
            "the tool runs: it has begun and has not returned",
            "WO_DISPATCHED of the call, without its OrderEnded",
        ),
        DrillMoment(
            "reply", "ho2", "before-send:ho2.turn_reply:1",
            "the answer is recorded and has not left its supervisor",
            "RunCompleted",
        ),
    )
}  # fmt: skip
"""In the order in which a turn comes to them."""


@dataclass(frozen=True, slots=True)
class Victim:
    """Whom `WHO` names."""

    role: str
    number: int | None = None

    def __str__(self) -> str:
        """Return the text that names the victim: `ho2`, or `ho2/1`."""
        return self.role if self.number is None else f"{self.role}/{self.number}"

    def choose_among(self, actors: Sequence[str], holder: str) -> str | None:
        """Return the actor that is meant: of a role alone the one at which the turn stands, else the first."""
        if self.number is not None:
            return str(self) if str(self) in actors else None
        of_role = [actor for actor in actors if actor.partition("/")[0] == self.role]
        return holder if holder in of_role else next(iter(of_role), None)


def parse_victim(who: str) -> Victim:
    """Return what `WHO` says. Raises CommandError (usage) naming what can be hit."""
    said = _WHO.fullmatch(who)
    if said is None or said[1] not in ROLES or (said[2] and said[1] in ("launcher", "zygote")):
        raise UsageFault(
            f"{who[:64]!r} cannot be killed: WHO is {', '.join(ROLES)}, or one process of a role, as ho2/1",
            hint=format_next_here("drill list"),
        )
    return Victim(said[1], int(said[2]) if said[2] else None)


def stands_at(victim: Victim, moment: DrillMoment) -> str:
    if victim.role == moment.holder:
        return f"{victim.role} is itself held at the frame {moment.point().moment} {moment.point().type}"
    return f"{victim.role} has no frame of its own there: the turn is held in {moment.holder} while it is killed"
