"""What a peer knows of one of its connections: whether it is welcome there, since when it hears nothing. Plain rules.

A connection is *bound* between a Welcome and: a Rehello, a Refused, or silence longer than `bus.peer_timeout_ms` (the
server answers every beat). Only hellos leave an unbound connection. Whoever serves nobody says hello to a lane when it
first asks something there: most clients never do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hobus.bus.link import Link
from hobus.bus.messages.control import Refused

Duty = Literal["hello", "beat", "wait"]


@dataclass(slots=True)
class Connection:
    """The link to the broker ("") or to a lane's server (its service), and the state of the conversation."""

    name: str
    link: Link
    timeout_s: float
    is_wanted: bool = True
    """Whether there is anything to say; nothing leaves a connection before."""
    is_bound: bool = False
    epoch: str = ""
    config_digest: str = ""
    heard_at: float = 0.0
    hello_at: float | None = None  # None: never said
    refused: Refused | None = None

    def duty(self, now: float) -> Duty:
        """What is due at this tick; silence beyond the time-out unbinds."""
        if self.is_bound:
            if now - self.heard_at <= self.timeout_s:
                return "beat"
            self.is_bound = False
            return "hello"
        if self.is_wanted and (self.hello_at is None or now - self.hello_at >= self.timeout_s):
            return "hello"
        return "wait"

    def said_hello(self, now: float) -> None:
        """Nothing but hellos until the answer."""
        self.is_bound = False
        self.hello_at = now

    def welcomed(self, epoch: str, now: float, *, config_digest: str = "") -> None:
        """Bound to this incarnation of the server."""
        self.is_bound = True
        self.epoch = epoch
        self.config_digest = config_digest
        self.heard_at = now
        self.refused = None

    def must_say_hello_again(self) -> bool:
        """Whether a Rehello asks for one; an answer to frames sent before the last hello does not."""
        was_bound = self.is_bound
        self.is_bound = False
        return was_bound

    def why_down(self) -> str:
        """For people: why nothing can be sent."""
        name = f"the {self.name} lane" if self.name else "the broker"
        if self.refused is not None:
            return f"{name} refused this instance ({self.refused.code}: {self.refused.detail})"
        return f"{name} does not answer"
