"""What the simulated network does to frames on their way: named faults with units, all drawn from one seed. Pure.

Connections are streams: whatever happens, no frame of a connection overtakes an earlier one of the same direction. A
stream loses frames by breaking: `loss` is the share of frames at which that happens, and everything on its way is lost
with it, as with ZeroMQ. `frame_loss` and `duplicate` take or double single frames that carry messages; control frames
(hello, credit, beat …) mean something only in the order of one connection and are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from hobus.bus.envelope import Kind
from hobus.bus.sim.clock import Draw

REORDER_S = 0.005
"""A frame that others are to overtake is held up to so long."""
_KIND_AT = 2
"""Where the kind stands in a packed header: behind the array's mark and the version, in one byte."""


class Fate(NamedTuple):
    """What happens to one frame on its way."""

    extra_s: float = 0.0
    copies: int = 1  # 0: lost
    breaks: bool = False  # its connection breaks


_FAIR = Fate()


class Weather(Struct, frozen=True, kw_only=True):
    """The network's faults: shares of frames in [0, 1], times in seconds."""

    draw: Draw
    loss: float = 0.0
    frame_loss: float = 0.0
    duplicate: float = 0.0
    delay_s: float = 0.0  # the mean; exponential
    reorder: float = 0.0
    slow: Mapping[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """(role, server) -> what each frame of that connection takes longer."""

    def draw_fate(self, role: str, server: str, header: bytes) -> Fate:
        """Draw what happens to a frame of this connection, in either direction."""
        extra_s = self.slow.get((role, server), 0.0)
        if self.delay_s:
            extra_s += self.draw.expovariate(1 / self.delay_s)
        if self.reorder and self.draw.random() < self.reorder:
            extra_s += self.draw.random() * REORDER_S
        if self.loss and self.draw.random() < self.loss:
            return Fate(extra_s, 0, breaks=True)
        if is_message(header):
            if self.frame_loss and self.draw.random() < self.frame_loss:
                return Fate(extra_s, 0)
            if self.duplicate and self.draw.random() < self.duplicate:
                return Fate(extra_s, 2)
        return Fate(extra_s) if extra_s else _FAIR


def is_message(header: bytes) -> bool:
    """Return whether a packed header is a message's, not a control frame's."""
    return len(header) > _KIND_AT and header[_KIND_AT] < Kind.HELLO
