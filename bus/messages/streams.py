"""Provisional output on its way: deltas, and the word that takes them back. Only the reply is the answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from hobus.bus.messages.base import Count, Message
from hobus.bus.messages.session import HeldCall


class StreamDelta(Message, wire="stream.delta"):
    """The next piece of a streamed answer; provisional, may be lost."""

    run: Annotated[str, Meta(description="`<session>-<run>`")] = ""
    step: Annotated[str, Meta(description="work order whose answer it is")]
    attempt: Annotated[Count, Meta(description="delivery of the order; a higher one restarts the text")]
    index: Annotated[Count, Meta(description="position in its attempt, from 0; a gap is a lost piece")]
    text: Annotated[str, Meta(description="the piece")]


class StreamReset(Message, wire="stream.reset"):
    """Discard the pieces so far."""

    run: Annotated[str, Meta(description="`<session>-<run>`")] = ""
    reason: Annotated[
        Literal["retry", "tools", "take_over", "degraded", "rejected", "steered", "thought"],
        Meta(description="why; `thought`: they were thinking"),
    ]


Waits = Literal["Paused", "WaitingInput", "Provider", "Turn", "Labels"] | None


class StreamWaiting(Message, wire="stream.waiting"):
    """The run waits, or continues."""

    run: Annotated[str, Meta(description="`<session>-<run>`")] = ""
    waiting: Annotated[
        Waits,
        Meta(
            description="for a resume, an approval of held_calls, a provider, (Turn) processor time, or "
            "(Labels) the previous message's classification; None: it continues"
        ),
    ]
    place: Annotated[Count | None, Meta(description="Turn: turns before it")] = None
    held_calls: Annotated[list[HeldCall], Meta(description="that wait for an Approve or a Deny")] = field(
        default_factory=list[HeldCall]
    )
