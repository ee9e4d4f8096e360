"""Provisional output on its way: deltas, and the word that takes them back. Only the reply is the answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.messages.base import Count, Message
from hobus.bus.messages.session import HeldCall


class StreamDelta(Message, wire="stream.delta"):
    """The next piece of an answer that is being written; may be lost, never counts."""

    run: str = Field(default="", description="`<session>-<run>`; empty: not known where it was made")
    step: str = Field(description="id of the work order whose answer this is a piece of")
    attempt: Count = Field(description="delivery of the order, and its provider call: a higher one begins anew")
    index: Count = Field(description="position of this piece in its attempt, from 0: a hole means a lost piece")
    text: str = Field(description="the piece")


class StreamReset(Message, wire="stream.reset"):
    """What was shown so far is not the answer: forget it."""

    run: str = Field(default="", description="`<session>-<run>`; empty: not known where it was made")
    reason: Literal["retry", "tools", "take_over", "degraded", "rejected", "steered"] = Field(description="why")


Waits = Literal["Paused", "WaitingInput", "Provider", "Turn"] | None


class StreamWaiting(Message, wire="stream.waiting"):
    """The run stands still, or goes on; no piece comes meanwhile."""

    run: str = Field(default="", description="`<session>-<run>`; empty: not known where it was made")
    waiting: Waits = Field(
        description="it waits for a resume, for an approval of held_calls, for a provider that is away or takes no "
        "more for now, or (Turn) to begin, as the cluster has no processor time left; None: it goes on"
    )
    place: Count | None = Field(default=None, description="of one that waits to begin: turns before it, as it is told")
    held_calls: list[HeldCall] = Field(
        default_factory=list[HeldCall], description="tool calls that wait for an Approve or a Deny"
    )
