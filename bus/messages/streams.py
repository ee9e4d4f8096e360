"""Provisional output on its way: deltas, and the word that takes them back. Only the reply is the answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hobus.bus.messages.base import Count, Message
from hobus.bus.messages.session import HeldCall


class StreamDelta(Message, wire="stream.delta"):
    """The next piece of an answer that is being written; may be lost, never counts."""

    run: str = Field(default="", description="`<session>-<run>`")
    step: str = Field(description="work order whose answer it is")
    attempt: Count = Field(description="delivery of the order; a higher one begins anew")
    index: Count = Field(description="position in its attempt, from 0: a hole is a lost piece")
    text: str = Field(description="the piece")


class StreamReset(Message, wire="stream.reset"):
    """What was shown so far is not the answer: forget it."""

    run: str = Field(default="", description="`<session>-<run>`")
    reason: Literal["retry", "tools", "take_over", "degraded", "rejected", "steered"] = Field(description="why")


Waits = Literal["Paused", "WaitingInput", "Provider", "Turn"] | None


class StreamWaiting(Message, wire="stream.waiting"):
    """The run stands still, or goes on; no piece comes meanwhile."""

    run: str = Field(default="", description="`<session>-<run>`")
    waiting: Waits = Field(
        description="for a resume, an approval of held_calls, a provider, or (Turn) processor time to begin; None: it "
        "goes on"
    )
    place: Count | None = Field(default=None, description="to begin: turns before it")
    held_calls: list[HeldCall] = Field(default_factory=list[HeldCall], description="that wait for an Approve or a Deny")
