"""When an actor is asked whether it is ready."""

from __future__ import annotations

import asyncio

from hobus.bus.dispatch import Actor
from hobus.bus.messages.control import Beat
from hobus.bus.readiness import Readiness


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
    told = await turns_of(Moody(is_watched=True), ["", "the disk is full", ""])
    assert told == [("ready", ""), ("degraded", "the disk is full"), ("ready", "")]


async def test_every_other_actor_is_asked_until_it_is_ready() -> None:
    actor = Moody(is_watched=False)
    assert await turns_of(actor, ["recovering", "", "too late"]) == [("degraded", "recovering"), ("ready", "")]
    asked = actor.asked
    await asyncio.sleep(0)
    assert actor.asked == asked


async def test_an_actor_that_starts_says_how_far_it_is_until_it_has_started() -> None:
    told: list[tuple[str, str]] = []
    actor = Moody(is_watched=False)
    readiness = Readiness(
        actor, interval_s=0, on_change=lambda: told.append((readiness.state, readiness.reason)), on_bug=told.append
    )
    for word in ("", "1 of 3", "1 of 3", "2 of 3"):
        readiness.starts(word)
    readiness.ask()
    for _ in range(10):
        await asyncio.sleep(0)
    readiness.starts("3 of 3")
    readiness.close()
    assert told == [("starting", "1 of 3"), ("starting", "2 of 3"), ("ready", "")]


class Needy(Actor):
    """Ready itself as soon as it is told, and in need of one of two roles."""

    needs = ("ho2", "gateway")

    def __init__(self) -> None:
        self.may = asyncio.Event()

    async def ready(self) -> str:
        await self.may.wait()
        return ""


async def heard(*words: Beat | str) -> list[tuple[str, str]]:
    """What others were told while these came, in order; "own" lets the actor be ready itself, "drain" drains it."""
    told: list[tuple[str, str]] = []
    bugs: list[BaseException] = []
    actor = Needy()
    readiness = Readiness(
        actor, interval_s=0, on_change=lambda: told.append((readiness.state, readiness.reason)), on_bug=bugs.append
    )
    readiness.ask()
    for word in words:
        if isinstance(word, Beat):
            readiness.hear(word)
        elif word == "own":
            actor.may.set()
        else:
            readiness.drain()
        for _ in range(5):
            await asyncio.sleep(0)
    readiness.close()
    assert not bugs
    return told


WITHOUT = ("degraded", "neither ho2 nor gateway is ready")


def word(*roles: str, is_whole: bool = True) -> Beat:
    """The broker's word that these are ready."""
    return Beat(ready_roles=list(roles), is_whole=is_whole)


async def test_one_of_those_whom_an_actor_needs_is_enough() -> None:
    told = await heard("own", word("ledger"), word("ledger", "gateway"), word("gateway", "ho2"), word("ho2"), word())
    assert told == [WITHOUT, ("ready", ""), WITHOUT]


async def test_nothing_is_said_before_the_actor_has_spoken_and_nothing_new_once_it_drains() -> None:
    assert await heard(word(), word("ho2")) == []
    assert await heard(word("ho2"), "own", "drain", word()) == [("ready", ""), ("draining", "")]


async def test_a_broker_that_does_not_know_everybody_yet_takes_nobodys_readiness_away() -> None:
    """One that came back says so; what it knows already counts."""
    told = await heard("own", word("ho2"), word("ledger", is_whole=False), word("ledger"))
    assert told == [WITHOUT, ("ready", ""), WITHOUT]
    assert await heard("own", word("gateway", is_whole=False)) == [WITHOUT, ("ready", "")]
