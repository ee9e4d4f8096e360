"""Provisional output on its way: deltas, and the word that takes them back. Only the reply is the answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from hobus.bus.messages.base import Count, Message
from hobus.bus.messages.session import HeldCall


class StreamDelta(Message, wire="stream.delta"):
    """The next piece of an answer that is being written; may be lost, never counts."""

    run: Annotated[str, Meta(description="`<session>-<run>`")] = ""
    step: Annotated[str, Meta(description="work order whose answer it is")]
    attempt: Annotated[Count, Meta(description="delivery of the order; a higher one begins anew")]
    index: Annotated[Count, Meta(description="position in its attempt, from 0: a hole is a lost piece")]
    text: Annotated[str, Meta(description="the piece")]


class StreamReset(Message, wire="stream.reset"):
    """What was shown so far is not the answer: forget it."""

    run: Annotated[str, Meta(description="`<session>-<run>`")] = ""
    reason: Annotated[
        Literal["retry", "tools", "take_over", "degraded", "rejected", "steered", "thought"],
        Meta(description="why; `thought`: it was only thinking"),
    ]


Waits = Literal["Paused", "WaitingInput", "Provider", "Turn", "Labels"] | None


class StreamWaiting(Message, wire="stream.waiting"):
    """The run stands still, or goes on; no piece comes meanwhile."""

    run: Annotated[str, Meta(description="`<session>-<run>`")] = ""
    waiting: Annotated[
        Waits,
        Meta(
            description="for a resume, an approval of held_calls, a provider, (Turn) processor time to begin, or "
            "(Labels) what the message before is labelled; None: it goes on"
        ),
    ]
    place: Annotated[Count | None, Meta(description="to begin: turns before it")] = None
    held_calls: Annotated[list[HeldCall], Meta(description="that wait for an Approve or a Deny")] = field(
        default_factory=list[HeldCall]
    )
