"""How the actor of each role is made for its own process; one file each, so that a process loads only what it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from hobus.bus.dispatch import Actor
from hobus.bus.messages.control import AnnounceTools


async def _close_nothing() -> None:
    """Close nothing: most actors leave nothing open."""


def _announce_nothing(_announce: Callable[[AnnounceTools], None]) -> None:
    """Announce nothing: most actors have no tools that come and go."""


def _take_nothing(_given: Mapping[str, str]) -> None:
    """Take nothing: most actors need nothing of the user's environment."""


class Made(Struct, frozen=True):
    """An actor that is not started yet."""

    actor: Actor
    slots: int = 0
    """How many credit-bound requests it takes at once."""
    tools: Sequence[str] = ()
    """Tools that it can run."""
    begin: Callable[[Callable[[AnnounceTools], None]], None] = _announce_nothing
    """Called once the actor has started, on its loop: what may come late begins, and tools that come are announced."""
    give: Callable[[Mapping[str, str]], None] = _take_nothing
    """Called once, after its tool processes are there and before it starts: the variables that `launch.given` names."""
    close: Callable[[], Awaitable[None]] = _close_nothing
    """Ends what it leaves open beside the bus."""
