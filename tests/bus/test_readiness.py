"""When an actor is asked whether it is ready."""

from __future__ import annotations

import asyncio

from bus.dispatch import Actor
from bus.readiness import Readiness


class Moody(Actor):
    """Answers as it is told."""

    def __init__(self, *, is_watched: bool) -> None:
        self.is_watched = is_watched
        self.reason = ""
        self.asked = 0

    async def ready(self) -> str:
        self.asked += 1
        return self.reason


async def turns_of(actor: Moody, reasons: list[str]) -> list[tuple[str, str]]:
    """What others were told while the actor's answer went through these."""
    told: list[tuple[str, str]] = []
    bugs: list[BaseException] = []
    readiness = Readiness(
        actor, interval_s=0, on_change=lambda: told.append((readiness.state, readiness.reason)), on_bug=bugs.append
    )
    for number, reason in enumerate(reasons):
        actor.reason = reason
        if not number:
            readiness.ask()
        for _ in range(10):
            await asyncio.sleep(0)
    readiness.close()
    assert not bugs
    return told


async def test_a_watched_actor_may_become_degraded_and_ready_again() -> None:
    """Every change is told, with its reason."""
    told = await turns_of(Moody(is_watched=True), ["", "the disk is full", ""])
    assert told == [("ready", ""), ("degraded", "the disk is full"), ("ready", "")]


async def test_every_other_actor_is_asked_until_it_is_ready() -> None:
    """Degraded at first, then ready, then never asked again."""
    actor = Moody(is_watched=False)
    assert await turns_of(actor, ["recovering", "", "too late"]) == [("degraded", "recovering"), ("ready", "")]
    asked = actor.asked
    await asyncio.sleep(0)
    assert actor.asked == asked
